/* sandbox.fork: new sandboxes with the definition, the files and the contexts of one that goes on.
 *
 *   its contexts stop ──▶ its files are packed ──▶ linked into the forks ──▶ these run ──▶ the copies of
 *   (context/fork.c)  │   by its save              before their definitions            ▲   the contexts go on
 *   boxes of forks ───┴─▶ the contexts are forked into them ───────────────────────────┘
 *
 * The contexts stand still until both are done, so that memory and files of a fork are of one
 * moment. A failure at any step removes all forks; a context that cannot be forked is none, and
 * listed in the answer. A stopped sandbox has stopped forks, with its saved files. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "heritage.h"
#include "log.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/state.h"
#include "sandbox/context/context.h"
#include "sandbox/core/copy.h"
#include "sandbox/core/store.h"
#include "sandbox/environment/packages.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define FORKS_MAX 100

struct sandbox_fork;

struct child {
        struct sandbox_fork *fork;
        char name[SANDBOX_NAME_MAX];
        struct sandbox *sandbox;         /* NULL: not made yet, or deleted by a client and gone */
        struct sandbox_request *waiting; /* sandbox.resume, which is answered when it runs; or NULL */
        int has_box;
};

/* A context that comes along. */
struct branch {
        TAILQ_ENTRY(branch) link;
        struct sandbox_fork *fork;
        char name[SANDBOX_NAME_MAX];
        struct context_fork *context_fork; /* NULL: it has ended */
        int is_prepared;
};

enum fork_state {
        FORK_PREPARING, /* until its contexts stand still */
        FORK_PACKING,   /* until the boxes of all forks are there */
        FORK_BRANCHING, /* the contexts are forked into them, until all forks run */
        FORK_ENTERING,  /* until the copies of the contexts go on */
        FORK_STATES
};

struct sandbox_fork {
        struct sandbox_request *request;
        struct sandbox *from;
        json_t *omitted;
        TAILQ_HEAD(branch_list, branch) branches;
        struct copy *copy; /* without a state directory */
        enum fork_state state;
        int is_saving; /* its save is not on the disk yet, from FORK_PACKING on */
        unsigned count, runs;
        struct child children[];
};

/* From the first to the last: a sandbox that is stopped has no contexts, and its files are
 * there. */
static const unsigned transitions[FORK_STATES] = {
        [FORK_PREPARING] = STATE_TO(FORK_PACKING) | STATE_TO(FORK_ENTERING),
        [FORK_PACKING] = STATE_TO(FORK_BRANCHING),
        [FORK_BRANCHING] = STATE_TO(FORK_ENTERING),
};

static void set_state(struct sandbox_fork *fork, enum fork_state state)
{
        STATE_CHECK(transitions, fork->state, state);
        fork->state = state;
}

/* -- the end ------------------------------------------------------------------------------------------------------ */

static void fork_free(struct sandbox_fork *fork)
{
        struct branch *branch;

        while ((branch = TAILQ_FIRST(&fork->branches))) {
                TAILQ_REMOVE(&fork->branches, branch, link);
                free(branch);
        }
        for (unsigned i = 0; i < fork->count; i++)
                if (fork->children[i].sandbox)
                        fork->children[i].sandbox->holder = NULL;
        json_decref(fork->omitted);
        free(fork);
}

static void undo(struct sandbox_fork *fork)
{
        struct branch *branch;

        sandbox_store_detach(fork->from, fork);
        sandbox_copy_cancel(fork->copy);
        TAILQ_FOREACH (branch, &fork->branches, link)
                if (branch->context_fork)
                        context_branch_cancel(branch->context_fork);
        for (unsigned i = 0; i < fork->count; i++) {
                struct sandbox *s = fork->children[i].sandbox;

                if (s)
                        sandbox_delete(s);
                if (s && s->awaits_files) /* else its start would never end */
                        sandbox_on_files(s);
                if (fork->children[i].waiting)
                        sandbox_request_cancel(fork->children[i].waiting);
        }
        fork_free(fork);
}

