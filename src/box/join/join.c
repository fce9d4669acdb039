/* Runs in: a forked child, between its template's namespaces and its own. */
#include "join.h"

#include "base/err.h"
#include "jail/caps.h"
#include "jail/core-scheduling.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int enter_groups(const struct fork_request *request, const int *fds, struct cloche_err *e)
{
        for (uint32_t i = 0; i < request->tasks_count; i++)
                if (write(fds[FORK_FD_COUNT + i], "0", 1) != 1)
                        return err_os(e, CLOCHE_E_CGROUP, errno, "enter the groups of the box");
        return 0;
}

static int join_namespaces(const int *fds, struct cloche_err *e)
{
        static const struct {
                enum fork_fd fd_index;
                int kind;
                const char *name;
        } rows[] = {
                {FORK_FD_NET, CLONE_NEWNET, "net"},    {FORK_FD_USER, CLONE_NEWUSER, "user"},
                {FORK_FD_MOUNT, CLONE_NEWNS, "mount"}, {FORK_FD_IPC, CLONE_NEWIPC, "ipc"},
                {FORK_FD_UTS, CLONE_NEWUTS, "uts"},    {FORK_FD_CGROUP, CLONE_NEWCGROUP, "cgroup"},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if (setns(fds[rows[i].fd_index], rows[i].kind) < 0)
                        return err_os(e, CLOCHE_E_NAMESPACE, errno, "join the %s namespace of the box", rows[i].name);
        return 0;
}

static int become_user(const struct fork_request *request, struct cloche_err *e)
{
        /* By the system call: a C library would also set the ids of threads that it remembers from
         * the template. */
        if (syscall(SYS_setresgid, request->gid, request->gid, request->gid) < 0 ||
            syscall(SYS_setresuid, request->uid, request->uid, request->uid) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "become the user of the box");
        return 0;
}

static int set_limits(const struct fork_request *request, struct cloche_err *e)
{
        for (int i = 0; i < RLIM_NLIMITS; i++) {
                struct rlimit limit = {request->rlimits[i], request->rlimits[i]}, now;

                if (request->rlimits[i] == UINT64_MAX)
                        continue;
                if (getrlimit((__rlimit_resource_t)i, &now) == 0 && now.rlim_max < limit.rlim_max)
                        limit.rlim_cur = limit.rlim_max = now.rlim_max;
                if (setrlimit((__rlimit_resource_t)i, &limit) < 0)
                        return err_os(e, CLOCHE_E_PRIVILEGE, errno, "set a resource limit");
        }
        return 0;
}

#define REFUSE_IF(value) \
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

/* The filter need not check the architecture: the template's filter, which stays in force beneath,
 * kills others. */
static int add_filter(struct sock_filter *filter, size_t count, struct cloche_err *e)
{
        const struct sock_fprog program = {.len = (unsigned short)count, .filter = filter};

        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
                return err_os(e, CLOCHE_E_SECCOMP, errno, "tighten the system call filter");
        return 0;
}

/* Refuse calls that the template may make and a run may not. */
static int refuse_templates_calls(struct cloche_err *e)
{
        static struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                REFUSE_IF(SYS_setns),
                REFUSE_IF(SYS_seccomp),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 5),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])), /* the low half */
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SCHED_CORE, 0, 3),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
                REFUSE_IF(PR_SCHED_CORE_CREATE),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };

        return add_filter(filter, sizeof(filter) / sizeof(filter[0]), e);
}

/* Code of a context can have every right in its forks' user namespaces, and so over the networks of
 * boxes that are forked from those. */
static int refuse_netlink(struct cloche_err *e)
{
        static struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)), /* the low half */
                REFUSE_IF(AF_NETLINK),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };

        return add_filter(filter, sizeof(filter) / sizeof(filter[0]), e);
}

static int tighten_filter(const struct fork_request *request, struct cloche_err *e)
{
        int r = request->is_template && request->refuses_netlink ? refuse_netlink(e) : 0;

        return r == 0 && !request->is_template ? refuse_templates_calls(e) : r;
}

/* The directory is the image's, or /workspace; a place below the box's writable ones may be
 * missing. */
static int enter_directory(const char *directory, struct cloche_err *e)
{
        char part[FORK_DIRECTORY_SIZE];

        if (chdir(directory) == 0)
                return 0;
        if (errno != ENOENT || strlen(directory) >= sizeof(part))
                return err_os(e, CLOCHE_E_MOUNT, errno, "enter the working directory");
        strcpy(part, directory);
        for (char *slash = strchr(part + 1, '/');; slash = strchr(slash + 1, '/')) {
                if (slash)
                        *slash = '\0';
                if (mkdir(part, 0755) < 0 && errno != EEXIST && errno != EROFS)
                        return err_os(e, CLOCHE_E_MOUNT, errno, "make the working directory");
                if (!slash)
                        break;
                *slash = '/';
        }
        return chdir(directory) < 0 ? err_os(e, CLOCHE_E_MOUNT, errno, "enter the working directory") : 0;
}

/* The order: the groups come first, so that memory copied from here on is charged to the run. The
 * network needs the template's right, because the template owns it. The user namespace gives the
 * right to join the others; ids and limits need that right. Then the capabilities go, and the
 * filter comes last. */
int box_join(const struct fork_request *request, const int *fds, const char *directory, struct cloche_err *e)
{
        int r = enter_groups(request, fds, e);

        if (r == 0)
                r = join_namespaces(fds, e);
        if (r == 0)
                r = become_user(request, e);
        if (r == 0)
                r = set_limits(request, e);
        if (r == 0 && request->core_scheduling)
                r = core_scheduling_separate(e);
        if (r == 0)
                r = request->is_template ? caps_keep_admin(0, e) : caps_drop_all(e);
        if (r == 0)
                r = tighten_filter(request, e);
        if (r == 0)
                r = enter_directory(directory, e);
        if (r == 0 && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
                r = err_os(e, CLOCHE_E_PRIVILEGE, errno, "be dumpable");
        return r;
}
