/* Runs in: cloched, on its loop. Requests come from anyone who can connect. */
#include "query.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/hex.h"

#include <errno.h>
#include <string.h>

/* Decode one byte of text, which is not empty; returns the length read, or 0: invalid escape. */
static size_t take_byte(const char *text, size_t size, char *ret)
{
        int high, low;

        *ret = *text == '+' ? ' ' : *text;
        if (*text != '%')
                return 1;
        high = size > 2 ? hex_digit(text[1]) : -1;
        low = high >= 0 ? hex_digit(text[2]) : -1;
        *ret = (char)(high * 16 + low);
        return low >= 0 ? 3 : 0;
}

static int decode(const char *text, size_t size, struct buf *ret, struct cloche_err *e)
{
        char byte;

        ret->size = 0;
        for (size_t at = 0; at < size;) {
                size_t n = take_byte(text + at, size - at, &byte);

                if (n == 0)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "query: \"%.*s\" is not an escape, expected %% and two hexadecimal digits",
                                       (int)(size - at < 3 ? size - at : 3), text + at);
                if (!byte)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "query: \"%.*s\" contains NUL",
                                       (int)(size < 40 ? size : 40), text);
                if (buf_append(ret, &byte, 1) < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read a query");
                at += n;
        }
        return buf_append(ret, "", 1) < 0 ? err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read a query") : 0;
}

/* A name that comes again makes a list. value is stolen. */
static int put(json_t *all, const char *name, json_t *value)
{
        json_t *before = json_object_get(all, name), *list;

        if (!before || !value)
                return json_object_set_new(all, name, value);
        if (json_is_array(before))
                return json_array_append_new(before, value);
        list = json_array();
        json_array_append(list, before);
        json_array_append_new(list, value);
        return json_object_set_new(all, name, list);
}

static int add(json_t *all, unsigned *count, const char *part, size_t size, struct cloche_err *e)
{
        _cleanup_buf_ struct buf name = BUF_INIT(size + 1), value = BUF_INIT(size + 1);
        const char *equals = memchr(part, '=', size);
        size_t name_size = equals ? (size_t)(equals - part) : size;
        int r = decode(part, name_size, &name, e);

        if (r == 0)
                r = decode(equals ? equals + 1 : "", equals ? size - name_size - 1 : 0, &value, e);
        if (r < 0)
                return r;
        if (!*name.data)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "query: a parameter has no name");
        if ((*count)++ == QUERY_FIELDS_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "query: more than %d parameters", QUERY_FIELDS_MAX);
        return put(all, name.data, json_string(value.data)) == 0
                       ? 0
                       : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "query: \"%.*s\" is not UTF-8",
                                 (int)(size < 40 ? size : 40), part);
}

int query_parse(const char *query, json_t **ret, struct cloche_err *e)
{
        json_t *all = json_object();
        unsigned count = 0;
        int r = 0;

        while (r == 0 && *query) {
                size_t size = strcspn(query, "&");

                if (size > 0)
                        r = add(all, &count, query, size, e);
                query += size + (query[size] == '&');
        }
        if (r < 0) {
                json_decref(all);
                return r;
        }
        *ret = all;
        return 0;
}
