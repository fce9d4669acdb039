/* Drop the rights of this process before it reads from the box.
 * Runs in: cloche-egress, without capabilities and files, filtered. */
#include "control.h"

#include "base/err.h"
#include "jail/filter/filter.h"
#include "jail/filter/landlock.h"
#include "jail/rlimit.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define DESCRIPTORS 1024 /* two a connection, plus lookups */

static const struct sock_filter calls[] = {
#include "egress-filter-rows.inc"
};

static int limit(void)
{
        static const struct {
                int resource;
                rlim_t most;
        } limits[] = {{RLIMIT_NOFILE, DESCRIPTORS}, {RLIMIT_CORE, 0}, {RLIMIT_FSIZE, 0}, {RLIMIT_NPROC, 0}};

        for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
                int r = rlimit_lower(limits[i].resource, limits[i].most);

                if (r < 0)
                        return r;
        }
        return 0;
}

static int is_optional(const json_t *optional, const char *guard)
{
        for (size_t i = 0; i < json_array_size(optional); i++) {
                const char *name = json_string_value(json_array_get(optional, i));

                if (name && strcmp(name, guard) == 0)
                        return 1;
        }
        return 0;
}

/* The filter comes last: it forbids the other steps. */
int guard_enter(const json_t *optional, json_t **ret, struct cloche_err *e)
{
        int abi = 0, filtered, r = landlock_leave_connections(&abi, e);

        if (r < 0 && !(r == -CLOCHE_E_GUARD_MISSING && is_optional(optional, "landlock")))
                return r;
        if (limit() < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "set the egress program's limits");
        r = FILTER_ENTER(calls, e);
        filtered = r == 0;
        if (r < 0 && !is_optional(optional, "seccomp"))
                return r;
        *ret = json_pack("{s:i, s:b}", "landlock", abi, "seccomp", filtered);
        return 0;
}
