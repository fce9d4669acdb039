#include "cgroup.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define OUR_PREFIX "cloche-"
#define CPU_PERIOD_US 100000
#define REMOVE_PATIENCE_NS UINT64_C(5000000000)

static const char *const controller_names[CGROUP_CONTROLLERS] = {"memory", "pids", "cpu", "cpuacct", "freezer"};

/* -- small files ---------------------------------------------------------------------------------------------- */

static ssize_t read_text(const char *path, char *ret, size_t size)
{
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        size_t have = 0;

        if (fd < 0)
                return -errno;
        while (have + 1 < size) {
                ssize_t n = read(fd, ret + have, size - 1 - have);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                have += (size_t)n;
        }
        ret[have] = '\0';
        return (ssize_t)have;
}

static int write_text(const char *path, const char *text)
{
        _cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);

        return fd < 0 ? -errno : fd_write_full(fd, text, strlen(text));
}

/* "base/box12/file"; box or file may be absent (UINT_MAX, NULL). */
static int box_path(char *ret, size_t size, const struct cgroup_place *place, unsigned box, const char *file)
{
        int n = snprintf(ret, size, "%s/box%u%s%s", place->base, box, file ? "/" : "", file ? file : "");

        return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

static int write_box(const struct cgroup_place *place, unsigned box, const char *file, const char *text)
{
        char path[CGROUP_PATH_MAX + 64];
        int r = box_path(path, sizeof(path), place, box, file);

        return r < 0 ? r : write_text(path, text);
}

static int read_box(const struct cgroup_place *place, unsigned box, const char *file, char *ret, size_t size)
{
        char path[CGROUP_PATH_MAX + 64];
        int r = box_path(path, sizeof(path), place, box, file);
        ssize_t n;

        if (r < 0)
                return r;
        n = read_text(path, ret, size);
        return n < 0 ? (int)n : 0;
}

/* A number alone in a file, or behind "key " in one. */
static int read_number(const struct cgroup_place *place, unsigned box, const char *file, const char *key, uint64_t *ret)
{
        char text[4096];
        const char *at = text;
        int r = read_box(place, box, file, text, sizeof(text));

        if (r < 0)
                return r;
        if (key) {
                size_t size = strlen(key);

                while (at && (strncmp(at, key, size) != 0 || at[size] != ' ')) {
                        at = strchr(at, '\n');
                        if (at)
                                at++;
                }
                if (!at)
                        return -ENOENT;
                at += size + 1;
        }
        *ret = strtoull(at, NULL, 10);
        return 0;
}

/* -- finding the hierarchies ---------------------------------------------------------------------------------- */

static int list_has(const char *list, const char *word)
{
        size_t size = strlen(word);

        for (const char *at = list; at && *at; at = strpbrk(at, ", \n") ? strpbrk(at, ", \n") + 1 : NULL)
                if (strncmp(at, word, size) == 0 && (at[size] == '\0' || strchr(", \n", at[size])))
                        return 1;
        return 0;
}

/* Our path in a hierarchy: the line "ID:controllers:PATH" of /proc/self/cgroup; v2 has no controllers there. */
static int own_path(const char *own_groups, const char *controller, char *ret, size_t size)
{
        char *text = strdup(own_groups), *rest = text, *line;
        int found = -ENOENT;

        while (text && (line = strsep(&rest, "\n"))) {
                char *id = strsep(&line, ":"), *names = strsep(&line, ":");

                (void)id;
                if (!names || !line)
                        continue;
                if (controller ? !list_has(names, controller) : names[0] != '\0')
                        continue;
                found = snprintf(ret, size, "%s", strcmp(line, "/") == 0 ? "" : line) < (int)size ? 0 : -ENAMETOOLONG;
        }
        free(text);
        return found;
}

struct hierarchy {
        const char *mount_point, *type, *options;
};

/* One line of mountinfo: "… root MOUNTPOINT options … - TYPE source SUPEROPTIONS". proc_pid_mountinfo(5). */
static int parse_mount(char *line, struct hierarchy *ret)
{
        char *rest = strstr(line, " - ");

        if (!rest)
                return -EINVAL;
        *rest = '\0';
        rest += 3;
        for (int i = 0; i < 4; i++)
                strsep(&line, " ");
        ret->mount_point = strsep(&line, " ");
        ret->type = strsep(&rest, " ");
        strsep(&rest, " ");
        ret->options = rest;
        return ret->mount_point && ret->options ? 0 : -EINVAL;
}

static void use(struct cgroup_place *place, int version, const char *mount_point, const char *path)
{
        if (place->version)
                return;
        if ((size_t)snprintf(place->base, sizeof(place->base), "%s%s", mount_point, path) < sizeof(place->base))
                place->version = version;
}

static void use_version_2(struct cgroup_host *host, const char *mount_point, const char *own_groups)
{
        char path[CGROUP_PATH_MAX], file[2 * CGROUP_PATH_MAX + 32], controllers[512];

        if (own_path(own_groups, NULL, path, sizeof(path)) < 0)
                return;
        snprintf(file, sizeof(file), "%s%s/cgroup.controllers", mount_point, path);
        if (read_text(file, controllers, sizeof(controllers)) < 0)
                return;
        for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
                /* Time is counted and groups are frozen without any controller in version 2 (Linux 4.15, 5.2). */
                int core = c == CGROUP_CPUACCT || (c == CGROUP_FREEZER && path[0]);

                if (core || list_has(controllers, controller_names[c]))
                        use(&host->places[c], 2, mount_point, path);
        }
}

