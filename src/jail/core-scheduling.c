/* A core scheduling cookie for each box. Runs in: the child the keeper cloned, a forked child that
 * joins its box, and the keeper, which tries it at its start. */
#include "core-scheduling.h"

#include "base/err.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

int core_scheduling_read(uint64_t *ret_cookie)
{
        return prctl(PR_SCHED_CORE, PR_SCHED_CORE_GET, 0, PR_SCHED_CORE_SCOPE_THREAD, ret_cookie) < 0 ? -errno : 0;
}

const char *core_scheduling_reason(int os_errno)
{
        switch (os_errno) {
        case EINVAL:
                return "this kernel has no core scheduling (Linux 5.14, CONFIG_SCHED_CORE)";
        case ENODEV:
                return "the kernel sees no hyperthreads in use; of a virtual machine only its host knows what shares a "
                       "core";
        default:
                return strerror(os_errno);
        }
}

int core_scheduling_separate(struct cloche_err *e)
{
        if (prctl(PR_SCHED_CORE, PR_SCHED_CORE_CREATE, 0, PR_SCHED_CORE_SCOPE_THREAD_GROUP, 0) < 0)
                return err_os(e, CLOCHE_E_GUARD_MISSING, errno, "core-scheduling");
        return 0;
}
