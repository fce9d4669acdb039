/* Compiles the filter of cloche-fs, or of another program of ours (FILTER_CALLS), at build time: prints it as rows. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#ifndef FILTER_CALLS
#define FILTER_CALLS "filter-calls.def"
#endif

static const struct row {
        const char *name;
        int compares;
        struct scmp_arg_cmp compare;
} rows[] = {
#define CALL(name) {#name, 0, {0}},
#define CALL_WITH(name, argument, mask, value) {#name, 1, {argument, SCMP_CMP_MASKED_EQ, mask, value}},
#include FILTER_CALLS
};

static int add_all(scmp_filter_ctx context)
{
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                int number = seccomp_syscall_resolve_name(rows[i].name), r = -1;

                if (number != __NR_SCMP_ERROR)
                        r = seccomp_rule_add_array(context, SCMP_ACT_ALLOW, number, (unsigned)rows[i].compares, &rows[i].compare);
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
        scmp_filter_ctx context = seccomp_init(SCMP_ACT_ERRNO(EPERM));
        /* Reads and writes are most of what it does: a binary tree, not a walk through the list. */
        int failed = !context || seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) < 0 ||
                     seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2) < 0 || add_all(context) < 0 || print(context) < 0;

        if (failed)
                fprintf(stderr, "filter-compile: failed\n");
        return failed;
}
