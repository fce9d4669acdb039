#include "filter.h"

#include "base/err.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct sock_filter rows[] = {
#include "filter-rows.inc"
};

int filter_enter(struct cloche_err *e)
{
        const struct sock_fprog program = {.len = sizeof(rows) / sizeof(rows[0]), .filter = (struct sock_filter *)rows};

        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
                return err_os(e, CLOCHE_E_GUARD_MISSING, errno, "seccomp");
        return 0;
}
