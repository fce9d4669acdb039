/* Runs in: box-init. Ending processes that resist.
 *
 * A tree is stopped before it is killed. A stopped process cannot fork, and a live process keeps
 * its children, so the tree stays together until all of it was found. If we killed at once, a tree
 * that forks quickly would outrun us, and processes whose parent died would become children of PID
 * 1, outside of the tree.
 *
 * A process may have been forked into a box beneath this one. It appears here as a child of its
 * parent, but is part of no tree of ours: it must outlive its parent. kill_all, which PID 1 itself
 * ends with, spares no process. */
#include "init.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define KILL_PATIENCE_NS UINT64_C(5000000000) /* a template that is to reap, on a busy machine */
#define KILL_PAUSE_NS UINT64_C(50000)         /* the first; each is twice as long as the one before */
#define KILL_PAUSE_MAX_NS UINT64_C(1000000)
#define KILL_PAUSE_TOLD_NS UINT64_C(20000000) /* if the kernel tells of the end */
#define STOP_PATIENCE_NS UINT64_C(500000000)
#define DEATH_PATIENCE_NS UINT64_C(1000000000) /* from SIGKILL to its effect */
/* While every scan finds new processes: reached on a machine that is too busy for us. */
#define NEW_PATIENCE_NS UINT64_C(5000000000)
#define TREE_PAUSE_NS 500000
#define QUIET_ROUNDS 20 /* rounds without a new process: one that is not stopped yet waits in the kernel */
#define SPARED_MAX 4096

/* -- everything ------------------------------------------------------------------------------------------------- */

/* A pidfd of any process but us, or -errno. */
static int open_somebody(void)
{
        DIR *proc = opendir("/proc");
        int fd = proc ? -ESRCH : -errno;

        for (struct dirent *entry; fd == -ESRCH && proc && (entry = readdir(proc));) {
                int pid = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? atoi(entry->d_name) : 1;

                if (pid != 1 && (fd = (int)syscall(SYS_pidfd_open, pid, 0)) < 0)
                        fd = -errno;
        }
        if (proc)
                closedir(proc);
        return fd;
}

/* Wait for the end of one process. Since Linux 6.9 its pidfd says POLLHUP when it was reaped;
 * kernels before leave it to the time. Each round of kill(2) costs a walk over all processes of the
 * host. */
static void wait_for_somebody(int *somebody_fd, uint64_t pause_ns)
{
        static int are_told;
        struct timespec pause = {0};
        struct pollfd polled;

        if (*somebody_fd < 0 && (*somebody_fd = open_somebody()) == -ESRCH && pause_ns == KILL_PAUSE_NS)
                return; /* all have ended, most likely */
        pause.tv_nsec = (long)(are_told && *somebody_fd >= 0 ? KILL_PAUSE_TOLD_NS : pause_ns);
        polled = (struct pollfd){.fd = *somebody_fd};
        if (ppoll(&polled, 1, &pause, NULL) > 0) {
                are_told |= !!(polled.revents & POLLHUP);
                fd_close(somebody_fd);
        }
}

/* A fork that we missed is killed in the next round; kill(2) fails with ESRCH when no process is
 * left. The template reaps its child, which may take any time. */
int kill_all(struct cloche_err *e)
{
        _cleanup_fd_ int somebody_fd = -EBADF;
        uint64_t until_ns = clock_now_ns() + KILL_PATIENCE_NS, pause_ns = KILL_PAUSE_NS;

        while (kill(-1, SIGKILL) == 0) {
                programs_reap(0);
                if (clock_now_ns() > until_ns)
                        return err_set(e, CLOCHE_E_STATE, "killed processes of the box were not reaped");
                wait_for_somebody(&somebody_fd, pause_ns);
                pause_ns = pause_ns < KILL_PAUSE_MAX_NS ? pause_ns * 2 : pause_ns;
        }
        programs_reap(WNOHANG);
        return 0;
}

/* -- finding processes ------------------------------------------------------------------------------------------ */

