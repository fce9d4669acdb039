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
        MCP_NO_CAPABILITY = -32021, /* the client's */
        MCP_BAD_VERSION = -32022,
};

/* Levels of log messages, the least severe first. */
enum mcp_level {
        MCP_DEBUG,
        MCP_INFO,
        MCP_NOTICE,
        MCP_WARNING,
        MCP_ERROR,
        MCP_CRITICAL,
        MCP_ALERT,
        MCP_EMERGENCY,
        MCP_SILENCE /* the client wants none */
};

struct mcp_asked;
struct mcp_client;
struct mcp_exchange;
struct mcp_tool;
struct mcp_watch;
struct http_request;
TAILQ_HEAD(mcp_watches, mcp_watch);

/* The way of messages to the client. */
struct mcp_carrier {
        /* The last message, stolen; NULL: the client's message needs none. status: for HTTP. The
         * exchange may be freed. */
        void (*answer)(struct mcp_exchange *x, unsigned status, json_t *message);
        /* A message before it, stolen. 0: the client takes none with this request. */
        int (*notify)(struct mcp_exchange *x, json_t *message);
        /* True if the client has not read much that was sent. NULL: nothing waits for it. */
        int (*is_behind)(const struct mcp_exchange *x);
        /* x takes the place of the message that it carried so far. NULL: no message becomes a
         * task. */
        void (*adopt)(struct mcp_exchange *x);
        /* x->lapse_ns has come: nobody fetches the answer. */
        void (*lapse)(struct mcp_exchange *x);
        /* A header that repeats a part of the message; NULL: it is absent. NULL: there are none. */
        const char *(*header)(const struct mcp_exchange *x, const char *name);
};

/* One message of a client. */
struct mcp_exchange {
        struct door door;
        TAILQ_ENTRY(mcp_exchange) link;
        const struct mcp_carrier *carrier;
        void *carried;                        /* of the carrier */
        uint64_t connection;                  /* that its client has for itself; 0: none */
        const char *session;                  /* the id that its client sent; NULL: none */
        char new_session[MCP_SESSION_SIZE];   /* that initialize makes; "": none */
        struct mcp_client *client;            /* of the earlier era; NULL: unknown */
        const char *sandbox;                  /* of tools that name none */
        const json_t *tools;                  /* the names of those that are served; NULL: all */
        int is_read_only;                     /* serve only tools that change nothing */
        int is_modern;                        /* of 2026-07-28 or later */
        json_t *message, *id, *params, *meta; /* borrowed from message; id: NULL for notifications */
        const char *method;
        json_t *progress_token;    /* borrowed; NULL: the client wants no progress */
        uint64_t progress_ns;      /* when it was last sent; 0: never */
        json_int_t progress_count; /* of notifications */
        uint64_t deadline_ns;      /* 0: none */
        void (*on_deadline)(struct mcp_exchange *x);
        uint64_t lapse_ns;          /* 0: its client is there */
        uint64_t task_ns;           /* when it becomes a task; 0: never */
        struct mcp_asked *asked;    /* questions to the client that are open; NULL: none */
        json_t *inputs;             /* answers of the client by key; NULL: none were asked for */
        json_t *kept;               /* the state that was kept with the questions; NULL: none */
        json_t *filter;             /* of subscriptions/listen; NULL: it is another method */
        struct mcp_watches watches; /* of that */
        DOOR_CALLBACKS(mcp_exchange);
        /* For the tool. */
        const struct mcp_tool *tool;
        json_t *arguments;
        void *state;
        void (*state_done)(void *state);
};

