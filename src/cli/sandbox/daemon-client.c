/* Messages to and from cloched, on one blocking thread. Runs in: the CLI, as its user. */
#include "daemon-client.h"

#include "base/err.h"
#include "base/fd.h"
#include "user/daemon-find.h"
#include "user/token.h"
#include "wire/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define GREETING "CLOCHE1\n"
#define OUT_BYTES_MAX (256u << 20)

/* -- errors --------------------------------------------------------------------------------------------------- */

static int lost(struct cloche_err *e, int os_errno)
{
        if (os_errno && os_errno != ECONNRESET && os_errno != EPIPE)
                return err_os(e, CLOCHE_E_PROTOCOL, os_errno, "the connection to the daemon ended");
        return err_set(e, CLOCHE_E_PROTOCOL, "the connection to the daemon ended");
}

/* -- opening -------------------------------------------------------------------------------------------------- */

/* Copy the missing guards and the notice from the reply to hello. */
static void read_hello(struct daemon_client *c, const json_t *body)
{
        const char *notice = json_string_value(json_object_get(body, "notice"));
        json_t *name;
        size_t i;

        json_array_foreach (json_object_get(body, "missing"), i, name)
                if (json_is_string(name))
                        json_array_append(c->missing, name);
        snprintf(c->notice, sizeof(c->notice), "%s", notice ? notice : "");
}

static int greet(struct daemon_client *c, int takes_notice, struct cloche_err *e)
{
        const char *token_file = getenv("CLOCHE_TOKEN_FILE");
        char token[TOKEN_BYTES_MAX], path[4096];
        struct daemon_message message = {0};
        int r = token_file ? token_read(token_file, path, sizeof(path), token) : 0;

        if (r < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, -r, "read the daemon's token in %.200s (CLOCHE_TOKEN_FILE)",
                              token_file);
        r = buf_append(wire_transport_out(&c->client.transport), GREETING, strlen(GREETING));
        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "open the connection to the daemon");
        r = daemon_call(c, "hello",
                        json_pack("{s:i, s:s, s:b, s:s*}", "protocol", 1, "client", "cloche " CLOCHE_VERSION, "notice",
                                  takes_notice, "token", token_file ? token : NULL),
                        NULL, 0, &message, e);
        if (r == 0)
                read_hello(c, message.body);
        daemon_message_done(&message);
        c->is_greeted = r == 0;
        return r;
}

int daemon_open(const char *path, int takes_notice, struct daemon_client *ret, struct cloche_err *e)
{
        int r;

        *ret = (struct daemon_client){.missing = json_array()};
        r = ret->fd = daemon_connect(path, e);
        wire_client_init(&ret->client, ret->fd, FRAME_BYTES_MAX, OUT_BYTES_MAX);
        if (r >= 0)
                r = greet(ret, takes_notice, e);
        if (r < 0)
                daemon_close(ret);
        return r;
}

int daemon_adopt(int fd, struct daemon_client *ret, struct cloche_err *e)
{
        int r;

        *ret = (struct daemon_client){.fd = fd, .missing = json_array()};
        wire_client_init(&ret->client, ret->fd, FRAME_BYTES_MAX, OUT_BYTES_MAX);
        r = greet(ret, 0, e);
        if (r < 0)
                daemon_close(ret);
        return r;
}

void daemon_resume(int fd, struct daemon_client *ret)
{
        *ret = (struct daemon_client){.fd = fd, .missing = json_array(), .is_greeted = 1};
        wire_client_init(&ret->client, ret->fd, FRAME_BYTES_MAX, OUT_BYTES_MAX);
}

void daemon_close(struct daemon_client *c)
{
        wire_client_done(&c->client);
        fd_close(&c->fd);
        json_decref(c->missing);
        c->missing = NULL;
}

/* -- messages ------------------------------------------------------------------------------------------------- */

int daemon_request(struct daemon_client *c, const char *method, json_t *params, const void *attachments,
                   size_t attachments_size, json_int_t *ret_id, struct cloche_err *e)
{
        if (!params)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the request contains text that is not UTF-8");
        return wire_client_request(&c->client, method, params,
                                   &(struct buf){.data = (char *)(uintptr_t)attachments, .size = attachments_size},
                                   NULL, NULL, ret_id, e);
}

static void read_event(const struct rpc_message *message, struct daemon_message *ret)
{
        const json_t *id = json_object_get(message->params, "id");

        ret->event = json_string_value(json_object_get(message->params, "event"));
        ret->body = json_object_get(message->params, "about");
        ret->id = json_integer_value(id);
        ret->kind = strcmp(message->method, "event") == 0 && json_is_integer(id) && ret->event ? DAEMON_EVENT
                                                                                               : DAEMON_NOTHING;
}

static void read_failure(const struct rpc_message *message, struct daemon_message *ret)
{
        ret->kind = DAEMON_FAILURE;
        /* An unknown method means that the daemon is older than this program; report a caller's
         * fault. */
        if (message->error_code == RPC_UNKNOWN_METHOD)
                err_set(&ret->e, CLOCHE_E_INVALID_ARGUMENT,
                        "the daemon is older than this program (restart it: cloche daemon stop): %s",
                        message->error_message);
        else
                rpc_read_failure(message, CLOCHE_E_INTERNAL, &ret->e);
}

