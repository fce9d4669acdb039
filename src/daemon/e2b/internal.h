/* Shared by the files of the E2B API: a request on its way to the core, and its answer. */
#ifndef CLOCHE_DAEMON_E2B_INTERNAL_H
#define CLOCHE_DAEMON_E2B_INTERNAL_H

#include "e2b.h"

#include "base/buf.h"
#include "daemon/door/door.h"
#include "daemon/http/query.h"
#include "daemon/http/server.h"
#include "wire/json.h"

#include <jansson.h>
#include <sys/queue.h>
#include <uv.h>

#define E2B_ENVD_VERSION "0.6.4" /* decides which features the clients use */
#define E2B_ENVD_PORT 49983
#define E2B_CODE_PORT 49999
#define E2B_HOME "/home/user"
#define E2B_USER "user"
/* In a sandbox with root all programs begin as root; runuser(1) would need PAM. */
#define E2B_AS_USER "setpriv --reuid " E2B_USER " --regid " E2B_USER " --init-groups --"

/* Labels of a sandbox that hold what its creator asked of this API; the others are its metadata. */
#define E2B_LABEL "e2b."
#define E2B_LABEL_TEMPLATE E2B_LABEL "template"
#define E2B_LABEL_OPTIONS E2B_LABEL "options" /* an object as text: secure, autoResume, internet, network */

struct e2b_request;

/* -- routes ---------------------------------------------------------------------------------------------------- */

/* The shape of errors, and who may send the request. */
enum e2b_plane {
        E2B_CONTROL, /* {code, message}; an API key */
        E2B_FILES,   /* {code, message}; the sandbox's token, or a signature */
        E2B_UNARY,   /* of Connect: {code: "not_found", message}; the sandbox's token */
        E2B_STREAM,  /* of Connect: envelopes; the same */
        E2B_CODE,    /* text; the same */
        E2B_CONTEXTS /* text; none: the genuine clients send none */
};

struct e2b_route {
        const char *verb;
        const char *path; /* of door_matches() */
        enum e2b_plane plane;
        void (*handle)(struct e2b_request *q);
};

/* ret_parts: owned by the caller. NULL: there is no such route. */
const struct e2b_route *e2b_route_find(const char *verb, const char *path, unsigned port, char *ret_parts[DOOR_PARTS]);

/* -- requests -------------------------------------------------------------------------------------------------- */

typedef void (*e2b_then)(struct e2b_request *q, const struct door_reply *reply);

/* The parameters of sandbox.update, a new reference; NULL: the request was refused. */
typedef json_t *(*e2b_change)(struct e2b_request *q, const json_t *described);

struct e2b_request {
        struct door door;
        TAILQ_ENTRY(e2b_request) link;
        struct http_request *request;
        const struct e2b_route *route;
        char *parts[DOOR_PARTS]; /* of the path; that of a sandbox is in door instead */
        json_t *described;       /* the sandbox, as sandbox.get returns it; NULL: not asked yet */
        json_t *body;            /* an object; NULL: not JSON */
        DOOR_CALLBACKS(e2b_request);
        void (*go_on)(struct e2b_request *q);
        int is_streaming;
        int is_broken;                                  /* the stream is to break off, without its end */
        uint64_t alive_ns, alive_every_ns, deadline_ns; /* monotonic; 0: none */
        void (*on_deadline)(struct e2b_request *q);
        void (*on_alive)(struct e2b_request *q);
        void (*on_taken)(struct e2b_request *q); /* the client has read some of the answer */
        void (*on_body)(struct e2b_request *q, const void *bytes, size_t size);
        void (*on_whole)(struct e2b_request *q); /* the body ended */
        /* A change of labels, which waits for that of another request to the sandbox; NULL:
         * none. */
        e2b_change change;
        int is_labeling; /* it is under way */
        e2b_then changed;
        /* For the handler. */
        void *state;
        void (*state_done)(void *state);
};

struct e2b_build;
struct e2b_process;
struct e2b_watcher;

struct e2b {
        TAILQ_HEAD(e2b_requests, e2b_request) requests;
        TAILQ_HEAD(e2b_processes, e2b_process) processes;
        TAILQ_HEAD(e2b_builds, e2b_build) builds;
        uint64_t layer_bytes; /* of all builds */
        json_t *secrets;      /* of vault.c; NULL: not read yet */
        TAILQ_HEAD(e2b_watchers, e2b_watcher) watchers;
        size_t watcher_count, watcher_bytes; /* the bytes are of their events */
        size_t process_count, process_most;  /* beyond it those of sandboxes that are gone are looked for */
        uv_timer_t *timer;
};

/* Its open request to the core is cancelled. */
void e2b_request_free(struct e2b_request *q);
/* params: stolen; "sandbox" is added if the request has one. then gets the result. */
void e2b_call(struct e2b_request *q, const char *method, json_t *params, const struct buf *attachments, e2b_then then);
const char *e2b_text(const json_t *object, const char *name); /* NULL: absent, or no text */
/* A parameter of the query, decoded; owned by the caller. NULL: absent or malformed. */
char *e2b_query(const struct e2b_request *q, const char *name);
/* The core writes times as RFC 3339 in UTC, with milliseconds. 0: NULL, or another form. */
uint64_t e2b_time_ms(const char *time);
/* A path as the clients mean it: "", "~" and relative ones begin at the home directory. */
json_t *e2b_path(const char *path);

