/* Where a test may kill the process or have a step fail. Nothing, but in the program that tests are built with. */
#ifndef CLOCHE_SYNC_CRASH_H
#define CLOCHE_SYNC_CRASH_H

#ifdef CRASH_POINTS
void crash_point(void);  /* ends the process when it is the CLOCHE_SYNC_CRASH-th time */
int crash_failure(void); /* nonzero when it is the CLOCHE_SYNC_FAIL-th time */
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
