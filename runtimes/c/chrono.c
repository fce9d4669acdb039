/* std::chrono: a duration is its seconds, a time of the system's clock a date (spec/values.md).
 * Runs in: the agent, with the rights of the user's code. */
#include "convert.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_SECOND 1000000000
#define OUTSIDE "a time outside the years 1 to 9999 cannot be sent: give its time_since_epoch()"
#define NOT_WHOLE "is not a whole number of ticks (%s): round it, or take a duration with finer ticks"
/* Seconds are doubles: the sum 0.1 + 0.2 is whole milliseconds. Relative, larger than the error of a few additions. */
#define ROUNDING (4 * DBL_EPSILON)

typedef __int128 wide;

static const struct type seconds_type = {
        .kind = TYPE_FLOAT,
        .name = "a number of seconds",
        .size = sizeof(double),
        .align = 8,
};

/* -- durations -------------------------------------------------------------------------------------------------- */

int duration_in(struct incoming *in, const struct type *type, const json_t *value, void *at)
{
        const struct type *ticks = type->inner[0];
        double seconds, count;
        json_t *number;
        char told[80];
        int r = convert_in(in, &seconds_type, value, &seconds);

        if (r < 0)
                return r;
        count = seconds * (double)type->denominator / (double)type->numerator;
        if (ticks->kind == TYPE_INTEGER && !(fabs(count) < 9e18))
                return incoming_refuse(in, "%g seconds do not fit in %s", seconds, type->name);
        if (ticks->kind == TYPE_INTEGER && fabs(count - round(count)) > fabs(count) * ROUNDING)
                return incoming_refuse(in, "%s seconds " NOT_WHOLE, convert_describe(value, told, sizeof(told)),
                                       type->name);
        number = ticks->kind == TYPE_INTEGER ? agent_integer((int64_t)llround(count)) : agent_real(count);
        r = convert_in(in, ticks, number, at);
        json_decref(number);
        return r;
}

static double ticks_at(const struct type *ticks, const void *at)
{
        long double large;
        double number;
        float small;

        if (ticks->kind == TYPE_INTEGER)
                return (double)convert_integer_at(ticks, at);
        if (ticks->size == sizeof(small)) {
                memcpy(&small, at, sizeof(small));
                return small;
        }
        if (ticks->size == sizeof(number)) {
                memcpy(&number, at, sizeof(number));
                return number;
        }
        memcpy(&large, at, sizeof(large));
        return (double)large;
}

json_t *duration_out(struct outgoing *out, const struct type *type, const void *at)
{
        double seconds = ticks_at(type->inner[0], at) * (double)type->numerator / (double)type->denominator;

        return outgoing_spend(out, 8, agent_real(seconds));
}

/* -- times ------------------------------------------------------------------------------------------------------ */

/* The engine has checked the text: RFC 3339, a day, or a time without an offset, which is UTC in a box. */
static int parse_date(const char *text, wide *ret_ns)
{
        struct tm parts = {0};
        int used = 0, hours = 0, minutes = 0;
        long fraction = 0, unit = NS_PER_SECOND;
        wide seconds;
        char sign;

        if (sscanf(text, "%4d-%2d-%2d%n", &parts.tm_year, &parts.tm_mon, &parts.tm_mday, &used) != 3)
                return -1;
        parts.tm_year -= 1900;
        parts.tm_mon--;
        text += used;
        if (*text == 'T') {
                if (sscanf(text, "T%2d:%2d:%2d%n", &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &used) != 3)
                        return -1;
                text += used;
        }
        if (*text == '.')
                for (text++; *text >= '0' && *text <= '9'; text++) {
                        unit /= 10;
                        fraction += unit * (*text - '0');
                }
        seconds = timegm(&parts);
        if (sscanf(text, "%c%2d:%2d", &sign, &hours, &minutes) == 3)
                seconds -= (sign == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
        *ret_ns = seconds * NS_PER_SECOND + fraction;
        return 0;
}

int time_in(struct incoming *in, const struct type *type, const json_t *value, void *at)
{
        const struct type *duration = type->inner[0], *ticks = duration->inner[0];
        const char *tag = agent_tag(value), *text = json_string_value(json_object_get(value, "v"));
        wide ns, unit = (wide)duration->numerator * NS_PER_SECOND, scaled;
        json_t *number;
        char told[80];
        int r;

        if (!tag || strcmp(tag, "date") != 0 || !text || parse_date(text, &ns) < 0)
                return incoming_refuse(in, "%s is not a date (%s)", convert_describe(value, told, sizeof(told)),
                                       type->name);
        if (__builtin_mul_overflow(ns, (wide)duration->denominator, &scaled) || scaled / unit > INT64_MAX ||
            scaled / unit < INT64_MIN)
                return incoming_refuse(in, "%s does not fit in %s", text, type->name);
        if (ticks->kind == TYPE_INTEGER && scaled % unit)
                return incoming_refuse(in, "%s " NOT_WHOLE, text, type->name);
        number = ticks->kind == TYPE_INTEGER ? agent_integer((int64_t)(scaled / unit))
                                             : agent_real((double)((long double)scaled / (long double)unit));
        r = convert_in(in, ticks, number, at);
        json_decref(number);
        return r;
}

/* Rounds down before 1970 too, so that a fraction is never below zero. */
static wide divide_down(wide n, wide by)
{
        return n / by - (n % by < 0);
}

json_t *time_out(struct outgoing *out, const struct type *type, const void *at)
{
        const struct type *duration = type->inner[0], *ticks = duration->inner[0];
        double real = ticks_at(ticks, at) * (double)duration->numerator / (double)duration->denominator;
        wide unit = (wide)duration->numerator * NS_PER_SECOND, ns;
        char text[96];
        struct tm parts;
        time_t seconds;
        size_t length;
        long fraction;

        if (!(fabs(real) < 3e11))
                return outgoing_refuse(out, OUTSIDE);
        if (ticks->kind == TYPE_INTEGER)
                ns = divide_down((wide)convert_integer_at(ticks, at) * unit, (wide)duration->denominator);
        else
                ns = (wide)floor(real) * NS_PER_SECOND + (wide)round((real - floor(real)) * NS_PER_SECOND);
        seconds = (time_t)divide_down(ns, NS_PER_SECOND);
        fraction = (long)(ns - (wide)seconds * NS_PER_SECOND);
        if (!gmtime_r(&seconds, &parts) || parts.tm_year < 1 - 1900 || parts.tm_year > 9999 - 1900)
                return outgoing_refuse(out, OUTSIDE);
        /* glibc's strftime does not pad %Y. */
        length = (size_t)snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d", parts.tm_year + 1900,
                                  parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
        /* The same as in Python: microseconds, or all nine digits. */
        if (fraction % 1000)
                snprintf(text + length, sizeof(text) - length, ".%09ld", fraction);
        else if (fraction)
                snprintf(text + length, sizeof(text) - length, ".%06ld", fraction / 1000);
        strcat(text, "Z");
        return outgoing_spend(out, strlen(text) + 20, json_pack("{s:s, s:s}", "$", "date", "v", text));
}
