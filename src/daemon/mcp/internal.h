/* Shared by the files of the MCP API: a message under way, its tool, its answer. */
#ifndef CLOCHE_DAEMON_MCP_INTERNAL_H
#define CLOCHE_DAEMON_MCP_INTERNAL_H

#include "mcp.h"

#include "base/buf.h"
#include "daemon/door/door.h"
#include "wire/json.h"

#include <sys/queue.h>
#include <uv.h>

#define MCP_HOME "/workspace"
#define MCP_PATH "/mcp"
#define MCP_MODERN_VERSION "2026-07-28"
#define MCP_SESSION_SIZE 33 /* of an id, with its NUL */
#define MCP_CODE_BYTES (16 << 20)
#define MCP_LINES_MAX 100000000
#define MCP_OFFSET_MAX (INT64_C(1) << 53)
/* The schemas of a process and of a sandbox. */
#define MCP_PROCESS                                                                                                    \
        "{\"type\":\"object\",\"properties\":{\"process\":{\"type\":\"string\"},\"command\":{\"type\":\"string\"},"    \
        "\"status\":{\"type\":\"string\"},\"exit_code\":{\"type\":\"integer\"},\"started_at\":{\"type\":\"string\"}}," \
        "\"required\":[\"process\",\"command\",\"status\",\"started_at\"]}"

#define MCP_SANDBOX_MEMBERS                                                                                  \
        "\"sandbox\":{\"type\":\"string\"},\"state\":{\"type\":\"string\",\"enum\":[\"running\",\"paused\"," \
        "\"stopped\"]},"                                                                                     \
        "\"created_at\":{\"type\":\"string\"},\"ends_at\":{\"type\":\"string\"}"
#define MCP_SANDBOX                                                 \
        "{\"type\":\"object\",\"properties\":{" MCP_SANDBOX_MEMBERS \
        "},\"required\":[\"sandbox\",\"state\",\"created_at\"]}"

/* Codes of errors: of JSON-RPC, and of the protocol of 2026-07-28. */
enum mcp_error {
        MCP_PARSE_ERROR = -32700,
        MCP_INVALID_REQUEST = -32600,
        MCP_NO_METHOD = -32601,
        MCP_BAD_PARAMS = -32602,
        MCP_INTERNAL = -32603,
        MCP_NO_RESOURCE = -32002, /* of the earlier era */
        MCP_HEADER_MISMATCH = -32020,
        MCP_BAD_VERSION = -32022,
};

struct mcp_exchange;
struct mcp_tool;
struct http_request;

/* The way of messages to the client. */
struct mcp_carrier {
        /* The last message, stolen; NULL: the client's message needs none. status: for HTTP. The
         * exchange may be freed. */
        void (*answer)(struct mcp_exchange *x, unsigned status, json_t *message);
        void (*notify)(struct mcp_exchange *x, json_t *message); /* stolen */
        /* A header that repeats a part of the message; NULL: it is absent. NULL: there are none. */
        const char *(*header)(const struct mcp_exchange *x, const char *name);
};

typedef void (*mcp_then)(struct mcp_exchange *x, const struct door_reply *reply);

/* One message of a client. */
struct mcp_exchange {
        struct door door;
        TAILQ_ENTRY(mcp_exchange) link;
        const struct mcp_carrier *carrier;
        void *carried;                        /* of the carrier */
        const void *connection;               /* that its client has for itself; NULL: none */
        const char *session;                  /* the id that its client sent; NULL: none */
        const char *sandbox;                  /* of tools that name none */
        const json_t *tools;                  /* the names of those that are served; NULL: all */
        int is_read_only;                     /* serve only tools that change nothing */
        int is_modern;                        /* of 2026-07-28 or later */
        json_t *message, *id, *params, *meta; /* borrowed from message; id: NULL for notifications */
        const char *method;
        json_t *progress_token;    /* borrowed; NULL: the client wants no progress */
        uint64_t progress_ns;      /* when it was last sent; 0: never */
        json_int_t progress_count; /* of notifications */
        int is_stream;             /* of the carrier: an answer was begun */
        uint64_t deadline_ns;      /* 0: none */
        void (*on_deadline)(struct mcp_exchange *x);
        /* Callbacks of the open request to the core. */
        mcp_then then, fail; /* fail: NULL: the tool returns the error */
        void (*on_event)(struct mcp_exchange *x, const char *event, const json_t *about, const struct buf *attachments);
        /* For the tool. */
        const struct mcp_tool *tool;
        json_t *arguments;
        void *state;
        void (*state_done)(void *state);
};

