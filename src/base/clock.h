/* Monotonic time, and the time of day, also as text. */
#ifndef CLOCHE_BASE_CLOCK_H
#define CLOCHE_BASE_CLOCK_H

#include <stdint.h>
#include <stdio.h>
#include <time.h>

static inline uint64_t clock_now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t clock_real_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_REALTIME, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

#define CLOCK_TEXT_SIZE 64

/* Write UTC as in RFC 3339, to the millisecond: 2026-11-21T10:20:30.123Z. Returns -1 for a date
 * without such a form. */
static inline int clock_write_utc(char ret[CLOCK_TEXT_SIZE], struct timespec time)
{
        struct tm tm;
        char text[16];

        if (!gmtime_r(&time.tv_sec, &tm) || tm.tm_year < -1900 || tm.tm_year > 8099 ||
            strftime(text, sizeof(text), "-%m-%dT%H:%M:%S", &tm) == 0)
                return -1;
        snprintf(ret, CLOCK_TEXT_SIZE, "%04d%s.%03ldZ", tm.tm_year + 1900, text, time.tv_nsec / 1000000);
        return 0;
}

/* Write the current time in that form. Returns ret, which is empty if the clock is beyond the
 * year 9999. */
static inline const char *clock_text_now(char ret[CLOCK_TEXT_SIZE])
{
        struct timespec t;

        clock_gettime(CLOCK_REALTIME, &t);
        if (clock_write_utc(ret, t) < 0)
                ret[0] = '\0';
        return ret;
}

#endif
