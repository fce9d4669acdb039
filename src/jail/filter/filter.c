#include "filter.h"

#include "base/err.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

int filter_enter(const struct sock_filter *rows, size_t count, struct cloche_err *e)
{
        const struct sock_fprog program = {.len = (unsigned short)count, .filter = (struct sock_filter *)rows};
        long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);

        /* Above 0: the id of a thread that cannot take the filter. */
        return r == 0 ? 0 : err_os(e, CLOCHE_E_GUARD_MISSING, r < 0 ? errno : EBUSY, "seccomp");
}

void filter_refuse_rings(void)
{
        static const struct sock_filter no_rings[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct cloche_err ignored;

        (void)FILTER_ENTER(no_rings, &ignored);
}
