/* The groups of one box: made, entered, measured, frozen, removed. Runs in: the keeper; the child
 * it cloned enters; the engine measures. */
#include "internal.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define KILL_ROUND 64 /* processes a round; the next round kills the others */
#define REMOVE_TIMEOUT_NS UINT64_C(5000000000)

/* Controllers mounted together, and all of version 2, share one directory. */
static int is_repeated(const struct cgroup_host *host, int controller)
{
        for (int c = 0; c < controller; c++)
                if (host->places[c].version && strcmp(host->places[c].base, host->places[controller].base) == 0)
                        return 1;
        return 0;
}

static int set_up_failed(const struct cgroup_host *host, unsigned box, int controller, int r, struct cloche_err *e)
{
        (void)cgroup_try_remove(host, box);
        return err_os(e, CLOCHE_E_CGROUP, -r, "set up the %s group", cgroup_controller_names[controller]);
}

int cgroup_make(const struct cgroup_host *host, unsigned box, struct cloche_err *e)
{
        char path[CGROUP_PATH_MAX + 64];

        for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
                const struct cgroup_place *place = &host->places[c];
                int r;

                if (!place->version || is_repeated(host, c))
                        continue;
                r = cgroup_box_path(path, sizeof(path), place, box, NULL);
                if (r == 0 && mkdir(path, 0755) < 0)
                        r = -errno;
                if (r < 0)
                        return set_up_failed(host, box, c, r, e);
        }
        return 0;
}

int cgroup_set_limits(const struct cgroup_host *host, unsigned box, const struct cgroup_limits *limits,
                      struct cloche_err *e)
{
        for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
                int r = host->places[c].version ? cgroup_set_limit(host, c, box, limits) : 0;

                if (r < 0)
                        return set_up_failed(host, box, c, r, e);
        }
        return 0;
}

