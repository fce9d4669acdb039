/* What the files of the container API share: one request on its way from a client's words to the core's, and back. */
#ifndef CLOCHE_DAEMON_CONTAINER_INTERNAL_H
#define CLOCHE_DAEMON_CONTAINER_INTERNAL_H

#include "container.h"

#include "base/buf.h"
#include "engine/network-words.h"
#include "http/server.h"
#include "sandbox/sandbox.h"

#include <jansson.h>
#include <sys/queue.h>
#include <uv.h>

#define CONTAINER_SESSIONLESS "__DISABLE_SESSION__" /* what 0.12 sends when it wants none */
#define CONTAINER_OUTPUT_BYTES (64u << 20)          /* of one answer: as much as the core keeps */

struct container_ask;

/* -- routes ---------------------------------------------------------------------------------------------------- */

enum container_type { TYPE_TEXT, TYPE_PATH, TYPE_COUNT, TYPE_FLAG, TYPE_TEXTS, TYPE_ENV, TYPE_OBJECT };

/* A field of a body that means something to us. Others are passed over: clients of several ages send them. */
struct container_field {
        const char *name;
        enum container_type type;
        int is_required;
};

/* Codes of clients of 0.4 and later, and their status. */
#define CONTAINER_CODES(ROW) \
        ROW(VALIDATION_FAILED, 400) ROW(INVALID_COMMAND, 400) ROW(INVALID_PORT, 400) ROW(INVALID_GIT_URL, 400) ROW(IS_DIRECTORY, 400) \
        ROW(NAME_TOO_LONG, 400) ROW(GIT_AUTH_FAILED, 401) ROW(PERMISSION_DENIED, 403) ROW(FILE_NOT_FOUND, 404) ROW(PROCESS_NOT_FOUND, 404) \
        ROW(PORT_NOT_EXPOSED, 404) ROW(GIT_REPOSITORY_NOT_FOUND, 404) ROW(CONTEXT_NOT_FOUND, 404) ROW(SESSION_NOT_FOUND, 404) \
        ROW(BACKUP_NOT_FOUND, 404) ROW(NOT_FOUND, 404) ROW(METHOD_NOT_ALLOWED, 405) ROW(PROCESS_READY_TIMEOUT, 408) ROW(FILE_EXISTS, 409) ROW(RESOURCE_BUSY, 409) \
        ROW(SESSION_ALREADY_EXISTS, 409) ROW(OPERATION_INTERRUPTED, 409) ROW(SESSION_TERMINATED, 410) ROW(FILE_TOO_LARGE, 413) \
        ROW(INTERNAL_ERROR, 500) ROW(FILESYSTEM_ERROR, 500) ROW(NO_SPACE, 500) ROW(COMMAND_EXECUTION_ERROR, 500) ROW(PROCESS_ERROR, 500) \
        ROW(PROCESS_EXITED_BEFORE_READY, 500) ROW(CODE_EXECUTION_ERROR, 500) ROW(GIT_OPERATION_FAILED, 500) ROW(BACKUP_CREATE_FAILED, 500) ROW(BACKUP_RESTORE_FAILED, 500) \
        ROW(WATCH_START_ERROR, 500) ROW(PORT_OPERATION_ERROR, 500) ROW(NOT_IMPLEMENTED, 501) ROW(PYTHON_NOT_AVAILABLE, 501) ROW(JAVASCRIPT_NOT_AVAILABLE, 501) \
        ROW(SERVICE_NOT_RESPONDING, 502) ROW(GIT_NETWORK_ERROR, 502) \
        ROW(CONTAINER_UNAVAILABLE, 503)

enum container_code {
        CONTAINER_AS_USUAL, /* in a table of exceptions: none */
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
        const char *path; /* {id} stands for a part, {rest} for all that follows */
        void (*handle)(struct container_ask *a);
        const char *failed;  /* what clients of 0.3 are told when it fails */
        const char *missing; /* and when what is required is not there */
        const struct container_field *fields;        /* ends with one without a name; NULL: no body is read */
        const struct container_exception *exceptions; /* likewise; NULL: none */
};

const struct container_route *container_route_find(const char *verb, const char *path, char **ret_part, char *allowed, size_t allowed_size);

/* -- a request ------------------------------------------------------------------------------------------------- */

/* How it is answered: HTTP (container-web.c) or frames of a WebSocket (container-socket.c). After answer and end the ask may be gone. */
struct container_carrier {
        void (*answer)(struct container_ask *a, unsigned status, const char *type, const char *text, size_t size);
        void (*begin)(struct container_ask *a);
        void (*line)(struct container_ask *a, const char *json, size_t size);
        void (*alive)(struct container_ask *a); /* nothing was said for a while */
        void (*end)(struct container_ask *a);
        size_t (*waiting)(const struct container_ask *a);
};

