/* Runs in: an ordinary guest of a small box, started there or forked from a template. */
#include "probe.h"

#include "jail/core-scheduling.h"

#include <cloche/guards.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define X32_BIT 0x40000000
#define PROBE_BYTES_MAX (UINT64_C(4) << 30) /* far more than the box of the selftest */
#define PROBE_FORKS_MAX 4096

static const char *const guard_names[CLOCHE_GUARD_COUNT] = {
#define CLOCHE_GUARD(symbol, name, profile, doc) [CLOCHE_GUARD_##symbol] = name,
#include <cloche/guards.def>
#undef CLOCHE_GUARD
};

static void tell(enum cloche_guard guard, int held, const char *seen)
{
        printf("%s\t%s\t%s\n", guard_names[guard], held ? "enforced" : "absent", seen);
}

static const struct {
        enum cloche_guard guard;
        const char *file;
} namespaces[] = {
        {CLOCHE_GUARD_USER_NAMESPACE, "user"}, {CLOCHE_GUARD_PID_NAMESPACE, "pid"},
        {CLOCHE_GUARD_MOUNT_NAMESPACE, "mnt"}, {CLOCHE_GUARD_IPC_NAMESPACE, "ipc"},
        {CLOCHE_GUARD_UTS_NAMESPACE, "uts"},   {CLOCHE_GUARD_CGROUP_NAMESPACE, "cgroup"},
        {CLOCHE_GUARD_NET_NAMESPACE, "net"},
};
#define NAMESPACES (sizeof(namespaces) / sizeof(namespaces[0]))
_Static_assert(NAMESPACES == PROBE_NAMESPACES, "each has a place in struct probe_view");

static void look_at_namespace(size_t row, char ret[PROBE_LINK_BYTES])
{
        char path[32];
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/self/ns/%s", namespaces[row].file);
        n = readlink(path, ret, PROBE_LINK_BYTES - 1);
        ret[n < 0 ? 0 : n] = '\0';
}

struct probe_view probe_look(void)
{
        struct probe_view view;

        for (size_t r = 0; r < NAMESPACES; r++)
                look_at_namespace(r, view.namespaces[r]);
        if (core_scheduling_read(&view.core_cookie) < 0)
                view.core_cookie = 0;
        return view;
}

static void probe_namespaces(int count, char **outer, const struct probe_view *forked_from)
{
        struct probe_view view = probe_look();

        for (size_t r = 0; r < NAMESPACES; r++) {
                const char *mine = view.namespaces[r];
                int held = mine[0] != '\0' && (!forked_from || strcmp(forked_from->namespaces[r], mine) != 0);

                for (int i = 0; i < count; i++)
                        if (strncmp(outer[i], mine, strcspn(mine, ":") + 1) == 0)
                                tell(namespaces[r].guard, held && strcmp(outer[i], mine) != 0, mine);
        }
}

static void probe_cores(const struct probe_view *forked_from)
{
        uint64_t cookie = probe_look().core_cookie;
        char seen[64];

        snprintf(seen, sizeof(seen), "its cookie is %llx", (unsigned long long)cookie);
        tell(CLOCHE_GUARD_CORE_SCHEDULING, cookie != 0 && (!forked_from || cookie != forked_from->core_cookie), seen);
}

static void probe_user(void)
{
        FILE *map = fopen("/proc/self/uid_map", "re");
        unsigned long inside = 0, outside = 0, count = 0;
        char seen[96];

        if (map && fscanf(map, "%lu %lu %lu", &inside, &outside, &count) != 3)
                count = 0;
        if (map)
                fclose(map);
        snprintf(seen, sizeof(seen), "user %lu is host user %lu", inside, outside);
        tell(CLOCHE_GUARD_PRIVATE_UID, count == 1 && outside >= 0x70000000u, seen);
}

