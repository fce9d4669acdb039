#include "schema-error.h"

#include "base/utf8.h"
#include "wire/value.h"
#include "wire/view.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES_MAX 80

static void copy(char *ret, size_t room, const char *text, size_t size)
{
        size = utf8_cut(text, size, room - 1);
        memmove(ret, text, size);
        ret[size] = '\0';
}

int misfit_set(struct misfit *m, int is_value, const char *format, ...)
{
        char text[2 * sizeof(m->what)];
        va_list ap;

        m->is_value = is_value;
        m->where[0] = '\0';
        va_start(ap, format);
        vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        copy(m->what, sizeof(m->what), text, strlen(text));
        return 1;
}

static int came_by(struct misfit *m, const char *step)
{
        char way[sizeof(struct misfit_text) + sizeof(m->where) + 1];

        snprintf(way, sizeof(way), "%s%s", step, m->where);
        copy(m->where, sizeof(m->where), way, strlen(way));
        return 1;
}

static int came_by_item(struct misfit *m, size_t index)
{
        char step[32];

        snprintf(step, sizeof(step), "[%zu]", index);
        return came_by(m, step);
}

static int came_by_member(struct misfit *m, const char *key, size_t size)
{
        struct misfit_text name;
        char step[sizeof(name) + 1];

        snprintf(step, sizeof(step), ".%s", misfit_name(key, size, &name));
        return came_by(m, step);
}

int misfit_in(int r, struct misfit *m, const char *step)
{
        return r == 1 ? came_by(m, step) : r;
}

int misfit_in_item(int r, struct misfit *m, size_t index)
{
        return r == 1 ? came_by_item(m, index) : r;
}

int misfit_in_member(int r, struct misfit *m, const char *key, size_t size)
{
        return r == 1 ? came_by_member(m, key, size) : r;
}

const char *misfit_name(const char *text, size_t size, struct misfit_text *ret)
{
        copy(ret->text, NAME_BYTES_MAX, text, size);
        if (size >= NAME_BYTES_MAX)
                strcat(ret->text, "…");
        return ret->text;
}

const char *misfit_value(const json_t *value, struct misfit_text *ret)
{
        const json_t *text = json_is_string(value) ? value : json_object_get(value, "v");
        struct misfit_text name;

        if (json_is_number(value) || json_is_boolean(value))
                return misfit_json(value, ret);
        if (!json_is_string(text))
                return view_kind_name(value);
        misfit_name(json_string_value(text), json_string_length(text), &name);
        snprintf(ret->text, sizeof(ret->text), text == value ? "\"%s\"" : "%s", name.text);
        return ret->text;
}

const char *misfit_json(const json_t *value, struct misfit_text *ret)
{
        char *text = value_dump(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));

        copy(ret->text, sizeof(ret->text), text ? text : "", text ? strlen(text) : 0);
        free(text);
        return ret->text;
}
