/* Parse sizes (64m) and durations (1.5s). Runs in: the CLI, as its user. */
#include "quantity.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unit {
        const char *name;
        double factor;
};

/* Ascending; of several names of a unit the last is printed. Binary, as in control groups: 1G is
 * 1024M. */
static const struct unit sizes[] = {
        {"B", 1},        {"KiB", 0x1p10},
        {"KB", 0x1p10},  {"K", 0x1p10},
        {"MiB", 0x1p20}, {"MB", 0x1p20},
        {"M", 0x1p20},   {"GiB", 0x1p30},
        {"GB", 0x1p30},  {"G", 0x1p30},
        {"TiB", 0x1p40}, {"TB", 0x1p40},
        {"T", 0x1p40},   {0},
};
static const struct unit durations[] = {{"ms", 1},  {"sec", 1e3}, {"s", 1e3},    {"min", 6e4},
                                        {"m", 6e4}, {"h", 3.6e6}, {"d", 8.64e7}, {0}};

/* Digits with at most one point: strtod(3) would also accept "inf", "0x10" and "1e9". */
static int take_number(const char **at, double *ret)
{
        size_t whole = strspn(*at, "0123456789"), size = whole, fraction = 0;

        if ((*at)[whole] == '.')
                size += 1 + (fraction = strspn(*at + whole + 1, "0123456789"));
        if (whole + fraction == 0)
                return -1;
        *ret = strtod(*at, NULL);
        *at += size;
        return 0;
}

static const struct unit *find_unit(const struct unit *units, const char *name, size_t size)
{
        for (; units->name; units++)
                if (strlen(units->name) == size && strncasecmp(units->name, name, size) == 0)
                        return units;
        return NULL;
}

static int take_unit(const struct unit *units, const char **at, double *number)
{
        size_t size = strcspn(*at, "0123456789.");
        const struct unit *unit = find_unit(units, *at, size);

        if (!unit)
                return -1;
        *number *= unit->factor;
        *at += size;
        return 0;
}

int quantity_bytes(const char *text, double plain_bytes, double *ret_bytes)
{
        double number;

        if (take_number(&text, &number) < 0)
                return -1;
        if (!*text)
                number *= plain_bytes;
        else if (take_unit(sizes, &text, &number) < 0 || *text)
                return -1;
        *ret_bytes = number;
        return 0;
}

int quantity_ms(const char *text, double *ret_ms)
{
        double sum = 0, number;

        if (take_number(&text, &number) < 0)
                return -1;
        if (!*text) {
                *ret_ms = number * 1000;
                return 0;
        }
        for (;;) {
                if (take_unit(durations, &text, &number) < 0)
                        return -1;
                sum += number;
                if (!*text)
                        break;
                if (take_number(&text, &number) < 0)
                        return -1;
        }
        *ret_ms = sum;
        return 0;
}

static const char *print(const struct unit *units, double number, char ret[QUANTITY_TEXT_BYTES])
{
        const struct unit *best = units;

        for (; units->name; units++)
                if (number >= units->factor && fmod(number, units->factor) == 0)
                        best = units;
        snprintf(ret, QUANTITY_TEXT_BYTES, "%.15g%s", number / best->factor, best->name);
        return ret;
}

const char *quantity_bytes_text(double bytes, char ret[QUANTITY_TEXT_BYTES])
{
        return print(sizes, bytes, ret);
}

const char *quantity_ms_text(double ms, char ret[QUANTITY_TEXT_BYTES])
{
        return print(durations, ms, ret);
}
