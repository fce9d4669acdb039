/* The life of contexts: forked from a notebook's prefix, ended, started again. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "context.h"
#include "base/state.h"
#include "prewarm.h"
#include "sandbox/core/copy.h"
#include "sandbox/core/spawn.h"
#include "sandbox/life/pause.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/peer.h"
#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define END_PATIENCE_MS 200      /* from the end of its channel to its own end; then it is killed */
#define REPORT_PATIENCE_MS 10000 /* until its template reports the exit status; code of the set-up may prevent it */
#define OPEN_PATIENCE_MS 60000   /* the code in a forked context may prevent an answer */

/* -- states ---------------------------------------------------------------------------------------------------- */

static const unsigned transitions[CONTEXT_STATES] = {
        [CONTEXT_ENDED] = STATE_TO(CONTEXT_ENDED) | STATE_TO(CONTEXT_STARTING),
        [CONTEXT_STARTING] = STATE_TO(CONTEXT_STARTING) | STATE_TO(CONTEXT_LIVE) | STATE_TO(CONTEXT_ENDED),
        [CONTEXT_LIVE] = STATE_TO(CONTEXT_ENDED),
};

void context_set_state(struct context *c, enum context_state state)
{
        STATE_CHECK(transitions, c->state, state);
        c->state = state;
}

/* -- lookup, creation ----------------------------------------------------------------------------------------- */

struct context *context_look_up(struct sandbox *s, const char *name)
{
        struct context *c;

        TAILQ_FOREACH (c, &s->contexts, link)
                if (!c->is_doomed && !c->of && strcmp(c->name, name) == 0)
                        return c;
        return NULL;
}

struct context *context_find(struct sandbox *s, const char *name, struct cloche_err *e)
{
        struct context *c = context_look_up(s, name);

        if (!c)
                err_set(e, CLOCHE_E_NOT_FOUND,
                        "there is no context \"%.64s\" in this sandbox (context.list lists them)", name);
        return c;
}

int context_name_check(const char *name, struct cloche_err *e)
{
        size_t size = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

        if (size == 0 || size >= SANDBOX_NAME_MAX || name[size])
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "\"%.64s\" is not a valid name of a context or checkpoint: expected 1 to %d of A-Z a-z "
                               "0-9 . _ -",
                               name, SANDBOX_NAME_MAX - 1);
        return 0;
}

static struct context *make(struct sandbox *s, const char *name, const struct runtime *runtime, const char *cwd,
                            json_t *env, struct cloche_err *e)
{
        struct context *c;

        if (s->context_count >= CONTEXTS_MAX) {
                err_set(e, CLOCHE_E_QUEUE_FULL, "the sandbox has %u contexts already: delete one (context.delete)",
                        s->context_count);
                return NULL;
        }
        c = calloc(1, sizeof(*c));
        if (c && (c->cwd = strdup(cwd ? cwd : sandbox_directory(s))))
                c->end_timer = sandbox_timer_new(s, c);
        if (!c || !c->end_timer) {
                if (c)
                        free(c->cwd);
                free(c);
                err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a context");
                return NULL;
        }
        c->sandbox = s;
        c->connections = (struct connections){.sandbox = s, .box = KEEPER_NO_BOX};
        strcpy(c->name, name);
        c->runtime = runtime;
        c->env = env ? json_incref(env) : json_object();
        c->created_ms = c->used_ms = clock_real_ms();
        control_init(&c->control, &control_of_context);
        c->channel.fd = c->files_fd = -EBADF;
        context_streams_init(c);
        TAILQ_INIT(&c->tasks);
        TAILQ_INSERT_TAIL(&s->contexts, c, link);
        s->context_count++;
        return c;
}

struct context *context_new(struct sandbox *s, const char *name, const char *language, const char *cwd, json_t *env,
                            struct cloche_err *e)
{
        const struct runtime *runtime;
        struct template *template;

        if (context_name_check(name, e) < 0 ||
            context_notebook_find(s->all, s->principal, &s->image, language, &runtime, &template, e) < 0)
                return NULL;
        return make(s, name, runtime, cwd, env, e);
}

