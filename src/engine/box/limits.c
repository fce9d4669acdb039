/* Limits of a run: defaults, ranges, and the part that control groups enforce. Runs in: the
 * engine. */
#include "limits.h"

#include "base/err.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct row {
        const char *name, *json;
        size_t offset;
        uint64_t preset, min, max;
} rows[] = {
#define CLOCHE_LIMIT(field, json, unit, def, min, max, doc, ...) \
        {#field, json, offsetof(struct cloche_limits, field), def, min, max},
#include <cloche/limits.def>
#undef CLOCHE_LIMIT
};

static uint64_t *field(struct cloche_limits *limits, const struct row *row)
{
        return (uint64_t *)((char *)limits + row->offset);
}

int limits_resolve(const struct cloche_limits *requested, struct cloche_limits *ret, struct cloche_err *e)
{
        struct cloche_limits limits = *requested;

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                uint64_t *value = field(&limits, &rows[i]);

                if (*value == 0)
                        *value = rows[i].preset;
                if (*value != CLOCHE_UNLIMITED && (*value < rows[i].min || *value > rows[i].max))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "the limit %s is %llu, expected %llu to %llu, or none", rows[i].json,
                                       (unsigned long long)*value, (unsigned long long)rows[i].min,
                                       (unsigned long long)rows[i].max);
        }
        *ret = limits;
        return 0;
}

void limits_read(const json_t *object, struct cloche_limits *ret)
{
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const json_t *value = json_object_get(object, rows[i].json);
                uint64_t requested = (uint64_t)json_integer_value(value);

                if (value)
                        *field(ret, &rows[i]) = requested ? requested : CLOCHE_UNLIMITED;
        }
}

/* all: those that are 0 too. NULL: out of memory. */
static json_t *to_json(const struct cloche_limits *limits, int all)
{
        struct cloche_limits copy = *limits;
        json_t *object = json_object();

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                uint64_t value = *field(&copy, &rows[i]);

                if ((value || all) &&
                    json_object_set_new(object, rows[i].json,
                                        json_integer(value == CLOCHE_UNLIMITED ? 0 : (json_int_t)value)) < 0) {
                        json_decref(object);
                        return NULL;
                }
        }
        return object;
}

json_t *limits_named(const struct cloche_limits *limits)
{
        return to_json(limits, 0);
}

json_t *limits_to_json(const struct cloche_limits *limits)
{
        return to_json(limits, 1);
}

struct keeper_box_limits limits_of_box(const struct cloche_limits *limits)
{
        return (struct keeper_box_limits){
#define OF_BOX(field) .field = limits->field,
#define OF_RUN(field)
#define CLOCHE_LIMIT(field, json, unit, def, min, max, doc, scope, ...) OF_##scope(field)
#include <cloche/limits.def>
#undef CLOCHE_LIMIT
        };
}

/* -- text for readers ----------------------------------------------------------------------------------------- */

struct unit {
        double size;
        const char *name;
};

/* Use the largest unit that gives at least 1, else the exact number. */
static const char *quantity_text(double value, const struct unit *units, size_t count, const char *exact,
                                 char ret[LIMITS_TEXT_BYTES])
{
        for (size_t i = 0; i < count; i++)
                if (value >= units[i].size) {
                        snprintf(ret, LIMITS_TEXT_BYTES, "%.4g %s (%.0f %s)", value / units[i].size, units[i].name,
                                 value, exact);
                        return ret;
                }
        snprintf(ret, LIMITS_TEXT_BYTES, "%.0f %s", value, exact);
        return ret;
}

const char *limits_ms_text(double ms, char ret[LIMITS_TEXT_BYTES])
{
        static const struct unit units[] = {{3600000, "h"}, {60000, "min"}, {1000, "s"}};

        return quantity_text(ms, units, sizeof(units) / sizeof(units[0]), "ms", ret);
}

const char *limits_bytes_text(uint64_t bytes, char ret[LIMITS_TEXT_BYTES])
{
        static const struct unit units[] = {{1u << 30, "GiB"}, {1u << 20, "MiB"}, {1u << 10, "KiB"}};

        if (bytes == CLOCHE_UNLIMITED)
                return strcpy(ret, "that of all runs together");
        return quantity_text((double)bytes, units, sizeof(units) / sizeof(units[0]), "bytes", ret);
}