void cgroup_host_find(struct cgroup_host *host, const char *mountinfo, const char *own_groups)
{
        char *text = strdup(mountinfo), *rest = text, *line, path[CGROUP_PATH_MAX];
        char version_2[CGROUP_PATH_MAX] = "";

        *host = (struct cgroup_host){0};
        while (text && (line = strsep(&rest, "\n"))) {
                struct hierarchy mount;

                if (parse_mount(line, &mount) < 0)
                        continue;
                if (strcmp(mount.type, "cgroup2") == 0)
                        snprintf(version_2, sizeof(version_2), "%s", mount.mount_point);
                if (strcmp(mount.type, "cgroup") != 0)
                        continue;
                for (int c = 0; c < CGROUP_CONTROLLERS; c++)
                        if (list_has(mount.options, controller_names[c]) &&
                            own_path(own_groups, controller_names[c], path, sizeof(path)) == 0)
                                use(&host->places[c], 1, mount.mount_point, path);
        }
        free(text);
        /* Controllers that version 1 holds are not in version 2: a controller is in one place at a time. */
        if (version_2[0])
                use_version_2(host, version_2, own_groups);
        for (int c = 0; c < CGROUP_CONTROLLERS; c++)
                if (!host->places[c].version)
                        snprintf(host->places[c].reason, sizeof(host->places[c].reason),
                                 "the host mounts no %s controller, neither version 1 nor 2", controller_names[c]);
}

/* -- our directory in each ------------------------------------------------------------------------------------ */

static void remove_tree(const char *base)
{
        char path[CGROUP_PATH_MAX + 300];
        DIR *dir = opendir(base);

        for (struct dirent *entry; dir && (entry = readdir(dir));) {
                if (strncmp(entry->d_name, "box", 3) != 0)
                        continue;
                snprintf(path, sizeof(path), "%s/%s", base, entry->d_name);
                rmdir(path);
        }
        if (dir)
                closedir(dir);
        rmdir(base);
}

/* "cloche-PID" of a process that is no more: its boxes died with it, their groups are empty. */
static void sweep(const char *parent)
{
        char path[CGROUP_PATH_MAX + 300];
        DIR *dir = opendir(parent);

        for (struct dirent *entry; dir && (entry = readdir(dir));) {
                pid_t pid;

                if (strncmp(entry->d_name, OUR_PREFIX, sizeof(OUR_PREFIX) - 1) != 0)
                        continue;
                pid = (pid_t)strtol(entry->d_name + sizeof(OUR_PREFIX) - 1, NULL, 10);
                if (pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH)
                        continue;
                snprintf(path, sizeof(path), "%s/%s", parent, entry->d_name);
                remove_tree(path);
        }
        if (dir)
                closedir(dir);
}

/* Version 2 hands controllers down only when every directory on the way says so. */
static int enable_controller(const char *directory, const char *controller)
{
        char path[CGROUP_PATH_MAX + 64], text[64];

        snprintf(path, sizeof(path), "%s/cgroup.subtree_control", directory);
        snprintf(text, sizeof(text), "+%s", controller);
        return write_text(path, text);
}

static void lose(struct cgroup_place *place, int os_errno, const char *what)
{
        char reason[sizeof(place->reason)];

        snprintf(reason, sizeof(reason), "%s in %.60s: %s", what, place->base, strerror(os_errno));
        memcpy(place->reason, reason, sizeof(reason));
        place->version = 0;
}

