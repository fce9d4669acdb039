/* Core scheduling: tasks with different cookies never run at the same time on hyperthreads of one
 * core, and so share none of its caches. Children inherit their parent's cookie. PR_SCHED_CORE of
 * prctl(2); Documentation/admin-guide/hw-vuln/core-scheduling.rst. */
#ifndef CLOCHE_JAIL_CORE_SCHEDULING_H
#define CLOCHE_JAIL_CORE_SCHEDULING_H

#include <cloche/error.h>
#include <stdint.h>

/* Read the caller's cookie, 0 if it has none. Returns 0, or -errno where core scheduling is not
 * available: core_scheduling_reason has the words. */
int core_scheduling_read(uint64_t *ret_cookie);
const char *core_scheduling_reason(int os_errno);
/* Give the calling process a cookie of its own. */
int core_scheduling_separate(struct cloche_err *e);

#endif