static void use_set_up(struct context *c, struct template *set_up, const char *name)
{
        c->set_up = set_up;
        set_up->users++;
        snprintf(c->prefix, sizeof(c->prefix), "%s", name);
}

int context_use_prefix(struct context *c, const char *name, const cloche_prefix *prefix, struct cloche_err *e)
{
        struct template *set_up;
        int r = context_prefix_find(c->sandbox, prefix, &set_up, e);

        if (r == 0)
                use_set_up(c, set_up, name);
        return r;
}

struct context *context_like(struct sandbox *s, const struct context *c, const char *name, struct cloche_err *e)
{
        struct context *like = make(s, name, c->runtime, c->cwd, c->env, e);

        if (!like)
                return NULL;
        if (c->set_up)
                use_set_up(like, c->set_up, c->prefix);
        like->timeout_ms = c->timeout_ms;
        like->count = c->count;
        context_history_share(like, c);
        memcpy(like->interpreter, c->interpreter, sizeof(like->interpreter));
        memcpy(like->lives, c->lives, sizeof(like->lives));
        like->life_count = c->life_count;
        if (s != c->sandbox)
                like->lives[like->life_count++] = c->sandbox->life;
        context_set_state(like, CONTEXT_STARTING);
        return like;
}

/* -- the end ---------------------------------------------------------------------------------------------------- */

/* Release its parts of the box, which ends with them. */
static void release(struct context *c)
{
        template_cancel_wait(&c->wait);
        sandbox_timer_stop(c->end_timer);
        context_streams_close(c);
        channel_close(&c->channel);
        control_close(&c->control);
        connections_close(&c->connections);
        c->connections.box = KEEPER_NO_BOX;
        instance_free(c->next_fork);
        instance_free(c->instance);
        c->next_fork = c->instance = NULL;
        c->pid = 0;
        c->setups_left = 0;
        c->has_status = c->was_killed = 0;
}

void context_end(struct context *c, const struct cloche_err *e)
{
        struct cloche_err copy = *e;

        if (c->state == CONTEXT_LIVE)
                context_streams_take(c);
        context_set_state(c, CONTEXT_ENDED);
        snprintf(c->why, sizeof(c->why), "%s", copy.msg);
        release(c);
        if (c->fork)
                context_fork_abort(c->fork, c, &copy);
        context_tasks_fail(c, &copy);
}

void context_free(struct context *c)
{
        struct cloche_err e;

        err_set(&e, CLOCHE_E_CONTEXT_ENDED, "the context was deleted");
        context_end(c, &e);
        context_checkpoints_free(c);
        TAILQ_REMOVE(&c->sandbox->contexts, c, link);
        c->sandbox->context_count--;
        for (int i = 0; i < STREAMS; i++)
                spool_done(&c->streams[i].spool);
        fd_close(&c->files_fd);
        sandbox_timer_close(c->end_timer);
        if (c->set_up)
                c->set_up->users--;
        json_decref(c->env);
        json_decref(c->history);
        free(c->cwd);
        free(c);
}

void context_schedule_free(struct context *c)
{
        c->is_doomed = 1;
        sandbox_schedule_turn(c->sandbox);
}

unsigned contexts_count(const struct sandbox *s)
{
        const struct context *c;
        unsigned count = 0;

        TAILQ_FOREACH (c, &s->contexts, link)
                count += !c->of && !c->is_doomed;
        return count;
}

static struct context *doomed_one(const struct sandbox *s)
{
        struct context *c;

        TAILQ_FOREACH (c, &s->contexts, link)
                if (c->is_doomed)
                        return c;
        return NULL;
}

static int is_settled(const struct instance *instance)
{
        return !instance || instance->state == INSTANCE_MADE || instance->state == INSTANCE_READY;
}