static void make_place(struct cgroup_place *place, int controller)
{
        char parent[CGROUP_PATH_MAX];
        int core = controller == CGROUP_CPUACCT || controller == CGROUP_FREEZER, r = 0, n;

        memcpy(parent, place->base, sizeof(parent));
        sweep(parent);
        n = snprintf(place->base, sizeof(place->base), "%.*s/" OUR_PREFIX "%d", CGROUP_PATH_MAX - 32, parent,
                     (int)getpid());
        if (n < 0 || (size_t)n >= sizeof(place->base))
                return lose(place, ENAMETOOLONG, "no room for a group");
        if (place->version == 2 && !core)
                r = enable_controller(parent, controller_names[controller]);
        if (r < 0)
                return lose(place, -r, "cannot hand the controller down");
        if (mkdir(place->base, 0755) < 0 && errno != EEXIST)
                return lose(place, errno, "cannot make a group");
        if (place->version == 2 && !core)
                r = enable_controller(place->base, controller_names[controller]);
        if (r < 0) {
                rmdir(place->base);
                lose(place, -r, "cannot hand the controller down");
        }
}

static char *read_whole(const char *path)
{
        size_t size = 1u << 20;
        char *text = calloc(1, size);

        if (text && read_text(path, text, size) < 0)
                text[0] = '\0';
        return text;
}

static void find_own(struct cgroup_host *host)
{
        char *mountinfo = read_whole("/proc/self/mountinfo"), *own_groups = read_whole("/proc/self/cgroup");

        cgroup_host_find(host, mountinfo ? mountinfo : "", own_groups ? own_groups : "");
        free(mountinfo);
        free(own_groups);
}

void cgroup_host_open(struct cgroup_host *host)
{
        find_own(host);
        for (int c = 0; c < CGROUP_CONTROLLERS; c++)
                if (host->places[c].version)
                        make_place(&host->places[c], c);
}

void cgroup_host_watch(struct cgroup_host *host, pid_t keeper)
{
        find_own(host);
        for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
                struct cgroup_place *place = &host->places[c];
                size_t size = strlen(place->base);

                if (place->version)
                        snprintf(place->base + size, sizeof(place->base) - size, "/" OUR_PREFIX "%d", (int)keeper);
                if (place->version && access(place->base, R_OK | X_OK) < 0)
                        lose(place, errno, "cannot be read");
        }
}

void cgroup_host_close(struct cgroup_host *host)
{
        for (int c = 0; c < CGROUP_CONTROLLERS; c++)
                if (host->places[c].version)
                        remove_tree(host->places[c].base);
}

/* -- one box -------------------------------------------------------------------------------------------------- */

static const char *number_or(char *ret, size_t size, uint64_t value, const char *none)
{
        snprintf(ret, size, value == UINT64_MAX ? "%s" : "%s%" PRIu64, value == UINT64_MAX ? none : "", value);
        return ret;
}

static int limit_memory(const struct cgroup_place *place, unsigned box, uint64_t limit_bytes)
{
        char text[32];
        int r;

        if (place->version == 1) {
                r = write_box(place, box, "memory.limit_in_bytes", number_or(text, sizeof(text), limit_bytes, "-1"));
                /* Memory and swap together; the file is absent where swap is not accounted. */
                if (r == 0 && write_box(place, box, "memory.memsw.limit_in_bytes", text) == -ENOENT)
                        r = write_box(place, box, "memory.swappiness", "0");
                return r;
        }
        r = write_box(place, box, "memory.max", number_or(text, sizeof(text), limit_bytes, "max"));
        if (r == 0 && limit_bytes != UINT64_MAX) {
                r = write_box(place, box, "memory.swap.max", "0");
                r = r == -ENOENT ? 0 : r; /* a kernel without swap */
        }
        return r;
}

static int limit_pids(const struct cgroup_place *place, unsigned box, uint64_t limit)
{
        char text[32];

        return write_box(place, box, "pids.max", number_or(text, sizeof(text), limit, "max"));
}

static int limit_cpu(const struct cgroup_place *place, unsigned box, uint64_t percent)
{
        char text[64], quota[32];
        uint64_t quota_us = percent == UINT64_MAX ? percent : percent * (CPU_PERIOD_US / 100);

        if (place->version == 2) {
                number_or(quota, sizeof(quota), quota_us, "max");
                snprintf(text, sizeof(text), "%s %d", quota, CPU_PERIOD_US);
                return write_box(place, box, "cpu.max", text);
        }
        return write_box(place, box, "cpu.cfs_quota_us", number_or(text, sizeof(text), quota_us, "-1"));
}

