/* The options that set limits; their ranges come from spec/limits.def. Runs in: the command line,
 * as its user. */
#include "options.h"
#include "quantity.h"

#include <math.h>
#include <string.h>

#define MIB 0x1p20
#define KEEP_BYTES_MAX 9e18

enum limit {
#define CLOCHE_LIMIT(field, json, unit, def, min, max, doc, ...) LIMIT_##field,
#include <cloche/limits.def>
#undef CLOCHE_LIMIT
};

static const struct range {
        double least, most;
} ranges[] = {
#define CLOCHE_LIMIT(field, json, unit, def, min, max, doc, ...) {min, max},
#include <cloche/limits.def>
#undef CLOCHE_LIMIT
};

static int refuse_count(const char *option, const char *v, const struct range *range)
{
        return cli_bad("%s: '%s' is not a whole number from %.15g to %.15g, or 0 for none", option, v, range->least,
                       range->most);
}

static int refuse_size(const char *option, const char *v, const struct range *range, double plain_bytes)
{
        char least[QUANTITY_TEXT_BYTES], most[QUANTITY_TEXT_BYTES];

        return cli_bad("%s: '%s' is not a size from %s to %s (such as 512M or 1.5G; a plain number is %s), or 0 for "
                       "none",
                       option, v, quantity_bytes_text(range->least, least), quantity_bytes_text(range->most, most),
                       plain_bytes == MIB ? "MiB" : "bytes");
}

static int refuse_duration(const char *option, const char *v, double least_ms, double most_ms)
{
        char least[QUANTITY_TEXT_BYTES], most[QUANTITY_TEXT_BYTES];

        return cli_bad("%s: '%s' is not a time from %s to %s (such as 5s, 500ms or 1m30s; a plain number is seconds), "
                       "or 0 "
                       "for none",
                       option, v, quantity_ms_text(least_ms, least), quantity_ms_text(most_ms, most));
}

static int is_within(double number, double least, double most)
{
        return number == 0 || (number >= least && number <= most);
}

int options_duration(uint64_t *ret_ms, const char *option, const char *v, double least_ms, double most_ms)
{
        double ms;

        if (quantity_ms(v, &ms) < 0 || !is_within(ms, least_ms, most_ms))
                return refuse_duration(option, v, least_ms, most_ms);
        *ret_ms = (uint64_t)llround(ms);
        return 0;
}

static void keep(uint64_t *limit, uint64_t number)
{
        *limit = number == 0 ? CLOCHE_UNLIMITED : number;
}

static int set_duration(uint64_t *limit, enum limit which, const char *option, const char *v)
{
        uint64_t ms = 0;
        int bad = options_duration(&ms, option, v, ranges[which].least, ranges[which].most);

        if (bad == 0)
                keep(limit, ms);
        return bad;
}

static int set_size(uint64_t *limit, enum limit which, const char *option, const char *v, double plain_bytes)
{
        double bytes;

        if (quantity_bytes(v, plain_bytes, &bytes) < 0 || !is_within(bytes, ranges[which].least, ranges[which].most))
                return refuse_size(option, v, &ranges[which], plain_bytes);
        keep(limit, (uint64_t)llround(bytes));
        return 0;
}

static int set_count(uint64_t *limit, enum limit which, const char *option, const char *v)
{
        double number;

        if (quantity_bytes(v, 1, &number) < 0 || strspn(v, "0123456789") != strlen(v) ||
            !is_within(number, ranges[which].least, ranges[which].most))
                return refuse_count(option, v, &ranges[which]);
        keep(limit, (uint64_t)llround(number));
        return 0;
}

int options_set_keep_bytes(struct cli_request *r, const char *v)
{
        double bytes;

        if (quantity_bytes(v, 1, &bytes) < 0 || bytes > KEEP_BYTES_MAX)
                return cli_bad("--keep-bytes: '%s' is not a size (such as 512M or 1.5G; a plain number is bytes)", v);
        r->keep_bytes = (uint64_t)llround(bytes);
        return 0;
}

/* For each form of an argument: the setter of a limit, and its option. */
#define SETTER(field, option, set, ...)                                                                \
        int options_set_##field(struct cli_request *r, const char *v)                                  \
        {                                                                                              \
                return set(&r->run.limits.field, LIMIT_##field, option, v __VA_OPT__(, ) __VA_ARGS__); \
        }
#define SET_TIME(field, option) SETTER(field, option, set_duration)
#define SET_SIZE(field, option) SETTER(field, option, set_size, MIB)
#define SET_BYTES(field, option) SETTER(field, option, set_size, 1)
#define SET_COUNT(field, option) SETTER(field, option, set_count)
#define SET_PERCENT(field, option) SETTER(field, option, set_count)
#define SET_NONE(field, option)
#define CLOCHE_LIMIT(field, json, unit, def, min, max, doc, scope, sandbox, rlimit, argument, option, ...) \
        SET_##argument(field, option)
#include <cloche/limits.def>
#undef CLOCHE_LIMIT
