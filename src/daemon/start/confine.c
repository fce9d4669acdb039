/* The engine's process gives up its rights before it reads untrusted input. Runs in:
 * cloched-engine, at its start; it ends with the rights of the daemon's user, Landlocked and
 * filtered. */
#include "confine.h"
#include "daemon/core/log.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/privilege.h"
#include "engine/box/network.h"
#include "engine/loop/engine.h"
#include "jail/filter/filter.h"
#include "jail/filter/landlock.h"
#include "sandbox/core/sandbox.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RINGS_SINCE 0x012d00 /* libuv 1.45.0 */

static const struct sock_filter calls[] = {
#include "daemon-filter-rows.inc"
};

/* The keeper and the boxes inherit this filter; their own filters refuse rings too. */
void confine_refuse_rings(void)
{
        if (uv_version() < RINGS_SINCE)
                return;
        if (privilege_is_root() || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
                filter_refuse_rings();
}

/* -- files ---------------------------------------------------------------------------------------------------- */

struct places {
        struct landlock_place *rows;
        size_t count;
        int fds[CGROUP_CONTROLLERS + 6]; /* opened by us */
        size_t fd_count;
};

static void places_done(struct places *p)
{
        while (p->fd_count)
                fd_close(&p->fds[--p->fd_count]);
        free(p->rows);
}

static void add(struct places *p, int fd, int writable)
{
        if (fd >= 0)
                p->rows[p->count++] = (struct landlock_place){fd, writable};
}

/* For paths that exist before this process starts; add_servers handles one that may not. */
static void add_path(struct places *p, int dir_fd, const char *path, int writable)
{
        int fd = openat(dir_fd, path, O_PATH | O_CLOEXEC);

        if (fd < 0)
                return;
        p->fds[p->fd_count++] = fd;
        add(p, fd, writable);
}

/* The file is replaced as a whole, and may be a symlink: so the rules are for the directories it is
 * in. A directory that is made later is not seen, so the daemon starts after nss-lookup.target. */
static void add_servers(struct places *p)
{
        char *path = realpath(NETWORK_SERVERS_FILE, NULL), *slash = path ? strrchr(path, '/') : NULL;

        if (!path && faccessat(AT_FDCWD, NETWORK_SERVERS_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                log_event(LEVEL_WARNING, "name-servers-missing", "{s:s}", "file", NETWORK_SERVERS_FILE);
        if (slash && slash > path) {
                *slash = '\0';
                add_path(p, AT_FDCWD, path, 0);
        }
        free(path);
        add_path(p, AT_FDCWD, "/etc", 0);
}

static int leave_files(struct daemon *d, struct cloche_err *e)
{
        __attribute__((cleanup(places_done))) struct places places = {0};
        const struct cloche_engine *engine = d->engine;
        const struct cgroup_host *groups = keeper_groups(engine->keeper);

        places.rows =
                calloc(2 + engine->runtimes.count + sizeof(places.fds) / sizeof(places.fds[0]), sizeof(*places.rows));
        if (!places.rows)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "list the paths that the daemon may open");
        add(&places, d->state_lock_fd, LANDLOCK_TREE);
        add(&places, engine->artifacts_fd, 1);
        for (size_t i = 0; i < engine->runtimes.count; i++)
                add(&places, engine->runtimes.rows[i].directory_fd, 0);
        for (int c = 0; c < CGROUP_CONTROLLERS; c++) /* the counters of boxes */
                if (groups->places[c].version)
                        add_path(&places, AT_FDCWD, groups->places[c].base, 0);
        add_path(&places, AT_FDCWD, "/dev/null", 1);
        add_path(&places, AT_FDCWD, "/proc/sys/kernel/random/boot_id", 0); /* by which deadlines outlive the daemon */
        add_path(&places, engine->libexec_fd, SANDBOX_SHELL, 0);
        add_path(&places, engine->libexec_fd, SANDBOX_FILES, 0);
        add_servers(&places);
        return landlock_enter(places.rows, places.count, &d->confinement.landlock_abi, e);
}

/* -- confinement ---------------------------------------------------------------------------------------------- */

/* Landlock applies to the calling thread and the threads it starts later. */
static int is_alone(void)
{
        struct stat st;

        return stat("/proc/self/task", &st) == 0 && st.st_nlink == 2 + 1;
}

/* See landlock_create_ruleset(2). Any other failure is an error, not an old kernel. */
static int kernel_lacks_landlock(const struct cloche_err *e)
{
        return e->code == CLOCHE_E_GUARD_MISSING && (e->os_errno == ENOSYS || e->os_errno == EOPNOTSUPP);
}

static void log_missing(const char *guard, const struct cloche_err *e)
{
        log_event(LEVEL_WARNING, "not-confined", "{s:s, s:s}", "by", guard, "why", e->msg);
}

/* The filter comes last: it refuses the calls of the other steps. */
int confine(struct daemon *d, struct cloche_err *e)
{
        int r;

#ifdef CHECKED /* by sanitizers: LeakSanitizer traces its own process at exit */
        return 0;
#endif
        tzset(); /* all times are in UTC, but C libraries read the time zone once */
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "keep others from tracing the daemon");
        if (!is_alone())
                return err_set(e, CLOCHE_E_PRIVILEGE, "the daemon has more than one thread, so it cannot be confined");
        r = leave_files(d, e);
        if (r < 0 && !kernel_lacks_landlock(e))
                return r;
        if (r < 0)
                log_missing("landlock", e);
        r = FILTER_ENTER(calls, e);
        d->confinement.is_filtered = r == 0;
        if (r < 0 && d->options.engine.optional_guards & 1u << CLOCHE_GUARD_SECCOMP) {
                log_missing("seccomp", e);
                return 0;
        }
        return r;
}