static int limit(const struct cgroup_host *host, int controller, unsigned box, const struct cgroup_limits *limits)
{
        const struct cgroup_place *place = &host->places[controller];

        switch ((enum cgroup_controller)controller) {
        case CGROUP_MEMORY:
                return limit_memory(place, box, limits->memory_bytes);
        case CGROUP_PIDS:
                return limit_pids(place, box, limits->pids);
        case CGROUP_CPU:
                return limit_cpu(place, box, limits->cpu_percent);
        case CGROUP_CPUACCT:
        case CGROUP_FREEZER:
        case CGROUP_CONTROLLERS:
                break;
        }
        return 0;
}

int cgroup_make(const struct cgroup_host *host, unsigned box, const struct cgroup_limits *limits, struct cloche_err *e)
{
        char path[CGROUP_PATH_MAX + 64];

        for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
                const struct cgroup_place *place = &host->places[c];
                int r;

                if (!place->version)
                        continue;
                r = box_path(path, sizeof(path), place, box, NULL);
                /* Controllers mounted together, and all of version 2, share one directory. */
                if (r == 0 && mkdir(path, 0755) < 0 && errno != EEXIST)
                        r = -errno;
                if (r == 0)
                        r = limit(host, c, box, limits);
                if (r < 0) {
                        (void)cgroup_remove(host, box, NULL);
                        return err_os(e, CLOCHE_E_CGROUP, -r, "set up the %s group", controller_names[c]);
                }
        }
        return 0;
}

/* Controllers mounted together, and all of version 2, share one directory. */
static int is_repeated(const struct cgroup_host *host, int controller)
{
        for (int c = 0; c < controller; c++)
                if (host->places[c].version && strcmp(host->places[c].base, host->places[controller].base) == 0)
                        return 1;
        return 0;
}

int cgroup_open_tasks(const struct cgroup_host *host, unsigned box, int *ret_fds, size_t *ret_count, struct cloche_err *e)
{
        char path[CGROUP_PATH_MAX + 64];
        size_t count = 0;

        for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
                const struct cgroup_place *place = &host->places[c];
                int r;

                if (!place->version || is_repeated(host, c))
                        continue;
                r = box_path(path, sizeof(path), place, box, place->version == 1 ? "tasks" : "cgroup.procs");
                if (r == 0) {
                        ret_fds[count] = open(path, O_WRONLY | O_CLOEXEC);
                        r = ret_fds[count] < 0 ? -errno : 0;
                }
                if (r < 0) {
                        while (count > 0)
                                fd_close(&ret_fds[--count]);
                        return err_os(e, CLOCHE_E_CGROUP, -r, "open the %s group", controller_names[c]);
                }
                count++;
        }
        *ret_count = count;
        return 0;
}

int cgroup_open_memory(const struct cgroup_host *host, unsigned box, int *ret_fd, struct cloche_err *e)
{
        const struct cgroup_place *place = &host->places[CGROUP_MEMORY];
        char path[CGROUP_PATH_MAX + 64];
        int r;

        *ret_fd = -EBADF;
        if (!place->version)
                return 0;
        r = box_path(path, sizeof(path), place, box, place->version == 1 ? "tasks" : "cgroup.procs");
        if (r == 0)
                *ret_fd = open(path, O_WRONLY | O_CLOEXEC);
        return *ret_fd < 0 ? err_os(e, CLOCHE_E_CGROUP, r < 0 ? -r : errno, "open the memory group") : 0;
}

int cgroup_enter(const int *tasks_fds, size_t count, struct cloche_err *e)
{
        for (size_t i = 0; i < count; i++) {
                int r = fd_write_full(tasks_fds[i], "0", 1);

                if (r < 0)
                        return err_os(e, CLOCHE_E_CGROUP, -r, "enter the box's groups");
        }
        return 0;
}

int cgroup_raise_memory(const struct cgroup_host *host, unsigned box, uint64_t limit_bytes, struct cloche_err *e)
{
        const struct cgroup_place *place = &host->places[CGROUP_MEMORY];
        char text[32];
        int r = 0;

        if (place->version == 1) /* the limit with swap may never be the lower one */
                r = write_box(place, box, "memory.memsw.limit_in_bytes", number_or(text, sizeof(text), limit_bytes, "-1"));
        if (r == 0 || r == -ENOENT)
                r = place->version ? limit_memory(place, box, limit_bytes) : 0;
        return r < 0 ? err_os(e, CLOCHE_E_CGROUP, -r, "raise the memory limit") : 0;
}

