/* The file program of a sandbox (src/box/files): started on demand, ended after a time without
 * requests. It runs in the box with the box's rights, so paths cannot lead out of it. Its messages
 * are checked like all data from a box. Runs in: cloched-engine, on its loop, with the rights of
 * the daemon's user. */
#include "tool.h"
#include "spawn.h"

#include "base/err.h"
#include "base/fd.h"
#include "wire/value.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define FRAME_BYTES (128u << 20)
#define IDLE_MS 30000
#define WAKE_EVERY_MS 1000

struct tool_job {
        TAILQ_ENTRY(tool_job) link;
        struct tool *tool;
        json_int_t id;
        struct sandbox_request *request; /* its request, or NULL for our own */
        int is_flushing;
        void (*on_done)(void *data, const json_t *result, const struct buf *attachments, const struct cloche_err *e);
        void *data;
};

struct tool {
        TAILQ_ENTRY(tool) link;
        struct sandbox *sandbox;
        struct channel channel;
        struct sandbox_timer *idle_timer, *wake_timer;
        int32_t pid;
        int is_ended, is_draining;
        TAILQ_HEAD(tool_jobs, tool_job) jobs;
};

/* -- the end -------------------------------------------------------------------------------------------------- */

static void job_done(struct tool_job *job, const json_t *result, const struct buf *attachments,
                     const struct cloche_err *e)
{
        TAILQ_REMOVE(&job->tool->jobs, job, link);
        job->on_done(job->data, result, attachments, e);
        free(job);
}

static void tool_free(struct tool *tool)
{
        TAILQ_REMOVE(&tool->sandbox->tools, tool, link);
        control_detach(&tool->sandbox->control, tool);
        channel_close(&tool->channel);
        sandbox_timer_close(tool->idle_timer);
        sandbox_timer_close(tool->wake_timer);
        free(tool);
}

static void end(struct tool *tool, const struct cloche_err *e)
{
        struct cloche_err copy = *e;

        if (tool->is_ended)
                return;
        tool->is_ended = 1;
        if (tool->pid && tool->sandbox->control.fd >= 0)
                (void)sandbox_send_kill(&tool->sandbox->control, tool->pid, SIGKILL, INIT_KILL_TREE, NULL, 0, NULL,
                                        NULL, NULL);
        while (!TAILQ_EMPTY(&tool->jobs)) {
                struct tool_job *job = TAILQ_FIRST(&tool->jobs);

                wire_client_detach(&tool->channel.client, job->id);
                job_done(job, NULL, NULL, &copy);
        }
        tool_free(tool);
}

void sandbox_tools_exited(struct sandbox *s, const struct init_answer *exit)
{
        struct tool *tool;
        struct cloche_err e;

        TAILQ_FOREACH (tool, &s->tools, link)
                if (tool->pid == exit->pid) {
                        tool->is_draining = 1; /* on_end ignores the end of the channel then */
                        channel_drain(&tool->channel);
                        tool->is_draining = 0;
                        err_set(&e, CLOCHE_E_SANDBOX_ENDED, "the sandbox's file program was killed");
                        end(tool, &e);
                        return;
                }
}

void sandbox_tools_on_box_closed(struct sandbox *s)
{
        struct cloche_err e;

        err_set(&e, CLOCHE_E_SANDBOX_ENDED, "the sandbox has ended");
        while (!TAILQ_EMPTY(&s->tools))
                end(TAILQ_FIRST(&s->tools), &e);
}

/* -- its messages --------------------------------------------------------------------------------------------- */

static struct tool_job *find_job(struct tool *tool, const json_t *id)
{
        struct tool_job *job;

        if (json_is_integer(id))
                TAILQ_FOREACH (job, &tool->jobs, link)
                        if (job->id == json_integer_value(id))
                                return job;
        return NULL;
}

static void rest(struct tool *tool);

static int on_answer(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        struct buf attachments = {.data = (char *)f->attachments, .size = f->attachments_size};
        struct tool_job *job = data;
        struct tool *tool = job->tool;
        struct cloche_err error = {0};
        int r = m->kind == RPC_RESULT ? value_check(m->result, f->attachments_size, e) : 0;

        if (r < 0)
                return r;
        if (m->kind == RPC_ERROR)
                rpc_read_failure(m, CLOCHE_E_PROTOCOL, &error);
        job_done(job, m->result, &attachments, error.code ? &error : NULL);
        if (TAILQ_EMPTY(&tool->jobs))
                rest(tool);
        return 0;
}

