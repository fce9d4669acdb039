/* Shared by the files of the container API: a request on its way to the core, and its answer. */
#ifndef CLOCHE_DAEMON_CONTAINER_INTERNAL_H
#define CLOCHE_DAEMON_CONTAINER_INTERNAL_H

#include "container.h"

#include "base/buf.h"
#include "daemon/door/door.h"
#include "daemon/http/server.h"
#include "engine/box/network-words.h"
#include "proto/keeper.h"

#include <jansson.h>
#include <sys/queue.h>
#include <uv.h>

#define CONTAINER_SESSIONLESS "__DISABLE_SESSION__" /* the session of clients of 0.12 that want none */
#define CONTAINER_OUTPUT_BYTES (64u << 20)          /* of one answer: the core keeps no more */

struct container_request;

/* -- routes ---------------------------------------------------------------------------------------------------- */

enum container_type { TYPE_TEXT, TYPE_PATH, TYPE_COUNT, TYPE_FLAG, TYPE_TEXTS, TYPE_ENV, TYPE_OBJECT };

/* A known field of a body. Other fields are ignored: clients of several versions send them. */
struct container_field {
        const char *name;
        enum container_type type;
        int is_required;
};

/* Error codes of clients of 0.4 and later, and their HTTP status. */
/* clang-format off */
#define CONTAINER_CODES(ROW) \
        ROW(VALIDATION_FAILED, 400) ROW(INVALID_COMMAND, 400) ROW(INVALID_PORT, 400) ROW(INVALID_GIT_URL, 400) \
        ROW(IS_DIRECTORY, 400) ROW(NAME_TOO_LONG, 400) ROW(GIT_AUTH_FAILED, 401) ROW(PERMISSION_DENIED, 403) \
        ROW(FILE_NOT_FOUND, 404) ROW(PROCESS_NOT_FOUND, 404) ROW(PORT_NOT_EXPOSED, 404) \
        ROW(GIT_REPOSITORY_NOT_FOUND, 404) ROW(CONTEXT_NOT_FOUND, 404) ROW(SESSION_NOT_FOUND, 404) \
        ROW(BACKUP_NOT_FOUND, 404) ROW(NOT_FOUND, 404) ROW(METHOD_NOT_ALLOWED, 405) \
        ROW(PROCESS_READY_TIMEOUT, 408) ROW(FILE_EXISTS, 409) ROW(RESOURCE_BUSY, 409) \
        ROW(SESSION_ALREADY_EXISTS, 409) ROW(OPERATION_INTERRUPTED, 409) ROW(SESSION_TERMINATED, 410) \
        ROW(FILE_TOO_LARGE, 413) \
        ROW(INTERNAL_ERROR, 500) ROW(FILESYSTEM_ERROR, 500) ROW(NO_SPACE, 500) ROW(COMMAND_EXECUTION_ERROR, 500) \
        ROW(PROCESS_ERROR, 500) ROW(PROCESS_EXITED_BEFORE_READY, 500) ROW(CODE_EXECUTION_ERROR, 500) \
        ROW(GIT_OPERATION_FAILED, 500) ROW(BACKUP_CREATE_FAILED, 500) ROW(BACKUP_RESTORE_FAILED, 500) \
        ROW(WATCH_START_ERROR, 500) ROW(PORT_OPERATION_ERROR, 500) ROW(NOT_IMPLEMENTED, 501) \
        ROW(PYTHON_NOT_AVAILABLE, 501) ROW(JAVASCRIPT_NOT_AVAILABLE, 501) ROW(SERVICE_NOT_RESPONDING, 502) \
        ROW(GIT_NETWORK_ERROR, 502) ROW(CONTAINER_UNAVAILABLE, 503)
/* clang-format on */

enum container_code {
        CONTAINER_AS_USUAL, /* in a table of exceptions: no exception */
#define ROW(name, status) CONTAINER_##name,
        CONTAINER_CODES(ROW)
#undef ROW
                CONTAINER_CODE_COUNT
};

struct container_exception {
        enum cloche_code from;
        enum container_code to;
};

struct container_route {
        const char *verb;
        const char *path; /* of door_matches() */
        void (*handle)(struct container_request *q);
        const char *failed;                           /* the error text for clients of 0.3 */
        const char *missing;                          /* their error text if a required field is missing */
        const struct container_field *fields;         /* ends with a row without a name; NULL: no body is read */
        const struct container_exception *exceptions; /* the same; NULL: none */
};

const struct container_route *container_route_find(const char *verb, const char *path, char **ret_part, char *allowed,
                                                   size_t allowed_size);

/* -- requests -------------------------------------------------------------------------------------------------- */

/* The transport of answers: HTTP (container.c) or frames of a WebSocket (socket.c).
 * answer and end may free the request. */
