#include "seccomp.h"

#include "base/err.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct sock_filter filter[] = {
#include "seccomp-program.inc" /* written by seccomp-compile.c */
};

int jail_seccomp_load(struct cloche_err *e)
{
        const struct sock_fprog program = {
                .len = sizeof(filter) / sizeof(filter[0]),
                .filter = (struct sock_filter *)filter,
        };

        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
                return err_os(e, CLOCHE_E_SECCOMP, errno, "load the system call filter");
        return 0;
}