static void fail(struct sandbox_fork *fork, const struct cloche_err *e)
{
        struct sandbox_request *request = fork->request;
        struct cloche_err copy = *e;

        request->cancel = NULL;
        undo(fork);
        sandbox_request_fail(request, &copy, NULL);
}

static void cancel(struct sandbox_request *request)
{
        undo(request->state);
}

static void succeed(struct sandbox_fork *fork)
{
        struct sandbox_request *request = fork->request;
        json_t *list = json_array(), *names = json_array(), *answer;

        for (unsigned i = 0; i < fork->count; i++) {
                json_array_append_new(list, sandbox_json(fork->children[i].sandbox));
                json_array_append_new(names, json_string(fork->children[i].name));
        }
        answer = json_pack("{s:o, s:O}", "sandboxes", list, "omitted", fork->omitted);
        sandbox_log_format(fork->from, "forked", "%u times: \"%s\"%s", fork->count, fork->children[0].name,
                           fork->count > 1 ? " and others" : "");
        request->cancel = NULL;
        sandbox_send_event(fork->from, "forked", json_pack("{s:o}", "sandboxes", names));
        fork_free(fork);
        sandbox_request_result(request, answer, NULL);
}

static int has_branches(const struct sandbox_fork *fork)
{
        const struct branch *branch;

        TAILQ_FOREACH (branch, &fork->branches, link)
                if (branch->context_fork)
                        return 1;
        return 0;
}

/* A client may delete the original or one of the forks at any time. */
static int check_children(const struct sandbox_fork *fork, struct cloche_err *e)
{
        if (fork->from->is_deleted)
                return err_set(e, CLOCHE_E_SANDBOX_ENDED, "the sandbox was deleted");
        for (unsigned i = 0; i < fork->count; i++)
                if (!fork->children[i].sandbox || fork->children[i].sandbox->is_deleted)
                        return err_set(e, CLOCHE_E_SANDBOX_ENDED, "the fork \"%s\" was deleted while it was made",
                                       fork->children[i].name);
        return 0;
}

static void succeed_if_all(struct sandbox_fork *fork)
{
        struct cloche_err e;

        if (fork->state != FORK_ENTERING || fork->is_saving || has_branches(fork))
                return;
        if (check_children(fork, &e) < 0)
                fail(fork, &e);
        else
                succeed(fork);
}

/* -- contexts ----------------------------------------------------------------------------------------------------- */

static void pack_if_prepared(struct sandbox_fork *fork);
static void enter_if_all(struct sandbox_fork *fork);

static void omit_context(struct sandbox_fork *fork, const char *name, const char *reason)
{
        sandbox_heritage_omit(fork->omitted, "context", name, reason);
}

static void on_prepared(void *data)
{
        struct branch *branch = data;

        branch->is_prepared = 1;
        pack_if_prepared(branch->fork);
}

static void on_forked(void *data, const struct cloche_err *e)
{
        struct branch *branch = data;
        struct sandbox_fork *fork = branch->fork;

        branch->context_fork = NULL;
        if (e)
                omit_context(fork, branch->name, e->msg);
        if (fork->state == FORK_PREPARING)
                pack_if_prepared(fork);
        else
                succeed_if_all(fork);
}

static const char *why_not(const struct context *c)
{
        if (c->state == CONTEXT_ENDED)
                return "it has ended";
        if (c->state == CONTEXT_STARTING)
                return "it is being started";
        if (c->cold_why[0])
                return "its interpreter was started cold: only a forked one can be forked again";
        if (!c->is_forkable)
                return "it was not created as forkable (context.create with forkable, context create --forkable)";
        if (c->fork)
                return "it is being forked or rolled back";
        if (!TAILQ_EMPTY(&c->tasks))
                return "a cell runs in it";
        if (c->is_apart)
                return "it is itself a fork, with files of its own";
        return NULL;
}

