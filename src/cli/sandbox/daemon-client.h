/* A connection to a cloched on its unix socket, in frames (spec/rpc.md), for one blocking thread.
 * Requests are written as the socket accepts them; input is read one message at a time. Nothing is
 * printed here.
 *
 * Life cycle: daemon_open() sends hello; daemon_request() starts a request, daemon_next() returns a
 * message, daemon_move() waits for more. daemon_call() combines the three for a single answer.
 * After an error of the connection only daemon_close() is allowed. */
#ifndef CLOCHE_CLI_SANDBOX_DAEMON_CLIENT_H
#define CLOCHE_CLI_SANDBOX_DAEMON_CLIENT_H

#include "user/notice.h"
#include "wire/client.h"

#include <cloche/error.h>
#include <jansson.h>

struct daemon_client {
        int fd;
        struct wire_client client;
        int is_greeted;
        struct cloche_err refusal; /* the daemon refused the connection; code 0: it did not */
        json_t *missing;           /* names of the guards not enforced there */
        char notice[NOTICE_BYTES]; /* a notice about them for people; "": none */
};

enum daemon_kind { DAEMON_NOTHING, DAEMON_ANSWER, DAEMON_FAILURE, DAEMON_EVENT };

/* A message of the daemon; free it with daemon_message_done() before the next one. */
struct daemon_message {
        enum daemon_kind kind;
        json_int_t id;       /* of its request */
        const char *event;   /* DAEMON_EVENT */
        json_t *body;        /* the result, or the subject of an event, in frame form; borrowed from root */
        struct cloche_err e; /* DAEMON_FAILURE */
        const unsigned char *attachments; /* valid until the next daemon_next() */
        size_t attachments_size;
        json_t *root;
};

/* takes_notice: the caller will print the daemon's notice, if any. CLOCHE_E_NOT_FOUND: no daemon
 * listens; CLOCHE_E_PROTOCOL: the connection closed before the greeting. */
CLOCHE_MUST_CHECK int daemon_open(const char *path, int takes_notice, struct daemon_client *ret, struct cloche_err *e);
/* The same over a connected socket, which is taken. */
CLOCHE_MUST_CHECK int daemon_adopt(int fd, struct daemon_client *ret, struct cloche_err *e);
/* The same over a socket on which another process has said hello. */
void daemon_resume(int fd, struct daemon_client *ret);
void daemon_close(struct daemon_client *c);

/* Queue a request. params is stolen, NULL if jansson refused them; *ret_id identifies the
 * request. */
CLOCHE_MUST_CHECK int daemon_request(struct daemon_client *c, const char *method, json_t *params,
                                     const void *attachments, size_t attachments_size, json_int_t *ret_id,
                                     struct cloche_err *e);
/* 1: *ret is a message. 0: no complete one yet. Errors: the connection is lost. */
CLOCHE_MUST_CHECK int daemon_next(struct daemon_client *c, struct daemon_message *ret, struct cloche_err *e);
void daemon_message_done(struct daemon_message *message);

/* Events for poll(2), and the handling of its result. Only after daemon_next() returned 0. */
short daemon_poll_events(const struct daemon_client *c);
CLOCHE_MUST_CHECK int daemon_move(struct daemon_client *c, short happened, struct cloche_err *e);

/* Send a request and wait for the answer; other messages are dropped. An error of the daemon is
 * returned as an error. ret: to be freed with daemon_message_done(). */
CLOCHE_MUST_CHECK int daemon_call(struct daemon_client *c, const char *method, json_t *params, const void *attachments,
                                  size_t attachments_size, struct daemon_message *ret, struct cloche_err *e);

/* Text, or bytes among the attachments: a view. -CLOCHE_E_PROTOCOL if value is neither; name for
 * the message. */
CLOCHE_MUST_CHECK int daemon_bytes(const struct daemon_message *message, const json_t *value, const char *what,
                                   const void **ret, size_t *ret_size, struct cloche_err *e);
/* The body in text form (bytes as base64), a new reference. */
CLOCHE_MUST_CHECK int daemon_text_form(const struct daemon_message *message, json_t **ret, struct cloche_err *e);

#endif
