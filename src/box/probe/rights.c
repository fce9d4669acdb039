/* Runs in: a template, like code of a caller, and in its children. Each attempt is a process, so
 * that none affects another. */
#include "probe.h"

#include <cloche/guards.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/if_link.h>
#include <linux/net_namespace.h>
#include <linux/netlink.h>
#include <linux/nsfs.h>
#include <linux/rtnetlink.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BOX_USER 1000
#define OTHER_USER 0x70000007 /* of another box: the maps of a root keeper's templates have all of them */
#define SEEN_BYTES 220        /* see struct cloche_right_trial */
#define X32_BIT 0x40000000

static int host_count;
static char **host_processes; /* pids of processes above */
static int home_fd = -EBADF;  /* user namespace of the template, kept in the process that joins the box beneath */

/* -- attempts of more than one call ----------------------------------------------------------------------------- */

static long fail(int code)
{
        errno = code;
        return -1;
}

static long rule_box(void)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
        const uint32_t wanted = 1u << CAP_KILL | 1u << CAP_NET_ADMIN | 1u << CAP_SYS_PTRACE | 1u << CAP_SYS_ADMIN;

        if (syscall(SYS_capget, &header, sets) < 0)
                return -1;
        return (sets[0].effective & wanted) == wanted ? kill(1, 0) : fail(EPERM);
}

static long add_filter(unsigned flags)
{
        static struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        const struct sock_fprog program = {.len = 1, .filter = allow};

        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

/* RTM_NEWLINK with only IFLA_LINKINFO { IFLA_INFO_KIND }. */
static long make_link(const char *kind)
{
        struct {
                struct nlmsghdr head;
                struct ifinfomsg interface;
                struct rtattr information, kind;
                char name[16];
        } message = {
                .head = {.nlmsg_len = sizeof(message),
                         .nlmsg_type = RTM_NEWLINK,
                         .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL},
                .information = {.rta_len = sizeof(message.information) + sizeof(message.kind) + sizeof(message.name),
                                .rta_type = IFLA_LINKINFO},
                .kind = {.rta_len = (unsigned short)(sizeof(message.kind) + strlen(kind) + 1),
                         .rta_type = IFLA_INFO_KIND},
        };
        struct {
                struct nlmsghdr head;
                struct nlmsgerr error;
        } answer;
        char bytes[4096];
        int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);

        strcpy(message.name, kind);
        if (fd < 0 || send(fd, &message, sizeof(message), 0) < 0)
                return -1;
        if (recv(fd, bytes, sizeof(bytes), 0) < (ssize_t)sizeof(answer))
                return fail(EPROTO);
        memcpy(&answer, bytes, sizeof(answer));
        return answer.error.error ? fail(-answer.error.error) : 0;
}

/* Sets the flags that the interface already has. */
static long request_network(unsigned long request)
{
        struct ifreq interface = {.ifr_name = "lo"};
        int fd = socket(AF_INET, SOCK_DGRAM, 0);

        if (request == SIOCSIFFLAGS && ioctl(fd, SIOCGIFFLAGS, &interface) < 0)
                return -1;
        return ioctl(fd, request, request == SIOCADDRT ? (void *)(char[128]){0} : &interface);
}

static long set_option(int family, int type, int level, int name)
{
        static const char value[256];

        return setsockopt(socket(family, type, 0), level, name, value, sizeof(int));
}

static long mount_tmpfs(void)
{
        long r = mount("none", "/workspace", "tmpfs", 0, NULL);

        if (r == 0)
                umount2("/workspace", MNT_DETACH);
        return r;
}

static long clone_with(unsigned long flags)
{
        long pid = syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);

        if (pid == 0)
                _exit(0);
        if (pid > 0)
                waitpid((pid_t)pid, NULL, 0);
        return pid;
}

static long ask_namespace(unsigned long request)
{
        return ioctl(open("/proc/self/ns/user", O_RDONLY), request);
}

static long read_memory(void)
{
        char byte;
        struct iovec here = {&byte, 1}, there = {(void *)read_memory, 1};

        return process_vm_readv(1, &here, 1, &there, 1, 0);
}

/* The pid may belong to a process of our own. */
static int is_own(pid_t pid)
{
        char path[64], own[PROBE_LINK_BYTES], other[PROBE_LINK_BYTES];
        ssize_t own_size = readlink("/proc/self/ns/pid", own, sizeof(own)), size;

        snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
        size = readlink(path, other, sizeof(other));
        return size > 0 && size == own_size && memcmp(own, other, (size_t)size) == 0;
}

