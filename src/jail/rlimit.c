/* Resource limits of everything in a box. Runs in: the child the keeper cloned. */
#include "rlimit.h"

#include "base/err.h"

#include <errno.h>
#include <sys/resource.h>

#define KEEP UINT64_MAX

int rlimit_lower(int resource, uint64_t value)
{
        struct rlimit now, wanted;

        if (getrlimit((__rlimit_resource_t)resource, &now) < 0)
                return -errno;
        /* An ordinary user may not raise the hard limit: take the lower of both. */
        wanted.rlim_cur = value < now.rlim_max ? (rlim_t)value : now.rlim_max;
        wanted.rlim_max = wanted.rlim_cur;
        return setrlimit((__rlimit_resource_t)resource, &wanted) < 0 ? -errno : 0;
}

/* The limits that every box has; KEEP: none. */
static const struct {
        const char *name;
        uint64_t value;
} rows[RLIM_NLIMITS] = {
        [RLIMIT_CPU] = {"RLIMIT_CPU", KEEP},
        [RLIMIT_FSIZE] = {"RLIMIT_FSIZE", KEEP},
        [RLIMIT_DATA] = {"RLIMIT_DATA", KEEP},
        [RLIMIT_STACK] = {"RLIMIT_STACK", 8u << 20},
        [RLIMIT_CORE] = {"RLIMIT_CORE", 1}, /* see put_core_limit in seccomp-compile.c */
        [RLIMIT_RSS] = {"RLIMIT_RSS", KEEP},
        /* Counted per user namespace since Linux 5.14, so neighbours under one uid do not add
         * up. */
        [RLIMIT_NPROC] = {"RLIMIT_NPROC", KEEP},
        [RLIMIT_NOFILE] = {"RLIMIT_NOFILE", KEEP},
        [RLIMIT_MEMLOCK] = {"RLIMIT_MEMLOCK", 8u << 20},
        [RLIMIT_AS] = {"RLIMIT_AS", KEEP},
        [RLIMIT_LOCKS] = {"RLIMIT_LOCKS", KEEP},
        [RLIMIT_SIGPENDING] = {"RLIMIT_SIGPENDING", 1024},
        [RLIMIT_MSGQUEUE] = {"RLIMIT_MSGQUEUE", 819200},
        [RLIMIT_NICE] = {"RLIMIT_NICE", 0},
        [RLIMIT_RTPRIO] = {"RLIMIT_RTPRIO", 0},
        [RLIMIT_RTTIME] = {"RLIMIT_RTTIME", KEEP},
};

/* PID 1 sets these for its programs, and does not have them itself. */
static int is_of_programs(int resource)
{
        return resource == RLIMIT_CPU || resource == RLIMIT_NOFILE;
}

int rlimit_apply(const struct jail_plan *plan, struct cloche_err *e)
{
        for (int i = 0; i < RLIM_NLIMITS; i++) {
                uint64_t wanted = is_of_programs(i) ? KEEP : plan->rlimits[i];
                uint64_t least = wanted < rows[i].value ? wanted : rows[i].value;
                int r = least == KEEP ? 0 : rlimit_lower(i, least);

                if (r < 0)
                        return err_os(e, CLOCHE_E_PRIVILEGE, -r, "set %s", rows[i].name);
        }
        return 0;
}