static void probe_files(void)
{
        int fd = open("/usr/cloche-probe", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        struct statvfs fs;
        int full;

        tell(CLOCHE_GUARD_READ_ONLY_IMAGE, fd < 0 && errno == EROFS,
             fd < 0 ? strerror(errno) : "a file could be made in /usr");
        if (statvfs("/workspace", &fs) < 0)
                fs = (struct statvfs){0};
        fd = open("/workspace/.probe", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        /* tmpfs checks its quota before it takes a page. */
        full = fd >= 0 && fallocate(fd, 0, 0, (off_t)((fs.f_blocks + 1) * fs.f_frsize)) < 0 && errno == ENOSPC;
        tell(CLOCHE_GUARD_DISK_QUOTA, full && fs.f_files > 0,
             full ? "a file over the quota: no space left" : strerror(errno));
        unlink("/workspace/.probe");
        if (fd >= 0)
                close(fd);
}

static void probe_proc(void)
{
        static const char *const secret[] = {"/proc/kcore", "/proc/kallsyms", "/proc/sysrq-trigger", "/proc/keys",
                                             "/proc/timer_list"};
        char byte;

        for (size_t i = 0; i < sizeof(secret) / sizeof(secret[0]); i++) {
                int fd = open(secret[i], O_RDONLY | O_CLOEXEC);
                ssize_t n = fd < 0 ? 0 : read(fd, &byte, 1);

                if (fd >= 0)
                        close(fd);
                if (n > 0) {
                        tell(CLOCHE_GUARD_MASKED_PROC, 0, secret[i]);
                        return;
                }
        }
        tell(CLOCHE_GUARD_MASKED_PROC, access("/sys/kernel", F_OK) < 0,
             "kcore, kallsyms, keys and /sys are empty or absent");
}

static void probe_privilege(void)
{
        int bounding = 0;

        for (int cap = 0, set; (set = prctl(PR_CAPBSET_READ, cap, 0, 0, 0)) >= 0; cap++)
                bounding |= set;
        tell(CLOCHE_GUARD_NO_CAPABILITIES, !bounding && mount("none", "/tmp", "tmpfs", 0, NULL) < 0 && errno == EPERM,
             "bounding set empty, mount refused");
        tell(CLOCHE_GUARD_NO_NEW_PRIVS, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "set");
}

static int child_status(void (*body)(void))
{
        int status = -1;
        pid_t pid = fork();

        if (pid == 0) {
                body();
                _exit(0);
        }
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
                return -1;
        return status;
}

#ifdef __x86_64__
static void call_x32(void)
{
        syscall(SYS_getpid | X32_BIT);
}
#endif

static void probe_seccomp(void)
{
        int held = unshare(CLONE_NEWUSER) < 0 && errno == EPERM && setns(-1, 0) < 0 && errno == EPERM;

        held = held && syscall(100000) < 0 && errno == ENOSYS;
#ifdef __x86_64__
        int status = child_status(call_x32);

        held = held && WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
#endif
        tell(CLOCHE_GUARD_SECCOMP, held, "namespaces refused, unknown calls unknown, foreign calls kill");
}

static void take_memory(void)
{
        const size_t piece = 1u << 20;

        for (uint64_t have = 0; have < PROBE_BYTES_MAX; have += piece) {
                char *p = mmap(NULL, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

                if (p == MAP_FAILED)
                        _exit(1);
                memset(p, 1, piece);
        }
}

static void probe_memory(void)
{
        int status = child_status(take_memory);

        tell(CLOCHE_GUARD_MEMORY, WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
             WIFEXITED(status) && WEXITSTATUS(status) == 1 ? "refused to one process alone"
                                                           : "a hungry process was killed");
}

static void probe_pids(void)
{
        int forks = 0, refused = 0;
        char seen[64];

        while (forks < PROBE_FORKS_MAX) {
                pid_t pid = fork();

                if (pid == 0)
                        for (;;)
                                pause();
                if (pid < 0) {
                        refused = errno == EAGAIN;
                        break;
                }
                forks++;
        }
        snprintf(seen, sizeof(seen), "refused after %d processes", forks);
        tell(CLOCHE_GUARD_PIDS, refused, seen);
        fflush(stdout);
        signal(SIGTERM, SIG_IGN);
        kill(-1, SIGTERM);
}

static void probe_descriptors(void)
{
        DIR *dir = opendir("/proc/self/fd");
        int count = 0;

        for (struct dirent *entry; dir && (entry = readdir(dir));)
                count += entry->d_name[0] != '.' && atoi(entry->d_name) > 2 && atoi(entry->d_name) != dirfd(dir);
        tell(CLOCHE_GUARD_NO_DESCRIPTORS, dir && count == 0, "0, 1 and 2 only");
        if (dir)
                closedir(dir);
}

void probe_walls(int count, char **outer, const struct probe_view *forked_from)
{
        /* Line-buffered: the pids probe forks, and must not print a line twice. */
        setvbuf(stdout, NULL, _IOLBF, 0);
        probe_descriptors();
        probe_namespaces(count, outer, forked_from);
        probe_cores(forked_from);
        probe_user();
        probe_files();
        probe_proc();
        probe_privilege();
        probe_seccomp();
        probe_memory();
        probe_pids();
}