int contexts_are_settled(const struct sandbox *s)
{
        const struct context *c;

        TAILQ_FOREACH (c, &s->contexts, link)
                if (c->state == CONTEXT_STARTING || c->fork || !is_settled(c->next_fork))
                        return 0;
        return 1;
}

/* While the sandbox is paused no task begins: it could make a box, in groups that are frozen. */
void contexts_turn(struct sandbox *s)
{
        struct context *c, *next;

        if (s->are_timers_held)
                return;
        for (c = TAILQ_FIRST(&s->contexts); c; c = next) {
                next = TAILQ_NEXT(c, link);
                if (c->is_queued && c->state == CONTEXT_LIVE)
                        context_tasks_begin(c);
                c->is_queued = 0;
        }
        while ((c = doomed_one(s))) /* its checkpoints are freed with it, and any of them may be the next in the list */
                context_free(c);
}

static int is_forked_from(const struct context *c, const struct sandbox *s)
{
        for (unsigned i = 0; i < c->life_count; i++)
                if (c->lives[i] == s->life)
                        return 1;
        return 0;
}

int contexts_have_forks(const struct sandbox *s)
{
        const struct sandbox *other;
        const struct context *c;

        TAILQ_FOREACH (other, &s->all->list, link)
                TAILQ_FOREACH (c, &other->contexts, link)
                        if (c->state != CONTEXT_ENDED && is_forked_from(c, s))
                                return 1;
        return 0;
}

/* The kernel kills what is beneath a box with it. Frozen processes may not die before they are
 * thawed. */
static void end_forks(struct sandbox *s)
{
        struct sandbox *other;
        struct context *c;
        struct cloche_err e;

        err_set(&e, CLOCHE_E_CONTEXT_ENDED, "the interpreter ended with the sandbox \"%s\", from which it was forked",
                s->name);
        TAILQ_FOREACH (other, &s->all->list, link)
                TAILQ_FOREACH (c, &other->contexts, link)
                        if (c->state != CONTEXT_ENDED && is_forked_from(c, s)) {
                                context_end(c, &e);
                                if (other->are_timers_held)
                                        sandbox_wake(other);
                        }
}

void contexts_on_box_closed(struct sandbox *s)
{
        context_prewarm_close(s);
        end_forks(s);
        while (!TAILQ_EMPTY(&s->contexts)) /* checkpoints are freed with their context, or before it */
                context_free(TAILQ_FIRST(&s->contexts));
}

static void describe_status(int wait_status, char *to, size_t size)
{
        if (WIFSIGNALED(wait_status))
                snprintf(to, size, "was killed by signal %d (%s%s)", WTERMSIG(wait_status),
                         strsignal(WTERMSIG(wait_status)),
                         WTERMSIG(wait_status) == SIGKILL ? ": out of memory, or from within" : "");
        else
                snprintf(to, size, "left with exit code %d", WEXITSTATUS(wait_status));
}

/* 0 if the engine may not read it. */
static uint64_t count_oom_kills(const struct context *c)
{
        struct keeper_usage usage;

        return c->sandbox->all->boxes->read_usage(c->sandbox->all, c->sandbox->box, &usage) ? usage.oom_kills : 0;
}

void context_note_memory(struct context *c)
{
        c->oom_kills = count_oom_kills(c);
}

static int ran_out_of_memory(const struct context *c)
{
        return c->has_status && WIFSIGNALED(c->wait_status) && WTERMSIG(c->wait_status) == SIGKILL &&
               count_oom_kills(c) > c->oom_kills;
}

static void tell_end_in_fork(const struct context *c, const char *how, struct cloche_err *e)
{
        (void)err_set(e, CLOCHE_E_CONTEXT_ENDED,
                      "the interpreter %s while it was forked from the prefix \"%s\": code that its set-up left may "
                      "have "
                      "ended it",
                      how, c->prefix);
}