enum mark {
        MARK_KNOWN = 1, /* this scan has found out if it is a member */
        MARK_MEMBER = 2,
        MARK_STOPPED = 4, /* we sent SIGSTOP */
        MARK_SIGNALLED = 8,
        MARK_RESTED = 16, /* was stopped before hold_everybody */
        MARK_OF_US = 32,  /* known not to live in a box beneath */
        MARK_BENEATH = 64,
};

struct row {
        struct process_stat stat; /* only the pid for a process that is gone */
        int has_exited;
        unsigned marks;
};

struct rows {
        struct row *items; /* by ascending pid */
        size_t count, room;
};

struct look {
        struct rows alive;
        struct rows dead; /* listed, but dead or gone when their stat was read */
        int has_incomers; /* a process besides us has a parent outside: a fork of a template, or the first process of a
                             box beneath */
};

struct tree {
        pid_t root;
        uint64_t root_start_ticks;
        int is_below_only, signal;
        int is_root_held, are_all_held; /* we stopped them, and they are to continue */
        int32_t spared[SPARED_MAX];     /* ascending */
        size_t spared_count;
        int proc_fd; /* borrowed */
        struct look now, before;
        int is_sure; /* the last scan missed no member */
        int32_t signalled;
};

int process_stat_parse(const char *line, struct process_stat *ret)
{
        /* The process chooses the name in parentheses; it may have any bytes in it, also
         * parentheses. */
        const char *behind_name = strrchr(line, ')');
        long long pid, parent;
        int used = 0;

        if (!behind_name || sscanf(line, "%lld (", &pid) != 1)
                return -1;
        if (sscanf(behind_name,
                   ") %c %lld %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %" SCNu64 " %*d %" SCNu64
                   "%n",
                   &ret->state, &parent, &ret->threads, &ret->start_ticks, &used) != 4 ||
            !used)
                return -1;
        ret->pid = (pid_t)pid;
        ret->parent = (pid_t)parent;
        return pid > 0 && pid <= INT32_MAX && parent >= 0 && parent <= INT32_MAX ? 0 : -1;
}

/* Returns 0, -ESRCH if it is gone, or another -errno. */
static int read_stat(int proc_fd, const char *path, struct process_stat *ret)
{
        _cleanup_fd_ int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
        char line[1024];
        ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);

        if (n <= 0)
                return n == 0 || errno == ENOENT || errno == ESRCH ? -ESRCH : -errno;
        line[n] = '\0';
        return process_stat_parse(line, ret) < 0 ? -EPROTO : 0;
}

static int add_row(struct rows *rows, const struct process_stat *stat, int has_exited)
{
        if (ARRAY_GROW(rows->items, rows->count, rows->room) < 0)
                return -ENOMEM;
        rows->items[rows->count++] = (struct row){.stat = *stat, .has_exited = has_exited};
        return 0;
}

static int compare_rows(const void *a, const void *b)
{
        const struct row *left = a, *right = b;

        return (left->stat.pid > right->stat.pid) - (left->stat.pid < right->stat.pid);
}

static void sort_rows(struct rows *rows)
{
        if (rows->count)
                qsort(rows->items, rows->count, sizeof(*rows->items), compare_rows);
}

static struct row *find_row(const struct rows *rows, pid_t pid)
{
        const struct row key = {.stat.pid = pid};

        return rows->count ? bsearch(&key, rows->items, rows->count, sizeof(key), compare_rows) : NULL;
}

/* A process whose first thread has ended appears as dead while others run. */
static int is_alive(const struct process_stat *stat)
{
        return (stat->state != 'Z' && stat->state != 'X') || stat->threads > 1;
}

static int scan_processes(DIR *proc, struct look *look)
{
        char path[32];
        int r = 0;

        look->alive.count = look->dead.count = 0;
        look->has_incomers = 0;
        rewinddir(proc);
        for (struct dirent *entry; r == 0 && (entry = readdir(proc));) {
                struct process_stat stat;

                if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
                        continue;
                snprintf(path, sizeof(path), "%.20s/stat", entry->d_name);
                r = read_stat(dirfd(proc), path, &stat);
                look->has_incomers |= r == 0 && stat.parent == 0 && stat.pid != 1;
                if (r == -ESRCH) {
                        stat = (struct process_stat){.pid = (pid_t)atoi(entry->d_name)};
                        r = add_row(&look->dead, &stat, 1);
                } else if (r == 0)
                        r = add_row(is_alive(&stat) ? &look->alive : &look->dead, &stat, 0);
        }
        sort_rows(&look->alive);
        sort_rows(&look->dead);
        return r;
}

