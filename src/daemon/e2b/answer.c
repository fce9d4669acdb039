/* Answers of the API, in the shape that its clients expect of each part, and streams of
 * Connect (https://connectrpc.com/docs/protocol). Runs in: cloched-engine, on its loop, with
 * the rights of the daemon's user. */
#include "internal.h"

#include "base/clock.h"
#include "wire/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSON_TYPE "application/json"
#define STREAM_TYPE "application/connect+json"
#define FLAG_END 0x02
#define ALIVE_S 90 /* of a client that states no interval */
#define TIMEOUT_MAX_MS (UINT64_C(366) * 24 * 3600 * 1000)

/* Codes of Connect and their HTTP status, for errors of the core. Others are internal. */
static const struct {
        enum cloche_code from;
        const char *code;
        unsigned status;
} codes[] = {
        {CLOCHE_E_INVALID_ARGUMENT, "invalid_argument", 400},
        {CLOCHE_E_INVALID_JSON, "invalid_argument", 400},
        {CLOCHE_E_UNKNOWN_LANGUAGE, "invalid_argument", 400},
        {CLOCHE_E_FILE_KIND, "invalid_argument", 400},
        {CLOCHE_E_TOO_LARGE, "invalid_argument", 413},
        {CLOCHE_E_UNAUTHORIZED, "unauthenticated", 401},
        {CLOCHE_E_FORBIDDEN, "permission_denied", 403},
        {CLOCHE_E_FILE_DENIED, "permission_denied", 403},
        {CLOCHE_E_NOT_FOUND, "not_found", 404},
        {CLOCHE_E_FILE_NOT_FOUND, "not_found", 404},
        {CLOCHE_E_PROCESS_ENDED, "not_found", 404},
        {CLOCHE_E_FILE_EXISTS, "already_exists", 409},
        {CLOCHE_E_STATE, "failed_precondition", 409},
        {CLOCHE_E_QUEUE_FULL, "resource_exhausted", 429},
        {CLOCHE_E_DISK_FULL, "resource_exhausted", 507},
        {CLOCHE_E_SANDBOX_ENDED, "unavailable", 502},
        {CLOCHE_E_STOPPING, "unavailable", 503},
        {CLOCHE_E_RESOURCE, "unavailable", 503},
        {CLOCHE_E_TIMEOUT, "deadline_exceeded", 504},
};

static const char *code_of(enum cloche_code from, unsigned *ret_status)
{
        for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
                if (codes[i].from == from) {
                        *ret_status = codes[i].status;
                        return codes[i].code;
                }
        *ret_status = 500;
        return "internal";
}

/* -- answers ----------------------------------------------------------------------------------------------------- */

/* body: stolen. */
static void answer(struct http_request *request, unsigned status, json_t *body)
{
        char *text = json_dump_text(body, JSON_COMPACT | JSON_ENCODE_ANY);

        http_answer(request, text ? status : 500, JSON_TYPE, text ? text : "{}", text ? strlen(text) : 2);
        free(text);
        json_decref(body);
}

void e2b_answer(struct e2b_request *q, unsigned status, json_t *body)
{
        answer(q->request, status, body);
}

void e2b_answer_empty(struct e2b_request *q)
{
        http_answer(q->request, 204, NULL, "", 0);
}

static json_t *valid(const char *text)
{
        return json_valid_text(text, strlen(text));
}

/* Connect has a status for each code. 502 is a sandbox that is gone, on each plane. */
static unsigned connect_status(const char *code, unsigned status)
{
        static const struct {
                const char *code;
                unsigned status;
        } rows[] = {{"invalid_argument", 400}, {"failed_precondition", 400}, {"resource_exhausted", 429}};

        for (size_t i = 0; status != 502 && i < sizeof(rows) / sizeof(rows[0]); i++)
                if (strcmp(rows[i].code, code) == 0)
                        return rows[i].status;
        return status;
}

static void refuse(struct e2b_request *q, unsigned status, const char *code, const char *message)
{
        enum e2b_plane plane = q->route ? q->route->plane : E2B_CONTROL;

        if (status == 429) /* then the clients try again */
                http_add_header(q->request, "Retry-After", "1");
        if (q->is_streaming || plane == E2B_STREAM) {
                if (!q->is_streaming)
                        e2b_stream_begin(q);
                e2b_stream_end(q, code, message);
        } else if (plane == E2B_UNARY) {
                e2b_answer(q, connect_status(code, status),
                           json_pack("{s:s, s:o}", "code", code, "message", valid(message)));
        } else if (plane == E2B_CODE || plane == E2B_CONTEXTS) {
                http_answer(q->request, status, "text/plain; charset=utf-8", message, strlen(message));
        } else {
                e2b_answer(q, status, json_pack("{s:i, s:o}", "code", (int)status, "message", valid(message)));
        }
}