struct container_reply {
        const json_t *result;
        const struct buf *attachments;
        /* Of a failure; result is NULL then. */
        const struct cloche_err *e;
        const json_t *about;
};

typedef void (*container_then)(struct container_ask *a, const struct container_reply *reply);

struct container_ask {
        TAILQ_ENTRY(container_ask) link;
        struct daemon *daemon;
        const struct container_carrier *carrier;
        struct http_request *request; /* NULL: of a WebSocket */
        struct container_socket *socket; /* of a WebSocket */
        json_t *socket_id;               /* what the other side calls it */
        int64_t principal;
        char *sandbox, *part, *query;
        const struct container_route *route;
        json_t *body;    /* an object */
        char *directory; /* where its relative paths begin: of the session it names; NULL: it has none */
        int is_new;      /* certainly of a client of 0.4 or later: a WebSocket, or it has the header X-Sandbox-Id */
        int has_type;    /* Content-Type: 0.3 sends it without a body too */
        int takes_events; /* Accept: text/event-stream */
        int is_ascii;     /* its stream: clients decode what the network brings piece by piece, and lines may be long */
        int is_bare;      /* its stream: lines of JSON without "data:" */
        /* What the core is asked now, and who hears. */
        struct sandbox_ask *ask;
        container_then then, fail;
        void (*on_event)(struct container_ask *a, const char *event, const json_t *about, const struct buf *attachments);
        void (*on_room)(struct container_ask *a); /* a stream that pulls may go on */
        int is_streaming, is_held, was_quiet, is_broken;
        /* Of whoever handles it. */
        void *state;
        void (*state_done)(void *state);
};

struct container {
        TAILQ_HEAD(container_asks, container_ask) asks;
        TAILQ_HEAD(container_sockets, container_socket) sockets;
        TAILQ_HEAD(container_watchers, container_watcher) watchers;
        uv_timer_t *timer;
        uint64_t next_watcher, begun_ms; /* begun_ms: versions of earlier watchers are another daemon's */
};

/* A new one, in the list; NULL: no memory. path, query: as sent. */
struct container_ask *container_ask_new(struct daemon *d, const struct container_carrier *carrier, int64_t principal, const char *sandbox, const char *query);
/* What the core was asked is taken back. */
void container_ask_free(struct container_ask *a);
/* The body is there: check it and handle it. text: NULL or what was sent. */
void container_ask_handle(struct container_ask *a, const char *verb, const char *path, const char *text, size_t size);
/* The asker took something. */
void container_ask_taken(struct container_ask *a);

/* -- words ----------------------------------------------------------------------------------------------------- */

const char *container_text(const struct container_ask *a, const char *name); /* of the body; NULL: absent */
json_t *container_field(const struct container_ask *a, const char *name);    /* borrowed; NULL: absent */
int container_flag(const struct container_ask *a, const char *name);
/* Whether the body has both, in this order: clients of 0.3 and of later ones write the same fields in another. */
int container_has_in_order(const struct container_ask *a, const char *first, const char *second);
/* A parameter of the query, decoded; owned by the caller. NULL: absent, or not to be read. */
char *container_query(const struct container_ask *a, const char *name);
/* Text without %XX; NULL: malformed, or no UTF-8 then. Owned by the caller. */
char *container_decode(const char *text, size_t size);
/* Whether all of the query can be decoded. */
int container_query_is_good(const struct container_ask *a);
int container_is_sessionless(const struct container_ask *a); /* the client wants none */
const char *container_session(const struct container_ask *a); /* whom the core is to be asked for; NULL: its default one */
/* Of a field with variables, a new reference: those that are to be set. There is nothing yet to unset. NULL: absent. */
json_t *container_env(const struct container_ask *a, const char *name);
json_t *container_now(void);
void container_random(char *to, size_t digits); /* hexadecimal, an even number, and a zero behind them */

/* UTF-8 of bytes that come in pieces: what is no UTF-8 becomes U+FFFD. */
struct container_utf8 {
        unsigned char held[4];
        unsigned held_size;
};
/* Appends to out; is_end: nothing follows. 0 or -ENOMEM, -ENOBUFS. */
int container_utf8_append(struct container_utf8 *u, const void *bytes, size_t size, int is_end, struct buf *out);
int container_is_utf8(const void *bytes, size_t size, int may_be_cut);
/* Text or bytes of the core. 0: it is neither. */
int container_bytes(const json_t *value, const struct buf *attachments, const char **ret, size_t *ret_size);
/* The same as JSON text. */
json_t *container_string(const json_t *value, const struct buf *attachments);
/* Of words that may be cut in the middle of a character, or quote what is no UTF-8. */
json_t *container_words(const char *text);

/* -- asking the core ------------------------------------------------------------------------------------------- */