static void begin_branch(struct sandbox_fork *fork, struct context *c)
{
        struct branch *branch = calloc(1, sizeof(*branch));
        const struct context_branch_owner owner = {on_prepared, on_forked, branch};
        struct cloche_err e = {0};

        if (branch) {
                branch->fork = fork;
                strcpy(branch->name, c->name);
                branch->context_fork = context_branch_begin(c, fork->count, &owner, &e);
        }
        if (!branch || !branch->context_fork) {
                omit_context(fork, c->name, branch ? e.msg : "there is no memory");
                free(branch);
                return;
        }
        TAILQ_INSERT_TAIL(&fork->branches, branch, link);
}

static void begin_branches(struct sandbox_fork *fork)
{
        struct context *c;

        TAILQ_FOREACH (c, &fork->from->contexts, link) {
                const char *reason = c->is_doomed || c->of ? NULL : why_not(c);

                if (c->is_doomed)
                        continue;
                if (c->of)
                        sandbox_heritage_omit(fork->omitted, "checkpoint", c->name,
                                              "checkpoints stay with their context");
                else if (reason)
                        omit_context(fork, c->name, reason);
                else
                        begin_branch(fork, c);
        }
}

/* The boxes of the forks are there, and the contexts stand still: fork them while the files are
 * on their way. */
static void go_if_boxes(struct sandbox_fork *fork)
{
        struct sandbox *to[FORKS_MAX];
        struct branch *branch;
        struct cloche_err e;

        if (fork->state != FORK_PACKING || check_children(fork, &e) < 0)
                return;
        for (unsigned i = 0; i < fork->count; i++) {
                if (!fork->children[i].has_box)
                        return;
                to[i] = fork->children[i].sandbox;
        }
        set_state(fork, FORK_BRANCHING);
        TAILQ_FOREACH (branch, &fork->branches, link) {
                if (!branch->context_fork || context_branch_go(branch->context_fork, to, &e) == 0)
                        continue;
                branch->context_fork = NULL;
                omit_context(fork, branch->name, e.msg);
        }
}

/* All forks run, with their files. */
static void enter_if_all(struct sandbox_fork *fork)
{
        struct branch *branch;
        struct cloche_err e;

        if (fork->runs < fork->count)
                return;
        if (check_children(fork, &e) < 0) {
                fail(fork, &e);
                return;
        }
        set_state(fork, FORK_ENTERING);
        TAILQ_FOREACH (branch, &fork->branches, link) {
                if (!branch->context_fork || context_branch_enter(branch->context_fork, &e) == 0)
                        continue;
                branch->context_fork = NULL;
                omit_context(fork, branch->name, e.msg);
        }
        succeed_if_all(fork);
}

/* -- the forks ---------------------------------------------------------------------------------------------------- */

static void on_event(void *data, const char *event, const json_t *about, const struct buf *attachments)
{
        (void)data, (void)event, (void)about, (void)attachments;
}

static void on_runs(void *data, const json_t *result, const struct buf *attachments)
{
        struct child *child = data;

        (void)result, (void)attachments;
        child->waiting = NULL;
        child->fork->runs++;
        enter_if_all(child->fork);
}

static void on_start_failed(void *data, const struct cloche_err *e, const json_t *about)
{
        struct child *child = data;

        (void)about;
        child->waiting = NULL;
        fail(child->fork, e);
}

static void on_box(struct sandbox *s)
{
        struct child *child = (struct child *)((char *)s->holder - offsetof(struct child, sandbox));

        child->has_box = 1;
        go_if_boxes(child->fork);
}

static int make_child(struct child *child, const json_t *heritage, struct cloche_err *e)
{
        struct sandbox *from = child->fork->from, *s = sandbox_new(from->all, from->principal, child->name, e);

        if (!s)
                return -(int)e->code;
        child->sandbox = s;
        s->holder = &child->sandbox;
        s->on_box = on_box;
        s->awaits_files = 1;
        s->is_untried = from->state != SANDBOX_STOPPED;
        return sandbox_heritage_take(s, heritage, e);
}