struct mcp {
        TAILQ_HEAD(mcp_exchanges, mcp_exchange) exchanges;
        json_t *tools; /* of tools/list, all */
        uv_timer_t *timer;
};

/* -- messages (exchange.c) --------------------------------------------------------------------------------------- */

/* NULL: out of memory. */
struct mcp_exchange *mcp_exchange_new(struct daemon *d, const struct mcp_carrier *carrier, void *carried,
                                      int64_t principal);
/* Its open request to the core is cancelled. */
void mcp_exchange_free(struct mcp_exchange *x);
/* Handle the text of a message. It may be answered and freed at once. */
void mcp_exchange_begin(struct mcp_exchange *x, const char *text, size_t size);
/* params: stolen; "sandbox" is added. then gets the result. */
void mcp_call(struct mcp_exchange *x, const char *method, json_t *params, const struct buf *attachments, mcp_then then);

/* Give up the open request to the core. */
void mcp_call_off(struct mcp_exchange *x);
/* on_deadline is called at that time, unless deadline_ns is 0 by then. */
void mcp_set_deadline(struct mcp_exchange *x, uint64_t deadline_ns, void (*on_deadline)(struct mcp_exchange *x));
/* Output of the guest: its last line is sent, now and then, to clients that want progress. */
void mcp_progress(struct mcp_exchange *x, const char *bytes, size_t size);

