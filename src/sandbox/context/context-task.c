/* The queue of a context, its requests to the agent, and the agent's messages. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "context.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/utf8.h"
#include "wire/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_ID_BYTES 64
#define STEP_BYTES 60 /* of a name in a message */
/* For an agent that only freezes, completes or describes: its guest may have stopped it. */
#define ANSWER_PATIENCE_MS 30000
/* For one that looks at code or at a name: then it is interrupted. */
#define LOOK_PATIENCE_MS 5000
#define UNREAD_BYTES (4u << 20) /* of requests and answers to the agent */

/* -- the queue ------------------------------------------------------------------------------------------------ */

static void leave(struct context_task *task)
{
        struct context *c = task->context;

        if (c->current == task)
                c->current = NULL;
        TAILQ_REMOVE(&c->tasks, task, link);
        c->task_count--;
}

static void fail(struct context_task *task, const struct cloche_err *e)
{
        leave(task);
        if (task->is_detached)
                task->kind->release(task);
        else
                task->kind->failed(task, e);
}

static void on_no_answer(uv_timer_t *timer)
{
        struct cloche_err e;

        err_set(&e, CLOCHE_E_CONTEXT_ENDED,
                "the interpreter did not answer within %d s: restart the context (context.restart)",
                ANSWER_PATIENCE_MS / 1000);
        context_end(timer->data, &e);
}

static void on_long_look(uv_timer_t *timer)
{
        struct context *c = timer->data;

        context_signal(c);
        sandbox_timer_start(c->end_timer, on_no_answer, ANSWER_PATIENCE_MS, 0);
}

static int on_answer(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e);

static int request_agent(struct context *c, struct context_task *task, struct cloche_err *e)
{
        int r = channel_request(&c->channel, task->kind->method, task->kind->params(task), -EBADF, on_answer, e);

        if (r == 0 && task->kind->is_interruptible)
                sandbox_timer_start(c->end_timer, on_long_look, LOOK_PATIENCE_MS, 0);
        else if (r == 0 && task->kind->is_short)
                sandbox_timer_start(c->end_timer, on_no_answer, ANSWER_PATIENCE_MS, 0);
        return r;
}

/* Its agent has answered, but its network is not in force yet; or it runs its set-ups. */
static int is_opened_in_part(const struct context *c)
{
        return c->state == CONTEXT_STARTING && (c->pid || c->setups_left);
}

/* Begin the first task of the queue, if the agent is free and no signal is on its way to it. Before
 * the context lives, only a task that makes it live begins. */
void context_tasks_begin(struct context *c)
{
        struct context_task *task;

        while (!c->current && !c->is_held && !is_opened_in_part(c) && c->signals_in_flight == 0 &&
               (task = TAILQ_FIRST(&c->tasks)) && c->channel.fd >= 0) {
                struct cloche_err e;

                if (!task->kind->method) { /* it only waits until it is the first task of a context that lives */
                        if (c->state != CONTEXT_LIVE)
                                return;
                        leave(task);
                        task->kind->answered(task, NULL, NULL);
                        continue;
                }
                c->current = task;
                if (request_agent(c, task, &e) == 0)
                        return;
                fail(task, &e);
        }
}

int context_request(struct context *c, struct context_task *task, const struct context_task_kind *kind,
                    struct cloche_err *e)
{
        if (c->state == CONTEXT_ENDED)
                return err_set(e, CLOCHE_E_CONTEXT_ENDED, "the context \"%s\" has ended, and can be restarted: %s",
                               c->name, c->why);
        if (c->task_count >= CONTEXT_TASKS_MAX)
                return err_set(e, CLOCHE_E_QUEUE_FULL,
                               "%u cells wait in this context already: try again when some have ended", c->task_count);
        task->context = c;
        task->kind = kind;
        TAILQ_INSERT_TAIL(&c->tasks, task, link);
        c->task_count++;
        c->used_ms = clock_real_ms();
        c->is_queued = 1; /* begun in the next loop iteration: the caller gets no callback from within */
        sandbox_schedule_turn(c->sandbox);
        return 0;
}

void context_task_detach(struct context_task *task)
{
        if (task->context->current == task) {
                task->is_detached = 1;
                return;
        }
        leave(task);
        task->kind->release(task);
}

void context_tasks_fail(struct context *c, const struct cloche_err *e)
{
        struct context_tasks tasks = TAILQ_HEAD_INITIALIZER(tasks);
        struct context_task *task;

        /* A callback may add tasks: they wait for the next life of the context. */
        TAILQ_CONCAT(&tasks, &c->tasks, link);
        c->task_count = 0;
        c->current = NULL;
        while ((task = TAILQ_FIRST(&tasks))) {
                TAILQ_REMOVE(&tasks, task, link);
                if (task->is_detached)
                        task->kind->release(task);
                else
                        task->kind->failed(task, e);
        }
}

