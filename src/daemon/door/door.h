/* Shared by the APIs for clients of other products (e2b, container, mcp): requests to sandboxes
 * on behalf of a client, values of the core as JSON, and paths with parts. */
#ifndef CLOCHE_DAEMON_DOOR_DOOR_H
#define CLOCHE_DAEMON_DOOR_DOOR_H

#include "daemon/core/daemon.h"
#include "sandbox/core/sandbox.h"

#include "base/buf.h"

#include <jansson.h>

/* -- requests -------------------------------------------------------------------------------------------------- */

struct door;
struct image_request;

struct door_reply {
        const json_t *result;
        const struct buf *attachments;
        /* For a failure; result is NULL then. */
        const struct cloche_err *e;
        const json_t *about;
};

struct door_hooks {
        void (*reply)(struct door *door, const struct door_reply *reply);
        void (*event)(struct door *door, const char *event, const json_t *about, const struct buf *attachments);
};

/* The first member of a request of such an API. */
struct door {
        const struct door_hooks *hooks;
        struct daemon *daemon;
        int64_t principal;
        char *sandbox;                /* its name; NULL: none */
        struct sandbox_request *open; /* to the core, or NULL */
        struct image_request *image;  /* to the image store, or NULL */
        int is_held;
        int had_sandbox; /* a request of this door found or made it: the next makes none anew */
};

/* Open requests are cancelled. */
void door_done(struct door *door);
/* params: stolen; "sandbox" is added if the request has one. The hook gets the reply, perhaps
 * at once. The core makes a sandbox that does not exist; here only the first request for it may,
 * so that one which is deleted meanwhile stays so. */
void door_call(struct door *door, const char *method, json_t *params, const struct buf *attachments);
/* The core sends no more output while so many bytes wait for the client. */
#define DOOR_WAITING_BYTES (1u << 20)
void door_hold(struct door *door, size_t waiting);

/* Callbacks of the open request to the core, with the API's own type of its requests, whose first
 * member is the door. fail: NULL: the API's own answer to an error. */
#define DOOR_CALLBACKS(type)                                           \
        void (*then)(struct type * q, const struct door_reply *reply); \
        void (*fail)(struct type * q, const struct door_reply *reply); \
        void (*on_event)(struct type * q, const char *event, const json_t *about, const struct buf *attachments)

/* Define the hooks of such a door, and API_call(): then gets the result. A callback may begin
 * another request, so they are cleared before. answer_error gets an error without a callback. */
#define DOOR_HOOKS(api, type, answer_error)                                                                            \
        static void on_reply(struct door *door, const struct door_reply *reply)                                        \
        {                                                                                                              \
                struct type *q = (struct type *)door;                                                                  \
                void (*then)(struct type * q, const struct door_reply *reply) = reply->e ? q->fail : q->then;          \
                                                                                                                       \
                q->then = q->fail = NULL;                                                                              \
                q->on_event = NULL;                                                                                    \
                if (then)                                                                                              \
                        then(q, reply);                                                                                \
                else                                                                                                   \
                        answer_error(q, reply);                                                                        \
        }                                                                                                              \
        static void on_event(struct door *door, const char *event, const json_t *about, const struct buf *attachments) \
        {                                                                                                              \
                struct type *q = (struct type *)door;                                                                  \
                                                                                                                       \
                if (q->on_event)                                                                                       \
                        q->on_event(q, event, about, attachments);                                                     \
        }                                                                                                              \
        static const struct door_hooks hooks = {.reply = on_reply, .event = on_event};                                 \
        void api##_call(struct type *q, const char *method, json_t *params, const struct buf *attachments,             \
                        void (*then)(struct type * q, const struct door_reply *reply))                                 \
        {                                                                                                              \
                q->then = then;                                                                                        \
                door_call(&q->door, method, params, attachments);                                                      \
        }

/* -- values ---------------------------------------------------------------------------------------------------- */

/* value: stolen; NULL adds nothing. Returns object. */
json_t *door_put(json_t *object, const char *name, json_t *value);
/* Text or bytes of a value of the core. 0: it is neither. */
int door_bytes(const json_t *value, const struct buf *attachments, const char **ret, size_t *ret_size);
/* As text, with U+FFFD for invalid UTF-8; "" if it is neither. */
json_t *door_string(const json_t *value, const struct buf *attachments);
json_t *door_base64(const void *bytes, size_t size);

/* -- paths ----------------------------------------------------------------------------------------------------- */

#define DOOR_PARTS 2
struct door_part {
        const char *at; /* NULL: the pattern has no such part */
        size_t size;
};
/* True if path matches the pattern, in which each {id} stands for one part and {rest} for the
 * remainder. */
int door_matches(const char *pattern, const char *path, struct door_part parts[DOOR_PARTS]);

#endif
