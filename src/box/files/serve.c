/* Runs in: cloche-files, within a box, with its user's rights. Its requests come from the
 * engine, but other processes of the box may disturb it. */
#include "serve.h"

#include "answer.h"
#include "base/err.h"
#include "base/fd.h"
#include "job.h"
#include "operations.h"
#include "params.h"
#include "wire/server.h"

#include <poll.h>
#include <string.h>

#define JOBS_MAX 64

struct files {
        struct server server;
        const char *directory;
        struct files_job jobs[JOBS_MAX];
        size_t job_count;
};

/* -- jobs ----------------------------------------------------------------------------------------------------- */

static int run_in_job(struct files_request *q)
{
        const struct files_operation *operation = operation_find(q->method);
        struct cloche_err e = {0};

        return answer_write(q, operation->run(q, &e) < 0 ? &e : NULL);
}

static int start_job(struct files *s, struct files_request *q, struct cloche_err *e)
{
        int r;

        if (s->job_count == JOBS_MAX)
                return err_set(e, CLOCHE_E_RESOURCE,
                               "%d watches and long jobs run already, which is the most: end one first", JOBS_MAX);
        r = job_start(&s->jobs[s->job_count], q, run_in_job, s->server.transport.socket_fd, e);
        s->job_count += r == 0;
        return r;
}

static int forward(void *data, const struct frame *frame)
{
        struct files *s = data;

        return server_forward(&s->server, frame);
}

static void remove_job(struct files *s, size_t job)
{
        s->jobs[job] = s->jobs[--s->job_count];
}

static void end_job(struct files *s, size_t job)
{
        job_kill(&s->jobs[job]);
        remove_job(s, job);
}

/* A killed job, for example out of memory, could not answer itself. */
static int read_job(struct files *s, size_t job)
{
        json_t *id = json_incref(s->jobs[job].id);
        int answered = 0, r = 0;

        if (job_read(&s->jobs[job], forward, s, &answered) == 0) {
                struct cloche_err e = {0};

                remove_job(s, job);
                err_set(&e, CLOCHE_E_RESOURCE, "the process that worked on it was killed, for want of memory perhaps");
                r = answered ? 0 : server_fail(&s->server, id, &e);
        }
        json_decref(id);
        return r;
}

/* -- requests ------------------------------------------------------------------------------------------------- */

/* Index of the job, or job_count. */
static size_t find_job(const struct files *s, const json_t *id)
{
        size_t job = 0;

        while (job < s->job_count && !json_equal(s->jobs[job].id, id))
                job++;
        return job;
}

/* "cancel" or "flush", a request or a notification. */
static int signal_job(struct files *s, const struct rpc_message *m, struct server_reply *ret)
{
        const json_t *id = json_object_get(m->params, "id");
        size_t job = find_job(s, id);
        int found = job < s->job_count;
        struct cloche_err e = {0};

        ret->result = json_pack("{s:b}", "found", found);
        if (found && strcmp(m->method, "flush") == 0) {
                job_flush(&s->jobs[job]);
        } else if (found) {
                end_job(s, job);
                err_set(&e, CLOCHE_E_CANCELLED, "the request was cancelled");
                return server_fail(&s->server, id, &e);
        }
        return 0;
}

static int handle(void *argument, const struct rpc_message *m, const struct frame *f, struct server_reply *ret,
                  struct cloche_err *e)
{
        struct files *s = argument;
        const struct files_operation *operation = operation_find(m->method);
        struct files_request q = {.directory = s->directory,
                                  .id = m->id,
                                  .method = m->method,
                                  .params = m->params,
                                  .attachments = f->attachments,
                                  .out_fd = -EBADF,
                                  .attached = BUF_INIT(REQUEST_ATTACHED_MAX)};
        int r;

        if (strcmp(m->method, "cancel") == 0 || strcmp(m->method, "flush") == 0)
                return signal_job(s, m, ret);
        if (!operation || m->kind == RPC_NOTIFICATION)
                return SERVER_UNKNOWN;
        r = params_check(m->method, m->params, f->attachments_size, e);
        if (r == 0 && operation_is_long(operation, m->params)) {
                r = start_job(s, &q, e);
                return r < 0 ? r : SERVER_LATER;
        }
        if (r == 0)
                r = operation->run(&q, e);
        ret->result = q.result;
        ret->attachments = q.attached;
        return r;
}

/* -- life ----------------------------------------------------------------------------------------------------- */

/* Jobs wait in their pipes while the engine does not read. Go through them from last to first: the
 * last job takes the slot of one that ends. */
static int turn(struct files *s)
{
        struct pollfd polled[JOBS_MAX + 1];
        size_t count = s->job_count;
        int is_full = server_unsent(&s->server) > 0;

        for (size_t i = 0; i < count; i++)
                polled[i] = (struct pollfd){.fd = is_full ? -1 : s->jobs[i].fd, .events = POLLIN};
        polled[count] = (struct pollfd){.fd = s->server.transport.socket_fd, .events = server_events(&s->server)};
        if (poll(polled, count + 1, -1) < 0)
                return errno == EINTR ? 0 : -1;
        for (size_t i = count; i-- > 0;)
                if (polled[i].revents && read_job(s, i) < 0)
                        return -1;
        return server_turn(&s->server);
}

int serve(int channel_fd, const char *directory, struct cloche_err *e)
{
        static struct files s;
        const struct server_options options = {.handle = handle,
                                               .argument = &s,
                                               .request_bytes_max = FRAME_BYTES_MAX,
                                               .reply_bytes_max = SIZE_MAX / 2};

        s = (struct files){.directory = directory};
        server_init(&s.server, channel_fd, &options);
        while (turn(&s) == 0)
                continue;
        while (s.job_count > 0)
                end_job(&s, s.job_count - 1);
        *e = s.server.error;
        server_done(&s.server);
        return -(int)e->code;
}