/* After each of these the exchange may be freed. result: stolen. */
void mcp_answer(struct mcp_exchange *x, json_t *result);
void mcp_refuse(struct mcp_exchange *x, enum mcp_error code, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
void mcp_refuse_with(struct mcp_exchange *x, unsigned status, enum mcp_error code, json_t *data, const char *format,
                     ...) __attribute__((format(printf, 5, 6)));
/* An error as a message, without the id of a request. */
json_t *mcp_error_message(enum mcp_error code, const char *text);

/* -- the envelope (envelope.c) ----------------------------------------------------------------------------------- */

/* Versions that a client may ask for, the newest first. */
json_t *mcp_versions(void);
/* The version of initialize: the one that was asked for, or the newest of the earlier era. */
const char *mcp_legacy_version(const char *asked);
/* True if the message has the form that its era prescribes; else it is refused and may be freed. */
int mcp_envelope_check(struct mcp_exchange *x);
/* Add the members that the era prescribes for each result. */
void mcp_envelope_complete(const struct mcp_exchange *x, json_t *result);
json_t *mcp_server_info(void);

/* -- methods (methods.c) ----------------------------------------------------------------------------------------- */

/* Handle a request or a notification. */
void mcp_dispatch(struct mcp_exchange *x);
/* Add, in the era that has it, how long the client may keep the result; is_fixed: it changes only
 * with the daemon. Returns result. */
json_t *mcp_cached(const struct mcp_exchange *x, json_t *result, int is_fixed);
/* True if the request was refused, because it has a cursor: each list is one page. */
int mcp_refuse_cursor(struct mcp_exchange *x);

/* -- resources and prompts (resources.c, prompts.c) -------------------------------------------------------------- */

void mcp_on_resources_list(struct mcp_exchange *x);
void mcp_on_resource_templates(struct mcp_exchange *x);
void mcp_on_resources_read(struct mcp_exchange *x);
void mcp_on_prompts_list(struct mcp_exchange *x);
void mcp_on_prompts_get(struct mcp_exchange *x);
void mcp_on_complete(struct mcp_exchange *x);
/* The URI of a file; path: absolute. */
json_t *mcp_file_uri(const char *sandbox, const char *path);

/* -- tools ------------------------------------------------------------------------------------------------------- */

enum mcp_argument_type {
        ARGUMENT_TEXT,
        ARGUMENT_COUNT,
        ARGUMENT_BOOLEAN,
        ARGUMENT_TEXT_BY_NAME,
        ARGUMENT_LANGUAGE,
        ARGUMENT_STREAM,
        ARGUMENT_EDITS,
};

enum mcp_tool_symbol {
#define MCP_TOOL(symbol, name, title, hints, description) MCP_##symbol,
#define MCP_ARGUMENT(symbol, name, type, need, least, most, doc)
#define MCP_MEMBER(symbol, name, schema, need, doc)
#include "tools.def"
#undef MCP_TOOL
#undef MCP_ARGUMENT
#undef MCP_MEMBER
        MCP_TOOL_COUNT
};

/* The answer of tools/list, of all tools; NULL: out of memory. (schema.c) */
json_t *mcp_tools_of(const struct daemon *d);
/* NULL: this client is served none of that name. */
const struct mcp_tool *mcp_tool_find(const struct mcp_exchange *x, const char *name);
int mcp_tool_is_served(const struct mcp_exchange *x, size_t index);
/* names: of the tools that a client wants; NULL: all. */
int mcp_tools_check(const json_t *names, struct cloche_err *e);
/* Check arguments by the rows of the tool. */
int mcp_arguments_check(const struct mcp_exchange *x, struct cloche_err *e);
void mcp_tool_run(struct mcp_exchange *x);

const char *mcp_text(const json_t *object, const char *name); /* NULL: absent, or no text, or with NUL in it */
json_int_t mcp_count(const struct mcp_exchange *x, const char *name, json_int_t absent);

/* The handlers. */
void mcp_run_code(struct mcp_exchange *x);
void mcp_run_command(struct mcp_exchange *x);
void mcp_read_file(struct mcp_exchange *x);
void mcp_write_file(struct mcp_exchange *x);
void mcp_list_directory(struct mcp_exchange *x);
void mcp_read_output(struct mcp_exchange *x);
void mcp_send_input(struct mcp_exchange *x);
void mcp_stop_process(struct mcp_exchange *x);
void mcp_list_processes(struct mcp_exchange *x);
void mcp_edit_file(struct mcp_exchange *x);
void mcp_search_files(struct mcp_exchange *x);
void mcp_create_sandbox(struct mcp_exchange *x);
void mcp_list_sandboxes(struct mcp_exchange *x);
void mcp_delete_sandbox(struct mcp_exchange *x);
void mcp_fork_sandbox(struct mcp_exchange *x);
void mcp_checkpoint(struct mcp_exchange *x);
void mcp_rollback(struct mcp_exchange *x);
void mcp_expose_port(struct mcp_exchange *x);
void mcp_explain_denial(struct mcp_exchange *x);

/* A process of the core as the tools show it; a new reference. */
json_t *mcp_process_of(const json_t *process);

/* -- results (content.c) ----------------------------------------------------------------------------------------- */

#define MCP_TEXT_BYTES (64u << 10) /* of a stream, or another text */
#define MCP_IMAGES_MAX 4
#define MCP_IMAGE_BYTES (8u << 20) /* of all images of a result */

/* The beginning and the end of a text of any size. */
struct mcp_cut {
        struct buf head, tail; /* MCP_TEXT_BYTES / 2 each; tail may have up to twice as much */
        uint64_t total;
};

void mcp_cut_init(struct mcp_cut *cut);
void mcp_cut_add(struct mcp_cut *cut, const char *bytes, size_t size);
/* As text, with a line in the place of the bytes that are left out. */
json_t *mcp_cut_text(const struct mcp_cut *cut);
int mcp_cut_is_short(const struct mcp_cut *cut); /* bytes are left out */
void mcp_cut_done(struct mcp_cut *cut);
/* The same for one text. */
json_t *mcp_cut_of(const char *bytes, size_t size);

/* The output of a command or cell. */
struct mcp_output {
        struct mcp_cut stdout, stderr;
};

void mcp_output_init(struct mcp_output *output);
/* Take an event "output" of the core, and tell its last line as progress; others are passed
 * over. */
void mcp_output_take(struct mcp_exchange *x, struct mcp_output *output, const char *event, const json_t *about,
                     const struct buf *attachments);
int mcp_output_is_short(const struct mcp_output *output);
void mcp_output_done(struct mcp_output *output);

extern const char *const mcp_image_types[];                /* those that models take, the best first; NULL ends them */
json_t *mcp_image_block(const char *mime, json_t *base64); /* base64: stolen */
json_t *mcp_text_block(const json_t *text);                /* text: borrowed */
/* Add a block unless the text is empty. */
void mcp_add_text(json_t *content, const json_t *text);
/* structured and content: stolen. */
void mcp_tool_answer(struct mcp_exchange *x, json_t *content, json_t *structured, int is_error);
/* The same with one text as content; text: stolen. */
void mcp_tool_answer_text(struct mcp_exchange *x, json_t *text, json_t *structured, int is_error);
/* The tool could not do it: a result that the model reads. */
void mcp_tool_fail(struct mcp_exchange *x, const struct cloche_err *e);

#endif
