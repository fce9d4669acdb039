#include "seccomp.h"

#include "base/err.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Both written by seccomp-compile.c. */
static const struct sock_filter box_filter[] = {
#include "seccomp-box.inc"
};
static const struct sock_filter template_filter[] = {
#include "seccomp-template.inc"
};

static int load(const struct sock_filter *filter, size_t count, struct cloche_err *e)
{
        const struct sock_fprog program = {.len = (unsigned short)count, .filter = (struct sock_filter *)filter};

        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
                return err_os(e, CLOCHE_E_SECCOMP, errno, "load the system call filter");
        return 0;
}

int jail_seccomp_load(struct cloche_err *e)
{
        return load(box_filter, sizeof(box_filter) / sizeof(box_filter[0]), e);
}

int jail_seccomp_load_template(struct cloche_err *e)
{
        return load(template_filter, sizeof(template_filter) / sizeof(template_filter[0]), e);
}
