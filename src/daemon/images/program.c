/* Requests to cloche-image. Runs in: cloched-engine, on its loop, with the rights of the
 * daemon's user. */
#include "program.h"
#include "operations.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/state.h"
#include "engine/loop/channel.h"
#include "engine/loop/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#define REPLY_BYTES_MAX (64u << 20)
#define SECOND_NS UINT64_C(1000000000)
#define ANSWER_NS (30 * SECOND_NS) /* of the reader: most answers take less than a millisecond */
#define IDLE_NS (60 * SECOND_NS)
#define OWN_MAX 6 /* beside the reader; the keeper starts KEEPER_IMAGE_PROGRAMS_MAX */
#define OWN_OF_ONE_MAX 3
#define TEXT_BYTES_MAX 1000 /* of a member; no name is longer, and the program ends at a request that is too large */

enum image_program_state {
        PROGRAM_RUNNING,
        PROGRAM_ENDED, /* by itself; the keeper may still have to say why */
        PROGRAM_CLOSED,
        PROGRAM_STATES
};

static const unsigned transitions[PROGRAM_STATES] = {
        [PROGRAM_RUNNING] = STATE_TO(PROGRAM_ENDED) | STATE_TO(PROGRAM_CLOSED),
        [PROGRAM_ENDED] = STATE_TO(PROGRAM_CLOSED),
};

struct image_request {
        TAILQ_ENTRY(image_request) link;
        struct image_program *program;
        image_answered answered; /* NULL: detached */
        void *data;
        uint64_t since_ns;
};

struct image_program {
        TAILQ_ENTRY(image_program) link;
        struct daemon *daemon;
        int64_t principal; /* for whom it works; of the reader: none */
        struct channel channel;
        enum image_program_state state;
        int is_awaited;          /* the keeper's answer to the request to start it */
        struct cloche_err error; /* why it ended; code 0: it did not say */
        uint64_t used_ns;
        TAILQ_HEAD(image_requests, image_request) requests;
};

static void set_state(struct image_program *p, enum image_program_state state)
{
        STATE_CHECK(transitions, p->state, state);
        p->state = state;
}

/* -- the end -------------------------------------------------------------------------------------------------- */

static void free_request(struct image_request *request)
{
        TAILQ_REMOVE(&request->program->requests, request, link);
        free(request);
}

static void free_requests(struct image_program *p)
{
        struct image_request *request;

        while ((request = TAILQ_FIRST(&p->requests)))
                free_request(request);
}

void image_program_close(struct image_program *p)
{
        if (!p || p->state == PROGRAM_CLOSED)
                return;
        set_state(p, PROGRAM_CLOSED);
        if (p->daemon->image_reader == p)
                p->daemon->image_reader = NULL;
        free_requests(p);
        channel_close(&p->channel);
}

/* The callbacks may send new requests, to another program: this one takes no more. */
static void fail_requests(struct image_program *p)
{
        struct image_request *request;
        struct cloche_err e = p->error;

        if (!e.code)
                err_set(&e, CLOCHE_E_RESOURCE, "the program of the image store ended before it answered: try again");
        if (p->daemon->image_reader == p)
                p->daemon->image_reader = NULL;
        while (p->state != PROGRAM_CLOSED && (request = TAILQ_FIRST(&p->requests))) {
                image_answered answered = request->answered;
                void *data = request->data;

                free_request(request);
                if (answered)
                        answered(data, NULL, &e);
        }
        image_program_close(p);
}

static void on_end(void *data, const struct cloche_err *e)
{
        struct image_program *p = data;

        if (p->state != PROGRAM_RUNNING)
                return;
        set_state(p, PROGRAM_ENDED);
        if (e && !p->error.code)
                p->error = *e;
        if (!p->is_awaited) /* else the keeper's answer has the reason */
                fail_requests(p);
}

