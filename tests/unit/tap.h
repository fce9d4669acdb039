/* Test Anything Protocol in two macros: CHECK(condition, what, …) per test, tap_done() at the end. */
#ifndef CLOCHE_TESTS_TAP_H
#define CLOCHE_TESTS_TAP_H

#include <stdarg.h>
#include <stdio.h>

static int tap_count, tap_failed;

__attribute__((format(printf, 4, 5))) static inline int tap_check(int passed, const char *file, int line,
                                                                  const char *format, ...)
{
        va_list ap;

        tap_count++;
        tap_failed += !passed;
        printf("%s %d - ", passed ? "ok" : "not ok", tap_count);
        va_start(ap, format);
        vprintf(format, ap);
        va_end(ap);
        printf("\n");
        if (!passed)
                printf("# at %s:%d\n", file, line);
        fflush(stdout);
        return passed;
}

#define CHECK(condition, ...) tap_check(!!(condition), __FILE__, __LINE__, __VA_ARGS__)

/* Print the plan; the exit code of main. */
static inline int tap_done(void)
{
        printf("1..%d\n", tap_count);
        return tap_failed ? 1 : 0;
}

#endif
