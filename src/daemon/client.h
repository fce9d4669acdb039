/* One who asks: a connection of frames, a WebSocket, or one request of HTTP. What it made ends with it. */
#ifndef CLOCHE_DAEMON_CLIENT_H
#define CLOCHE_DAEMON_CLIENT_H

#include "daemon.h"
#include "http/operation.h"
#include "wire/frame.h"

struct bridge_ask;
struct sandbox_job;
struct client;

/* How answers go back. id and results are borrowed. */
struct face {
        const char *name;
        /* Its values are held (wire/value.h). */
        void (*result)(struct client *client, const struct operation *operation, const json_t *id, const json_t *result);
        /* data: members beside name and fault, or NULL; stolen. */
        void (*fail)(struct client *client, const json_t *id, const struct cloche_err *e, json_t *data);
        void (*output)(struct client *client, const json_t *id, int stream, const void *bytes, size_t size);
        void (*tell)(struct client *client, const json_t *id, const char *event, const char *about);
        /* Of sandboxes, in frame form; borrowed. */
        void (*event)(struct client *client, const json_t *id, const char *event, const json_t *about, const struct buf *attachments);
        void (*answer)(struct client *client, const struct operation *operation, const json_t *id, const json_t *result,
                       const struct buf *attachments);
        int has_bridge; /* it can be asked, with frames */
};

/* Where frames go. */
struct carrier {
        void (*flush)(struct client *client); /* client->out has something */
        void (*hold)(struct client *client, int hold); /* ask nothing more for now */
        void (*close)(struct client *client, const char *why);
};

struct client {
        TAILQ_ENTRY(client) unsent_link;
        struct daemon *daemon;
        const struct face *face;
        const struct carrier *carrier; /* of frames */
        struct connection *connection; /* that hello makes known; NULL: it is already */
        void *data;                    /* the face's or the carrier's */
        uint64_t number;
        int64_t principal;
        int peer_fd; /* the unix socket of one whose rights decide what is mounted; borrowed, negative: none */
        int is_greeted, needs_token, is_over, is_unsent;
        int is_held;    /* its runs wait with their output, because it does not read */
        int is_stopped; /* and nothing more is read of it */
        unsigned jobs_count;
        TAILQ_HEAD(client_jobs, job) jobs;
        TAILQ_HEAD(client_sandbox_jobs, sandbox_job) sandbox_jobs;
        TAILQ_HEAD(bridge_asks, bridge_ask) asks;
        json_int_t next_ask;
        struct buf out; /* frames to be written, from out_at on */
        size_t out_at;
};

struct ask {
        struct client *client;
        const struct operation *operation;
        const json_t *id;     /* NULL: HTTP */
        const json_t *params; /* an object in text form, checked; of sandboxes in frame form, not checked */
        size_t bytes;         /* of it, as they came */
};

#define CLIENT_JOBS_MAX 1024
#define REQUESTS_BYTES_MAX (UINT64_C(1) << 30) /* of all runs under way: what each was asked with is held until it has its box */

void client_init(struct client *client, struct daemon *d, const struct face *face, int64_t principal, int peer_fd);
/* Its runs are cancelled, its prefixes given up, its host functions fail. */
void client_over(struct client *client);
/* After that. */
void client_done(struct client *client);

/* -- frames */
extern const struct face client_frames;
/* A frame that came in; the carrier looks at client->is_over afterwards. */
void client_receive(struct client *client, const struct frame *f);
/* Ask: params are in frame form and stolen. */
void client_request(struct client *client, json_int_t id, const char *method, json_t *params, const struct buf *attachments);
/* size bytes of out were written: let runs go on that were held because of it. */
void client_written(struct client *client, size_t size);
size_t client_unwritten(const struct client *client);

/* {name, fault, message} and data's members, which is stolen; NULL without memory. */
json_t *client_error(const struct cloche_err *e, json_t *data);

/* -- operations (operations.c) */
/* Whether it may be asked at all by now. */
int operation_permit(const struct ask *ask, struct cloche_err *e);
/* 0: *ret is the answer. 1: it comes by itself, perhaps came. */
int operation_run(const struct ask *ask, json_t **ret, struct cloche_err *e);

#endif