static void on_event(struct tool_job *job, const struct rpc_message *m, const struct frame *f)
{
        const struct buf attachments = {.data = (char *)f->attachments, .size = f->attachments_size};
        const char *event = json_string_value(json_object_get(m->params, "event"));
        int is_flushed = event && strcmp(event, "flushed") == 0;

        /* The guest can send that signal too, without a flush from us. */
        if (!event || (is_flushed && !job->is_flushing))
                return;
        job->is_flushing &= !is_flushed;
        if (job->request)
                sandbox_request_event(job->request, event, json_incref(json_object_get(m->params, "about")),
                                      &attachments);
}

/* Ignore answers to cancelled requests, and their events. */
static int on_message(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        struct tool_job *job = m->kind == RPC_NOTIFICATION ? find_job(data, json_object_get(m->params, "id")) : NULL;
        int r = 0;

        if (m->kind == RPC_REQUEST)
                return err_set(e, CLOCHE_E_PROTOCOL, "the sandbox's file program sent a request");
        if (m->kind != RPC_ERROR)
                r = value_check(m->kind == RPC_RESULT ? m->result : m->params, f->attachments_size, e);
        if (r == 0 && job)
                on_event(job, m, f);
        return r;
}

static void on_end(void *data, const struct cloche_err *e)
{
        struct cloche_err ended;

        if (((struct tool *)data)->is_draining)
                return;
        err_set(&ended, e ? CLOCHE_E_PROTOCOL : CLOCHE_E_SANDBOX_ENDED, "the sandbox's file program %s",
                e ? e->msg : "was killed");
        end(data, &ended);
}

static void on_idle(uv_timer_t *timer)
{
        struct tool *tool = timer->data;
        struct cloche_err e;

        err_set(&e, CLOCHE_E_STATE, "it had no requests for a while");
        end(tool, &e);
}

/* Other processes of the same user may have stopped it, so continue it. */
static void on_wake(uv_timer_t *timer)
{
        struct tool *tool = timer->data;

        if (tool->pid && tool->sandbox->control.fd >= 0)
                (void)sandbox_send_kill(&tool->sandbox->control, tool->pid, SIGCONT, INIT_KILL_TREE, NULL, 0, NULL,
                                        NULL, NULL);
}

static void rest(struct tool *tool)
{
        sandbox_timer_stop(tool->wake_timer);
        sandbox_timer_start(tool->idle_timer, on_idle, IDLE_MS, 0);
}

/* -- the start ------------------------------------------------------------------------------------------------ */

static void on_spawned(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        struct tool *tool = data;

        fd_close(&fd);
        if (e)
                end(tool, e);
        else
                tool->pid = answer->pid;
}

static int spawn_tool(struct tool *tool, int their_fd, struct cloche_err *e)
{
        static const char *const argv[] = {"cloche-files", NULL};
        struct sandbox *s = tool->sandbox;
        int fds[5] = {-EBADF, -EBADF, -EBADF, their_fd, s->all->files_fd};
        struct spawn spawn = {.control = &s->control,
                              .argv = argv,
                              .fds = fds,
                              .fd_count = 5,
                              .flags = INIT_SPAWN_REAPS | INIT_SPAWN_PROGRAM};

        return sandbox_spawn_own(s, NULL, &spawn, on_spawned, tool, e);
}

static struct tool *tool_new(struct sandbox *s, struct cloche_err *e)
{
        struct tool *tool = calloc(1, sizeof(*tool));
        int their_fd = -EBADF, r = 0;

        if (tool) {
                tool->idle_timer = sandbox_timer_new(s, tool);
                tool->wake_timer = sandbox_timer_new(s, tool);
        }
        if (!tool || !tool->idle_timer || !tool->wake_timer) {
                if (tool) {
                        sandbox_timer_close(tool->idle_timer);
                        sandbox_timer_close(tool->wake_timer);
                }
                free(tool);
                err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start the file program");
                return NULL;
        }
        tool->sandbox = s;
        tool->channel.fd = -EBADF;
        TAILQ_INIT(&tool->jobs);
        TAILQ_INSERT_TAIL(&s->tools, tool, link);
        r = channel_open(&tool->channel, FRAME_BYTES, &their_fd, e);
        tool->channel.on_message = on_message;
        tool->channel.on_end = on_end;
        tool->channel.data = tool;
        if (r == 0)
                r = channel_watch(&tool->channel, &s->all->engine->loop, e);
        if (r == 0)
                r = spawn_tool(tool, their_fd, e);
        fd_close(&their_fd);
        if (r < 0) {
                tool_free(tool);
                return NULL;
        }
        return tool;
}

