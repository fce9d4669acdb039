#include "serve.h"

#include "answer.h"
#include "base/err.h"
#include "base/fd.h"
#include "job.h"
#include "operations.h"
#include "params.h"
#include "wire/rpc.h"

#include <poll.h>
#include <string.h>

#define JOBS_MAX 64
#define KEPT_BYTES (256u << 10) /* frame memory kept between frames */

struct server {
        int channel_fd;
        const char *directory;
        struct frame_reader reader;
        struct job jobs[JOBS_MAX];
        size_t job_count;
};

/* -- jobs ----------------------------------------------------------------------------------------------------- */

static int run_in_job(struct request *q)
{
        const struct operation *operation = operation_find(q->method);
        struct cloche_err e = {0};

        return operation->run(q, &e) < 0 ? answer_error(q->out_fd, q->id, &e) : answer_result(q->out_fd, q);
}

static int begin_job(struct server *s, struct request *q, struct cloche_err *e)
{
        int r;

        if (s->job_count == JOBS_MAX)
                return err_set(e, CLOCHE_E_RESOURCE, "%d watches and long jobs run already, which is the most",
                               JOBS_MAX);
        r = job_start(&s->jobs[s->job_count], q, run_in_job, s->channel_fd, e);
        s->job_count += r == 0;
        return r;
}

static int hand_on(void *data, const struct frame *frame)
{
        struct server *s = data;

        return answer_frame(s->channel_fd, frame);
}

static void forget_job(struct server *s, size_t job)
{
        s->jobs[job] = s->jobs[--s->job_count];
}

static void end_job(struct server *s, size_t job)
{
        job_kill(&s->jobs[job]);
        forget_job(s, job);
}

/* A killed job, for example out of memory, could not answer itself. */
static int read_job(struct server *s, size_t job)
{
        json_t *id = json_incref(s->jobs[job].id);
        int answered = 0, r = 0;

        if (job_read(&s->jobs[job], hand_on, s, &answered) == 0) {
                struct cloche_err e;

                forget_job(s, job);
                err_set(&e, CLOCHE_E_RESOURCE, "the process that worked on it was killed, for want of memory perhaps");
                r = answered ? 0 : answer_error(s->channel_fd, id, &e);
        }
        json_decref(id);
        return r;
}

/* -- requests ------------------------------------------------------------------------------------------------- */

static int answer_found(const struct server *s, const json_t *id, int found)
{
        struct request q = {.id = id, .result = json_pack("{s:b}", "found", found)};
        int r = answer_result(s->channel_fd, &q);

        files_request_done(&q);
        return r;
}

/* Index of the job, or job_count. */
static size_t find_job(const struct server *s, const json_t *id)
{
        size_t job = 0;

        while (job < s->job_count && !json_equal(s->jobs[job].id, id))
                job++;
        return job;
}

static int flush(const struct server *s, const struct rpc_message *m)
{
        size_t job = find_job(s, json_object_get(m->params, "id"));
        int found = job < s->job_count;

        if (found)
                job_flush(&s->jobs[job]);
        return m->id ? answer_found(s, m->id, found) : 0;
}

static int cancel(struct server *s, const struct rpc_message *m)
{
        const json_t *id = json_object_get(m->params, "id");
        size_t job = find_job(s, id);
        int found = job < s->job_count, r = 0;
        struct cloche_err e;

        if (found) {
                end_job(s, job);
                err_set(&e, CLOCHE_E_CANCELLED, "whoever asked took it back");
                r = answer_error(s->channel_fd, id, &e);
        }
        return r == 0 && m->id ? answer_found(s, m->id, found) : r;
}

static int work(struct server *s, const struct rpc_message *m, const struct frame *frame)
{
        struct request q = {.directory = s->directory,
                            .id = m->id,
                            .method = m->method,
                            .params = m->params,
                            .attachments = frame->attachments,
                            .out_fd = -EBADF,
                            .attached = BUF_INIT(REQUEST_ATTACHED_MAX)};
        const struct operation *operation = operation_find(m->method);
        struct cloche_err e = {0};
        int r;

        if (!operation)
                return answer_unknown(s->channel_fd, m->id, m->method);
        r = params_check(m->method, m->params, frame->attachments_size, &e);
        if (r == 0 && operation_is_long(operation, m->params)) {
                r = begin_job(s, &q, &e);
                if (r == 0)
                        return 0;
        } else if (r == 0) {
                r = operation->run(&q, &e);
        }
        r = r < 0 ? answer_error(s->channel_fd, m->id, &e) : answer_result(s->channel_fd, &q);
        files_request_done(&q);
        return r;
}

static int take(struct server *s, const struct frame *frame, struct cloche_err *e)
{
        struct rpc_message m;
        int r = rpc_parse(frame, &m, e);

        if (r < 0) {
                answer_error(s->channel_fd, NULL, e);
                return r;
        }
        if (m.kind <= RPC_NOTIFICATION && strcmp(m.method, "cancel") == 0)
                r = cancel(s, &m);
        else if (m.kind <= RPC_NOTIFICATION && strcmp(m.method, "flush") == 0)
                r = flush(s, &m);
        else if (m.kind == RPC_REQUEST)
                r = work(s, &m, frame);
        rpc_message_done(&m);
        return r < 0 ? err_set(e, CLOCHE_E_PROTOCOL, "nobody reads what is answered") : 0;
}

/* Free the memory of a large frame at once: this program is idle most of its life. */
static void rest(struct server *s)
{
        size_t max = s->reader.max_bytes;

        if (s->reader.in.room <= KEPT_BYTES || frame_reader_pending(&s->reader) > 0)
                return;
        frame_reader_done(&s->reader);
        frame_reader_init(&s->reader, max);
}

/* 1, or 0 when the channel has closed. */
static int read_channel(struct server *s, struct cloche_err *e)
{
        struct frame frame;
        size_t room;
        char *at = frame_reader_room(&s->reader, &room);
        ssize_t n;
        int r;

        if (!at)
                return request_no_memory(e);
        n = read(s->channel_fd, at, room);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return 1;
        if (n <= 0)
                return 0;
        frame_reader_filled(&s->reader, (size_t)n);
        while ((r = frame_reader_next(&s->reader, &frame, e)) > 0) {
                r = take(s, &frame, e);
                if (r < 0)
                        return r;
        }
        rest(s);
        return r < 0 ? r : 1;
}

/* Go through the jobs from last to first: the last job takes the slot of one that ends. */
static int wait(struct server *s, struct cloche_err *e)
{
        struct pollfd polled[JOBS_MAX + 1];
        size_t count = s->job_count;

        for (size_t i = 0; i < count; i++)
                polled[i] = (struct pollfd){.fd = s->jobs[i].fd, .events = POLLIN};
        polled[count] = (struct pollfd){.fd = s->channel_fd, .events = POLLIN};
        if (poll(polled, count + 1, -1) < 0)
                return errno == EINTR ? 1 : err_os(e, CLOCHE_E_RESOURCE, errno, "wait");
        for (size_t i = count; i-- > 0;)
                if (polled[i].revents && read_job(s, i) < 0)
                        return 0;
        return polled[count].revents ? read_channel(s, e) : 1;
}

int serve(int channel_fd, const char *directory, struct cloche_err *e)
{
        static struct server s;
        int r;

        s = (struct server){.channel_fd = channel_fd, .directory = directory};
        frame_reader_init(&s.reader, FRAME_BYTES_MAX);
        do
                r = wait(&s, e);
        while (r > 0);
        while (s.job_count > 0)
                end_job(&s, s.job_count - 1);
        frame_reader_done(&s.reader);
        return r;
}
