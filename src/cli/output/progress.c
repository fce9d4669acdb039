/* The progress line, drawn by a timer signal. Runs in: the CLI, as its user. */
#include "progress.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define TICK_US 250000
#define PATIENCE_TICKS 4 /* one second */

/* Shared with the handler, which runs only between progress_watch and progress_end. */
static int is_allowed;
static const char *(*_Atomic now_of)(void);
static const char *_Atomic constant;
static const char *_Atomic last;
static atomic_int ticks;

static const char *now_constant(void)
{
        return atomic_load(&constant);
}

/* In raw mode the cursor may be anywhere. */
static void print(const char *what)
{
        char line[200];
        size_t size = strnlen(what, 150);

        memcpy(line, "cloche: ", 8);
        memcpy(line + 8, what, size);
        memcpy(line + 8 + size, "…\r\n", sizeof("…\r\n") - 1);
        (void)!write(STDERR_FILENO, line, 8 + size + sizeof("…\r\n") - 1);
}

static void on_tick(int number)
{
        const char *(*now)(void) = atomic_load(&now_of);
        const char *what = now ? now() : NULL;

        (void)number;
        if (what != atomic_load(&last)) {
                atomic_store(&last, what);
                atomic_store(&ticks, 0);
        }
        if (what && atomic_fetch_add(&ticks, 1) == PATIENCE_TICKS)
                print(what);
}

static void set_timer(long period_us)
{
        const struct itimerval period = {.it_interval.tv_usec = period_us, .it_value.tv_usec = period_us};

        setitimer(ITIMER_REAL, &period, NULL);
}

void progress_allow(int yes)
{
        is_allowed = yes && isatty(STDERR_FILENO);
}

void progress_watch(const char *(*now)(void))
{
        const struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};

        if (!is_allowed)
                return;
        atomic_store(&last, NULL);
        atomic_store(&now_of, now);
        sigaction(SIGALRM, &action, NULL);
        set_timer(TICK_US);
}

void progress_start(const char *what)
{
        atomic_store(&constant, what);
        progress_watch(now_constant);
}

void progress_end(void)
{
        if (!is_allowed)
                return;
        set_timer(0);
        atomic_store(&now_of, NULL);
}