static void end_by_itself(struct context *c)
{
        char how[128] = "has ended", limit[LIMITS_TEXT_BYTES];
        struct cloche_err e;
        int is_out_of_memory;

        if (c->has_status)
                describe_status(c->wait_status, how, sizeof(how));
        is_out_of_memory = ran_out_of_memory(c);
        if (c->was_killed && c->has_status && WIFSIGNALED(c->wait_status) && WTERMSIG(c->wait_status) == SIGKILL)
                snprintf(how, sizeof(how), "was killed: it had closed its connection to the engine");
        if (is_out_of_memory)
                snprintf(how, sizeof(how), "was killed for want of memory; the limit of the sandbox is %s",
                         limits_bytes_text(c->sandbox->limits.memory_bytes, limit));
        if (c->set_up && c->state == CONTEXT_STARTING && !c->cold_why[0])
                tell_end_in_fork(c, how, &e);
        else
                err_set(&e, CLOCHE_E_CONTEXT_ENDED, "the interpreter %s%s", how,
                        c->setups_left && !is_out_of_memory ? " before it was ready" : "");
        e.os_errno = is_out_of_memory ? ENOMEM : 0; /* a cell reports that as MemoryLimit */
        if (c->setups_left && !is_out_of_memory)
                context_explain_cold_end(c, &e);
        context_end(c, &e);
}

static void on_signal_sent(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        struct context *c = data;

        (void)answer, (void)e;
        peer_discard_one(&fd);
        c->signals_in_flight--;
        if (c->state == CONTEXT_LIVE)
                context_tasks_begin(c);
}

/* As the agent reported it or, before, PID 1; 0: a fork that did not report. */
static int32_t pid_of(const struct context *c)
{
        return !c->pid && c->cold_why[0] && c->instance ? c->instance->box.pid : c->pid;
}

static int send_signal(struct context *c, int number)
{
        struct cloche_err e;

        if (!pid_of(c) || c->control.fd < 0 ||
            sandbox_send_kill(&c->control, pid_of(c), number, 0, NULL, 0, on_signal_sent, c, &e) < 0)
                return 0;
        c->signals_in_flight++;
        return 1;
}

/* The interpreter closed its channel and goes on, or the report of its end is late. A kill ends the
 * first, and leaves the status of a process that has ended as it is. */
static void on_no_status(uv_timer_t *timer)
{
        struct context *c = timer->data;

        if (c->was_killed || !send_signal(c, SIGKILL)) {
                end_by_itself(c);
                return;
        }
        c->was_killed = 1;
        sandbox_timer_start(c->end_timer, on_no_status, REPORT_PATIENCE_MS, 0);
}

static void on_exited(struct instance *instance, const struct init_answer *exit)
{
        struct context *c = instance->owner;

        c->has_status = 1;
        c->wait_status = exit->wait_status;
        if (c->state != CONTEXT_ENDED)
                end_by_itself(c);
}

/* The channel or the box has ended; wait for the report of the exit status, or of a fork that
 * failed: without a pid there is nothing to kill. */
static void await_status(struct context *c)
{
        if (!c->instance || (!c->instance->child.of && !c->cold_why[0]))
                end_by_itself(c);
        else
                sandbox_timer_start(c->end_timer, on_no_status, pid_of(c) ? END_PATIENCE_MS : REPORT_PATIENCE_MS, 0);
}

/* -- the start -------------------------------------------------------------------------------------------------- */

static void on_control_end(void *data, const struct cloche_err *e)
{
        struct cloche_err copy = *e;

        if (e->code == CLOCHE_E_TIMEOUT)
                context_end(data, &copy);
        else
                await_status(data);
}

static void on_program_exit(void *data, const struct init_answer *exit)
{
        struct context *c = data;

        if (c->cold_why[0] && c->instance && exit->pid == c->instance->box.pid)
                on_exited(c->instance, exit);
        else
                sandbox_copies_exited(c->sandbox, &c->control, exit);
}

static void on_channel_end(void *data, const struct cloche_err *e)
{
        struct context *c = data;
        struct cloche_err copy;

        if (!e) {
                await_status(c);
                return;
        }
        err_set(&copy, CLOCHE_E_CONTEXT_ENDED, "the interpreter was killed: its agent sent an invalid message: %s",
                e->msg);
        context_end(c, &copy);
}