/* The pid may belong to an unreaped child of ours, which has no namespaces to compare. */
static int is_zombie(pid_t pid)
{
        char path[64], text[256] = "";
        const char *state;
        int fd;

        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        fd = open(path, O_RDONLY);
        if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0)
                text[0] = '\0';
        close(fd);
        state = strrchr(text, ')'); /* PID (NAME) STATE */
        return state && strncmp(state, ") Z", 3) == 0;
}

static long signal_host(long call)
{
        for (int i = 0; i < host_count; i++) {
                pid_t pid = (pid_t)atoi(host_processes[i]);
                long r = call == SYS_tgkill ? syscall(call, pid, pid, 0) : syscall(call, pid, 0);
                int error = errno;

                if (r < 0 && error == ESRCH)
                        continue;
                if (is_own(pid) || is_zombie(pid) ||
                    (kill(pid, 0) < 0 && errno == ESRCH)) /* the last case: ours, and it has ended since */
                        continue;
                return r < 0 ? fail(error) : r;
        }
        return fail(ESRCH);
}

static long take_capabilities(void)
{
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        const uint32_t more = 1u << CAP_NET_ADMIN | 1u << CAP_SYS_ADMIN;
        struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{.effective = more, .permitted = more}};

        return syscall(SYS_capset, &header, sets);
}

static long make_device(void)
{
        long r = mknod("/tmp/.probe-null", S_IFCHR | 0600, makedev(1, 3));

        if (r == 0)
                unlink("/tmp/.probe-null");
        return r;
}

/* The kernel kills a process that calls by these numbers, or does not implement them. */
static long call_foreign(void)
{
#ifdef __x86_64__
        return syscall(SYS_getpid | X32_BIT);
#else
        return fail(ENOSYS);
#endif
}

static long call_older(void)
{
#ifdef __x86_64__
        long r = 20; /* getpid(2) of i386 */

        __asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
        return r < 0 ? fail((int)-r) : r;
#else
        return fail(ENOSYS);
#endif
}

/* -- the table -------------------------------------------------------------------------------------------------- */

enum place { HOME, BENEATH, PLACES, EVERYWHERE = PLACES };
enum refusal { BY_CALL, BY_FILE, BY_NAME, BY_NODE };

#define ATTEMPT(symbol, right, where, refusal, name, call) \
        static long try_##symbol(void)                     \
        {                                                  \
                return call;                               \
        }
#include "attempts.def"
#undef ATTEMPT

static const struct attempt {
        enum cloche_right right;
        unsigned where; /* enum place */
        enum refusal refusal;
        const char *name;
        long (*call)(void);
} attempts[] = {
#define ATTEMPT(symbol, right, where, refusal, name, call) {CLOCHE_RIGHT_##right, where, refusal, name, try_##symbol},
#include "attempts.def"
#undef ATTEMPT
};
#define ATTEMPTS (sizeof(attempts) / sizeof(attempts[0]))

static const char *const names[CLOCHE_RIGHT_COUNT] = {
#define CLOCHE_RIGHT(symbol, name, set_up, context, doc) [CLOCHE_RIGHT_##symbol] = name,
#include <cloche/rights.def>
#undef CLOCHE_RIGHT
};

/* One for each attempt and place; the processes share it. */
static struct trial {
        int is_tried, error;
} (*trials)[PLACES];

static int is_refusal(enum refusal by, int error)
{
        static const int errors[][6] = {
                [BY_CALL] = {EPERM, ENOSYS, EAFNOSUPPORT, EPROTONOSUPPORT}, /* or the kernel lacks the feature */
                [BY_FILE] = {EPERM, ENOSYS, EACCES, EROFS, ENOENT},
                [BY_NAME] = {EPERM, ENOSYS, ESRCH},
                [BY_NODE] = {EPERM, ENOSYS, EOVERFLOW}, /* where the file system does not map the user */
        };

        for (size_t i = 0; i < sizeof(errors[0]) / sizeof(errors[0][0]) && errors[by][i]; i++)
                if (errors[by][i] == error)
                        return 1;
        return 0;
}

/* -- trying ----------------------------------------------------------------------------------------------------- */

static void set_trial(struct trial *trial, int error)
{
        trial->error = error;
        trial->is_tried = 1;
}

static void try_one(const struct attempt *attempt, struct trial *trial)
{
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                set_trial(trial, attempt->call() < 0 ? errno : 0);
                _exit(0);
        }
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
                return;
        /* A kernel without that architecture's calls kills with SIGSEGV. */
        if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGSYS ||
                                    (WTERMSIG(status) == SIGSEGV && attempt->right == CLOCHE_RIGHT_FOREIGN_CALLS)))
                set_trial(trial, EPERM);
}

