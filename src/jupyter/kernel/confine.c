/* Drop the rights of this process before it reads bytes of clients and guests. Runs in:
 * cloche-kernel's second process. */
#include "confine.h"

#include "base/err.h"
#include "jail/caps.h"
#include "jail/filter/filter.h"
#include "jail/filter/landlock.h"
#include "jail/rlimit.h"

#include <errno.h>
#include <sys/resource.h>

/* libzmq keeps the parts of a message until the last one has come, however many there are: a
 * foreign connection may not fill the host's memory with them. */
#define DATA_BYTES ((rlim_t)2 << 30)
#define DESCRIPTORS 1024

static const struct sock_filter calls[] = {
#include "kernel-filter-rows.inc"
};

static int limit(void)
{
        static const struct {
                int resource;
                rlim_t most;
        } limits[] = {{RLIMIT_NOFILE, DESCRIPTORS}, {RLIMIT_CORE, 0}, {RLIMIT_DATA, DATA_BYTES}};

        for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
                int r = rlimit_lower(limits[i].resource, limits[i].most);

                if (r < 0)
                        return r;
        }
        return 0;
}

/* A kernel without Landlock has the filter, which permits to open no file either. Any
 * other failure is an error. */
int confine_to_sockets(struct cloche_err *e)
{
        int abi, r;

#ifdef CHECKED /* by sanitizers: they reserve more, and LeakSanitizer traces its own process at exit */
        return 0;
#endif
        if (caps_give_up() < 0 || limit() < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "give up the rights of cloche-kernel");
        r = landlock_enter(NULL, 0, &abi, e);
        return r < 0 && (e->os_errno == ENOSYS || e->os_errno == EOPNOTSUPP) ? 0 : r;
}

int confine_kernel_calls(struct cloche_err *e)
{
#ifdef CHECKED
        return 0;
#endif
        return FILTER_ENTER(calls, e);
}