struct opening {
        struct context_task task;
        const char *method;
};

static json_t *open_params(struct context_task *task)
{
        const struct opening *opening = (struct opening *)task;
        const struct context *c = task->context;

        if (strcmp(opening->method, "enter") == 0)
                return json_object();
        return json_pack("{s:s, s:o, s:s}", "cwd", c->cwd, "env", sandbox_env_object(c->sandbox, c->env), "language",
                         c->runtime->name);
}

/* Copy guest text that clients see, cut between characters. A fork has that of its original. */
static void take_interpreter(struct context *c, const struct rpc_message *m)
{
        const char *text = json_string_value(json_object_get(m->result, "interpreter"));
        size_t n = text ? strlen(text) : 0;

        if (!text)
                return;
        n = utf8_cut(text, n, sizeof(c->interpreter) - 1);
        memcpy(c->interpreter, text, n);
        c->interpreter[n] = '\0';
}

/* The first cell must find the network in force. */
static void live_if_all(struct context *c)
{
        if (c->state != CONTEXT_STARTING || !c->pid || !connections_are_settled(&c->connections))
                return;
        sandbox_timer_stop(c->end_timer);
        context_set_state(c, CONTEXT_LIVE);
        if (c->fork)
                context_fork_opened(c->fork, c);
}

static void on_network(struct connections *connections, const struct cloche_err *e)
{
        struct context *c = (struct context *)((char *)connections - offsetof(struct context, connections));
        struct cloche_err copy;

        if (c->state != CONTEXT_STARTING)
                return;
        if (e) {
                copy = *e;
                context_end(c, &copy);
                return;
        }
        live_if_all(c);
        context_tasks_begin(c);
}

static void opened(struct context_task *task, const struct rpc_message *m, const struct frame *f)
{
        struct context *c = task->context;
        json_int_t pid = json_integer_value(json_object_get(m->result, "pid"));
        struct cloche_err e;

        (void)f;
        if (m->kind == RPC_ERROR) {
                context_read_error(m, &e);
        } else if (pid <= 1 || pid > INT32_MAX) {
                err_set(&e, CLOCHE_E_PROTOCOL, "the agent sent no valid process id");
        } else {
                free(task);
                c->pid = (int32_t)pid;
                take_interpreter(c, m);
                live_if_all(c);
                return;
        }
        free(task);
        context_end(c, &e);
}

static void not_opened(struct context_task *task, const struct cloche_err *e)
{
        struct context *c = task->context;

        free(task);
        if (c->state == CONTEXT_STARTING) /* the request could not be sent */
                context_end(c, e);
}

static void free_opening(struct context_task *task)
{
        free(task);
}

static const struct context_task_kind opening_kinds[] = {
        {"open", open_params, opened, not_opened, free_opening},
        {"enter", open_params, opened, not_opened, free_opening},
};

static void on_not_opened(uv_timer_t *timer)
{
        struct context *c = timer->data;
        struct cloche_err e;

        err_set(&e, CLOCHE_E_CONTEXT_ENDED,
                c->pid ? "the network of the context was not in force within %d s: its egress program did not answer, "
                         "perhaps for want of the sandbox's processor time; try again"
                       : "the interpreter did not begin within %d s: the host may be overloaded, try again",
                OPEN_PATIENCE_MS / 1000);
        context_end(c, &e);
}

/* Put the request in front of the tasks that wait. */
static int request_open(struct context *c, const char *method, struct cloche_err *e)
{
        struct opening *opening = calloc(1, sizeof(*opening));

        if (!opening)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "open a context");
        opening->method = method;
        opening->task.context = c;
        opening->task.kind = &opening_kinds[strcmp(method, "enter") == 0];
        TAILQ_INSERT_HEAD(&c->tasks, &opening->task, link);
        c->task_count++;
        sandbox_timer_start(c->end_timer, on_not_opened, OPEN_PATIENCE_MS, 0);
        context_tasks_begin(c);
        return 0;
}