/* Until it has files, it only waits for them. */
static int start_child(struct child *child, struct cloche_err *e)
{
        static const struct sandbox_face face = {.event = on_event, .result = on_runs, .fail = on_start_failed};
        struct sandbox *from = child->fork->from;
        json_t *params = json_pack("{s:s}", "sandbox", child->name);
        int r = params ? sandboxes_request(from->all, from->principal, "sandbox.resume", params, NULL, &face, child,
                                           &child->waiting, e)
                       : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "fork a sandbox");

        json_decref(params);
        return r;
}

static int make_children(struct sandbox_fork *fork, struct cloche_err *e)
{
        json_t *heritage = sandbox_heritage_of(fork->from);
        int r = heritage ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "fork a sandbox");

        for (unsigned i = 0; i < fork->count && r == 0; i++)
                r = make_child(&fork->children[i], heritage, e);
        json_decref(heritage);
        return r;
}

/* -- files -------------------------------------------------------------------------------------------------------- */

/* The files, then the definition: a process that is killed in between leaves no sandbox. fd: the
 * archive, without a state directory; else it is linked. */
static int give_files(struct child *child, int fd, struct cloche_err *e)
{
        struct sandbox *s = child->sandbox, *from = child->fork->from;
        _cleanup_fd_ int dir_fd = s->all->state_fd < 0 ? -EBADF : sandbox_store_open(s, 1);
        int r = 0;

        if (s->all->state_fd < 0) {
                s->given_fd = fd < 0 ? -EBADF : sandbox_copy_reopen(fd);
                if (fd >= 0 && s->given_fd < 0)
                        r = s->given_fd;
        } else {
                r = dir_fd < 0 ? dir_fd : sandbox_store_link(from, dir_fd);
                if (r == -ENOENT && from->state == SANDBOX_STOPPED) /* it was never saved */
                        r = 0;
        }
        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "give the sandbox %s its files", s->name);
        s->saved_ms = s->all->state_fd < 0 ? 0 : from->state == SANDBOX_STOPPED ? from->saved_ms : s->created_ms;
        sandbox_on_files(s);
        r = sandbox_store_define(s, e);
        if (r == 0)
                sandbox_log_format(s, "created", "as a fork of \"%s\"", from->name);
        return r;
}

static void give_all(struct sandbox_fork *fork, int fd)
{
        struct branch *branch;
        struct cloche_err e;
        int r = check_children(fork, &e);

        for (unsigned i = 0; i < fork->count && r == 0; i++)
                r = give_files(&fork->children[i], fd, &e);
        if (r < 0) {
                fail(fork, &e);
                return;
        }
        TAILQ_FOREACH (branch, &fork->branches, link)
                if (branch->context_fork)
                        context_branch_packed(branch->context_fork);
}

static void on_packed(void *data)
{
        give_all(data, -EBADF);
}

static void on_saved(void *data, const struct cloche_err *e)
{
        struct sandbox_fork *fork = data;

        fork->is_saving = 0;
        if (e)
                fail(fork, e);
        else
                succeed_if_all(fork);
}

static void on_copied(void *data, int fd, const struct cloche_err *e)
{
        struct sandbox_fork *fork = data;

        fork->copy = NULL;
        if (e)
                fail(fork, e);
        else
                give_all(fork, fd);
        fd_close(&fd);
}

static void pack_if_prepared(struct sandbox_fork *fork)
{
        struct branch *branch;
        struct cloche_err e;

        if (fork->state != FORK_PREPARING)
                return;
        TAILQ_FOREACH (branch, &fork->branches, link)
                if (branch->context_fork && !branch->is_prepared)
                        return;
        set_state(fork, FORK_PACKING);
        go_if_boxes(fork);
        if (fork->from->all->state_fd >= 0) {
                fork->is_saving = 1;
                sandbox_store_save_for(fork->from, on_packed, on_saved, fork);
        } else if (sandbox_copy_out(fork->from, &fork->from->control, "/", on_copied, fork, &fork->copy, &e) < 0) {
                fail(fork, &e);
        }
}