void e2b_refuse(struct e2b_request *q, unsigned status, const char *code, const char *format, ...)
{
        char message[1024];
        va_list args;

        va_start(args, format);
        vsnprintf(message, sizeof(message), format, args);
        va_end(args);
        refuse(q, status, code, message);
}

/* A sandbox that was deleted while a request used it. The control plane has words of its own. */
static int is_deleted(const struct e2b_request *q)
{
        return q->door.had_sandbox && q->door.sandbox && q->route && q->route->plane != E2B_CONTROL &&
               !sandboxes_has(q->door.daemon->sandboxes, q->door.principal, q->door.sandbox);
}

void e2b_fail(struct e2b_request *q, const struct door_reply *reply)
{
        unsigned status;
        const char *code = code_of(reply->e->code, &status);

        if (q->is_streaming && is_deleted(q))
                q->is_broken = 1;
        else if (is_deleted(q))
                e2b_gone(q);
        else
                refuse(q, status, code, reply->e->msg);
}

/* The clients read this status as "the sandbox is not running" on each plane. */
void e2b_gone(struct e2b_request *q)
{
        e2b_answer(q, 502,
                   json_pack("{s:s, s:s, s:i}", "sandboxId", q->door.sandbox ? q->door.sandbox : "", "message",
                             "The sandbox was not found", "code", 502));
}

void e2b_refuse_request(struct http_request *request, unsigned status, const struct cloche_err *e)
{
        answer(request, status, json_pack("{s:i, s:o}", "code", (int)status, "message", valid(e->msg)));
}

/* -- streams ----------------------------------------------------------------------------------------------------- */

void e2b_stream_begin(struct e2b_request *q)
{
        q->is_streaming = 1;
        q->alive_ns = clock_now_ns();
        http_stream_raw(q->request, 200, STREAM_TYPE, -1);
}

/* 0: absent, no number, or more than most. */
static uint64_t number_of_header(const struct e2b_request *q, const char *name, uint64_t most)
{
        const char *text = http_request_header(q->request, name);
        unsigned long long number = text ? strtoull(text, NULL, 10) : 0;

        return number <= most ? number : 0;
}

uint64_t e2b_timeout_ms(const struct e2b_request *q)
{
        return number_of_header(q, "Connect-Timeout-Ms", TIMEOUT_MAX_MS);
}

static void on_deadline(struct e2b_request *q)
{
        e2b_stream_end(q, "deadline_exceeded", "the timeout of the request is over");
}

void e2b_stream_begin_alive(struct e2b_request *q, void (*on_alive)(struct e2b_request *q), int ends_at_timeout)
{
        uint64_t interval_s = number_of_header(q, "Keepalive-Ping-Interval", 3600), timeout_ms = e2b_timeout_ms(q);

        e2b_stream_begin(q);
        q->alive_every_ns = (interval_s ? interval_s : ALIVE_S) * UINT64_C(1000000000);
        q->on_alive = on_alive;
        if (!ends_at_timeout || timeout_ms == 0)
                return;
        q->deadline_ns = q->alive_ns + timeout_ms * 1000000;
        q->on_deadline = on_deadline;
}

/* message: stolen. A message that is lost ends the stream without its last envelope, which the
 * client takes for a failure. */
static void send_envelope(struct e2b_request *q, unsigned flags, json_t *message)
{
        char *text = json_dump_text(message, JSON_COMPACT);
        size_t size = text ? strlen(text) : 0;
        const unsigned char head[] = {(unsigned char)flags, (unsigned char)(size >> 24), (unsigned char)(size >> 16),
                                      (unsigned char)(size >> 8), (unsigned char)size};

        json_decref(message);
        if (!q->is_broken && (!text || http_stream_write(q->request, head, sizeof(head)) < 0 ||
                              http_stream_write(q->request, text, size) < 0))
                q->is_broken = 1;
        free(text);
        q->alive_ns = clock_now_ns();
        e2b_stream_hold(q);
}

void e2b_stream_send(struct e2b_request *q, json_t *message)
{
        send_envelope(q, 0, message);
}

/* Nothing follows the last envelope. */
void e2b_stream_end(struct e2b_request *q, const char *code, const char *message)
{
        q->alive_every_ns = q->deadline_ns = 0;
        q->on_event = NULL;
        send_envelope(q, FLAG_END,
                      code ? json_pack("{s:{s:s, s:o}}", "error", "code", code, "message", valid(message))
                           : json_object());
        if (q->is_broken)
                http_stream_break(q->request);
        else
                http_stream_end(q->request);
}

void e2b_stream_hold(struct e2b_request *q)
{
        door_hold(&q->door, q->is_streaming ? http_stream_waiting(q->request) : 0);
}