int context_take_control(struct context *c, struct instance *instance, struct cloche_err *e)
{
        int fd;

        box_take_control(&instance->box);
        fd = fcntl(instance->box.control_fd, F_DUPFD_CLOEXEC,
                   3); /* the instance keeps its own descriptor for sending */
        if (fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "connect to the box of a context");
        c->control.on_exit = on_program_exit;
        c->control.on_end = on_control_end;
        c->control.data = c;
        c->control.is_copy = 1;
        return control_open(&c->control, fd, &c->sandbox->all->engine->loop, e);
}

/* A checkpoint runs no code, so it needs none; one that was started has the sandbox's. */
static int open_network(struct context *c, struct cloche_err *e)
{
        if (c->of || c->cold_why[0])
                return 0;
        c->connections.box = c->instance->box.id;
        c->connections.on_change = on_network;
        return connections_open(&c->connections, c->sandbox->network_policy, e);
}

int context_adopt(struct context *c, struct instance *instance, const char *method, struct cloche_err *e)
{
        int r;

        context_set_state(c, CONTEXT_STARTING);
        c->instance = instance;
        c->channel = instance->channel;
        instance->channel = (struct channel){.fd = -EBADF};
        channel_limit_frames(&c->channel, CONTEXT_FRAME_BYTES);
        c->channel.on_end = on_channel_end;
        r = c->control.fd >= 0 ? 0 : context_take_control(c, instance, e);
        if (r == 0)
                r = context_streams_open(c, &instance->stdio, e);
        if (r == 0)
                r = context_watch(c, e);
        if (r == 0)
                r = open_network(c, e);
        if (r == 0)
                r = c->cold_why[0] ? context_begin_setups(c, e) : request_open(c, method, e);
        return r;
}

int context_open(struct context *c, struct cloche_err *e)
{
        return request_open(c, "open", e);
}

/* Undo a part of the start: its request to open, and what was there for it. The other tasks
 * stay. */
static void start_again_cold(struct context *c, const char *why)
{
        struct context_task *task;

        TAILQ_FOREACH (task, &c->tasks, link)
                if (task->kind->release == free_opening)
                        break;
        if (task) {
                c->current = NULL;
                context_task_detach(task);
        }
        release(c);
        context_start_cold(c, why);
}

/* Its fork found files changed that it has in memory (box/join/loaded.c). */
static int is_stale(const struct context *c, const struct cloche_err *e)
{
        return c->state == CONTEXT_STARTING && c->sandbox->has_writable_root && !c->cold_why[0] &&
               e->code == CLOCHE_E_TEMPLATE && e->os_errno == ESTALE;
}

static void on_instance(struct instance *instance, const struct cloche_err *e)
{
        struct context *c = instance->owner;
        struct cloche_err error;
        int r = 0;

        if (e && is_stale(c, e)) {
                error = *e;
                start_again_cold(c, error.msg);
                return;
        }
        if (e) {
                error = *e;
                /* The template has ended since its last fork, and the engine has not seen it
                 * yet. */
                if (c->set_up && e->os_errno == EPIPE)
                        tell_end_in_fork(c, "has ended", &error);
                r = -1;
        } else {
                r = context_adopt(c, instance, "open", &error);
        }
        if (r < 0)
                context_end(c, &error);
}

static void make_instance(struct context *c, struct template *template)
{
        struct keeper_box_limits limits = limits_of_box(&c->sandbox->limits);
        struct instance *prewarmed = c->is_forkable ? NULL : context_prewarm_take(c->sandbox, c->runtime, c->set_up);
        struct cloche_err e;

        if (!c->is_forkable)
                context_prewarm_schedule(c->sandbox, c->runtime, c->set_up);
        if (prewarmed) {
                c->instance = prewarmed;
                prewarmed->on_ready = on_instance;
                prewarmed->on_exit = on_exited;
                prewarmed->owner = c;
                on_instance(prewarmed, NULL);
                return;
        }
        if (instance_new(template, &limits, NULL, c->sandbox->box, c->is_forkable, &c->instance, &e) < 0) {
                context_end(c, &e);
                return;
        }
        c->instance->on_ready = on_instance;
        c->instance->on_exit = on_exited;
        c->instance->owner = c;
}

