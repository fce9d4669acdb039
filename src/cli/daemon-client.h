/* A connection to a cloched on its unix socket, in frames (spec/rpc.md), for one thread that waits. Requests are written as the socket takes them,
 * what comes is taken a message at a time; nothing is printed here.
 *
 * Life cycle: daemon_open() has said hello; daemon_ask() begins a request, daemon_next() gives what came, daemon_move() waits for more.
 * daemon_call() is the three of them for whoever wants one answer. After an error of the connection only daemon_close() is left. */
#ifndef CLOCHE_CLI_DAEMON_CLIENT_H
#define CLOCHE_CLI_DAEMON_CLIENT_H

#include "user/notice.h"
#include "wire/frame.h"

#include <cloche/cloche.h>
#include <jansson.h>

struct daemon_client {
        int fd;
        struct frame_reader in;
        struct buf out; /* frames that the socket has not taken yet */
        json_int_t last_id;
        int is_greeted;
        json_t *missing;           /* names of the guards that are not enforced there */
        char notice[NOTICE_BYTES]; /* a line for people about them; "": none */
};

enum daemon_kind { DAEMON_NOTHING, DAEMON_ANSWER, DAEMON_FAILURE, DAEMON_EVENT };

/* What the daemon said; done with daemon_told_done() before the next is asked for. */
struct daemon_told {
        enum daemon_kind kind;
        json_int_t id;       /* of the request it belongs to */
        const char *event;   /* DAEMON_EVENT */
        json_t *body;        /* the result, or what an event is about, in frame form; borrowed from root */
        struct cloche_err e; /* DAEMON_FAILURE */
        const unsigned char *attachments; /* valid until the next daemon_next() */
        size_t attachments_size;
        json_t *root;
};

/* takes_notice: the notice of the daemon, if it has one, will be printed. CLOCHE_E_NOT_FOUND: nobody answers there; CLOCHE_E_PROTOCOL: it
 * ended before it greeted us. */
CLOCHE_MUST_CHECK int daemon_open(const char *path, int takes_notice, struct daemon_client *ret, struct cloche_err *e);
void daemon_close(struct daemon_client *c);

/* Put a request into the way of the socket. params is stolen, NULL when jansson refused them; *ret_id names the request. */
CLOCHE_MUST_CHECK int daemon_ask(struct daemon_client *c, const char *method, json_t *params, const void *attachments, size_t attachments_size,
                                 json_int_t *ret_id, struct cloche_err *e);
/* 1: *ret is a message. 0: none has come whole. Errors: the connection is over. */
CLOCHE_MUST_CHECK int daemon_next(struct daemon_client *c, struct daemon_told *ret, struct cloche_err *e);
void daemon_told_done(struct daemon_told *told);

/* Of poll(2): what is to be waited for, and what came of it. Only after daemon_next() gave 0. */
short daemon_wants(const struct daemon_client *c);
CLOCHE_MUST_CHECK int daemon_move(struct daemon_client *c, short happened, struct cloche_err *e);

/* Ask, and wait for the answer; what is told meanwhile is dropped. An error of the daemon's comes back as one. ret: done with daemon_told_done(). */
CLOCHE_MUST_CHECK int daemon_call(struct daemon_client *c, const char *method, json_t *params, const void *attachments, size_t attachments_size,
                                  struct daemon_told *ret, struct cloche_err *e);

/* Text, or bytes among the attachments: a view. -CLOCHE_E_PROTOCOL when it is neither; what says its name. */
CLOCHE_MUST_CHECK int daemon_bytes(const struct daemon_told *told, const json_t *value, const char *what, const void **ret, size_t *ret_size,
                                   struct cloche_err *e);
/* The body in text form (bytes as base64), a new reference. */
CLOCHE_MUST_CHECK int daemon_text_form(const struct daemon_told *told, json_t **ret, struct cloche_err *e);

#endif