/* -- finding the members ---------------------------------------------------------------------------------------- */

static int compare_pids(const void *a, const void *b)
{
        int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;

        return (left > right) - (left < right);
}

static int is_spared(const struct tree *tree, pid_t pid)
{
        const int32_t key = pid;

        return tree->spared_count && bsearch(&key, tree->spared, tree->spared_count, sizeof(key), compare_pids);
}

/* proc_pid_status(5), NSpid: one number for each pid namespace from this one down. A process that
 * is gone is not beneath. */
static int has_one_number(int proc_fd, pid_t pid)
{
        char path[32], text[4096];
        const char *line;
        ssize_t n;
        _cleanup_fd_ int fd = -EBADF;

        snprintf(path, sizeof(path), "%d/status", (int)pid);
        fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        text[n < 0 ? 0 : n] = '\0';
        /* The process chooses the name at the beginning, but it has no line ends. */
        line = strstr(text, "\nNSpid:\t");
        return !line || !memchr(line + 8, '\t', strcspn(line + 8, "\n"));
}

/* No process moves from one pid namespace to another, so the result stays valid. */
static int is_beneath(const struct tree *tree, struct row *row)
{
        if (tree->now.has_incomers && !(row->marks & (MARK_OF_US | MARK_BENEATH)))
                row->marks |= has_one_number(tree->proc_fd, row->stat.pid) ? MARK_OF_US : MARK_BENEATH;
        return !!(row->marks & MARK_BENEATH);
}

/* Walk up from a process to the root, to a spared process, or to one with a verdict. A process that
 * was forked into this box is a child of PID 1, as all are whose parent is gone. */
static unsigned find_verdict(const struct tree *tree, struct row *at)
{
        /* A scan takes time: its result need not be a tree. */
        for (size_t steps = 0; at && steps <= tree->now.alive.count; steps++) {
                if (at->marks & MARK_KNOWN)
                        return at->marks & MARK_MEMBER;
                if (is_spared(tree, at->stat.pid) || is_beneath(tree, at))
                        return 0;
                if (at->stat.pid == tree->root || (at->stat.parent == 0 && tree->root == 1))
                        return MARK_MEMBER;
                at = find_row(&tree->now.alive, at->stat.parent);
        }
        return 0;
}

/* All processes on the way up have the same verdict, so each is visited once, however deep the tree
 * is. */
static void find_members(struct tree *tree)
{
        for (size_t i = 0; i < tree->now.alive.count; i++) {
                unsigned verdict = find_verdict(tree, &tree->now.alive.items[i]);

                for (struct row *at = &tree->now.alive.items[i]; at && !(at->marks & MARK_KNOWN);
                     at = find_row(&tree->now.alive, at->stat.parent)) {
                        at->marks |= MARK_KNOWN | verdict;
                        if (at->stat.pid == tree->root || at->marks & MARK_BENEATH || is_spared(tree, at->stat.pid))
                                break;
                }
        }
}

/* Copy our marks from the last scan. */
static void carry_marks(struct tree *tree)
{
        for (size_t i = 0; i < tree->now.alive.count; i++) {
                struct row *row = &tree->now.alive.items[i];
                const struct row *old = find_row(&tree->before.alive, row->stat.pid);

                if (old && old->stat.start_ticks == row->stat.start_ticks)
                        row->marks |=
                                old->marks & (MARK_STOPPED | MARK_SIGNALLED | MARK_RESTED | MARK_OF_US | MARK_BENEATH);
        }
}

/* A process that we stopped stays a member even if its parent has died. */
static int is_member(const struct tree *tree, const struct row *row, int with_root)
{
        return row->marks & (MARK_MEMBER | MARK_STOPPED) && row->stat.pid != 1 &&
               (with_root || row->stat.pid != tree->root);
}

/* A process may fork after /proc was listed and die before its stat is read. Its child is then
 * missing from this look. A process that was already dead in the previous look cannot have
 * forked. */
