/* Builds of templates: the steps of a client's Template run in a sandbox, which is then kept as a
 * snapshot of the template's name. */
#ifndef CLOCHE_DAEMON_E2B_BUILD_H
#define CLOCHE_DAEMON_E2B_BUILD_H

#include "daemon/e2b/sandbox.h"

#include "sandbox/process/spool.h"

#define E2B_LABEL_BUILD E2B_LABEL "build" /* of the sandbox and of the snapshot */

#define E2B_LABEL_STEP E2B_LABEL "step" /* of the snapshot of a step: its key */
#define E2B_LABEL_NAME E2B_LABEL "name" /* of the snapshot of a template: its name, without the tag */
#define E2B_LABEL_TAG E2B_LABEL "tag"
#define E2B_LABEL_PUBLIC E2B_LABEL "public"

#define E2B_LAYER_PATH "/templates/{id}/files/{id}"

/* The files of one COPY, as the client packed them. */
struct e2b_layer {
        TAILQ_ENTRY(e2b_layer) link;
        struct e2b_build *build;
        char *hash;
        struct spool bytes;
        uint64_t counted_bytes;           /* in those of all builds */
        const struct e2b_request *upload; /* whose body it is; NULL: none any more */
        int is_whole;
};

struct e2b_build {
        struct door door; /* its sandbox */
        TAILQ_ENTRY(e2b_build) link;
        char id[E2B_ID_SIZE];
        char *name;     /* of the template */
        json_t *tags;   /* texts; the first is kept first */
        json_t *limits; /* of its sandboxes, by name; NULL: the daemon's */
        size_t tagged;
        TAILQ_HEAD(e2b_layers, e2b_layer) layers;
        enum { BUILD_WAITING, BUILD_RUNNING, BUILD_READY, BUILD_FAILED } state;
        uint64_t touched_ns; /* the last sign of its client before it began, monotonic */
        json_t *request;     /* as the client sent it: steps, fromImage, … */
        int has_root;
        size_t step;
        uint64_t layer_at;
        json_t *params; /* of sandbox.create, while results of earlier builds are looked for; at the end names */
        void (*trimmed)(struct e2b_build *b);
        json_t *keys;     /* of the steps, texts; NULL: there is no cache */
        const char *kept; /* in keys: the step whose result is all that the sandbox has; NULL: none */
        json_t *env;
        char *cwd, *user;
        struct buf line; /* output without its end of line */
        size_t log_bytes;
        json_t *log, *reason;
        void (*then)(struct e2b_build *b, const struct door_reply *reply); /* NULL: the reply does not matter */
};

/* name: copied; tags, limits: referenced. NULL: no memory. Old builds that have ended are
 * forgotten. */
struct e2b_build *e2b_build_new(struct daemon *d, const char *name, json_t *tags, json_t *limits);
/* id: NULL: the newest of the template. */
struct e2b_build *e2b_build_find(const struct e2b *e2b, const char *name, const char *id);
/* A whole one. */
struct e2b_layer *e2b_layer_find(const struct e2b_build *b, const char *hash);
void e2b_layer_free(struct e2b_layer *layer);
/* request: with checked steps; it is referenced. */
void e2b_build_begin(struct e2b_build *b, json_t *request);
/* Forget those that no client began, with their layers. */
void e2b_builds_sweep(struct e2b *e2b, uint64_t now_ns);
int e2b_builds_wait(const struct e2b *e2b); /* true if one was not begun */
void e2b_builds_done(struct e2b *e2b);
/* A command for the core's shell: a login shell runs the text, as E2B's. */
json_t *e2b_login_command(int has_root, const char *user, const char *text);
/* The commands of a template, for sandbox.create; NULL: it has none. */
json_t *e2b_startup(const json_t *settings, int has_root, json_int_t ready_ms);
/* True if the request has the token of a layer's URL. */
int e2b_is_layer_upload(const struct daemon *d, const struct http_request *request);

/* -- names and tags ---------------------------------------------------------------------------------------------- */

#define E2B_TAG "default"
#define E2B_NAME_SIZE 63 /* of a snapshot */
#define E2B_TAGS_MAX 16

struct e2b_reference {
        char name[E2B_NAME_SIZE + 1], tag[E2B_NAME_SIZE + 1];
        char snapshot[4 * E2B_NAME_SIZE + 3]; /* in which the tag lies */
        int has_tag;                          /* the text has one; else it is the default */
};

/* NAME or NAME:TAG. 0: it is neither. */
int e2b_reference_read(const char *text, struct e2b_reference *ret);
/* The same; 0: the request was refused. */
int e2b_reference_check(struct e2b_request *q, const char *text, struct e2b_reference *ret);
/* A tag of the template; the same. */
int e2b_tag_check(struct e2b_request *q, const char *name, const json_t *tag, struct e2b_reference *ret);
/* Parameters of snapshot.copy, which gives a snapshot the tag. labels: stolen. */
json_t *e2b_tag_params(const char *snapshot, const struct e2b_reference *to, json_t *labels);

#endif
