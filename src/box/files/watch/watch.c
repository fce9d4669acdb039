/* file.watch, in its own process. Kernel events become changes, which are sent 75 ms after the
 * first of them or on SIGUSR1.
 * Runs in: a job of cloche-files, within a box, with its user's rights. */
#include "box/files/operations.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "box/files/answer.h"
#include "box/files/tree/atomic-file.h"
#include "box/files/tree/path.h"
#include "changes.h"
#include "tree.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>

#define DELAY_NS (UINT64_C(75) * 1000000)
#define UNSENT_MAX (256u << 10) /* changes are not encoded while more than this is unsent */
#define MOVES_MAX 64

static volatile sig_atomic_t is_flush_wanted;

static const char *const excluded[] = {".git", "node_modules", ".DS_Store", NULL};

/* The first half of a move; the second may follow. */
struct move {
        uint32_t cookie;
        char *path;
        int is_directory, is_temporary;
        struct watch_node *node; /* of a moved directory, or NULL */
};

struct watch {
        struct files_request *q;
        char *root;      /* the watched directory */
        char *only_name; /* for a watched file: its name there */
        char *own_name;  /* for a watched directory: its name in the parent, watched for removal only */
        int above_wd;
        struct path_filter filter;
        struct watch_tree tree;
        struct watch_changes changes;
        struct move moves[MOVES_MAX];
        size_t move_count;
        struct buf out;
        uint64_t due_ns;                        /* 0: no change is pending */
        unsigned is_closed : 1, is_missing : 1; /* missing: the file was removed; another may replace it at once */
};

static int is_wanted(const struct watch *w, const char *path)
{
        if (w->only_name)
                return strcmp(path, w->only_name) == 0;
        return !path_filter_excludes(&w->filter, path) && path_filter_includes(&w->filter, path);
}

static int tell(struct watch *w, enum change_type type, const char *path, const char *from, int is_directory,
                struct cloche_err *e)
{
        if (!w->due_ns)
                w->due_ns = clock_now_ns() + DELAY_NS;
        return changes_add(&w->changes, type, path, from, is_directory) < 0 ? request_no_memory(e) : 0;
}

static int report_found(void *data, const char *path, int is_directory, struct cloche_err *e)
{
        struct watch *w = data;

        return is_wanted(w, path) ? tell(w, CHANGE_CREATE, path, NULL, is_directory, e) : 0;
}

/* -- events --------------------------------------------------------------------------------------------------- */

/* A path appeared: created, or moved here from an unwatched place. */
static int appeared(struct watch *w, struct watch_node *node, const char *name, const char *path, int is_directory,
                    struct cloche_err *e)
{
        int r = 0;

        if (path_filter_excludes(&w->filter, path) && !w->only_name)
                return 0;
        if (is_wanted(w, path)) {
                r = tell(w, w->is_missing ? CHANGE_MODIFY : CHANGE_CREATE, path, NULL, is_directory, e);
                w->is_missing = 0;
        }
        if (r == 0 && is_directory && !w->tree.is_flat)
                r = watch_tree_scan(&w->tree, w->root, node, name, report_found, w, e);
        return r;
}

static int vanished(struct watch *w, const char *path, int is_directory, struct cloche_err *e)
{
        if (!is_wanted(w, path))
                return 0;
        if (w->only_name) {
                w->is_missing = 1;
                w->due_ns = w->due_ns ? w->due_ns : clock_now_ns() + DELAY_NS;
                return 0;
        }
        return tell(w, CHANGE_DELETE, path, NULL, is_directory, e);
}

/* Pending moves of a directory at or below node lose their node. */
static void drop(struct watch *w, struct watch_node *node, int is_watched)
{
        for (size_t i = 0; i < w->move_count; i++)
                for (const struct watch_node *at = w->moves[i].node; at; at = at->parent)
                        if (at == node) {
                                w->moves[i].node = NULL;
                                break;
                        }
        watch_tree_drop(&w->tree, node, is_watched);
}

/* The second half did not come: the entry moved to an unwatched place. */
static int give_up_move(struct watch *w, size_t i, struct cloche_err *e)
{
        struct move move = w->moves[i];
        int r;

        w->moves[i] = w->moves[--w->move_count];
        if (move.node)
                drop(w, move.node, 1);
        r = move.is_temporary ? 0 : vanished(w, move.path, move.is_directory, e);
        free(move.path);
        return r;
}