static int open_group(const struct cgroup_place *place, unsigned box, const char *file, int flags)
{
        char path[CGROUP_PATH_MAX + 64];
        int r = cgroup_box_path(path, sizeof(path), place, box, file), fd;

        if (r < 0)
                return r;
        fd = open(path, flags | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

static int open_entrance(const struct cgroup_place *place, unsigned box)
{
        return open_group(place, box, place->version == 1 ? "tasks" : "cgroup.procs", O_WRONLY);
}

/* ret_into_fd may be NULL; otherwise version 2 is not among ret_fds. */
static int open_entrances(const struct cgroup_host *host, unsigned box, int *ret_fds, size_t *ret_count,
                          int *ret_into_fd, struct cloche_err *e)
{
        size_t count = 0;

        for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
                const struct cgroup_place *place = &host->places[c];
                int fd;

                if (!place->version || is_repeated(host, c))
                        continue;
                if (place->version == 2 && ret_into_fd)
                        fd = *ret_into_fd = open_group(place, box, NULL, O_PATH | O_DIRECTORY);
                else
                        fd = ret_fds[count] = open_entrance(place, box);
                if (fd < 0) {
                        while (count > 0)
                                fd_close(&ret_fds[--count]);
                        if (ret_into_fd)
                                fd_close(ret_into_fd);
                        return err_os(e, CLOCHE_E_CGROUP, -fd, "open the %s group", cgroup_controller_names[c]);
                }
                count += !ret_into_fd || fd != *ret_into_fd;
        }
        *ret_count = count;
        return 0;
}

int cgroup_open_tasks(const struct cgroup_host *host, unsigned box, int *ret_fds, size_t *ret_count,
                      struct cloche_err *e)
{
        return open_entrances(host, box, ret_fds, ret_count, NULL, e);
}

int cgroup_open_birth(const struct cgroup_host *host, unsigned box, int *ret_fds, size_t *ret_count, int *ret_into_fd,
                      struct cloche_err *e)
{
        *ret_into_fd = -EBADF;
        return open_entrances(host, box, ret_fds, ret_count, ret_into_fd, e);
}

static int open_one(const struct cgroup_host *host, unsigned box, enum cgroup_controller controller, int *ret_fd,
                    struct cloche_err *e)
{
        const struct cgroup_place *place = &host->places[controller];

        *ret_fd = -EBADF;
        if (!place->version)
                return 0;
        *ret_fd = open_entrance(place, box);
        return *ret_fd < 0 ? err_os(e, CLOCHE_E_CGROUP, -*ret_fd, "open the %s group",
                                    controller == CGROUP_MEMORY ? "memory" : "processor")
                           : 0;
}

int cgroup_open_memory(const struct cgroup_host *host, unsigned box, int *ret_fd, struct cloche_err *e)
{
        return open_one(host, box, CGROUP_MEMORY, ret_fd, e);
}

int cgroup_open_processor(const struct cgroup_host *host, unsigned box, int *ret_fd, struct cloche_err *e)
{
        return open_one(host, box, CGROUP_CPU, ret_fd, e);
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

/* -- killing, removing ------------------------------------------------------------------------------------------ */

void cgroup_reset_peak(const struct cgroup_host *host, unsigned box)
{
        if (host->places[CGROUP_MEMORY].version == 1)
                (void)cgroup_write_box(&host->places[CGROUP_MEMORY], box, "memory.max_usage_in_bytes", "0");
}

/* The file that freezes, its two values, and the file and line that confirm it. */
static const struct {
        const char *file, *freeze, *thaw, *confirmed_in, *confirmed_by;
} freezers[] = {
        [1] = {"freezer.state", "FROZEN", "THAWED", "freezer.state", "FROZEN\n"},
        [2] = {"cgroup.freeze", "1", "0", "cgroup.events", "frozen 1\n"},
};

static int write_freezer(const struct cgroup_host *host, unsigned box, int is_frozen, struct cloche_err *e)
{
        const struct cgroup_place *place = &host->places[CGROUP_FREEZER];
        int r;

        if (!place->version)
                return err_set(e, CLOCHE_E_GUARD_MISSING,
                               "no control group of this host can freeze processes: %s: stop the sandbox instead, "
                               "which saves its files",
                               place->reason);
        r = cgroup_write_box(place, box, freezers[place->version].file,
                             is_frozen ? freezers[place->version].freeze : freezers[place->version].thaw);
        return r < 0 ? err_os(e, CLOCHE_E_CGROUP, -r, "%s the groups of box %u", is_frozen ? "freeze" : "thaw", box)
                     : 0;
}

#define ASIDE "box-aside" /* removed with the groups of the boxes */

int cgroup_set_aside(const struct cgroup_host *host, unsigned box, pid_t pid, int is_aside)
{
        const struct cgroup_place *place = &host->places[CGROUP_FREEZER];
        char path[CGROUP_PATH_MAX + 64], text[16];
        int r;

        snprintf(path, sizeof(path), "%s/" ASIDE, place->base);
        if (is_aside && mkdir(path, 0755) < 0 && errno != EEXIST)
                return -errno;
        snprintf(path, sizeof(path), "%s/" ASIDE "/cgroup.procs", place->base);
        snprintf(text, sizeof(text), "%d", (int)pid);
        r = is_aside ? cgroup_write_text(path, text) : cgroup_write_box(place, box, "cgroup.procs", text);
        return r == -ESRCH ? 0 : r;
}

int cgroup_freeze(const struct cgroup_host *host, unsigned box, struct cloche_err *e)
{
        const struct cgroup_place *place = &host->places[CGROUP_FREEZER];
        char text[256];
        int r = write_freezer(host, box, 1, e);

        if (r < 0)
                return r;
        r = cgroup_read_box(place, box, freezers[place->version].confirmed_in, text, sizeof(text));
        return r < 0 ? err_os(e, CLOCHE_E_CGROUP, -r, "read whether box %u is frozen", box)
                     : strstr(text, freezers[place->version].confirmed_by) != NULL;
}

int cgroup_thaw(const struct cgroup_host *host, unsigned box, struct cloche_err *e)
{
        return write_freezer(host, box, 0, e);
}

void cgroup_kill(const struct cgroup_host *host, unsigned box)
{
        /* A frozen task of version 1 takes no signal, not even SIGKILL, until it is thawed. */
        if (host->places[CGROUP_FREEZER].version == 1)
                (void)cgroup_thaw(host, box, NULL);
        for (int c = 0; c < CGROUP_CONTROLLERS; c++)
                if (host->places[c].version == 2 && !is_repeated(host, c))
                        (void)cgroup_write_box(&host->places[c], box, "cgroup.kill", "1"); /* Linux 5.14 */
}

static int list_has_pid(const char *pids, pid_t pid)
{
        for (const char *at = pids, *end; (end = strchr(at, '\n')); at = end + 1)
                if (strtol(at, NULL, 10) == pid)
                        return 1;
        return 0;
}

/* Version 1 cannot kill a whole group. A pid may belong to another process by the time we signal
 * it. So we open its pidfd first: if the pid is still listed after that, the pidfd refers to the
 * listed process, or that process is dead. */
static void kill_listed(const struct cgroup_place *place, unsigned box)
{
        char path[CGROUP_PATH_MAX + 64], pids[1 << 12], again[1 << 14];
        int pidfds[KILL_ROUND];
        pid_t numbers[KILL_ROUND];
        size_t count = 0;

        if (cgroup_box_path(path, sizeof(path), place, box, "cgroup.procs") < 0 ||
            cgroup_read_text(path, pids, sizeof(pids)) < 0)
                return;
        for (const char *at = pids, *end; count < KILL_ROUND && (end = strchr(at, '\n')); at = end + 1) {
                numbers[count] = (pid_t)strtol(at, NULL, 10);
                pidfds[count] = numbers[count] > 1 ? (int)syscall(SYS_pidfd_open, numbers[count], 0) : -EBADF;
                count += pidfds[count] >= 0;
        }
        if (cgroup_read_text(path, again, sizeof(again)) < 0)
                again[0] = '\0';
        for (size_t i = 0; i < count; i++) {
                if (list_has_pid(again, numbers[i]))
                        (void)syscall(SYS_pidfd_send_signal, pidfds[i], SIGKILL, NULL, 0);
                fd_close(&pidfds[i]);
        }
}

int cgroup_try_remove(const struct cgroup_host *host, unsigned box)
{
        char path[CGROUP_PATH_MAX + 64];
        int result = 0;

        for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
                const struct cgroup_place *place = &host->places[c];
                int r;

                if (!place->version || is_repeated(host, c))
                        continue;
                r = cgroup_box_path(path, sizeof(path), place, box, NULL);
                if (r == 0 && rmdir(path) < 0 && errno != ENOENT)
                        r = -errno;
                if (r == -EBUSY && place->version == 1)
                        kill_listed(place, box);
                if (r < 0)
                        result = r;
        }
        if (result == -EBUSY)
                cgroup_kill(host, box);
        return result;
}

int cgroup_remove(const struct cgroup_host *host, unsigned box, struct cloche_err *e)
{
        uint64_t deadline_ns = clock_now_ns() + REMOVE_TIMEOUT_NS;
        int r;

        while ((r = cgroup_try_remove(host, box)) == -EBUSY && clock_now_ns() < deadline_ns)
                usleep(500);
        return r < 0 ? err_os(e, CLOCHE_E_CGROUP, -r, "remove the groups of box %u", box) : 0;
}