/* -- answers --------------------------------------------------------------------------------------------------- */

void e2b_answer(struct e2b_request *q, unsigned status, json_t *body); /* body: stolen */
void e2b_answer_empty(struct e2b_request *q);                          /* 204 */
/* In the shape of the plane. */
void e2b_fail(struct e2b_request *q, const struct door_reply *reply);
void e2b_refuse(struct e2b_request *q, unsigned status, const char *code, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
void e2b_gone(struct e2b_request *q); /* 502: the sandbox does not run */

/* A stream of Connect. message: stolen. */
void e2b_stream_begin(struct e2b_request *q);
/* The same, and on_alive is called after each silence of the length that the client asks for;
 * the stream may end at the timeout that it states. */
void e2b_stream_begin_alive(struct e2b_request *q, void (*on_alive)(struct e2b_request *q), int ends_at_timeout);
uint64_t e2b_timeout_ms(const struct e2b_request *q); /* 0: none */
void e2b_stream_send(struct e2b_request *q, json_t *message);
/* code: NULL: success. */
void e2b_stream_end(struct e2b_request *q, const char *code, const char *message);
/* Send no more output while the client does not read. */
void e2b_stream_hold(struct e2b_request *q);

/* -- secrets --------------------------------------------------------------------------------------------------- */

#define E2B_ACCESS_HEADER "X-Access-Token"
void e2b_access_token(const struct daemon *d, const char *sandbox, char ret[TOKEN_SECRET_SIZE]);
/* For the ports of a sandbox that is not public. */
void e2b_traffic_token(const struct daemon *d, const char *sandbox, char ret[TOKEN_SECRET_SIZE]);
#define E2B_TRAFFIC_HEADER "E2B-Traffic-Access-Token"
int e2b_is_traffic_token(const struct daemon *d, const char *sandbox, const char *token);
int e2b_is_api_key(const struct daemon *d, const char *key);
int e2b_is_access_token(const struct daemon *d, const char *sandbox, const char *token);
/* True if the query has a signature of this sandbox for the operation, "read" or "write". */
int e2b_is_signed(const struct e2b_request *q, const char *operation);
void e2b_random_id(char *ret, size_t size);

/* -- sandboxes ------------------------------------------------------------------------------------------------- */

/* options of the label; a new reference, an empty object if there are none. */
json_t *e2b_options(const json_t *described);
/* Continue with a running sandbox, which is woken if it may be; else answer 502. */
void e2b_with_sandbox(struct e2b_request *q, void (*then)(struct e2b_request *q));

/* -- files ----------------------------------------------------------------------------------------------------- */

/* A file of the core, as the API describes it; a new reference. metadata: of
 * e2b_metadata(), or NULL. */
json_t *e2b_entry_of(const json_t *file, const struct buf *attachments, const json_t *metadata);

#define E2B_ENTRIES_MAX 100000
size_t e2b_depth_of(const char *relative); /* of a file below a directory; 1: in it */

/* -- processes ------------------------------------------------------------------------------------------------- */

void e2b_processes_done(struct e2b *e2b);
void e2b_watchers_sweep(struct e2b *e2b, uint64_t now_ns);
void e2b_watchers_done(struct e2b *e2b);

/* -- handlers -------------------------------------------------------------------------------------------------- */

/* clang-format off */
#define E2B_HANDLERS(ROW) \
        ROW(create) ROW(get) ROW(kill) ROW(list) ROW(timeout) ROW(refresh) ROW(connect) ROW(resume) ROW(pause) \
        ROW(teams) ROW(healthy) ROW(fork) ROW(snapshot) ROW(snapshots) ROW(secret_create) ROW(secret_list) ROW(secret_get) ROW(secret_update) ROW(secret_delete) ROW(volume_create) ROW(volume_list) ROW(volume_get) ROW(volume_delete) ROW(content_get) ROW(content_list) ROW(content_make) ROW(content_remove) ROW(content_change) ROW(template_create) ROW(template_list) ROW(template_alias) ROW(template_get) ROW(template_delete) ROW(template_update) ROW(tags) ROW(tags_assign) ROW(tags_remove) ROW(layer_get) ROW(layer_put) ROW(build_start) ROW(build_status) ROW(metrics) ROW(metrics_of_several) ROW(logs) ROW(network) ROW(health) ROW(envs) ROW(metrics_of_envd) ROW(compose) ROW(download) ROW(upload) ROW(start) \
        ROW(attach) ROW(processes) ROW(input) ROW(close_input) ROW(signal) ROW(update) ROW(stat) ROW(list_dir) \
        ROW(make_dir) ROW(move) ROW(remove) ROW(watch) ROW(watcher_create) ROW(watcher_events) ROW(watcher_remove) ROW(execute) ROW(context_create) ROW(context_list) \
        ROW(context_delete) ROW(context_restart)
/* clang-format on */
#define ROW(name) void e2b_on_##name(struct e2b_request *q);
E2B_HANDLERS(ROW)
#undef ROW

#endif