/* params: stolen, "sandbox" is added. then hears the result; a failure goes to a->fail when it is set, else to the client. */
void container_call(struct container_ask *a, const char *method, json_t *params, const struct buf *attachments, container_then then);
/* Go on when there is a session of that name; else the client is told 404. */
void container_call_session(struct container_ask *a, const char *session, void (*then)(struct container_ask *a));
/* Go on in the body's "sessionId", which is made when it is not there. */
void container_make_session(struct container_ask *a, container_then then);
json_t *container_put(json_t *object, const char *name, json_t *value); /* nothing when value is NULL; value is stolen; the object */
json_t *container_path(const struct container_ask *a, const char *name); /* of a field TYPE_PATH, absolute; a new reference */
json_t *container_copy(const struct container_ask *a, const char *name); /* of a field of the body, a new reference; NULL: absent */

/* -- answering ------------------------------------------------------------------------------------------------- */

/* body is stolen; "timestamp" is added. */
void container_answer(struct container_ask *a, json_t *body);
void container_answer_status(struct container_ask *a, unsigned status, json_t *body);
/* A stream of events instead; each is stolen and gets "timestamp" unless it has one. */
void container_begin(struct container_ask *a);
void container_line(struct container_ask *a, json_t *event);
void container_end(struct container_ask *a);
/* Too much waits to be taken. */
int container_is_full(const struct container_ask *a);

/* short_text: what clients of 0.3 show; NULL: the message. more: further members, stolen, or NULL; those of its "context" are added to the request's. */
void container_refuse(struct container_ask *a, enum container_code code, const char *short_text, json_t *more, const char *format, ...)
        __attribute__((format(printf, 5, 6)));
void container_fail(struct container_ask *a, const struct container_reply *reply);
enum container_code container_code_of(const struct container_ask *a, enum cloche_code code);
const char *container_code_name(enum cloche_code code); /* of a request that came to no route */
/* -- container-network.c: connections that failed ------------------------------------------------------------ */

struct container_network {
        struct network_words words;
        int is_line_over; /* the line that has it has ended */
        int is_in_line;   /* the text that was printed last does not end a line */
        int is_explained; /* the line was sent */
};
/* The next piece of standard error. */
void container_network_look(struct container_network *network, const struct buf *text);
/* Who can allow it, as a line; NULL: there is nothing to say. Owned by the caller. */
char *container_network_line(const struct container_ask *a);
/* That line behind "stderr" of an answer, unless the exit code is 0; NULL: it has not ended. */
void container_network_explain(const struct container_ask *a, json_t *outcome, const json_t *exit_code);

/* The body of an error; short_text NULL: the message. context: stolen. */
json_t *container_error_body(const char *short_text, const char *message, const char *code, json_t *context, unsigned status);

/* -- the code interpreter -------------------------------------------------------------------------------------- */

/* The variables of the environment a request brings, by either name; NULL: none. */
json_t *container_code_env(const struct container_ask *a);
/* The time it may take, by any of its names; NULL: not said. */
json_t *container_code_timeout(const struct container_ask *a);
/* language: of what failed; NULL: not known. */
void container_code_fail(struct container_ask *a, const char *id, const char *language, const struct container_reply *reply);
/* A display of the core as the event "result", with all its forms. NULL: no memory. */
json_t *container_code_result(const json_t *display, const struct buf *attachments);

/* -- handlers -------------------------------------------------------------------------------------------------- */

#define HANDLERS(ROW) \
        ROW(execute) ROW(execute_stream) ROW(process_start) ROW(process_list) ROW(process_get) ROW(process_kill) ROW(process_kill_all) ROW(process_logs) \
        ROW(process_stream) ROW(mkdir) ROW(write) ROW(read) ROW(read_stream) ROW(delete) ROW(rename) ROW(move) ROW(list) ROW(exists) ROW(git) ROW(port_expose) \
        ROW(port_unexpose) ROW(port_list) ROW(port_watch) ROW(proxy) ROW(session_create) ROW(session_list) ROW(session_delete) ROW(ping) ROW(greet) ROW(health) \
        ROW(version) ROW(commands) ROW(watch) ROW(watch_check) ROW(backup_create) ROW(backup_restore) ROW(backup_upload) ROW(context_create) ROW(context_list) \
        ROW(context_delete) ROW(execute_code) ROW(interpreter_health) ROW(rpc) ROW(terminal) ROW(socket)
#define ROW(name) void container_##name(struct container_ask *a);
HANDLERS(ROW)
#undef ROW

/* -- parts with a life of their own ---------------------------------------------------------------------------- */

void container_watchers_sweep(struct container *c, uint64_t now_ns);
void container_watchers_done(struct container *c);
void container_sockets_sweep(struct container *c, uint64_t now_ns);

#endif
