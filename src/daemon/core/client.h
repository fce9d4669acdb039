/* A client: a connection of frames, a WebSocket, or one HTTP request. Its runs end with it. */
#ifndef CLOCHE_DAEMON_CORE_CLIENT_H
#define CLOCHE_DAEMON_CORE_CLIENT_H

#include "daemon.h"
#include "daemon/http/operation.h"
#include "wire/frame.h"

struct bridge_request;
struct client;
struct client_request;

/* How answers are sent. id and results are borrowed. */
struct face {
        const char *name;
        /* The values in result are held (wire/value.h). */
        void (*result)(struct client *client, const struct operation *operation, const json_t *id,
                       const json_t *result);
        /* data: members beside name and fault, or NULL; stolen. */
        void (*fail)(struct client *client, const json_t *id, const struct cloche_err *e, json_t *data);
        void (*output)(struct client *client, const json_t *id, int stream, const void *bytes, size_t size);
        void (*notify)(struct client *client, const json_t *id, const char *event, const char *about);
        /* For operations on sandboxes, in frame form; borrowed. */
        void (*event)(struct client *client, const json_t *id, const char *event, const json_t *about,
                      const struct buf *attachments);
        void (*answer)(struct client *client, const struct operation *operation, const json_t *id, const json_t *result,
                       const struct buf *attachments);
        int has_bridge; /* the client can be sent requests; frames only */
};

/* The transport of frames. */
struct carrier {
        void (*flush)(struct client *client);          /* client->out is not empty */
        void (*hold)(struct client *client, int hold); /* stop or continue reading requests */
        void (*close)(struct client *client, const char *why);
};

struct client {
        TAILQ_ENTRY(client) unsent_link;
        struct daemon *daemon;
        const struct face *face;
        const struct carrier *carrier; /* for frames */
        struct connection *connection; /* made known by hello; NULL: it is known already */
        void *data;                    /* of the face or the carrier */
        uint64_t number;
        int64_t principal;
        int peer_fd; /* unix socket of the user whose rights decide about mounts; borrowed, negative: none */
        int is_greeted, needs_token, is_closed, is_unsent;
        int is_held;    /* its runs wait with their output, because it does not read */
        int is_stopped; /* and nothing more is read from it */
        int is_waiting; /* likewise: its next requests must come after one that names an image */
        unsigned pending_count;
        TAILQ_HEAD(client_pendings, client_pending) pending;
        TAILQ_HEAD(bridge_requests, bridge_request) requests;
        json_int_t next_request;
        struct buf out; /* unwritten frames, from out_at on */
        size_t out_at;
};

struct client_request {
        struct client *client;
        const struct operation *operation;
        const json_t *id;     /* NULL for HTTP */
        const json_t *params; /* an object; checked and in text form, but unchecked and in frame form for sandboxes */
        size_t bytes;         /* size of params as received */
};

#define CLIENT_PENDING_MAX 1024
#define REQUESTS_BYTES_MAX                                                                         \
        (UINT64_C(1) << 30) /* of all running requests: parameters are held until the box is ready \
                             */

void client_init(struct client *client, struct daemon *d, const struct face *face, int64_t principal, int peer_fd);
/* Cancel its requests, release its prefixes, fail the calls of its host functions, free its
 * memory. */
void client_done(struct client *client);

/* -- requests that are answered later: runs, set-ups of prefixes, syncs and requests about
 * sandboxes */

/* The first member of the object that does the work. */
struct client_pending {
        TAILQ_ENTRY(client_pending) link;
        struct daemon *daemon;
        struct client *client; /* NULL: the request is answered, or the client has disconnected */
        json_t *id;
        const struct client_pending_kind {
                void (*cancel)(struct client_pending *pending);
                /* Stop or continue its events, which may end and free it; NULL: it has none that
                 * can wait. */
                void (*hold)(struct client_pending *pending, int hold);
                void (*on_client_closed)(struct client_pending *pending);
        } * kind;
        int is_held;      /* by a hold request for this one */
        int is_hold_sent; /* the last value passed on, for this one or its whole client */
};

/* Check that the daemon takes work, and one more from this client with this id and size. */
int client_pending_check(const struct client_request *request, struct cloche_err *e);
void client_pending_add(struct client_pending *pending, const struct client_pending_kind *kind,
                        const struct client_request *request);
/* After it was added and begun: hold it if its client is held. */
void client_pending_begun(struct client_pending *pending);
/* Before it is freed, and at its answer at the latest; a second call does nothing. */
void client_pending_remove(struct client_pending *pending);
int client_cancel(const struct client_request *request, json_t **ret, struct cloche_err *e);
int client_hold(const struct client_request *request, json_t **ret, struct cloche_err *e);
/* Hold or release all of a client, which does not read, or does again. */
void client_hold_all(struct client *client, int hold);

/* -- frames */
extern const struct face client_frames;
/* Handle a received frame. The carrier checks client->is_closed afterwards. */
void client_receive(struct client *client, const struct frame *f);
/* Send a request. params are in frame form, and stolen. */
void client_send_request(struct client *client, json_int_t id, const char *method, json_t *params,
                         const struct buf *attachments);
/* True if no request may be read now. */
static inline int client_is_stopped(const struct client *client)
{
        return client->is_stopped || client->is_waiting;
}
/* size bytes of out were written: continue the runs that waited for it. */
void client_written(struct client *client, size_t size);
size_t client_unwritten(const struct client *client);

/* Return {name, fault, message} and the members of data, which is stolen. NULL: out of memory. */
json_t *client_error(const struct cloche_err *e, json_t *data);

/* -- operations (operations.c) */
/* Check that the client may call the operation in its present state. */
int operation_permit(const struct client_request *request, struct cloche_err *e);
/* 0: *ret is the answer. 1: the answer is sent separately, perhaps already. */
int operation_run(const struct client_request *request, json_t **ret, struct cloche_err *e);

#endif