struct container_carrier {
        void (*answer)(struct container_request *q, unsigned status, const char *type, const char *text, size_t size);
        void (*begin)(struct container_request *q);
        void (*line)(struct container_request *q, const char *json, size_t size);
        void (*alive)(struct container_request *q); /* the stream was silent for a while */
        void (*end)(struct container_request *q);
        size_t (*waiting)(const struct container_request *q);
};

typedef void (*container_then)(struct container_request *q, const struct door_reply *reply);

struct container_request {
        struct door door;
        TAILQ_ENTRY(container_request) link;
        const struct container_carrier *carrier;
        struct http_request *request;    /* NULL: came over a WebSocket */
        struct container_socket *socket; /* NULL: came over HTTP */
        json_t *socket_id;               /* the client's id of the request */
        char *part, *query;
        const struct container_route *route;
        json_t *body;                      /* an object */
        char image_tree[KEEPER_TREE_SIZE]; /* the image that the request names, once it is found */
        char *directory;  /* start of its relative paths: the working directory of its session; NULL: it names none */
        int is_new;       /* the client is certainly 0.4 or later: a WebSocket, or a header X-Sandbox-Id */
        int has_type;     /* Content-Type: 0.3 sends it even without a body */
        int takes_events; /* Accept: text/event-stream */
        int is_ascii; /* the stream is ASCII: clients decode each piece from the network separately, and lines may be
                         long */
        int is_bare;  /* for its stream: lines of JSON without "data:" */
        DOOR_CALLBACKS(container_request);
        void (*on_room)(struct container_request *q); /* a stream that pulls may continue */
        int is_streaming, was_quiet, is_broken;
        /* For the handler. */
        void *state;
        void (*state_done)(void *state);
};

struct container {
        TAILQ_HEAD(container_requests, container_request) requests;
        TAILQ_HEAD(container_sockets, container_socket) sockets;
        TAILQ_HEAD(container_watchers, container_watcher) watchers;
        uv_timer_t *timer;
        uint64_t next_watcher,
                begun_ms; /* begun_ms: versions with an earlier time come from watchers of another daemon */
};

/* Make a request, in the list. path, query: as sent. NULL: out of memory. */
struct container_request *container_request_new(struct daemon *d, const struct container_carrier *carrier,
                                                int64_t principal, const char *sandbox, const char *query);
/* Its open request to the core is cancelled. */
void container_request_free(struct container_request *q);
/* Check the request and handle it, when its body is complete. text: the body, or NULL. */
void container_request_handle(struct container_request *q, const char *verb, const char *path, const char *text,
                              size_t size);
/* Call container_handle_named() once the sandbox that the request makes has its
 * image; or refuse the request. */
void container_handle_image(struct container_request *q);
/* Log the names of --container-image that the store lacks: it may get them later. */
void container_check_images(struct daemon *d);
void container_handle_named(struct container_request *q);
/* The client has read a part of the answer. */
void container_request_taken(struct container_request *q);

/* -- text ------------------------------------------------------------------------------------------------------ */

const char *container_text(const struct container_request *q, const char *name); /* from the body; NULL: absent */
json_t *container_field(const struct container_request *q, const char *name);    /* borrowed; NULL: absent */
int container_flag(const struct container_request *q, const char *name);
/* True if the body has both fields, in this order: clients of 0.3 and later ones write the same
 * fields in different orders. */
int container_has_in_order(const struct container_request *q, const char *first, const char *second);
/* Return a parameter of the query, decoded; owned by the caller. NULL: absent or malformed. */
char *container_query(const struct container_request *q, const char *name);
/* Decode %XX; owned by the caller. NULL: malformed, or the result is not UTF-8. */
char *container_decode(const char *text, size_t size);
/* True if the whole query can be decoded. */
int container_query_is_good(const struct container_request *q);
int container_is_sessionless(const struct container_request *q); /* the client wants no session */
const char *container_session(const struct container_request
                                      *q); /* the session for the core; NULL: its default session */
/* Return the variables to set from a field, a new reference. Variables to unset are left out: none
 * is set yet. NULL: absent. */
json_t *container_env(const struct container_request *q, const char *name);
json_t *container_now(void);
void container_random(char *to, size_t digits); /* hexadecimal; digits: an even number, without the NUL */

/* A decoder of bytes that come in pieces: invalid UTF-8 becomes U+FFFD. */
struct container_utf8 {
        unsigned char held[4];
        unsigned held_size;
};
/* Append to out. is_end: these are the last bytes. Returns 0, -ENOMEM or -ENOBUFS. */
int container_utf8_append(struct container_utf8 *u, const void *bytes, size_t size, int is_end, struct buf *out);
int container_is_utf8(const void *bytes, size_t size, int may_be_cut);
/* Convert a message that may be cut inside a character, or quote invalid UTF-8. */
json_t *container_words(const char *text);