static struct tool *tool_of(struct sandbox *s, struct cloche_err *e)
{
        struct tool *tool;

        TAILQ_FOREACH (tool, &s->tools, link)
                if (!tool->is_ended)
                        return tool;
        return tool_new(s, e);
}

/* -- requests ------------------------------------------------------------------------------------------------- */

int sandbox_tool_request(struct sandbox *s, const char *method, json_t *params, const struct buf *attachments,
                         void (*on_done)(void *data, const json_t *result, const struct buf *attachments,
                                         const struct cloche_err *e),
                         void *data, struct tool_job **ret, struct cloche_err *e)
{
        struct tool *tool = tool_of(s, e);
        struct tool_job *job = tool ? calloc(1, sizeof(*job)) : NULL;
        int r;

        if (!job) {
                json_decref(params);
                return tool ? err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a request to the file program")
                            : -(int)e->code;
        }
        *job = (struct tool_job){.tool = tool, .on_done = on_done, .data = data};
        r = wire_client_request(&tool->channel.client, method, params, attachments, on_answer, job, &job->id, e);
        if (r < 0) {
                free(job);
                return r;
        }
        sandbox_timer_stop(tool->idle_timer);
        if (!sandbox_timer_is_active(tool->wake_timer))
                sandbox_timer_start(tool->wake_timer, on_wake, WAKE_EVERY_MS, WAKE_EVERY_MS);
        TAILQ_INSERT_TAIL(&tool->jobs, job, link);
        channel_flush(&tool->channel);
        *ret = job;
        return 0;
}

/* "cancel" or "flush". */
static void notify(const struct tool_job *job, const char *method)
{
        (void)rpc_notify(method, json_pack("{s:I}", "id", job->id), NULL, 0, channel_out(&job->tool->channel), NULL);
        channel_flush(&job->tool->channel);
}

void sandbox_tool_cancel(struct tool_job *job)
{
        struct tool *tool = job->tool;

        TAILQ_REMOVE(&tool->jobs, job, link);
        wire_client_detach(&tool->channel.client, job->id);
        notify(job, "cancel");
        if (TAILQ_EMPTY(&tool->jobs))
                rest(tool);
        free(job);
}

/* If the watch ends meanwhile, its request ends, so no flush waits forever. */
static void request_flush(struct sandbox_request *request)
{
        struct tool_job *job = request->state;

        job->is_flushing = 1;
        notify(job, "flush");
}

static void request_cancel(struct sandbox_request *request)
{
        sandbox_tool_cancel(request->state);
}

static void on_done(void *data, const json_t *result, const struct buf *attachments, const struct cloche_err *e)
{
        struct sandbox_request *request = data;
        struct buf copy = BUF_INIT(FRAME_BYTES);

        if (e) {
                sandbox_request_fail(request, e, NULL);
                return;
        }
        if (attachments->size > 0 && buf_append(&copy, attachments->data, attachments->size) < 0)
                result = NULL;
        sandbox_request_result(request, json_incref((json_t *)result), &copy);
        buf_done(&copy);
}

/* Forward a file.* or archive.* request to the file program, with params without "sandbox". */
static int hand_on(struct sandbox_request *request, struct cloche_err *e)
{
        json_t *params = json_copy(request->params);
        struct tool_job *job;
        int r;

        if (!params)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a request to the file program");
        json_object_del(params, "sandbox");
        r = sandbox_tool_request(request->sandbox, request->method->name, params, &request->attachments, on_done,
                                 request, &job, e);
        if (r < 0)
                return r;
        job->request = request;
        request->state = job;
        request->cancel = request_cancel;
        request->flush = request_flush;
        return 0;
}

#define HANDED_ON(symbol)                                                          \
        int handle_##symbol(struct sandbox_request *request, struct cloche_err *e) \
        {                                                                          \
                return hand_on(request, e);                                        \
        }
HANDED_ON(FILE_WRITE)
HANDED_ON(FILE_READ)
HANDED_ON(FILE_STAT)
HANDED_ON(FILE_EXISTS)
HANDED_ON(FILE_LIST)
HANDED_ON(FILE_MKDIR)
HANDED_ON(FILE_MOVE)
HANDED_ON(FILE_COPY)
HANDED_ON(FILE_REMOVE)
HANDED_ON(FILE_SEARCH)
HANDED_ON(FILE_REPLACE)
HANDED_ON(FILE_WATCH)
HANDED_ON(ARCHIVE_CREATE)
HANDED_ON(ARCHIVE_EXTRACT)