static void try_all(enum place place)
{
        for (size_t i = 0; i < ATTEMPTS; i++)
                if (attempts[i].where == (unsigned)place || attempts[i].where == EVERYWHERE)
                        try_one(&attempts[i], &trials[i][place]);
}

/* Return a descriptor of a namespace that is not our own: it came with the fork request. */
static int find_foreign(const char *kind)
{
        char path[64], own[PROBE_LINK_BYTES] = "", link[PROBE_LINK_BYTES];
        DIR *dir = opendir("/proc/self/fd");
        int fd = -1;

        snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
        if (readlink(path, own, sizeof(own) - 1) < 0)
                own[0] = '\0';
        for (struct dirent *entry; fd < 0 && dir && (entry = readdir(dir));) {
                ssize_t n = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);

                link[n < 0 ? 0 : n] = '\0';
                if (strncmp(link, kind, strlen(kind)) == 0 && link[strlen(kind)] == ':' && strcmp(link, own) != 0)
                        fd = atoi(entry->d_name);
        }
        if (dir)
                closedir(dir);
        return fd;
}

/* Like libcloche-guest, but keeps the rights that a template's child drops. */
static long join_box(void)
{
        static const char *const kinds[] = {"net", "user", "mnt", "ipc", "uts", "cgroup"};
        int fds[sizeof(kinds) / sizeof(kinds[0])];

        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
                if ((fds[i] = find_foreign(kinds[i])) < 0)
                        return fail(ENOENT);
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
                if (setns(fds[i], 0) < 0)
                        return -1;
        if (syscall(SYS_setresgid, BOX_USER, BOX_USER, BOX_USER) < 0 ||
            syscall(SYS_setresuid, BOX_USER, BOX_USER, BOX_USER) < 0)
                return -1;
        return chdir("/");
}

static void go_beneath(void)
{
        home_fd = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
        if (join_box() == 0) {
                try_all(BENEATH);
                return;
        }
        for (size_t i = 0; i < ATTEMPTS; i++)
                if (attempts[i].right == CLOCHE_RIGHT_JOIN_BOX)
                        set_trial(&trials[i][BENEATH], EPERM);
}

int rights_try_home(int count, char **processes)
{
        void *shared =
                mmap(NULL, ATTEMPTS * sizeof(*trials), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        if (shared == MAP_FAILED)
                return -errno;
        trials = shared;
        host_count = count;
        host_processes = processes;
        try_all(HOME);
        return 0;
}

void rights_try_beneath(void)
{
        pid_t pid = fork();

        if (pid == 0) {
                go_beneath();
                _exit(0);
        }
        while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
}

/* -- printing --------------------------------------------------------------------------------------------------- */

struct sum {
        int open, untried;
        char seen[SEEN_BYTES];
};

static void add_seen(struct sum *sum, const char *way, const char *where)
{
        size_t size = strlen(sum->seen);

        snprintf(sum->seen + size, sizeof(sum->seen) - size, "%s%s%s", size ? ", " : "", way, where);
}

static int is_open(const struct attempt *attempt, const struct trial *trial)
{
        return trial->is_tried && !is_refusal(attempt->refusal, trial->error);
}

static int is_untried(size_t i)
{
        return (attempts[i].where != BENEATH && !trials[i][HOME].is_tried) ||
               (attempts[i].where != HOME && !trials[i][BENEATH].is_tried);
}

/* List the open ways, with the box if one is open in one box only; if none is open, list all. */
static struct sum sum_up(enum cloche_right right)
{
        struct sum open = {0}, refused = {0};

        for (size_t i = 0; i < ATTEMPTS; i++) {
                int home = is_open(&attempts[i], &trials[i][HOME]),
                    beneath = is_open(&attempts[i], &trials[i][BENEATH]);

                if (attempts[i].right != right)
                        continue;
                refused.untried |= is_untried(i);
                open.open |= home || beneath;
                if (home || beneath)
                        add_seen(&open, attempts[i].name,
                                 attempts[i].where != EVERYWHERE || (home && beneath) ? ""
                                 : home                                               ? " in its own box"
                                                                                      : " in the box beneath");
                else
                        add_seen(&refused, attempts[i].name, "");
        }
        return open.open ? open : refused;
}

void rights_tell(void)
{
        for (int right = 0; right < CLOCHE_RIGHT_COUNT; right++) {
                struct sum sum = sum_up((enum cloche_right)right);

                if (!sum.untried)
                        printf("%s\t%s\t%s\n", names[right], sum.open ? "open" : "refused", sum.seen);
        }
        fflush(stdout);
}