static int moved_from(struct watch *w, struct watch_node *node, const struct inotify_event *event, char *path,
                      struct cloche_err *e)
{
        int r = 0;

        if (w->move_count == MOVES_MAX)
                r = give_up_move(w, 0, e);
        w->moves[w->move_count++] =
                (struct move){.cookie = event->cookie,
                              .path = path,
                              .is_directory = (event->mask & IN_ISDIR) != 0,
                              .is_temporary = path_is_temporary(event->name),
                              .node = event->mask & IN_ISDIR ? watch_node_child(node, event->name) : NULL};
        w->due_ns = w->due_ns ? w->due_ns : clock_now_ns() + DELAY_NS;
        return r;
}

static int join_move(struct watch *w, const struct move *move, struct watch_node *node, const char *name,
                     const char *path, struct cloche_err *e)
{
        int to_excluded = !w->only_name && path_filter_excludes(&w->filter, path);

        /* A temporary file of ours replaced the file: its contents are new. */
        if (move->is_temporary) {
                w->is_missing = 0;
                return is_wanted(w, path) ? tell(w, CHANGE_MODIFY, path, NULL, 0, e) : 0;
        }
        if (move->node && to_excluded)
                drop(w, move->node, 1);
        else if (move->node && watch_tree_move(move->node, node, name) < 0)
                return request_no_memory(e);
        if (w->only_name && is_wanted(w, path)) {
                w->is_missing = 0;
                return tell(w, CHANGE_MODIFY, path, NULL, 0, e);
        }
        if (is_wanted(w, move->path) && is_wanted(w, path))
                return tell(w, CHANGE_MOVE, path, move->path, move->is_directory, e);
        if (is_wanted(w, move->path))
                return vanished(w, move->path, move->is_directory, e);
        return move->node ? (is_wanted(w, path) ? tell(w, CHANGE_CREATE, path, NULL, 1, e) : 0)
                          : appeared(w, node, name, path, move->is_directory, e);
}

static int moved_to(struct watch *w, struct watch_node *node, const struct inotify_event *event, const char *path,
                    struct cloche_err *e)
{
        for (size_t i = 0; i < w->move_count; i++) {
                struct move move = w->moves[i];
                int r;

                if (move.cookie != event->cookie)
                        continue;
                w->moves[i] = w->moves[--w->move_count];
                r = join_move(w, &move, node, event->name, path, e);
                free(move.path);
                return r;
        }
        return appeared(w, node, event->name, path, (event->mask & IN_ISDIR) != 0, e);
}

static int change_named(struct watch *w, struct watch_node *node, const struct inotify_event *event,
                        struct cloche_err *e)
{
        char *path = watch_node_path(node, event->name);
        int is_directory = (event->mask & IN_ISDIR) != 0, r = 0;

        if (!path)
                return request_no_memory(e);
        if (event->mask & IN_MOVED_FROM)
                return moved_from(w, node, event, path, e); /* moved_from() owns path */
        if (event->mask & IN_MOVED_TO)
                r = path_is_temporary(event->name) ? 0 : moved_to(w, node, event, path, e);
        else if (path_is_temporary(event->name))
                r = 0;
        else if (event->mask & IN_CREATE)
                r = appeared(w, node, event->name, path, is_directory, e);
        else if (event->mask & IN_DELETE)
                r = vanished(w, path, is_directory, e);
        else if (is_wanted(w, path))
                r = tell(w, event->mask & IN_MODIFY ? CHANGE_MODIFY : CHANGE_ATTRIB, path, NULL, is_directory, e);
        free(path);
        return r;
}

static int take_event(struct watch *w, const struct inotify_event *event, struct cloche_err *e)
{
        struct watch_node *node;

        if (event->mask & IN_Q_OVERFLOW) {
                changes_lose(&w->changes);
                w->due_ns = w->due_ns ? w->due_ns : clock_now_ns();
                return w->tree.root && !w->tree.is_flat
                               ? watch_tree_scan(&w->tree, w->root, w->tree.root, NULL, NULL, NULL, e)
                               : 0;
        }
        if (event->wd == w->above_wd && event->len && strcmp(event->name, w->own_name) == 0)
                w->is_closed = 1;
        node = watch_tree_find(&w->tree, event->wd);
        if (!node)
                return 0;
        if (event->len)
                return change_named(w, node, event, e);
        if (!node->parent && event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT))
                w->is_closed = 1;
        if (!node->parent && event->mask & IN_ATTRIB && !w->only_name && is_wanted(w, "") &&
            !(event->mask & IN_DELETE_SELF))
                return tell(w, CHANGE_ATTRIB, "", NULL, 1, e);
        if (event->mask & IN_IGNORED) {
                w->is_closed |= !node->parent;
                drop(w, node, 0);
        }
        return 0;
}