static int may_have_left_a_child(const struct tree *tree, const struct row *dead)
{
        const struct row *old_dead = find_row(&tree->before.dead, dead->stat.pid),
                         *old = find_row(&tree->before.alive, dead->stat.pid);
        const struct row *parent = dead->stat.parent ? find_row(&tree->now.alive, dead->stat.parent) : NULL;

        if (old_dead && (dead->has_exited || old_dead->stat.start_ticks == dead->stat.start_ticks))
                return 0;
        if (old && (dead->has_exited || old->stat.start_ticks == dead->stat.start_ticks))
                return is_member(tree, old, 1);
        return !parent || parent->marks & (MARK_MEMBER | MARK_STOPPED);
}

static int is_complete(const struct tree *tree)
{
        for (size_t i = 0; i < tree->now.dead.count; i++)
                if (may_have_left_a_child(tree, &tree->now.dead.items[i]))
                        return 0;
        return 1;
}

static int rescan(DIR *proc, struct tree *tree)
{
        struct look older = tree->before;
        const struct row *root;
        int r;

        tree->before = tree->now;
        tree->now = older;
        r = scan_processes(proc, &tree->now);
        if (r < 0)
                return r;
        carry_marks(tree);
        root = find_row(&tree->now.alive, tree->root);
        if (root && !tree->root_start_ticks)
                tree->root_start_ticks = root->stat.start_ticks;
        /* If the root is gone, its other children cannot be found any more. */
        tree->is_sure = !root || root->stat.start_ticks != tree->root_start_ticks;
        if (!tree->is_sure) {
                find_members(tree);
                tree->is_sure = is_complete(tree);
        }
        return 0;
}

/* Send only if the pid is still the same process. */
static int send_signal(int proc_fd, const struct row *row, int signal)
{
        _cleanup_fd_ int fd = (int)syscall(SYS_pidfd_open, row->stat.pid, 0);
        struct process_stat stat;
        char path[32];

        snprintf(path, sizeof(path), "%d/stat", (int)row->stat.pid);
        if (fd < 0 || read_stat(proc_fd, path, &stat) < 0 || stat.start_ticks != row->stat.start_ticks ||
            !is_alive(&stat))
                return 0;
        return syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) == 0;
}

/* -- stopping it ------------------------------------------------------------------------------------------------ */

static int is_stopped_thread(char state)
{
        return state == 'T' || state == 't' || state == 'Z' || state == 'X';
}

static int is_stopped(int proc_fd, const struct process_stat *stat)
{
        char path[64];
        DIR *threads;
        int fd, all = is_stopped_thread(stat->state);

        if (!all || stat->threads <= 1)
                return all;
        snprintf(path, sizeof(path), "%d/task", (int)stat->pid);
        fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        threads = fd < 0 ? NULL : fdopendir(fd);
        if (!threads) {
                fd_close(&fd);
                return errno == ENOENT || errno == ESRCH;
        }
        for (struct dirent *entry; all && (entry = readdir(threads));) {
                struct process_stat thread;

                if (entry->d_name[0] == '.')
                        continue;
                snprintf(path, sizeof(path), "%.20s/stat", entry->d_name);
                if (read_stat(dirfd(threads), path, &thread) == 0)
                        all = is_stopped_thread(thread.state);
        }
        closedir(threads);
        return all;
}

/* 0: no new process, all stopped; 1: no new process; 2: a new process was found, or may have been
 * missed. */
static int stop_members(DIR *proc, struct tree *tree)
{
        int state = tree->is_sure ? 0 : 2;

        for (size_t i = 0; i < tree->now.alive.count; i++) {
                struct row *row = &tree->now.alive.items[i];

                if (!is_member(tree, row, 1))
                        continue;
                if (!(row->marks & MARK_STOPPED)) {
                        /* A root that was stopped before must stay stopped afterwards. */
                        tree->is_root_held |= row->stat.pid == tree->root && !is_stopped_thread(row->stat.state);
                        send_signal(dirfd(proc), row, SIGSTOP);
                        row->marks |= MARK_STOPPED;
                        state = 2;
                } else if (state == 0 && !is_stopped(dirfd(proc), &row->stat))
                        state = 1;
        }
        return state;
}