static void on_served(void *data, struct keeper_reply *reply)
{
        struct image_program *p = data;

        p->is_awaited = 0;
        if (reply->error)
                p->error = *reply->error;
        if (p->state == PROGRAM_ENDED || (reply->error && p->state == PROGRAM_RUNNING))
                fail_requests(p);
}

void images_reap(struct daemon *d)
{
        struct image_program *p, *next;

        for (p = TAILQ_FIRST(&d->image_programs); p; p = next) {
                next = TAILQ_NEXT(p, link);
                if (p->state != PROGRAM_CLOSED || p->is_awaited)
                        continue;
                TAILQ_REMOVE(&d->image_programs, p, link);
                free(p);
        }
}

void images_sweep(struct daemon *d, uint64_t now_ns)
{
        struct image_program *p = d->image_reader;
        const struct image_request *oldest = p ? TAILQ_FIRST(&p->requests) : NULL;

        if (oldest && now_ns - oldest->since_ns > ANSWER_NS) {
                err_set(&p->error, CLOCHE_E_TIMEOUT, "the image store did not answer within %llu s",
                        (unsigned long long)(ANSWER_NS / SECOND_NS));
                fail_requests(p);
        } else if (p && !oldest && now_ns - p->used_ns > IDLE_NS) {
                image_program_close(p);
        }
}

void images_stop(struct daemon *d)
{
        struct image_program *p;

        TAILQ_FOREACH (p, &d->image_programs, link) {
                image_program_close(p);
                if (p->is_awaited)
                        (void)keeper_detach(d->engine->keeper, p);
                p->is_awaited = 0;
        }
        images_reap(d);
}

/* -- answers -------------------------------------------------------------------------------------------------- */

static int on_answer(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        struct image_request *request = data;
        image_answered answered = request->answered;
        struct cloche_err failure = {0};

        (void)f;
        (void)e;
        data = request->data;
        request->program->used_ns = clock_now_ns();
        free_request(request);
        if (m->kind == RPC_ERROR)
                rpc_read_failure(m, CLOCHE_E_PROTOCOL, &failure);
        if (answered)
                answered(data, m->kind == RPC_ERROR ? NULL : m->result, m->kind == RPC_ERROR ? &failure : NULL);
        return 0;
}

/* The program ends after an error of open, which tells more than its end. */
static int on_open(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        struct image_program *p = data;

        (void)f;
        (void)e;
        if (m->kind == RPC_ERROR)
                rpc_read_failure(m, CLOCHE_E_PROTOCOL, &p->error);
        return 0;
}

static int on_message(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        (void)data;
        (void)f;
        return m->kind == RPC_NOTIFICATION
                       ? 0
                       : err_set(e, CLOCHE_E_PROTOCOL, "the program of the image store sent an invalid message");
}

/* -- requests ------------------------------------------------------------------------------------------------- */

void image_request_detach(struct image_request *request)
{
        request->answered = NULL;
}

static int check_params(const json_t *params, struct cloche_err *e)
{
        const char *key;
        json_t *value;

        json_object_foreach ((json_t *)(uintptr_t)params, key, value)
                if (json_string_length(value) > TEXT_BYTES_MAX)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the %s of an image has at most %d bytes", key,
                                       TEXT_BYTES_MAX);
        return 0;
}

int image_program_request(struct image_program *p, const char *method, json_t *params, image_answered answered,
                          void *data, struct image_request **ret, struct cloche_err *e)
{
        int r = check_params(params, e);
        struct image_request *request = r == 0 ? calloc(1, sizeof(*request)) : NULL;

        if (r < 0) {
                json_decref(params);
                return r;
        }
        if (!request) {
                json_decref(params);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "send a request to the image store");
        }
        *request = (struct image_request){.program = p, .answered = answered, .data = data, .since_ns = clock_now_ns()};
        r = wire_client_request(&p->channel.client, method, params, NULL, on_answer, request, NULL, e);
        if (r < 0) {
                free(request);
                return r;
        }
        TAILQ_INSERT_TAIL(&p->requests, request, link);
        *ret = request;
        channel_flush(&p->channel);
        return 0;
}

