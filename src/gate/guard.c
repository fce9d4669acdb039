#include "control.h"

#include "base/err.h"
#include "jail/landlock.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DESCRIPTORS 1024 /* two a connection, and what names need */

static const struct sock_filter rows[] = {
#include "gate-filter-rows.inc"
};

static int limit(void)
{
        static const struct {
                int resource;
                rlim_t most;
        } limits[] = {{RLIMIT_NOFILE, DESCRIPTORS}, {RLIMIT_CORE, 0}, {RLIMIT_FSIZE, 0}, {RLIMIT_NPROC, 0}};

        for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
                struct rlimit now;

                if (getrlimit((__rlimit_resource_t)limits[i].resource, &now) < 0)
                        return -1;
                if (now.rlim_max > limits[i].most)
                        now.rlim_max = limits[i].most;
                now.rlim_cur = now.rlim_max;
                if (setrlimit((__rlimit_resource_t)limits[i].resource, &now) < 0)
                        return -1;
        }
        return 0;
}

static int filter(const struct sock_filter *filter_rows, size_t count, struct cloche_err *e)
{
        const struct sock_fprog program = {.len = (unsigned short)count, .filter = (struct sock_filter *)filter_rows};

        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? err_os(e, CLOCHE_E_GUARD_MISSING, errno, "seccomp") : 0;
}

/* libuv batches epoll_ctl(2) by io_uring wherever io_uring_setup(2) works: since 1.45, and since 1.50 nothing turns it off. guard_enter forbids
 * io_uring_enter(2), as no filter sees what a ring is asked for, and libuv then aborts. Where no filter can be had, nothing forbids it either. */
void guard_refuse_rings(void)
{
        static const struct sock_filter no_rings[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct cloche_err ignored;

        (void)filter(no_rings, sizeof(no_rings) / sizeof(no_rings[0]), &ignored);
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

/* The filter last: it forbids the rest. */
int guard_enter(const json_t *optional, json_t **ret, struct cloche_err *e)
{
        int abi = 0, filtered, r = landlock_leave_connections(&abi, e);

        if (r < 0 && !(r == -CLOCHE_E_GUARD_MISSING && is_optional(optional, "landlock")))
                return r;
        if (limit() < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "set the gate's limits");
        r = filter(rows, sizeof(rows) / sizeof(rows[0]), e);
        filtered = r == 0;
        if (r < 0 && !is_optional(optional, "seccomp"))
                return r;
        *ret = json_pack("{s:i, s:b}", "landlock", abi, "seccomp", filtered);
        return 0;
}
