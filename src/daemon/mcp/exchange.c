/* One message under way: its requests to the core, its answer. Runs in: cloched-engine, on its
 * loop, with the rights of the daemon's user. */
#include "internal.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/hex.h"
#include "base/utf8.h"
#include "engine/loop/handle.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define TURN_MS 100                     /* deadlines are met at multiples of this */
#define PROGRESS_NS UINT64_C(250000000) /* between two notifications */
#define PROGRESS_BYTES 200              /* of a line */

/* -- requests to the core ---------------------------------------------------------------------------------------- */

static void answer_error(struct mcp_exchange *x, const struct door_reply *reply)
{
        mcp_tool_fail(x, reply->e);
}

DOOR_HOOKS(mcp, mcp_exchange, answer_error)

void mcp_call_off(struct mcp_exchange *x)
{
        if (x->door.open)
                sandbox_request_cancel(x->door.open);
        x->door.open = NULL;
        x->then = x->fail = NULL;
        x->on_event = NULL;
}

/* -- progress ---------------------------------------------------------------------------------------------------- */

/* The last line that is not empty, as text. */
static json_t *last_line(const char *bytes, size_t size)
{
        const char *from;

        while (size > 0 && strchr("\r\n", bytes[size - 1]))
                size--;
        for (from = bytes + size; from > bytes && !strchr("\r\n", from[-1]);)
                from--;
        size -= (size_t)(from - bytes);
        return json_valid_text(from, utf8_cut(from, size, size < PROGRESS_BYTES ? size : PROGRESS_BYTES));
}

void mcp_progress(struct mcp_exchange *x, const char *bytes, size_t size)
{
        uint64_t now_ns = clock_now_ns();

        if (!x->progress_token || size == 0 || (x->progress_ns && now_ns < x->progress_ns + PROGRESS_NS) ||
            mcp_is_behind(x))
                return;
        x->progress_ns = now_ns;
        x->carrier->notify(x,
                           mcp_notification("notifications/progress",
                                            json_pack("{s:O, s:I, s:o}", "progressToken", x->progress_token, "progress",
                                                      ++x->progress_count, "message", last_line(bytes, size))));
}

int mcp_is_behind(const struct mcp_exchange *x)
{
        return x->carrier->is_behind && x->carrier->is_behind(x);
}

json_t *mcp_notification(const char *method, json_t *params)
{
        return json_pack("{s:s, s:s, s:o*}", "jsonrpc", "2.0", "method", method, "params", params);
}

/* -- life -------------------------------------------------------------------------------------------------------- */

struct mcp_exchange *mcp_exchange_new(struct daemon *d, const struct mcp_carrier *carrier, void *carried,
                                      int64_t principal)
{
        struct mcp_exchange *x = calloc(1, sizeof(*x));

        if (!x)
                return NULL;
        x->door = (struct door){.hooks = &hooks, .daemon = d, .principal = principal};
        x->carrier = carrier;
        x->carried = carried;
        x->sandbox = "default";
        TAILQ_INIT(&x->watches);
        TAILQ_INSERT_TAIL(&d->mcp->exchanges, x, link);
        return x;
}

/* All that belongs to the handling of the message. */
static void forget_work(struct mcp_exchange *x)
{
        door_done(&x->door);
        x->door.sandbox = NULL;
        x->door.open = NULL;
        x->door.image = NULL;
        if (x->state_done)
                x->state_done(x->state);
        x->state = NULL;
        x->state_done = NULL;
}

/* The client of a connection ends with the connection. */
static void leave_client(struct mcp_exchange *x)
{
        struct mcp_client *client = x->client;

        if (!client || client->listener != x)
                return;
        client->listener = NULL;
        if (client->connection)
                mcp_client_free(x->door.daemon->mcp, client);
}

void mcp_exchange_free(struct mcp_exchange *x)
{
        forget_work(x);
        leave_client(x);
        mcp_watches_free(&x->watches);
        mcp_asked_free(x);
        TAILQ_REMOVE(&x->door.daemon->mcp->exchanges, x, link);
        json_decref(x->inputs);
        json_decref(x->kept);
        json_decref(x->filter);
        json_decref(x->message);
        free(x);
}

void mcp_exchange_again(struct mcp_exchange *x)
{
        forget_work(x);
        x->door.had_sandbox = 0;
        x->tool = NULL;
        mcp_dispatch(x);
}

