/* Points where a test kills the process or makes a step fail. No-ops except in the
 * program that tests build. */
#ifndef CLOCHE_HELPERS_SYNC_CRASH_H
#define CLOCHE_HELPERS_SYNC_CRASH_H

#ifdef CRASH_POINTS
void crash_point(void);  /* exits at the CLOCHE_SYNC_CRASH-th call */
int crash_failure(void); /* nonzero at the CLOCHE_SYNC_FAIL-th call */
#else
static inline void crash_point(void)
{
}

static inline int crash_failure(void)
{
        return 0;
}
#endif

#endif
