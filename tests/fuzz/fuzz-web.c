/* Fuzz: the parts of HTTP that are parsed here. The input is a query, a range, a host, a list
 * and a cookie in one: refusals are clear, and no result lies outside of the input. */
#include "daemon/http/forward.h"
#include "daemon/http/query.h"
#include "daemon/http/range.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
        if (!holds)
                abort();
}

static void try_query(const char *text)
{
        struct cloche_err e = {0};
        json_t *all = NULL, *value;
        const char *key;
        int r = query_parse(text, &all, &e);

        must(r == 0 || (r == -CLOCHE_E_INVALID_ARGUMENT && e.msg[0] && !all));
        must(json_object_size(all) <= QUERY_FIELDS_MAX);
        json_object_foreach (all, key, value) {
                size_t count = json_is_array(value) ? json_array_size(value) : 1;

                must(*key && (json_is_string(value) || count > 1));
                for (size_t i = 0; i < count; i++) {
                        const json_t *one = json_is_array(value) ? json_array_get(value, i) : value;

                        must(json_is_string(one) && json_string_length(one) <= strlen(text));
                }
        }
        json_decref(all);
}

static void try_range(const char *text, uint64_t total)
{
        struct range range = range_parse(text);
        uint64_t first, end;

        if (range_resolve(&range, total, &first, &end) == 0)
                must(first <= end && end <= total);
}

static void try_host(const char *text)
{
        struct preview_name name;
        size_t size;
        const char *label = preview_label(text, "p.test", &size);

        must(!label || (label == text && size < strlen(text)));
        if (label && preview_name_parse(label, size, &name) == 0)
                must(name.port > 0 && name.port <= 65535 && strlen(name.sandbox) > 0 && strlen(name.token) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *text = strndup((const char *)data, size);

        if (!text)
                return 0;
        try_query(text);
        try_range(text, size);
        try_range(text, 0);
        try_host(text);
        (void)forward_is_hop("X-Some", text);
        (void)forward_is_clean(text);
        (void)forward_is_own_cookie(text, "8080-a-t.p.test", 15);
        free(text);
        return 0;
}