/* -- requests to the core -------------------------------------------------------------------------------------- */

/* params: stolen; "sandbox" is added. then gets the result. A failure goes to a->fail if it is set,
 * else to the client. */
void container_call(struct container_request *q, const char *method, json_t *params, const struct buf *attachments,
                    container_then then);
/* Continue if the session exists; else refuse the request with 404. */
void container_call_session(struct container_request *q, const char *session,
                            void (*then)(struct container_request *q));
/* Continue in the session "sessionId" of the body, which is created if it does not exist. */
void container_make_session(struct container_request *q, container_then then);
json_t *container_path(const struct container_request *q,
                       const char *name); /* a field of TYPE_PATH as an absolute path; a new reference */
json_t *container_copy(const struct container_request *q,
                       const char *name); /* a field of the body, a new reference; NULL: absent */

/* -- answers --------------------------------------------------------------------------------------------------- */

/* body is stolen; "timestamp" is added. */
void container_answer(struct container_request *q, json_t *body);
/* Answer with a stream of events instead. Each event is stolen; "timestamp" is added if absent. */
void container_begin(struct container_request *q);
void container_line(struct container_request *q, json_t *event);
void container_end(struct container_request *q);
/* True if too much is queued that the client has not read. */
int container_is_full(const struct container_request *q);

/* short_text: the error text of clients of 0.3; NULL: the message. more: further members, stolen,
 * or NULL; the members of its "context" are added to the request's. */
void container_refuse(struct container_request *q, enum container_code code, const char *short_text, json_t *more,
                      const char *format, ...) __attribute__((format(printf, 5, 6)));
void container_fail(struct container_request *q, const struct door_reply *reply);
enum container_code container_code_of(const struct container_request *q, enum cloche_code code);
const char *container_code_name(enum cloche_code code); /* for requests that match no route */
/* -- network.c: failed connections ----------------------------------------------------------------- */

struct container_network {
        struct network_words words;
        int is_line_complete; /* the line with the error is complete */
        int is_in_line;       /* the last output does not end with a newline */
        int is_explained;     /* our line was sent */
};
/* Search the next piece of standard error. */
void container_network_search(struct container_network *network, const struct buf *text);
/* Return a line that names who can allow the connection; owned by the caller. NULL: there is
 * none. */
char *container_network_line(const struct container_request *q);
/* Append that line to "stderr" of an answer, unless exit_code is 0. NULL: the process still
 * runs. */
void container_network_explain(const struct container_request *q, json_t *outcome, const json_t *exit_code);

/* Make the body of an error. short_text: NULL: the message. context: stolen. */
json_t *container_error_body(const char *short_text, const char *message, const char *code, json_t *context,
                             unsigned status);

/* -- the code interpreter -------------------------------------------------------------------------------------- */

/* Return the environment variables of a request, from either of their field names. NULL: none. */
json_t *container_code_env(const struct container_request *q);
/* Return the timeout, from any of its field names. NULL: absent. */
json_t *container_code_timeout(const struct container_request *q);
/* language: the language that failed; NULL: unknown. */
void container_code_fail(struct container_request *q, const char *id, const char *language,
                         const struct door_reply *reply);
/* Return a display of the core as the event "result", with all its forms. NULL: out of memory. */
json_t *container_code_result(const json_t *display, const struct buf *attachments);

/* -- handlers -------------------------------------------------------------------------------------------------- */

/* clang-format off */
#define HANDLERS(ROW) \
        ROW(execute) ROW(execute_stream) ROW(process_start) ROW(process_list) ROW(process_get) \
        ROW(process_kill) ROW(process_kill_all) ROW(process_logs) ROW(process_stream) ROW(mkdir) ROW(write) \
        ROW(read) ROW(read_stream) ROW(delete) ROW(rename) ROW(move) ROW(list) ROW(exists) ROW(git) \
        ROW(port_expose) ROW(port_unexpose) ROW(port_list) ROW(port_watch) ROW(proxy) ROW(session_create) \
        ROW(session_list) ROW(session_delete) ROW(ping) ROW(greet) ROW(health) ROW(version) ROW(commands) \
        ROW(watch) ROW(watch_check) ROW(backup_create) ROW(backup_restore) ROW(backup_upload) \
        ROW(context_create) ROW(context_list) ROW(context_delete) ROW(execute_code) ROW(interpreter_health) \
        ROW(rpc) ROW(terminal) ROW(socket)
/* clang-format on */
#define ROW(name) void container_##name(struct container_request *q);
HANDLERS(ROW)
#undef ROW

/* -- parts with their own lifetime ----------------------------------------------------------------------------- */

void container_watchers_sweep(struct container *c, uint64_t now_ns);
void container_watchers_done(struct container *c);
void container_sockets_sweep(struct container *c, uint64_t now_ns);

#endif