/* -- messages of the agent ------------------------------------------------------------------------------------ */

void context_read_error(const struct rpc_message *m, struct cloche_err *ret)
{
        const json_t *data = json_object_get(m->error, "data");
        const char *type = json_string_value(json_object_get(data, "type"));
        int is_missing = type && strcmp(type, "missing_runtime") == 0;

        err_set(ret, is_missing ? CLOCHE_E_MISSING_RUNTIME : CLOCHE_E_STATE, "%s", m->error_message);
}

static int on_answer(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        struct context *c = data;
        struct context_task *task = c->current;
        int r = m->kind == RPC_RESULT ? value_check(m->result, f->attachments_size, e) : 0;

        if (r < 0)
                return r;
        if (!task)
                return err_set(e, CLOCHE_E_PROTOCOL, "an answer to a request that nobody made");
        if (task->kind->is_short) /* the time of an opening also bounds the wait for its network */
                sandbox_timer_stop(c->end_timer);
        context_streams_take(c); /* output from before the answer */
        leave(task);
        if (task->is_detached)
                task->kind->release(task);
        else
                task->kind->answered(task, m, f);
        if (c->state == CONTEXT_LIVE) /* a callback may have ended it */
                context_tasks_begin(c);
        return 0;
}

/* We keep the request's id and queue an answer, so both are bounded. */
static int check_request(const struct context *c, const struct rpc_message *m, struct cloche_err *e)
{
        if (json_string_length(m->id) > REQUEST_ID_BYTES)
                return err_set(e, CLOCHE_E_PROTOCOL, "the id of a request has %zu bytes, expected at most %d",
                               json_string_length(m->id), REQUEST_ID_BYTES);
        if (channel_unsent(&c->channel) > UNREAD_BYTES)
                return err_set(e, CLOCHE_E_PROTOCOL,
                               "the agent sends requests (\"%.60s\"), and does not read the answers", m->method);
        return 0;
}

/* "lookup" of ["global", "lookup"]. */
static void describe_target(const json_t *target, char *to, size_t size)
{
        json_t *step;
        size_t i, used = 0;

        to[0] = '\0';
        json_array_foreach ((json_t *)target, i, step)
                if (i > 0 && json_is_string(step) && used + STEP_BYTES + 1 < size) {
                        const char *text = json_string_value(step);
                        size_t n = utf8_cut(text, strlen(text), STEP_BYTES);

                        used += (size_t)snprintf(to + used, size - used, "%s%.*s", used ? "." : "", (int)n, text);
                }
}

/* A host function is answered by the caller of a run; a cell has no such caller. It may also be
 * called between cells, by a thread. */
static int refuse_host_function(struct context *c, const struct rpc_message *m, struct cloche_err *e)
{
        char name[4 * STEP_BYTES], why[512];
        int r;

        describe_target(json_object_get(m->params, "target"), name, sizeof(name));
        snprintf(why, sizeof(why),
                 "%s is a host function of the prefix \"%s\", and answers runs only: no caller of a cell answers it; "
                 "call it in a run, and give its result to the cell",
                 name, c->prefix);
        r = rpc_error(json_incref(m->id), -32000, why, json_pack("{s:s, s:s}", "name", "Error", "message", why),
                      channel_out(&c->channel), e);
        if (r == 0)
                channel_flush(&c->channel);
        return r;
}

static int on_message(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        struct context *c = data;
        struct cell *cell = context_cell_of(c);
        int r = m->kind == RPC_REQUEST ? check_request(c, m, e) : 0;

        if ((m->kind == RPC_RESULT || m->kind == RPC_ERROR) && c->setups_left) {
                context_setup_answered(c, m);
                return 0;
        }
        if (m->kind == RPC_RESULT || m->kind == RPC_ERROR)
                return err_set(e, CLOCHE_E_PROTOCOL, "an answer to a request that nobody made");
        if (r == 0)
                r = value_check(m->params, f->attachments_size, e);
        if (r < 0)
                return r;
        if (c->prefix[0] && m->kind == RPC_REQUEST && strcmp(m->method, "bridge") == 0)
                return refuse_host_function(c, m, e);
        if (cell)
                return context_cell_on_message(cell, m, f, e);
        if (m->kind == RPC_NOTIFICATION && c->is_held && strcmp(m->method, "failed") == 0)
                context_fork_failed(c->fork, m->params);
        return m->kind == RPC_NOTIFICATION
                       ? 0
                       : err_set(e, CLOCHE_E_PROTOCOL, "the agent requested \"%.60s\" between cells", m->method);
}

int context_watch(struct context *c, struct cloche_err *e)
{
        c->channel.on_message = on_message;
        c->channel.data = c;
        return channel_watch(&c->channel, &c->sandbox->all->engine->loop, e);
}