static int serve(struct image_program *p, int data_fd, int control_fd, int may_write, struct cloche_err *e)
{
        struct keeper_service_spec *spec = calloc(1, sizeof(*spec));
        _cleanup_fd_ int null_fd = data_fd < 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : -EBADF;
        const int fds[] = {data_fd < 0 ? null_fd : data_fd, control_fd};
        int r;

        if (!spec || fds[0] < 0) {
                free(spec);
                return err_os(e, CLOCHE_E_RESOURCE, spec ? errno : ENOMEM, "start the program of the image store");
        }
        spec->service = KEEPER_SERVICE_IMAGES;
        spec->is_written = may_write != 0;
        r = keeper_serve_async(p->daemon->engine->keeper, KEEPER_NO_BOX, spec, fds, 2, on_served, p, e);
        p->is_awaited = r == 0;
        free(spec);
        return r;
}

/* One caller leaves room for others, however slowly it sends its archives. */
static int check_room(const struct daemon *d, int64_t principal, struct cloche_err *e)
{
        const struct image_program *p;
        unsigned count = 0, of_caller = 0;

        TAILQ_FOREACH (p, &d->image_programs, link)
                if (p->state != PROGRAM_CLOSED && p != d->image_reader) {
                        count++;
                        of_caller += p->principal == principal;
                }
        if (of_caller >= OWN_OF_ONE_MAX && !images_is_owner(d, principal))
                return err_set(e, CLOCHE_E_QUEUE_FULL,
                               "%d requests of this caller that take long are under way in the image store: try again "
                               "when one has ended",
                               OWN_OF_ONE_MAX);
        return count < OWN_MAX ? 0
                               : err_set(e, CLOCHE_E_QUEUE_FULL,
                                         "%d requests that take long are under way in the image store: try again when "
                                         "one has ended",
                                         OWN_MAX);
}

static int start(struct daemon *d, int data_fd, int may_write, struct image_program **ret, struct cloche_err *e)
{
        _cleanup_fd_ int control_fd = -EBADF;
        struct image_program *p = calloc(1, sizeof(*p));
        int r;

        if (!p)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start the program of the image store");
        *p = (struct image_program){.daemon = d, .used_ns = clock_now_ns()};
        TAILQ_INIT(&p->requests);
        r = channel_open(&p->channel, REPLY_BYTES_MAX, &control_fd, e);
        if (r < 0) {
                free(p);
                return r;
        }
        p->channel.on_message = on_message;
        p->channel.on_end = on_end;
        p->channel.data = p;
        TAILQ_INSERT_TAIL(&d->image_programs, p, link);
        r = channel_watch(&p->channel, &d->loop, e);
        if (r == 0)
                r = serve(p, data_fd, control_fd, may_write, e);
        if (r == 0)
                r = channel_request(&p->channel, "open", json_object(), -EBADF, on_open, e);
        if (r < 0)
                image_program_close(p);
        else
                *ret = p;
        return r;
}

int images_check_store(const struct daemon *d, struct cloche_err *e)
{
        return d->engine->has_images ? 0
                                     : err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                               "this daemon has no image store (cloched --images names one)");
}

int image_program_start(struct daemon *d, int64_t principal, int data_fd, int may_write, struct image_program **ret,
                        struct cloche_err *e)
{
        int r;

        r = images_check_store(d, e);
        if (r == 0)
                r = check_room(d, principal, e);
        if (r == 0)
                r = start(d, data_fd, may_write, ret, e);
        if (r == 0)
                (*ret)->principal = principal;
        return r;
}

int images_read(struct daemon *d, const char *method, json_t *params, image_answered answered, void *data,
                struct image_request **ret, struct cloche_err *e)
{
        int r = images_check_store(d, e);

        if (r == 0 && !d->image_reader)
                r = start(d, -EBADF, 0, &d->image_reader, e);
        if (r == 0)
                return image_program_request(d->image_reader, method, params, answered, data, ret, e);
        json_decref(params);
        return r;
}
