/* Monotonic time, and the time of day. */
#ifndef CLOCHE_BASE_CLOCK_H
#define CLOCHE_BASE_CLOCK_H

#include <stdint.h>
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

#endif