#define MCP_KEY_BYTES 32
struct mcp {
        TAILQ_HEAD(mcp_exchanges, mcp_exchange) exchanges;
        TAILQ_HEAD(mcp_clients, mcp_client) clients; /* the one that was used last is the last */
        unsigned due_count;                          /* of watches */
        TAILQ_HEAD(mcp_posts, mcp_post) posts;
        TAILQ_HEAD(mcp_errands, mcp_errand) errands;
        TAILQ_HEAD(mcp_tasks, mcp_task) tasks;
        TAILQ_HEAD(mcp_runs, mcp_run) runs; /* of call_function, the last one first */
        json_t *tools;                      /* of tools/list, all */
        uv_timer_t *timer;
        unsigned char key[MCP_KEY_BYTES]; /* of request states */
};

/* A client of the earlier era: a connection, or a session of HTTP. Forgetting one costs it its
 * level of log messages and its subscriptions. */
struct mcp_client {
        TAILQ_ENTRY(mcp_client) link;
        int64_t principal;
        uint64_t connection; /* 0: it has a session */
        char session[MCP_SESSION_SIZE];
        int is_over;                   /* the session was ended by its client */
        json_t *capabilities;          /* NULL: unknown */
        enum mcp_level level;          /* of log messages */
        struct mcp_exchange *listener; /* takes messages that answer no request; NULL: none */
        struct mcp_watches watches;    /* resources that it subscribed to */
};

/* -- messages (exchange.c) --------------------------------------------------------------------------------------- */

/* An id that nobody guesses. */
void mcp_random_id(char ret[MCP_SESSION_SIZE]);
/* NULL: out of memory. */
struct mcp_exchange *mcp_exchange_new(struct daemon *d, const struct mcp_carrier *carrier, void *carried,
                                      int64_t principal);
/* Its open request to the core is cancelled. */
void mcp_exchange_free(struct mcp_exchange *x);
/* Give up all work for the message; it is still to be answered. */
void mcp_exchange_abandon(struct mcp_exchange *x);
/* Handle the text of a message. It may be answered and freed at once. */
void mcp_exchange_begin(struct mcp_exchange *x, const char *text, size_t size);
/* params: stolen; "sandbox" is added. then gets the result; the tool returns an error unless
 * x->fail is set. */
void mcp_call(struct mcp_exchange *x, const char *method, json_t *params, const struct buf *attachments,
              void (*then)(struct mcp_exchange *x, const struct door_reply *reply));

/* Handle the message once more, with the answers of the client in x->inputs. */
void mcp_exchange_again(struct mcp_exchange *x);
/* x->lapse_ns was set. */
void mcp_watch_clock(struct mcp *mcp);
/* The client does not read: messages that it can do without would only take memory. */
int mcp_is_behind(const struct mcp_exchange *x);
/* A notification as a message; params: stolen. */
json_t *mcp_notification(const char *method, json_t *params);

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

/* -- clients of the earlier era (client.c) ----------------------------------------------------------------------- */

/* The client of this message; NULL: it has neither connection nor session, or is not known. */
struct mcp_client *mcp_client_find(const struct mcp_exchange *x);
/* The same, which is made if it is not known; NULL: no session, out of memory, or too many. */
struct mcp_client *mcp_client_of(struct mcp_exchange *x);
void mcp_client_free(struct mcp *mcp, struct mcp_client *client);
/* From x: both are of one client. */
int mcp_is_same_client(const struct mcp_exchange *x, const struct mcp_exchange *other);
/* The capabilities that the client declared; NULL: none. */
const json_t *mcp_capabilities(const struct mcp_exchange *x);

/* -- work that goes on without its client (errand.c) --------------------------------------------------------------- */

struct mcp_errand {
        struct door door; /* first: the hooks cast it */
        TAILQ_ENTRY(mcp_errand) link;
        void (*then)(struct mcp_errand *errand, const struct door_reply *reply);
        void (*heard)(struct mcp_errand *errand, const char *event, const json_t *about,
                      const struct buf *attachments); /* NULL: events are passed over */
        void *data;                                   /* for that */
        struct mcp_exchange *x;                       /* that waits for it; NULL: none, or its client has gone */
        char *target;
        unsigned tries;
};