/* message is taken. */
static void read_message(const struct rpc_message *message, const struct frame *frame, struct daemon_message *ret)
{
        *ret = (struct daemon_message){
                .root = message->root,
                .attachments = frame->attachments,
                .attachments_size = frame->attachments_size,
                .id = json_integer_value(message->id),
        };
        if (message->kind == RPC_NOTIFICATION)
                read_event(message, ret);
        if (message->kind == RPC_ERROR)
                read_failure(message, ret);
        if (message->kind == RPC_RESULT) {
                ret->kind = DAEMON_ANSWER;
                ret->body = message->result;
        }
}

int daemon_next(struct daemon_client *c, struct daemon_message *ret, struct cloche_err *e)
{
        struct rpc_message message;
        struct frame frame;
        int r;

        while ((r = wire_client_next(&c->client, &frame, &message, e)) > 0) {
                read_message(&message, &frame, ret);
                if (ret->kind != DAEMON_NOTHING)
                        return 1;
                daemon_message_done(ret);
        }
        return r;
}

void daemon_message_done(struct daemon_message *message)
{
        json_decref(message->root);
        *message = (struct daemon_message){0};
}

/* -- moving bytes --------------------------------------------------------------------------------------------- */

short daemon_poll_events(const struct daemon_client *c)
{
        return wire_client_events(&c->client);
}

/* A refused connection receives an HTTP response, also where frames are expected. */
static int check_refusal(const char *answer, size_t size, struct cloche_err *e)
{
        const char *body = memmem(answer, size, "\r\n\r\n", 4);
        const char *end = body ? memchr(body + 4, '\n', size - (size_t)(body + 4 - answer)) : NULL;

        int is_forbidden = size >= 12 && memcmp(answer, "HTTP/1.1 403", 12) == 0,
            is_full = size >= 12 && memcmp(answer, "HTTP/1.1 503", 12) == 0;

        if (!end || (!is_forbidden && !is_full))
                return 0;
        return err_set(e, is_forbidden ? CLOCHE_E_FORBIDDEN : CLOCHE_E_STATE, "%.*s", (int)(end - body - 4), body + 4);
}

static ssize_t receive(void *data, char *to, size_t room)
{
        struct daemon_client *c = data;
        ssize_t n = recv(c->fd, to, room, MSG_DONTWAIT);

        if (n < 0)
                return -errno;
        return n > 0 && !c->is_greeted && check_refusal(to, (size_t)n, &c->refusal) < 0 ? -EPROTO : n;
}

/* r: of wire_client_move() or wire_client_turn(). */
static int check_move(const struct daemon_client *c, int r, struct cloche_err *e)
{
        if (r == 0)
                return 0;
        if (!c->refusal.code)
                return lost(e, -r);
        *e = c->refusal;
        return -(int)e->code;
}

int daemon_move(struct daemon_client *c, short happened, struct cloche_err *e)
{
        return check_move(c, wire_client_move(&c->client, happened, receive, c), e);
}

int daemon_call(struct daemon_client *c, const char *method, json_t *params, const void *attachments,
                size_t attachments_size, struct daemon_message *ret, struct cloche_err *e)
{
        json_int_t id = 0;
        int r = daemon_request(c, method, params, attachments, attachments_size, &id, e);

        while (r == 0) {
                r = daemon_next(c, ret, e);
                if (r == 1 && ret->id == id && ret->kind != DAEMON_EVENT)
                        break;
                if (r == 1)
                        daemon_message_done(ret);
                r = r == 0 ? check_move(c, wire_client_turn(&c->client, receive, c), e) : r < 0 ? r : 0;
        }
        if (r < 0)
                return r;
        if (ret->kind == DAEMON_ANSWER)
                return 0;
        *e = ret->e;
        daemon_message_done(ret);
        return -e->code;
}

/* -- values --------------------------------------------------------------------------------------------------- */

int daemon_bytes(const struct daemon_message *message, const json_t *value, const char *what, const void **ret,
                 size_t *ret_size, struct cloche_err *e)
{
        const json_t *at = json_object_get(value, "at"), *size = json_object_get(value, "n");
        const char *kind = json_string_value(json_object_get(value, "$"));
        json_int_t last = (json_int_t)message->attachments_size;

        if (json_is_string(value)) {
                *ret = json_string_value(value);
                *ret_size = json_string_length(value);
                return 0;
        }
        if (!kind || strcmp(kind, "bytes") != 0 || !json_is_integer(at) || !json_is_integer(size) ||
            json_integer_value(at) < 0 || json_integer_value(size) < 0 || json_integer_value(size) > last ||
            json_integer_value(at) > last - json_integer_value(size))
                return err_set(e, CLOCHE_E_PROTOCOL, "the daemon's %s is neither text nor bytes", what);
        *ret = message->attachments + json_integer_value(at);
        *ret_size = (size_t)json_integer_value(size);
        return 0;
}

int daemon_text_form(const struct daemon_message *message, json_t **ret, struct cloche_err *e)
{
        return value_frame_to_text(message->body, message->attachments, message->attachments_size, ret, e);
}
