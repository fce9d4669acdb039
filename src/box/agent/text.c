/* Values as JSON text for people and programs of the guest.
 * Runs in: the agents in C, within a box, with the rights of the user's code. */
#include "agent.h"

#include "wire/base64.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX ((size_t)1 << 30)

/* The JSON of one leaf, of a key, or of a string. */
static int append_leaf(struct buf *out, const json_t *value)
{
        char text[32], *dumped;
        int r;

        if (json_is_real(value)) {
                agent_real_text(json_real_value(value), text, sizeof(text));
                return buf_append(out, text, strlen(text));
        }
        dumped = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        r = dumped ? buf_append(out, dumped, strlen(dumped)) : -1;
        free(dumped);
        return r;
}

static int append_key(struct buf *out, const char *key)
{
        json_t *text = json_string_nocheck(key);
        int r = append_leaf(out, text);

        json_decref(text);
        return r < 0 ? r : buf_append(out, ":", 1);
}

static int append_value(const struct agent_request *request, struct buf *out, const json_t *value);

static int append_bytes(const struct agent_request *request, struct buf *out, const json_t *value)
{
        const json_t *type = json_object_get(value, "t");
        const unsigned char *data;
        char head[64];
        size_t size;
        int r;

        agent_bytes(request, value, &data, &size);
        snprintf(head, sizeof(head), "{\"$\":\"%s\",%s%s%s\"b64\":\"", agent_tag(value), type ? "\"t\":\"" : "",
                 type ? json_string_value(type) : "", type ? "\"," : "");
        r = buf_append(out, head, strlen(head));
        if (r == 0)
                r = base64_encode(out, data, size);
        return r < 0 ? r : buf_append(out, "\"}", 2);
}

static int append_object(const struct agent_request *request, struct buf *out, const json_t *value)
{
        const unsigned char *data;
        const char *key;
        json_t *member;
        size_t size;
        int r = 0, count = 0;

        if (agent_bytes(request, value, &data, &size))
                return append_bytes(request, out, value);
        r = buf_append(out, "{", 1);
        json_object_foreach ((json_t *)value, key, member) {
                if (r == 0 && count++)
                        r = buf_append(out, ",", 1);
                if (r == 0)
                        r = append_key(out, key);
                if (r == 0)
                        r = append_value(request, out, member);
        }
        return r < 0 ? r : buf_append(out, "}", 1);
}

static int append_array(const struct agent_request *request, struct buf *out, const json_t *value)
{
        int r = buf_append(out, "[", 1);

        for (size_t i = 0; r == 0 && i < json_array_size(value); i++) {
                if (i)
                        r = buf_append(out, ",", 1);
                if (r == 0)
                        r = append_value(request, out, json_array_get(value, i));
        }
        return r < 0 ? r : buf_append(out, "]", 1);
}

static int append_value(const struct agent_request *request, struct buf *out, const json_t *value)
{
        if (json_is_array(value))
                return append_array(request, out, value);
        return json_is_object(value) ? append_object(request, out, value) : append_leaf(out, value);
}

char *agent_json_text(const struct agent_request *request, const json_t *value, size_t *ret_size)
{
        struct buf out = BUF_INIT(TEXT_BYTES_MAX);

        if (append_value(request, &out, value) < 0 || buf_append(&out, "", 1) < 0) {
                buf_done(&out);
                return NULL;
        }
        *ret_size = out.size - 1;
        return out.data;
}

/* The code may have chosen a locale with another decimal point. */
static void use_point(char *text)
{
        const char *local = localeconv()->decimal_point;
        char *at = strstr(text, local);

        if (!at || strcmp(local, ".") == 0)
                return;
        memmove(at + 1, at + strlen(local), strlen(at + strlen(local)) + 1);
        *at = '.';
}

void agent_real_text(double value, char *ret, size_t size)
{
        for (int precision = 1; precision <= 17; precision++) {
                snprintf(ret, size, "%.*g", precision, value);
                if (strtod(ret, NULL) == value)
                        break;
        }
        /* 100.0 is 1e+02 with the fewest digits. */
        if (fabs(value) < 1e16 && fabs(value) >= 1 && strchr(ret, 'e'))
                snprintf(ret, size, "%.0f", value);
        use_point(ret);
        if (isfinite(value) && !strpbrk(ret, ".e"))
                strncat(ret, ".0", size - strlen(ret) - 1);
}