/* For the caller of a door; NULL: out of memory. It has no sandbox yet. */
struct mcp_errand *mcp_errand_new(const struct door *like);
void mcp_errand_free(struct mcp_errand *errand);
/* The message waits for the errand, and may go before it ends. */
void mcp_errand_answers(struct mcp_errand *errand, struct mcp_exchange *x);
/* params: stolen. then NULL: free it after that. */
void mcp_errand_call(struct mcp_errand *errand, const char *method, json_t *params,
                     void (*then)(struct mcp_errand *errand, const struct door_reply *reply));
/* One call, whose result nobody needs; params: stolen. */
void mcp_send_off(const struct door *like, const char *sandbox, const char *method, json_t *params);

/* -- tasks (task.c) ---------------------------------------------------------------------------------------------- */

/* The call becomes a task if it runs for long and its client has tasks. */
void mcp_task_expect(struct mcp_exchange *x);
void mcp_task_begin(struct mcp_exchange *x);
json_t *mcp_task_extension(void); /* for the server's capabilities */
void mcp_on_task_get(struct mcp_exchange *x);
void mcp_on_task_update(struct mcp_exchange *x);
void mcp_on_task_cancel(struct mcp_exchange *x);
void mcp_tasks_free(struct mcp *mcp);

/* -- questions to the client (ask.c) ------------------------------------------------------------------------------ */

/* The client's answer to a question, of the form that its method prescribes; NULL: it is not
 * asked yet, or the answer has another form. */
const json_t *mcp_input(const struct mcp_exchange *x, const char *key, const char *method);
/* Ask the client, and handle the message again when its answers are there. questions: {method,
 * params} by key, stolen. kept: comes back in x->kept, stolen; NULL: nothing. */
void mcp_ask(struct mcp_exchange *x, json_t *questions, json_t *kept);
/* Refuse the request if the client lacks the capability; true if it did. */
int mcp_refuse_incapable(struct mcp_exchange *x, const char *capability);
/* Read the answers that the request of the later era carries. 0: it was refused. */
int mcp_inputs_take(struct mcp_exchange *x);
/* A response of the client, to a question. */
void mcp_on_response(struct mcp_exchange *x);
void mcp_asked_free(struct mcp_exchange *x);

/* -- messages that answer no request (notify.c) ------------------------------------------------------------------- */

/* A log message, if the client wants it. text: stolen. */
void mcp_log(struct mcp_exchange *x, enum mcp_level level, const char *logger, json_t *text);
/* The list of tools, prompts or resources has changed. */
void mcp_list_changed(struct daemon *d, const char *list);
void mcp_on_set_level(struct mcp_exchange *x);
void mcp_on_subscribe(struct mcp_exchange *x);
void mcp_on_unsubscribe(struct mcp_exchange *x);
void mcp_on_listen(struct mcp_exchange *x);
void mcp_watches_free(struct mcp_watches *watches);
/* The same for a client that is there: its open requests to watch are answered. */
void mcp_watches_end(struct mcp_client *client);
/* Tell the changes whose time has come. */
void mcp_tell_due(struct mcp *mcp, uint64_t now_ns);
/* Let x take the messages of its client. 0: the client is not known. */
int mcp_listen(struct mcp_exchange *x);

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
/* A member of _meta whose name has the protocol's prefix; NULL: absent. */
json_t *mcp_meta(const struct mcp_exchange *x, const char *name);

/* -- methods (methods.c) ----------------------------------------------------------------------------------------- */

/* Handle a request or a notification. */
void mcp_dispatch(struct mcp_exchange *x);
/* Add, in the era that has it, how long the client may keep the result; is_fixed: it changes only
 * with the daemon. Returns result. */
json_t *mcp_cached(const struct mcp_exchange *x, json_t *result, int is_fixed);
/* True if the request was refused, because it has a cursor: each list is one page. */
int mcp_refuse_cursor(struct mcp_exchange *x);

