/* Compiles the filter of one of our programs at build time, and prints it as rows. FILTER_CALLS
 * names its table, whose rows are
 *
 *   CALL(name)                              permitted with any argument
 *   CALL_WITH(name, argument, mask, value)  permitted only if (argument & mask) == value; of several
 *                                           rows of a name, one must fit
 *   CALL_WITH_TWO(name, argument, mask, value, argument, mask, value)
 *                                           permitted only if both fit
 *   REFUSE(name), REFUSE_WITH(…)            fails with EPERM, where other calls fail with FILTER_OTHERS
 *   KILL(name), KILL_WITH(…)                kills the process, which makes this call in no version
 *
 * A call without a row fails with FILTER_OTHERS: EPERM, or ENOSYS for a program whose libraries try
 * calls that an older kernel would lack. A call of another ABI kills. Runs in: the build. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define INT 0xffffffffu /* mask of an int argument: the kernel's switch sees only these bits */
#define ROW(call, act, count, ...) {#call, act, count, {__VA_ARGS__}},
#define ROW_WITH(call, act, argument, mask, value) ROW(call, act, 1, {argument, SCMP_CMP_MASKED_EQ, mask, value})

static const struct row {
        const char *name;
        uint32_t action;
        unsigned compares;
        struct scmp_arg_cmp compare[2];
} rows[] = {
#define CALL(name) ROW(name, SCMP_ACT_ALLOW, 0, {0})
#define CALL_WITH(name, argument, mask, value) ROW_WITH(name, SCMP_ACT_ALLOW, argument, mask, value)
#define CALL_WITH_TWO(name, one, one_mask, one_value, other, other_mask, other_value) \
        ROW(name, SCMP_ACT_ALLOW, 2, {one, SCMP_CMP_MASKED_EQ, one_mask, one_value},  \
            {other, SCMP_CMP_MASKED_EQ, other_mask, other_value})
#define REFUSE(name) ROW(name, SCMP_ACT_ERRNO(EPERM), 0, {0})
#define REFUSE_WITH(name, argument, mask, value) ROW_WITH(name, SCMP_ACT_ERRNO(EPERM), argument, mask, value)
#define KILL(name) ROW(name, SCMP_ACT_KILL_PROCESS, 0, {0})
#define KILL_WITH(name, argument, mask, value) ROW_WITH(name, SCMP_ACT_KILL_PROCESS, argument, mask, value)
#include FILTER_CALLS
};

static int add_all(scmp_filter_ctx context)
{
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                int number = seccomp_syscall_resolve_name(rows[i].name), r = -1;

                if (number != __NR_SCMP_ERROR)
                        r = seccomp_rule_add_array(context, rows[i].action, number, rows[i].compares, rows[i].compare);
                if (r < 0) {
                        fprintf(stderr, "filter-compile: %s: %s\n", rows[i].name, strerror(-r));
                        return -1;
                }
        }
        return 0;
}

static int print(scmp_filter_ctx context)
{
        struct sock_filter row;
        FILE *file = tmpfile();

        if (!file || seccomp_export_bpf(context, fileno(file)) < 0)
                return -1;
        rewind(file);
        while (fread(&row, sizeof(row), 1, file) == 1)
                printf("{0x%x, %u, %u, 0x%x},\n", row.code, row.jt, row.jf, row.k);
        return ferror(file) || ferror(stdout) ? -1 : 0;
}

int main(void)
{
        scmp_filter_ctx context = seccomp_init(SCMP_ACT_ERRNO(FILTER_OTHERS));
        /* Most calls are reads and writes: a binary tree is faster than a list. */
        int failed = !context || seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) < 0 ||
                     seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2) < 0 || add_all(context) < 0 ||
                     print(context) < 0;

        if (failed)
                fprintf(stderr, "filter-compile: failed\n");
        return failed;
}
