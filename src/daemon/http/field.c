/* Runs in: cloched, on its loop. Requests come from anyone who can connect. */
#include "field.h"

#include "base/err.h"
#include "wire/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 48                            /* bytes of a wrong value shown in the error */
#define COUNT_MAX INT64_C(9007199254740991) /* exact in every client's numbers */
#define DURATION_MAX 86400000
#define MODE_MAX 07777

static const struct limit {
        const char *name;
        uint64_t min, max;
} limits[] = {
#define CLOCHE_LIMIT(field, json, unit, def, min, max, ...) {json, min, max},
#include <cloche/limits.def>
#undef CLOCHE_LIMIT
};
#define LIMITS (sizeof(limits) / sizeof(limits[0]))

static const char *const result_options[] = {"includeChanges", "includeContents", "includeDenied"};
#define RESULT_OPTIONS (sizeof(result_options) / sizeof(result_options[0]))

/* -- errors --------------------------------------------------------------------------------------------------- */

static void show(const json_t *value, char *ret, size_t size)
{
        char *text = value_dump(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);

        snprintf(ret, size, "%.*s%s", SHOWN, text ? text : "?", text && strlen(text) > SHOWN ? "…" : "");
        free(text);
}

static int refuse(const char *where, const json_t *value, struct cloche_err *e, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

static int refuse(const char *where, const json_t *value, struct cloche_err *e, const char *format, ...)
{
        char expected[120], found[SHOWN + 8];
        va_list ap;

        va_start(ap, format);
        vsnprintf(expected, sizeof(expected), format, ap);
        va_end(ap);
        show(value, found, sizeof(found));
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%.60s must be %s, not %s", where, expected, found);
}

static int unknown(const char *where, const char *key, const char *expected, struct cloche_err *e)
{
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%.40s has no member \"%.40s\"; expected %s", where, key,
                       expected);
}

/* -- types ---------------------------------------------------------------------------------------------------- */

static int is_text(const json_t *value)
{
        return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value);
}

static int is_whole(const json_t *value, uint64_t min, uint64_t max)
{
        return json_is_integer(value) && json_integer_value(value) >= 0 && (uint64_t)json_integer_value(value) >= min &&
               (uint64_t)json_integer_value(value) <= max;
}

const char *field_bytes(const json_t *value, size_t *ret_size)
{
        const char *tag = json_string_value(json_object_get(value, "$"));
        const json_t *bytes = json_object_get(value, VALUE_HELD_BYTES);

        if (!tag || (strcmp(tag, "bytes") != 0 && strcmp(tag, "buffer") != 0) || !json_is_string(bytes))
                return NULL;
        *ret_size = json_string_length(bytes);
        return json_string_value(bytes);
}

static int check_text(const char *name, const json_t *value, struct cloche_err *e)
{
        return is_text(value) ? 0 : refuse(name, value, e, "a string without NUL");
}

static int check_text_or_bytes(const char *name, const json_t *value, struct cloche_err *e)
{
        size_t size;

        return json_is_string(value) || field_bytes(value, &size) ? 0 : refuse(name, value, e, "a string or bytes");
}

/* wire/value.h has checked the position and presence of the bytes with the frame. */
static int check_text_or_attached(const char *name, const json_t *value, struct cloche_err *e)
{
        const char *tag = json_string_value(json_object_get(value, "$"));
        int is_attached = tag && (strcmp(tag, "bytes") == 0 || strcmp(tag, "buffer") == 0) &&
                          json_is_integer(json_object_get(value, "at"));

        return json_is_string(value) || is_attached ? 0 : refuse(name, value, e, "a string or bytes");
}

static int check_texts(const char *name, const json_t *value, struct cloche_err *e)
{
        if (!json_is_array(value))
                return refuse(name, value, e, "an array of strings");
        for (size_t i = 0; i < json_array_size(value); i++) {
                char where[80];

                snprintf(where, sizeof(where), "%s[%zu]", name, i);
                if (!is_text(json_array_get(value, i)))
                        return refuse(where, json_array_get(value, i), e, "a string without NUL");
        }
        return 0;
}

static int check_text_by_name(const char *name, const json_t *value, struct cloche_err *e)
{
        const char *key;
        json_t *member;

        if (!json_is_object(value))
                return refuse(name, value, e, "an object of strings");
        json_object_foreach ((json_t *)value, key, member) {
                char where[80];

                snprintf(where, sizeof(where), "%s.%.50s", name, key);
                if (!is_text(member))
                        return refuse(where, member, e, "a string without NUL");
                if (!*key || strchr(key, '='))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "a name in %s must have no '=' and not be empty, not \"%.50s\"", name, key);
        }
        return 0;
}

static int check_boolean(const char *name, const json_t *value, struct cloche_err *e)
{
        return json_is_boolean(value) ? 0 : refuse(name, value, e, "true or false");
}

static int check_count(const char *name, const json_t *value, struct cloche_err *e)
{
        return is_whole(value, 0, COUNT_MAX)
                       ? 0
                       : refuse(name, value, e, "an integer from 0 to %lld", (long long)COUNT_MAX);
}

static int check_duration(const char *name, const json_t *value, struct cloche_err *e)
{
        return is_whole(value, 0, DURATION_MAX) ? 0 : refuse(name, value, e, "an integer from 0 to %d", DURATION_MAX);
}

static int check_id(const char *name, const json_t *value, struct cloche_err *e)
{
        return json_is_string(value) || json_is_integer(value) ? 0 : refuse(name, value, e, "a string or an integer");
}

