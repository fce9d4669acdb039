/* The filter of boxes, compiled during the build. Runs in: the child the keeper cloned, last before
 * it executes box-init. */
#include "seccomp.h"

#include "base/err.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* seccomp-compile.c writes both. */
static const struct sock_filter box_filter[] = {
#include "seccomp-box.inc"
};
static const struct sock_filter root_filter[] = {
#include "seccomp-root.inc"
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

int jail_seccomp_load_root(struct cloche_err *e)
{
        return load(root_filter, sizeof(root_filter) / sizeof(root_filter[0]), e);
}

/* A cookie that code makes for itself keeps others from the second thread of its core, so making
 * one is refused. */
static const struct sock_filter cookie_filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])), /* the low half */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SCHED_CORE, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SCHED_CORE_GET, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

/* Comparisons alone have them: libseccomp's rules and ours have no other constant of this size. */
static void put_ids(struct sock_filter *filter, size_t count, uid_t uid, gid_t gid)
{
        for (size_t i = 0; i < count; i++)
                if (filter[i].code == (BPF_JMP | BPF_JEQ | BPF_K))
                        filter[i].k = filter[i].k == SECCOMP_USER    ? uid
                                      : filter[i].k == SECCOMP_GROUP ? gid
                                                                     : filter[i].k;
}

int jail_seccomp_load_template(uid_t uid, gid_t gid, int makes_cookies, struct cloche_err *e)
{
        struct sock_filter filter[sizeof(template_filter) / sizeof(template_filter[0])];
        int r;

        memcpy(filter, template_filter, sizeof(filter));
        put_ids(filter, sizeof(filter) / sizeof(filter[0]), uid, gid);
        r = load(filter, sizeof(filter) / sizeof(filter[0]), e);
        return r < 0 || makes_cookies ? r : load(cookie_filter, sizeof(cookie_filter) / sizeof(cookie_filter[0]), e);
}