static void read_memory(const struct cgroup_place *place, unsigned box, struct cgroup_usage *ret)
{
        if (place->version == 1) {
                ret->memory_known = read_number(place, box, "memory.max_usage_in_bytes", NULL, &ret->memory_peak_bytes) == 0;
                (void)read_number(place, box, "memory.oom_control", "oom_kill", &ret->oom_kills);
        } else if (place->version == 2) {
                ret->memory_known = read_number(place, box, "memory.peak", NULL, &ret->memory_peak_bytes) == 0;
                (void)read_number(place, box, "memory.events", "oom_kill", &ret->oom_kills);
        }
}

void cgroup_read_usage(const struct cgroup_host *host, unsigned box, struct cgroup_usage *ret)
{
        const struct cgroup_place *cpu = &host->places[CGROUP_CPUACCT], *pids = &host->places[CGROUP_PIDS];

        *ret = (struct cgroup_usage){0};
        read_memory(&host->places[CGROUP_MEMORY], box, ret);
        if (cpu->version == 1) {
                ret->cpu_known = read_number(cpu, box, "cpuacct.usage", NULL, &ret->cpu_ns) == 0;
        } else if (cpu->version == 2) {
                ret->cpu_known = read_number(cpu, box, "cpu.stat", "usage_usec", &ret->cpu_ns) == 0;
                ret->cpu_ns *= 1000;
        }
        if (pids->version) {
                ret->pids_known = read_number(pids, box, "pids.peak", NULL, &ret->pids_peak) == 0;
                (void)read_number(pids, box, "pids.events", "max", &ret->pids_refused);
        }
}

void cgroup_forget_peak(const struct cgroup_host *host, unsigned box)
{
        if (host->places[CGROUP_MEMORY].version == 1)
                (void)write_box(&host->places[CGROUP_MEMORY], box, "memory.max_usage_in_bytes", "0");
}

int cgroup_freeze(const struct cgroup_host *host, unsigned box, int frozen, struct cloche_err *e)
{
        const struct cgroup_place *place = &host->places[CGROUP_FREEZER];
        int r;

        if (!place->version)
                return err_set(e, CLOCHE_E_GUARD_MISSING, "freeze: %s", place->reason);
        if (place->version == 1)
                r = write_box(place, box, "freezer.state", frozen ? "FROZEN" : "THAWED");
        else
                r = write_box(place, box, "cgroup.freeze", frozen ? "1" : "0");
        return r < 0 ? err_os(e, CLOCHE_E_CGROUP, -r, "%s the box", frozen ? "freeze" : "thaw") : 0;
}

void cgroup_kill(const struct cgroup_host *host, unsigned box)
{
        const struct cgroup_place *freezer = &host->places[CGROUP_FREEZER];

        /* A frozen task of version 1 takes no signal, not even SIGKILL, until it is thawed. */
        if (freezer->version == 1)
                (void)write_box(freezer, box, "freezer.state", "THAWED");
        for (int c = 0; c < CGROUP_CONTROLLERS; c++)
                if (host->places[c].version == 2)
                        (void)write_box(&host->places[c], box, "cgroup.kill", "1"); /* Linux 5.14 */
}

static int remove_patiently(const char *path)
{
        uint64_t deadline_ns = clock_now_ns() + REMOVE_PATIENCE_NS;

        /* A dead task leaves its group a moment after it was waited for. */
        while (rmdir(path) < 0) {
                if (errno == ENOENT)
                        return 0;
                if (errno != EBUSY || clock_now_ns() > deadline_ns)
                        return -errno;
                usleep(500);
        }
        return 0;
}

int cgroup_remove(const struct cgroup_host *host, unsigned box, struct cloche_err *e)
{
        char path[CGROUP_PATH_MAX + 64];
        int result = 0;

        for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
                int r;

                if (!host->places[c].version)
                        continue;
                r = box_path(path, sizeof(path), &host->places[c], box, NULL);
                if (r == 0)
                        r = remove_patiently(path);
                if (r < 0)
                        result = err_os(e, CLOCHE_E_CGROUP, -r, "remove the %s group", controller_names[c]);
        }
        return result;
}