void mcp_exchange_abandon(struct mcp_exchange *x)
{
        forget_work(x);
        mcp_asked_free(x);
        x->then = x->fail = NULL;
        x->on_event = NULL;
        x->deadline_ns = x->task_ns = 0;
}

static int has_deadline(const struct mcp *mcp)
{
        const struct mcp_exchange *x;

        if (mcp->due_count > 0)
                return 1;
        TAILQ_FOREACH (x, &mcp->exchanges, link)
                if (x->deadline_ns || x->lapse_ns || x->task_ns)
                        return 1;
        return 0;
}

/* True if the time has come, once. */
static int has_come(uint64_t *at_ns, uint64_t now_ns)
{
        int has_come = *at_ns && now_ns >= *at_ns;

        if (has_come)
                *at_ns = 0;
        return has_come;
}

/* True if a time of the message had come. It may be freed. */
static int take_time(struct mcp_exchange *x, uint64_t now_ns)
{
        if (has_come(&x->deadline_ns, now_ns))
                x->on_deadline(x);
        else if (has_come(&x->lapse_ns, now_ns))
                x->carrier->lapse(x);
        else if (has_come(&x->task_ns, now_ns))
                mcp_task_begin(x);
        else
                return 0;
        return 1;
}

/* The stop of the daemon may proceed with an answer, and end other messages: begin anew after
 * each. */
static void on_timer(uv_timer_t *timer)
{
        struct mcp *mcp = timer->data;
        uint64_t now_ns = clock_now_ns();
        struct mcp_exchange *x = TAILQ_FIRST(&mcp->exchanges);

        while (x)
                x = take_time(x, now_ns) ? TAILQ_FIRST(&mcp->exchanges) : TAILQ_NEXT(x, link);
        mcp_tell_due(mcp, now_ns);
        if (!has_deadline(mcp))
                uv_timer_stop(timer);
}

/* The timer runs while there is a deadline: a daemon without work does not wake up. */
void mcp_watch_clock(struct mcp *mcp)
{
        if (!uv_is_active((uv_handle_t *)mcp->timer))
                uv_timer_start(mcp->timer, on_timer, TURN_MS, TURN_MS);
}

void mcp_set_deadline(struct mcp_exchange *x, uint64_t deadline_ns, void (*on_deadline)(struct mcp_exchange *x))
{
        x->deadline_ns = deadline_ns;
        x->on_deadline = on_deadline;
        mcp_watch_clock(x->door.daemon->mcp);
}