static int check_protocol(const char *name, const json_t *value, struct cloche_err *e)
{
        return is_whole(value, 1, 1) ? 0 : refuse(name, value, e, "1, the only version of this daemon");
}

static int check_object(const char *name, const json_t *value, struct cloche_err *e)
{
        return json_is_object(value) ? 0 : refuse(name, value, e, "an object");
}

static int check_list(const char *name, const json_t *value, struct cloche_err *e)
{
        return json_is_array(value) ? 0 : refuse(name, value, e, "an array");
}

static int check_arguments(const char *name, const json_t *value, struct cloche_err *e)
{
        return json_is_array(value) || json_is_object(value) ? 0 : refuse(name, value, e, "an array or an object");
}

static const struct limit *find_limit(const char *name)
{
        for (size_t i = 0; i < LIMITS; i++)
                if (strcmp(limits[i].name, name) == 0)
                        return &limits[i];
        return NULL;
}

static int check_limits(const char *name, const json_t *value, struct cloche_err *e)
{
        const char *key;
        json_t *member;

        if (!json_is_object(value))
                return refuse(name, value, e, "an object of limits");
        json_object_foreach ((json_t *)value, key, member) {
                const struct limit *limit = find_limit(key);
                char where[80];

                snprintf(where, sizeof(where), "%s.%.50s", name, key);
                if (!limit)
                        return unknown(name, key, "wallMs, cpuMs, memoryBytes and the others of spec/limits.def", e);
                if (!is_whole(member, limit->min, limit->max) && !is_whole(member, 0, 0))
                        return limit->min <= 1 ? refuse(where, member, e, "an integer from 0 to %llu",
                                                        (unsigned long long)limit->max)
                                               : refuse(where, member, e, "0 or an integer from %llu to %llu",
                                                        (unsigned long long)limit->min, (unsigned long long)limit->max);
        }
        return 0;
}

static int check_result_options(const char *name, const json_t *value, struct cloche_err *e)
{
        const char *key;
        json_t *member;

        if (!json_is_object(value))
                return refuse(name, value, e, "an object");
        json_object_foreach ((json_t *)value, key, member) {
                char where[80];
                size_t i = 0;

                snprintf(where, sizeof(where), "%s.%.50s", name, key);
                while (i < RESULT_OPTIONS && strcmp(result_options[i], key) != 0)
                        i++;
                if (i == RESULT_OPTIONS)
                        return unknown(name, key, "includeChanges, includeContents, includeDenied", e);
                if (!json_is_boolean(member))
                        return refuse(where, member, e, "true or false");
        }
        return 0;
}

static int check_file_object(const char *where, const json_t *file, struct cloche_err *e)
{
        const json_t *content = json_object_get(file, "content"), *mode = json_object_get(file, "mode");
        const json_t *directory = json_object_get(file, "directory"), *target = json_object_get(file, "symlink");
        size_t size;

        if (!content + !directory + !target != 2 || json_object_size(file) != 1u + (mode != NULL) || (target && mode))
                return refuse(where, file, e,
                              "text, bytes, {content, mode}, {directory: true, mode} or {symlink: target}");
        if (content && !json_is_string(content) && !field_bytes(content, &size))
                return refuse(where, content, e, "an object whose content is a string or bytes");
        if (directory && !json_is_true(directory))
                return refuse(where, directory, e, "an object whose directory is true");
        if (target && !is_text(target))
                return refuse(where, target, e, "an object whose symlink is a string without NUL");
        if (mode && !is_whole(mode, 1, MODE_MAX))
                return refuse(where, mode, e, "an object whose mode is an integer from 1 to %d", MODE_MAX);
        return 0;
}

static int check_files(const char *name, const json_t *value, struct cloche_err *e)
{
        const char *key;
        json_t *member;

        if (!json_is_object(value))
                return refuse(name, value, e, "an object from path to content");
        json_object_foreach ((json_t *)value, key, member) {
                char where[80];
                size_t size;
                int r;

                snprintf(where, sizeof(where), "%s.%.50s", name, key);
                if (json_is_string(member) || field_bytes(member, &size))
                        continue;
                if (!json_is_object(member))
                        return refuse(where, member, e, "text, bytes or an object");
                r = check_file_object(where, member, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int (*const checks[])(const char *name, const json_t *value, struct cloche_err *e) = {
        [FIELD_TEXT] = check_text,
        [FIELD_TEXT_OR_BYTES] = check_text_or_bytes,
        [FIELD_TEXT_OR_ATTACHED] = check_text_or_attached,
        [FIELD_TEXTS] = check_texts,
        [FIELD_TEXT_BY_NAME] = check_text_by_name,
        [FIELD_BOOLEAN] = check_boolean,
        [FIELD_COUNT] = check_count,
        [FIELD_DURATION] = check_duration,
        [FIELD_ID] = check_id,
        [FIELD_PROTOCOL] = check_protocol,
        [FIELD_OBJECT] = check_object,
        [FIELD_LIST] = check_list,
        [FIELD_ARGUMENTS] = check_arguments,
        [FIELD_LIMITS] = check_limits,
        [FIELD_FILES] = check_files,
        [FIELD_RESULT_OPTIONS] = check_result_options,
};

int field_check(enum field_type type, const char *name, const json_t *value, struct cloche_err *e)
{
        return checks[type](name, value, e);
}