/* Call it when no request is open: answers that nobody fetched are dropped. (web.c) */
void mcp_web_stop(struct mcp *mcp);
/* Let the client fetch the rest of the answer by another request. 0: it cannot. (web.c) */
int mcp_break_off(struct mcp_exchange *x);

/* -- resources and prompts (resources.c, prompts.c) -------------------------------------------------------------- */

void mcp_on_resources_list(struct mcp_exchange *x);
void mcp_on_resource_templates(struct mcp_exchange *x);
void mcp_on_resources_read(struct mcp_exchange *x);
void mcp_on_prompts_list(struct mcp_exchange *x);
void mcp_on_prompts_get(struct mcp_exchange *x);
void mcp_on_complete(struct mcp_exchange *x);
/* The URI of a file; path: absolute. */
json_t *mcp_file_uri(const char *sandbox, const char *path);
/* The sandbox and the path of the URI of a file, for the caller to free. 0: it is no such URI. */
int mcp_file_of(const char *uri, char **ret_sandbox, char **ret_path);

/* -- fixtures of the conformance tests (fixtures.c) --------------------------------------------------------------- */

/* Each of these does nothing unless the daemon has --conformance. 1: the request was a
 * fixture's. */
int mcp_fixture_call(struct mcp_exchange *x);
int mcp_fixture_prompt(struct mcp_exchange *x);
int mcp_fixture_resource(struct mcp_exchange *x);
/* Add those of a list of tools, prompts, resources or resourceTemplates. */
void mcp_fixtures_list(const struct mcp_exchange *x, const char *list, json_t *add_to);
int mcp_fixture_has(const struct mcp_exchange *x, const char *uri);

/* -- tools ------------------------------------------------------------------------------------------------------- */

enum mcp_argument_type {
        ARGUMENT_TEXT,
        ARGUMENT_COUNT,
        ARGUMENT_BOOLEAN,
        ARGUMENT_TEXT_BY_NAME,
        ARGUMENT_LANGUAGE,
        ARGUMENT_STREAM,
        ARGUMENT_EDITS,
        ARGUMENT_TEXTS,
        ARGUMENT_NETWORK,
        ARGUMENT_ARRAY,
        ARGUMENT_OBJECT,
        ARGUMENT_ANY_LANGUAGE,
};

enum mcp_tool_symbol {
#define MCP_TOOL(symbol, name, title, hints, description) MCP_##symbol,
#define MCP_ARGUMENT(symbol, name, type, need, least, most, doc)
#define MCP_MEMBER(symbol, name, schema, need, doc)
#include "daemon/mcp/tools/tools.def"
#undef MCP_TOOL
#undef MCP_ARGUMENT
#undef MCP_MEMBER
        MCP_TOOL_COUNT
};

/* The answer of tools/list, of all tools; NULL: out of memory. (schema.c) */
json_t *mcp_tools_of(const struct daemon *d);
/* Languages whose interpreters can stay. */
json_t *mcp_languages(const struct daemon *d);
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
void mcp_set_network(struct mcp_exchange *x);
void mcp_call_function(struct mcp_exchange *x);

/* Ask the user whether a sandbox may have this network. 0: the answer is not there, or was no: the
 * message is answered, or will be handled again. */
int mcp_network_is_granted(struct mcp_exchange *x, const json_t *network);
/* The differences that a call of call_function made, borrowed; NULL: there is no such call of this
 * caller, or it is long ago. */
const json_t *mcp_run_diff(const struct mcp_exchange *x, const char *run);
void mcp_runs_free(struct mcp *mcp);
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

/* Reasons of the daemon's for a failure, such as the network policy; they are logged as well. */
void mcp_add_warnings(struct mcp_exchange *x, json_t *content, const json_t *ended);
/* The same of cells, which have the decisions only. */
void mcp_add_denials(struct mcp_exchange *x, json_t *content, const json_t *ended);
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