/* Handle the events of one read; *ret_size: its bytes. */
static int take_events(struct watch *w, int *ret_size, struct cloche_err *e)
{
        char events[64 << 10] __attribute__((aligned(__alignof__(struct inotify_event))));
        ssize_t size = read(w->tree.inotify_fd, events, sizeof(events));
        int r = 0;

        *ret_size = size > 0 ? (int)size : 0;
        if (size < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : files_os(e, errno, "read what changed");
        for (const char *at = events; r == 0 && at < events + size;) {
                const struct inotify_event *event = (const void *)at;

                r = take_event(w, event, e);
                at += sizeof(*event) + event->len;
        }
        return r;
}

/* -- sending -------------------------------------------------------------------------------------------------- */

static int send_some(struct watch *w, struct cloche_err *e)
{
        ssize_t n = write(w->q->out_fd, w->out.data, w->out.size);

        if (n < 0 && errno != EAGAIN && errno != EINTR)
                return files_os(e, errno, "tell what changed");
        if (n > 0)
                buf_consume(&w->out, (size_t)n);
        return 0;
}

static int find_missing(struct watch *w, struct cloche_err *e)
{
        struct stat status;
        _cleanup_text_ char *path = w->is_missing ? path_join(w->root, w->only_name) : NULL;
        int r = path ? lstat(path, &status) : 0;

        w->is_closed |= r < 0;
        r = !w->is_missing ? 0 : tell(w, r < 0 ? CHANGE_DELETE : CHANGE_MODIFY, w->only_name, NULL, 0, e);
        w->is_missing = 0;
        return r;
}

static int report_all(struct watch *w, struct cloche_err *e)
{
        int r = 0;

        while (r == 0 && w->move_count)
                r = give_up_move(w, 0, e);
        if (r == 0)
                r = find_missing(w, e);
        if (r == 0 && w->is_closed)
                r = tell(w, CHANGE_DELETE, w->only_name ? w->only_name : "", NULL, !w->only_name, e);
        w->due_ns = 0;
        return r < 0 ? r : changes_report(&w->changes, w->q, w->root, &w->out, e);
}

/* Handle the events queued now and no later ones: a program that writes all the time cannot
 * delay this. */
static int take_all_events(struct watch *w, struct cloche_err *e)
{
        int left = 0, taken, r = 0;

        if (ioctl(w->tree.inotify_fd, FIONREAD, &left) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "count what changed");
        while (r == 0 && left > 0) {
                r = take_events(w, &taken, e);
                left = taken > 0 ? left - taken : 0;
        }
        return r;
}

/* Send all earlier changes before "flushed". */
static int flush(struct watch *w, struct cloche_err *e)
{
        int r;

        is_flush_wanted = 0;
        r = take_all_events(w, e);
        if (r == 0)
                r = report_all(w, e);
        return r < 0 ? r : answer_event(&w->out, w->q, "flushed", json_object(), NULL, e);
}

static int wait_for(const struct watch *w)
{
        uint64_t now = clock_now_ns();

        if (!w->due_ns || w->out.size > UNSENT_MAX)
                return -1;
        return w->due_ns <= now ? 0 : (int)((w->due_ns - now) / 1000000) + 1;
}

static void on_flush(int signal_number)
{
        (void)signal_number;
        is_flush_wanted = 1;
}

/* SIGUSR1 was blocked before this process started; it is unblocked only during waits. */
static void take_flushes(sigset_t *ret_waiting)
{
        struct sigaction action = {.sa_handler = on_flush};

        sigaction(SIGUSR1, &action, NULL);
        sigprocmask(SIG_BLOCK, NULL, ret_waiting);
        sigdelset(ret_waiting, SIGUSR1);
}

static int step(struct watch *w, const sigset_t *waiting, struct cloche_err *e)
{
        struct pollfd polled[2] = {{.fd = w->tree.inotify_fd, .events = POLLIN},
                                   {.fd = w->q->out_fd, .events = w->out.size ? POLLOUT : 0}};
        int ms = wait_for(w), taken, r = 0;
        struct timespec timeout = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

        if (ppoll(polled, 2, ms < 0 ? NULL : &timeout, waiting) < 0) {
                if (errno != EINTR)
                        return err_os(e, CLOCHE_E_RESOURCE, errno, "wait for changes");
                return is_flush_wanted ? flush(w, e) : 0;
        }
        if (polled[0].revents)
                r = take_events(w, &taken, e);
        if (r == 0 && polled[1].revents)
                r = send_some(w, e);
        if (r == 0 && ((w->due_ns && w->due_ns <= clock_now_ns() && w->out.size <= UNSENT_MAX) || w->is_closed))
                r = report_all(w, e);
        return r;
}

/* -- the operation -------------------------------------------------------------------------------------------- */

/* A directory that is some process's working directory does not report its own removal. */
static int watch_above(struct watch *w, struct cloche_err *e)
{
        _cleanup_text_ char *target = strdup(w->root), *parent = NULL;
        int r = target ? place_follow(&target, e) : request_no_memory(e);

        if (r < 0 || w->only_name || strcmp(target, "/") == 0)
                return r;
        parent = path_parent(target);
        w->own_name = strdup(path_name(target));
        if (!parent || !w->own_name)
                return request_no_memory(e);
        w->above_wd = inotify_add_watch(w->tree.inotify_fd, parent, IN_DELETE | IN_MOVED_FROM | IN_ONLYDIR);
        return 0;
}

static int choose_root(struct watch *w, const char *path, struct cloche_err *e)
{
        _cleanup_text_ char *target = strdup(path);
        struct stat status;
        int r;

        if (stat(path, &status) < 0)
                return files_os(e, errno, "watch %s", path);
        w->tree.is_flat = !request_is_true(w->q, "recursive", 1);
        if (!target)
                return request_no_memory(e);
        if (!S_ISDIR(status.st_mode)) {
                r = place_follow(&target, e);
                if (r < 0)
                        return r;
                w->tree.is_flat = 1;
                w->only_name = strdup(path_name(target));
                w->root = path_parent(target);
        } else {
                w->root = strdup(path);
        }
        return w->root && (S_ISDIR(status.st_mode) || w->only_name) ? 0 : request_no_memory(e);
}

static int watch(struct watch *w, const char *path, struct cloche_err *e)
{
        int r = choose_root(w, path, e);
        sigset_t waiting;

        take_flushes(&waiting);
        if (r == 0)
                r = watch_tree_open(&w->tree, w->root, e);
        if (r == 0)
                r = watch_above(w, e);
        if (r == 0)
                r = answer_event(&w->out, w->q, "ready", json_object(), NULL, e);
        fcntl(w->q->out_fd, F_SETFL, O_NONBLOCK);
        while (r == 0 && !w->is_closed)
                r = step(w, &waiting, e);
        fcntl(w->q->out_fd, F_SETFL, 0);
        while (r == 0 && w->out.size)
                r = send_some(w, e);
        return r;
}

int file_watch(struct files_request *q, struct cloche_err *e)
{
        static struct watch w; /* large; one per process */
        _cleanup_text_ char *path = NULL;
        int r;

        if (json_object_get(q->params, "include") && json_object_get(q->params, "exclude"))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "\"include\" and \"exclude\" were both given, expected at most one");
        w = (struct watch){.q = q,
                           .above_wd = -1,
                           .tree = {.inotify_fd = -EBADF, .filter = &w.filter},
                           .out = BUF_INIT(64u << 20)};
        r = request_path(q, "path", &path, e);
        if (r == 0)
                r = path_filter_open(&w.filter, q, excluded, e);
        if (r == 0)
                r = watch(&w, path, e);
        watch_tree_done(&w.tree);
        path_filter_done(&w.filter);
        buf_done(&w.out);
        free(w.root);
        free(w.only_name);
        free(w.own_name);
        return r < 0 ? r : request_answer(q, json_pack("{s:s}", "path", path), e);
}