/* -- the method --------------------------------------------------------------------------------------------------- */

static int check_name(const struct sandbox_request *request, const char *name, struct cloche_err *e)
{
        int r = sandbox_name_check(name, e);

        if (r == 0 && sandbox_find(request->all, request->principal, name))
                r = err_set(e, CLOCHE_E_STATE, "there is a sandbox \"%s\" already: choose another name for the fork",
                            name);
        return r < 0 ? r : sandbox_packages_check_name(request->all, request->principal, name, e);
}

static int name_children(struct sandbox_fork *fork, const json_t *names, struct cloche_err *e)
{
        for (unsigned i = 0; i < fork->count; i++) {
                const char *name = json_string_value(json_array_get(names, i));
                char made_up[SANDBOX_MADE_UP_SIZE];
                int r;

                if (names && !name)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "names[%u] must be text", i);
                if (!names)
                        sandbox_make_up_name("box", made_up);
                r = check_name(fork->request, name ? name : made_up, e);
                if (r < 0)
                        return r;
                strcpy(fork->children[i].name, name ? name : made_up);
                for (unsigned k = 0; k < i; k++)
                        if (strcmp(fork->children[k].name, fork->children[i].name) == 0)
                                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "names has \"%s\" twice",
                                               fork->children[i].name);
        }
        return 0;
}

static int read_count(const struct sandbox_request *request, unsigned *ret, struct cloche_err *e)
{
        const json_t *names = json_object_get(request->params, "names");
        uint64_t count = sandbox_request_count(request, "count", names ? json_array_size(names) : 1);

        if (count < 1 || count > FORKS_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "count must be 1 to %d", FORKS_MAX);
        if (names && json_array_size(names) != count)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "names has %zu names for %u forks: leave count out, or give as many names",
                               json_array_size(names), (unsigned)count);
        *ret = (unsigned)count;
        return sandbox_check_count(request->all, request->principal, *ret, e);
}

static int begin(struct sandbox_fork *fork, struct cloche_err *e)
{
        int is_stopped = fork->from->state == SANDBOX_STOPPED;
        int r = make_children(fork, e);

        for (unsigned i = 0; i < fork->count && r == 0; i++)
                r = is_stopped ? give_files(&fork->children[i], -EBADF, e) : start_child(&fork->children[i], e);
        if (r < 0)
                return r;
        sandbox_heritage_list_omitted(fork->from, fork->omitted);
        if (is_stopped) {
                set_state(fork, FORK_ENTERING);
                succeed_if_all(fork);
                return 0;
        }
        begin_branches(fork);
        pack_if_prepared(fork);
        return 0;
}

int handle_FORK(struct sandbox_request *request, struct cloche_err *e)
{
        struct sandbox *s = request->sandbox;
        struct sandbox_fork *fork;
        unsigned count = 0;
        int r = read_count(request, &count, e);

        if (r < 0)
                return r;
        if (s->state != SANDBOX_RUNNING && s->state != SANDBOX_STOPPED) {
                sandbox_request_set_phase(request, REQUEST_WAITING);
                TAILQ_INSERT_TAIL(&s->waiting, request, turn_link);
                sandbox_start(s);
                return 0;
        }
        fork = calloc(1, sizeof(*fork) + count * sizeof(fork->children[0]));
        if (!fork)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "fork a sandbox");
        fork->request = request;
        fork->from = s;
        fork->count = count;
        fork->omitted = json_array();
        TAILQ_INIT(&fork->branches);
        for (unsigned i = 0; i < count; i++)
                fork->children[i].fork = fork;
        request->state = fork;
        request->cancel = cancel;
        r = name_children(fork, json_object_get(request->params, "names"), e);
        if (r == 0)
                r = begin(fork, e);
        if (r < 0) {
                struct cloche_err own = *e;

                request->cancel = NULL;
                undo(fork);
                *e = own;
        }
        return r;
}
