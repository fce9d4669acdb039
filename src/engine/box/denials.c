/* Merge denials. Runs in: the engine, on its loop, on decisions of cloche-egress; pure. */
#include "denials.h"

#include <string.h>

static const char *const names[] = {"kind", "host", "address", "port", "why", "rule"};

static int is_same(const json_t *row, const json_t *decision)
{
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                const json_t *a = json_object_get(row, names[i]), *b = json_object_get(decision, names[i]);

                if (a != b && !json_equal(a, b))
                        return 0;
        }
        return 1;
}

int denials_is_one(const json_t *decision)
{
        const char *verdict = json_string_value(json_object_get(decision, "verdict"));

        return verdict && strcmp(verdict, "denied") == 0;
}

uint64_t denials_add(json_t *rows, const json_t *decision)
{
        json_int_t count = json_integer_value(json_object_get(decision, "count"));
        json_t *row;
        size_t i;

        if (!denials_is_one(decision))
                return 0;
        json_array_foreach (rows, i, row)
                if (is_same(row, decision)) {
                        count += json_integer_value(json_object_get(row, "count"));
                        json_object_set_new(row, "count", json_integer(count));
                        return 0;
                }
        row = json_array_size(rows) < DENIALS_MAX ? json_pack("{s:I}", "count", count) : NULL;
        if (!row)
                return (uint64_t)count;
        for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (json_object_get(decision, names[i]))
                        json_object_set(row, names[i], json_object_get(decision, names[i]));
        json_array_append_new(rows, row);
        return 0;
}