/* getrandom(2) gives so few bytes whole. */
void mcp_random_id(char ret[MCP_SESSION_SIZE])
{
        unsigned char bytes[(MCP_SESSION_SIZE - 1) / 2];

        while (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
                ;
        hex_write(ret, bytes, sizeof(bytes));
}

int mcp_start(struct daemon *d, struct cloche_err *e)
{
        struct mcp *mcp = calloc(1, sizeof(*mcp));

        if (mcp)
                mcp->tools = mcp_tools_of(d);
        if (!mcp || !mcp->tools || !(mcp->timer = handle_timer(&d->loop, mcp))) {
                if (mcp)
                        json_decref(mcp->tools);
                free(mcp);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start the MCP API");
        }
        TAILQ_INIT(&mcp->exchanges);
        TAILQ_INIT(&mcp->clients);
        TAILQ_INIT(&mcp->posts);
        TAILQ_INIT(&mcp->errands);
        TAILQ_INIT(&mcp->tasks);
        TAILQ_INIT(&mcp->runs);
        while (getrandom(mcp->key, sizeof(mcp->key), 0) != sizeof(mcp->key))
                ;
        uv_unref((uv_handle_t *)mcp->timer);
        d->mcp = mcp;
        return 0;
}

void mcp_stop(struct daemon *d)
{
        if (!d->mcp)
                return;
        handle_close(d->mcp->timer);
        mcp_tasks_free(d->mcp);
        mcp_runs_free(d->mcp);
        mcp_web_stop(d->mcp);
        while (!TAILQ_EMPTY(&d->mcp->errands))
                mcp_errand_free(TAILQ_FIRST(&d->mcp->errands));
        while (!TAILQ_EMPTY(&d->mcp->clients))
                mcp_client_free(d->mcp, TAILQ_FIRST(&d->mcp->clients));
        json_decref(d->mcp->tools);
        free(d->mcp);
        d->mcp = NULL;
}

/* -- answers ----------------------------------------------------------------------------------------------------- */

/* Statuses of HTTP, of the era of 2026-07-28. Clients of the earlier one take another status than
 * 200 for a failure of the connection, but where no request could be read. */
static unsigned status_of(const struct mcp_exchange *x, enum mcp_error code)
{
        switch (code) {
        case MCP_PARSE_ERROR:
        case MCP_INVALID_REQUEST:
        case MCP_HEADER_MISMATCH:
        case MCP_BAD_VERSION:
        case MCP_NO_CAPABILITY:
                return 400;
        case MCP_NO_METHOD:
                return x->is_modern ? 404 : 200;
        case MCP_BAD_PARAMS:
        case MCP_NO_RESOURCE:
        case MCP_INTERNAL:
        default:
                return 200;
        }
}

static json_t *valid(const char *text)
{
        return json_valid_text(text, strlen(text));
}

json_t *mcp_error_message(enum mcp_error code, const char *text)
{
        return json_pack("{s:s, s:{s:i, s:o}}", "jsonrpc", "2.0", "error", "code", (int)code, "message", valid(text));
}

static void refuse(struct mcp_exchange *x, unsigned status, enum mcp_error code, json_t *data, const char *text)
{
        json_t *message = mcp_error_message(code, text);

        if (x->id)
                json_object_set(message, "id", x->id);
        if (data)
                json_object_set_new(json_object_get(message, "error"), "data", data);
        x->task_ns = 0;
        x->carrier->answer(x, status, message);
}

void mcp_refuse(struct mcp_exchange *x, enum mcp_error code, const char *format, ...)
{
        char text[1024];
        va_list args;

        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        refuse(x, status_of(x, code), code, NULL, text);
}

void mcp_refuse_with(struct mcp_exchange *x, unsigned status, enum mcp_error code, json_t *data, const char *format,
                     ...)
{
        char text[1024];
        va_list args;

        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        refuse(x, status, code, data, text);
}

void mcp_answer(struct mcp_exchange *x, json_t *result)
{
        if (!result) {
                mcp_refuse(x, MCP_INTERNAL, "out of memory");
                return;
        }
        mcp_envelope_complete(x, result);
        x->task_ns = 0;
        x->carrier->answer(x, 200, json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", x->id, "result", result));
}

/* -- messages ---------------------------------------------------------------------------------------------------- */

/* An id is a text or an integer. True if the message is a request, a notification or a response;
 * the rest is of the envelope. */
static int read_message(struct mcp_exchange *x)
{
        json_t *id = json_object_get(x->message, "id"), *params = json_object_get(x->message, "params"), *token;
        const char *version = mcp_text(x->message, "jsonrpc");

        x->method = mcp_text(x->message, "method");
        x->id = json_is_string(id) || json_is_integer(id) ? id : NULL;
        if (!version || strcmp(version, "2.0") != 0 || (id && !x->id) || (params && !json_is_object(params)))
                return 0;
        x->params = params;
        x->meta = json_object_get(params, "_meta");
        if (x->meta && !json_is_object(x->meta))
                return 0;
        token = json_object_get(x->meta, "progressToken");
        x->progress_token = json_is_string(token) || json_is_integer(token) ? token : NULL;
        return x->method || (x->id && (json_object_get(x->message, "result") || json_object_get(x->message, "error")));
}

void mcp_exchange_begin(struct mcp_exchange *x, const char *text, size_t size)
{
        struct cloche_err e = {0};

        if (json_load_text(text, size, &x->message, &e) < 0)
                mcp_refuse(x, MCP_PARSE_ERROR, "the message is no JSON: %s", e.msg);
        else if (json_is_array(x->message))
                mcp_refuse(x, MCP_INVALID_REQUEST, "several messages in one are not supported: send each by itself");
        else if (!read_message(x))
                mcp_refuse(x, MCP_INVALID_REQUEST,
                           "the message is none of JSON-RPC 2.0: expected jsonrpc, method, and id, a text or an "
                           "integer, and params, an object");
        else if (!x->method)
                mcp_on_response(x);
        else if (mcp_envelope_check(x))
                mcp_dispatch(x);
}