static int find_template(struct context *c, struct template **ret, struct cloche_err *e)
{
        const struct runtime *runtime;

        *ret = c->set_up;
        return *ret ? 0
                    : context_notebook_find(c->sandbox->all, c->sandbox->principal, &c->sandbox->image,
                                            c->runtime->name, &runtime, ret, e);
}

static void on_template(struct template_wait *wait, const struct cloche_err *e)
{
        struct context *c = (struct context *)((char *)wait - offsetof(struct context, wait));
        struct template *template;
        struct cloche_err error;

        if (e && c->set_up)
                err_set(&error, e->code, "the set-up of the prefix \"%s\", in a context: %s", c->prefix, e->msg);
        else if (e)
                err_set(&error, e->code, "the set-up of contexts of %s: %s", c->runtime->name, e->msg);
        if (e && e->code == CLOCHE_E_MISSING_RUNTIME && c->sandbox->has_writable_root)
                context_start_cold(c, e->msg); /* its programs may have installed one */
        else if (e || find_template(c, &template, &error) < 0)
                context_end(c, &error);
        else
                make_instance(c, template);
}

void context_start(struct context *c)
{
        struct template *template;
        struct cloche_err e;

        if (c->state != CONTEXT_ENDED)
                return;
        context_set_state(c, CONTEXT_STARTING);
        c->count = c->life_count = 0;
        c->cold_why[0] = '\0';
        c->wait.on_ready = on_template;
        if (context_cold_reason(c->sandbox))
                context_start_cold(c, context_cold_reason(c->sandbox));
        else if (find_template(c, &template, &e) < 0)
                context_end(c, &e);
        else if (template->state == TEMPLATE_READY)
                make_instance(c, template);
        else
                template_await(template, &c->wait);
}

/* -- signals, description --------------------------------------------------------------------------------------- */

void context_signal(struct context *c)
{
        (void)send_signal(c, SIGINT);
}

static const char *state_of(const struct context *c)
{
        if (c->state != CONTEXT_LIVE)
                return c->state == CONTEXT_ENDED ? "ended" : "starting";
        return TAILQ_EMPTY(&c->tasks) ? "idle" : "busy";
}

json_t *context_json(const struct context *c)
{
        json_t *object =
                json_pack("{s:s, s:s, s:s, s:O, s:s, s:I, s:b, s:I, s:o, s:o, s:i}", "context", c->name, "language",
                          c->runtime->name, "cwd", c->cwd, "env", c->env, "state", state_of(c), "executionCount",
                          (json_int_t)c->count, "forkable", c->is_forkable, "timeoutMs", (json_int_t)c->timeout_ms,
                          "createdAt", sandbox_time_json(c->created_ms), "lastUsedAt", sandbox_time_json(c->used_ms),
                          "checkpoints", (int)context_checkpoints_count(c));

        if (object && c->pid)
                json_object_set_new(object, "pid", json_integer(c->pid));
        if (object && c->interpreter[0])
                json_object_set_new(object, "interpreter", json_string(c->interpreter));
        if (object)
                json_object_set_new(object, "start", json_string(c->cold_why[0] ? "cold" : "forked"));
        if (object && c->cold_why[0])
                json_object_set_new(object, "coldWhy", json_string(c->cold_why));
        if (object && c->prefix[0])
                json_object_set_new(object, "prefix", json_string(c->prefix));
        if (object && c->forked_from[0])
                json_object_set_new(object, "forkedFrom", json_string(c->forked_from));
        if (object && c->sandbox->mount)
                json_object_set_new(object, "mounts", json_boolean(!c->is_apart));
        if (object && c->state == CONTEXT_ENDED && c->why[0])
                json_object_set_new(object, "endedWhy", json_string(c->why));
        return object;
}