static void pause_between(void)
{
        nanosleep(&(const struct timespec){.tv_nsec = TREE_PAUSE_NS}, NULL);
}

/* 1: all stopped; 0: not within the time. */
static int stop_tree(DIR *proc, struct tree *tree)
{
        uint64_t until_ns = clock_now_ns() + STOP_PATIENCE_NS;
        int quiet = 0;

        do {
                int r = rescan(proc, tree), state;

                if (r < 0)
                        return r;
                state = stop_members(proc, tree);
                quiet = state == 0 ? QUIET_ROUNDS : state == 1 ? quiet + 1 : 0;
                if (state == 1)
                        pause_between();
        } while (quiet < QUIET_ROUNDS && clock_now_ns() < until_ns);
        return quiet >= QUIET_ROUNDS;
}

/* A process outside of the tree may continue its members as fast as we stop them. A signal to all
 * processes is atomic, and misses no fork under way (kernel/fork.c, signal->multiprocess): then
 * only we run in the box. */
static void hold_everybody(struct tree *tree)
{
        for (size_t i = 0; i < tree->now.alive.count; i++)
                if (is_stopped_thread(tree->now.alive.items[i].stat.state))
                        tree->now.alive.items[i].marks |= MARK_RESTED;
        tree->are_all_held = kill(-1, SIGSTOP) == 0;
}

static void let_go_on(DIR *proc, struct tree *tree)
{
        if (tree->are_all_held && rescan(proc, tree) < 0)
                kill(-1, SIGCONT); /* no memory to scan; continuing all is better than none */
        for (size_t i = 0; tree->are_all_held && i < tree->now.alive.count; i++)
                if (tree->now.alive.items[i].stat.pid != 1 &&
                    !(tree->now.alive.items[i].marks & (MARK_STOPPED | MARK_SIGNALLED | MARK_RESTED)))
                        send_signal(dirfd(proc), &tree->now.alive.items[i], SIGCONT);
        if (tree->is_below_only && tree->is_root_held)
                kill(tree->root, SIGCONT);
}

/* -- signalling it ---------------------------------------------------------------------------------------------- */

/* Returns the number of live members. */
static size_t signal_members(DIR *proc, struct tree *tree, int with_root, int *ret_new)
{
        size_t alive = 0;

        *ret_new = 0;
        for (size_t i = 0; i < tree->now.alive.count; i++) {
                struct row *row = &tree->now.alive.items[i];

                if (!is_member(tree, row, with_root))
                        continue;
                alive++;
                if (row->marks & MARK_SIGNALLED)
                        continue;
                row->marks |= MARK_SIGNALLED;
                tree->signalled += send_signal(dirfd(proc), row, tree->signal);
                *ret_new = 1;
        }
        return alive;
}

/* Repeat until none is left, or only killed ones remain, whose death is up to the kernel. */
static int kill_members(DIR *proc, struct tree *tree, int with_root, struct cloche_err *e)
{
        uint64_t began_ns = clock_now_ns();

        for (;;) {
                int is_new, r = rescan(proc, tree);
                uint64_t passed_ns;
                size_t alive;

                if (r < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, -r, "look for the processes to kill");
                alive = signal_members(proc, tree, with_root, &is_new);
                programs_reap(WNOHANG);
                passed_ns = clock_now_ns() - began_ns;
                if ((alive == 0 && tree->is_sure) || (!is_new && passed_ns > DEATH_PATIENCE_NS))
                        return 0;
                if (is_new && passed_ns > NEW_PATIENCE_NS)
                        return err_set(e, CLOCHE_E_STATE, "%d processes were killed, but more are made all the time",
                                       tree->signalled);
                pause_between();
        }
}

/* The root comes last: orphans beneath it are its children now, if it reaps. */
static int kill_stopped(DIR *proc, struct tree *tree, struct cloche_err *e)
{
        int r = kill_members(proc, tree, 0, e);

        return r < 0 || tree->is_below_only ? r : kill_members(proc, tree, 1, e);
}

