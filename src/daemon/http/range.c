/* Runs in: cloched, on its loop. Requests come from anyone who can connect. */
#include "range.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DIGITS "0123456789"
#define DIGITS_MAX 18 /* cannot overflow */

/* Parse a number at *text; 0: none, or too long. */
static int take_number(const char **text, uint64_t *ret)
{
        size_t size = strspn(*text, DIGITS);

        if (size == 0 || size > DIGITS_MAX)
                return 0;
        *ret = strtoull(*text, NULL, 10);
        *text += size;
        return 1;
}

struct range range_parse(const char *text)
{
        static const struct range all = {RANGE_ALL, 0, UINT64_MAX};
        struct range range = {RANGE_FROM, 0, UINT64_MAX};

        if (!text || strncasecmp(text, "bytes=", 6) != 0)
                return all;
        text += 6;
        if (*text == '-') {
                text++;
                range.kind = RANGE_LAST;
                return take_number(&text, &range.last) && !*text ? range : all;
        }
        if (!take_number(&text, &range.first) || *text++ != '-')
                return all;
        if (*text && (!take_number(&text, &range.last) || range.last < range.first))
                return all;
        return *text ? all : range;
}

int range_resolve(const struct range *range, uint64_t total, uint64_t *ret_first, uint64_t *ret_end)
{
        *ret_first = 0;
        *ret_end = total;
        if (range->kind == RANGE_LAST) {
                *ret_first = range->last < total ? total - range->last : 0;
                return range->last > 0 && total > 0 ? 0 : -1;
        }
        if (range->kind == RANGE_ALL)
                return 0;
        *ret_first = range->first;
        if (range->last < total)
                *ret_end = range->last + 1;
        return range->first < total ? 0 : -1;
}