static int kill_tree(DIR *proc, struct tree *tree, struct cloche_err *e)
{
        int r = stop_tree(proc, tree);

        if (r == 0) {
                hold_everybody(tree);
                r = stop_tree(proc, tree);
        }
        r = r < 0 ? err_os(e, CLOCHE_E_RESOURCE, -r, "look for the processes to kill") : kill_stopped(proc, tree, e);
        let_go_on(proc, tree);
        return r;
}

static int signal_tree(DIR *proc, struct tree *tree, struct cloche_err *e)
{
        int is_new, r = rescan(proc, tree);

        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "look for the processes to signal");
        (void)signal_members(proc, tree, !tree->is_below_only, &is_new);
        return 0;
}

/* -- the request ------------------------------------------------------------------------------------------------ */

static int read_spared(struct tree *tree, const int *fds, size_t fd_count, struct cloche_err *e)
{
        struct stat st;

        tree->spared_count = 0;
        if (fd_count == 0)
                return 0;
        if (fd_count > 1 || fstat(fds[0], &st) < 0 || st.st_size < 0 || st.st_size % (off_t)sizeof(int32_t) ||
            (size_t)st.st_size > sizeof(tree->spared))
                return err_set(e, CLOCHE_E_PROTOCOL,
                               "the spared pids must be one file of at most %d numbers of %zu bytes", SPARED_MAX,
                               sizeof(int32_t));
        if (pread(fds[0], tree->spared, (size_t)st.st_size, 0) != st.st_size)
                return err_os(e, CLOCHE_E_PROTOCOL, EIO, "read the spared pids");
        tree->spared_count = (size_t)st.st_size / sizeof(int32_t);
        qsort(tree->spared, tree->spared_count, sizeof(int32_t), compare_pids);
        return 0;
}

static int check_kill(const struct init_request *request, struct cloche_err *e)
{
        int is_below = request->flags == (INIT_KILL_TREE | INIT_KILL_BELOW);

        if (request->flags != 0 && request->flags != INIT_KILL_TREE && !is_below)
                return err_set(e, CLOCHE_E_PROTOCOL,
                               "the flags of a signal are 0x%x, expected none, tree, or tree and below",
                               request->flags);
        if (request->signal < 1 || request->signal >= NSIG)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "there is no signal %u, expected 1 to %d", request->signal,
                               NSIG - 1);
        if (request->pid < 1 || (request->pid == 1 && !is_below))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "process %d of the box is not to be signalled, expected a pid above 1, or 1 for those "
                               "below it",
                               request->pid);
        return 0;
}

/* A spared or missing process counts as absent: the count is 0. */
static int signal_one(const struct tree *tree, int32_t *ret_count, struct cloche_err *e)
{
        int r = is_spared(tree, tree->root) ? -ESRCH : kill(tree->root, tree->signal) < 0 ? -errno : 0;

        *ret_count = r == 0;
        return r == 0 || r == -ESRCH ? 0 : err_os(e, CLOCHE_E_STATE, -r, "signal process %d", (int)tree->root);
}

int kill_asked(const struct init_request *request, const int *fds, size_t fd_count, int32_t *ret_count,
               struct cloche_err *e)
{
        static struct tree tree; /* static, so that its lists keep their memory */
        DIR *proc;
        int r = check_kill(request, e);

        if (r == 0)
                r = read_spared(&tree, fds, fd_count, e);
        if (r < 0)
                return r;
        tree.root = request->pid;
        tree.root_start_ticks = 0;
        tree.signal = (int)request->signal;
        tree.is_below_only = !!(request->flags & INIT_KILL_BELOW);
        tree.is_root_held = tree.are_all_held = 0;
        tree.now.alive.count = tree.now.dead.count = tree.before.alive.count = tree.before.dead.count = 0;
        tree.signalled = 0;
        if (!(request->flags & INIT_KILL_TREE))
                return signal_one(&tree, ret_count, e);
        proc = opendir("/proc");
        if (!proc)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "look for the processes to signal");
        tree.proc_fd = dirfd(proc);
        r = tree.signal == SIGKILL ? kill_tree(proc, &tree, e) : signal_tree(proc, &tree, e);
        closedir(proc);
        *ret_count = tree.signalled;
        return r;
}
