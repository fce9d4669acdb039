/* For agents that are written in C (spec/agent.md): the channel, the shapes of requests and
 * answers, and the template. A language only has to run code.
 *
 * Life cycle: agent_serve(language) takes the channel on descriptor 3, and returns when the process
 * must exit. If the process was started as a template it calls language->warm_up first, and after
 * `freeze` it returns in forked children only, each of which was renewed and then served like a
 * freshly started agent. One thread uses an agent.
 *
 * Values are jansson trees in frame form (spec/values.md). Bytes are {"$":"bytes","at":…,"n":…} and
 * stay, without any copy, in the attachments of the request (agent_bytes). Values of requests were
 * checked, and hold no references: a shared value is the same json_t in several places; a value
 * that holds itself was refused. */
#ifndef CLOCHE_BOX_AGENT_AGENT_H
#define CLOCHE_BOX_AGENT_AGENT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "base/buf.h"

struct agent;

/* Everything is borrowed for the time of the handler. Members that the method lacks are NULL or
 * 0. */
struct agent_request {
        const char *code; /* terminated; may have NULs in it, see code_size */
        size_t code_size;
        const char *filename;
        const char *function;            /* NULL: not named */
        const json_t *args;              /* array; null in the places of holes */
        const json_t *holes;             /* array of positions, ascending, without repetition; may be empty */
        const json_t *kwargs;            /* object, a plain one although it may have a key "$" */
        const json_t *order;             /* array of names, or NULL */
        const json_t *build;             /* object, or NULL */
        const json_t *artifact;          /* bytes returned by an earlier build, or NULL */
        const json_t *argv;              /* array of strings */
        const json_t *globals, *imports; /* objects of declarations, whose values are NOT checked: agent_value */
        size_t result_bytes;
        const unsigned char *attachments;
        size_t attachments_size;
};

/* The result of a handler. Filled by the calls below; zeroed by the library. */
struct agent_reply {
        json_t *value;                /* owned by the reply; NULL is sent as null */
        const char *signature_source; /* "schema", "inferred" or "convention" */
        struct buf attachments;       /* its maximum is the request's result_bytes */
        size_t result_bytes;
        int is_too_large; /* the attachments were larger than result_bytes */
        int is_build;     /* value is sent as the member artifact */
        json_t *error;    /* {type, message, stack} when the code threw */
};

/* An error of JSON-RPC. */
struct agent_refusal {
        int code;         /* spec/agent.md */
        const char *type; /* of data, for -32000; NULL: no data. Borrowed */
        char message[512];
};

/* A method besides those of struct agent_language, such as those of contexts (spec/agent.md). */
struct agent_method {
        const char *name;
        /* params is as received, unchecked and borrowed; NULL: none. Returns 0 with *ret_result, a
         * new reference, or -1 with *ret_refusal. */
        int (*answer)(struct agent *a, const json_t *params, json_t **ret_result, struct agent_refusal *ret_refusal);
};

struct agent_language {
        /* Return 0, or -1 after agent_throw(). A NULL handler makes its method an unknown one. */
        int (*prepare)(struct agent *a, const struct agent_request *request, struct agent_reply *reply);
        int (*call)(struct agent *a, const struct agent_request *request, struct agent_reply *reply);
        /* A script: returns its exit status, which agent_serve then returns. */
        int (*run)(struct agent *a, const struct agent_request *request);
        /* For compiled languages: compile, and neither run nor load any of the code. The value is
         * the artifact, as bytes; none: the request's artifact was good. */
        int (*build)(struct agent *a, const struct agent_request *request, struct agent_reply *reply);

        /* The rest may be NULL. */
        void (*warm_up)(struct agent *a);       /* in a process that becomes a template, before its first request */
        const char *(*hinder)(struct agent *a); /* the language's own blocker of freezing; NULL: none */
        void (*renew)(struct agent *a);         /* in each forked child, first: state that siblings must not share */
        void (*get_ready)(struct agent *a);     /* in a forked child before its first request */

        const char *refused;   /* type of the error for a value that cannot be sent: "TypeError" when NULL */
        const char *too_large; /* type of the error for a result over result_bytes: "ValueError" when NULL */

        const struct agent_method *methods; /* ended by a row without a name */

        /* Processes that the code forks may send requests to the host too (agent_bridge), one after
         * the other. Otherwise they lose the channel at once. */
        int forks_send_requests;
};

/* Serve the channel. data: the language's own, for agent_data. Returns the exit status of the
 * process: that of a script, 0 at the end of the channel, 1 if the channel cannot be parsed. */
int agent_serve(const struct agent_language *language, void *data);

void *agent_data(const struct agent *a);
/* True while `prepare` is being handled; true during agent_rehearse(). */
int agent_is_preparing(const struct agent *a);
int agent_is_rehearsing(const struct agent *a);

/* -- values of requests --------------------------------------------------------------------------------------- */

/* Return 1, with their place, if value is bytes, a buffer or a typed array, else 0. */
int agent_bytes(const struct agent_request *request, const json_t *value, const unsigned char **ret_data,
                size_t *ret_size);

/* Return the tag of a tagged form, for example "bytes"; NULL for plain JSON. */
const char *agent_tag(const json_t *value);

/* Return a value as JSON text on one line, bytes as "b64" in it; integral floats keep their ".0".
 * Owned by the caller; NULL without memory. */
char *agent_json_text(const struct agent_request *request, const json_t *value, size_t *ret_size);

/* Return a value of a declaration, checked and without references, like those of args; a new
 * reference. NULL and the reason. */
json_t *agent_value(const struct agent_request *request, const json_t *value, char *ret_why, size_t why_size);

/* Write the shortest text that reads back as this number: "0.1", "3.0", "1e+300";
 * size of ret at least 32. */
void agent_real_text(double value, char *ret, size_t size);

/* True if position is among the holes. */
int agent_is_hole(const struct agent_request *request, size_t position);

/* -- replies -------------------------------------------------------------------------------------------------- */

/* The code threw. type, message and stack are repaired where they are not UTF-8; stack may be NULL.
 * Returns -1. */
int agent_throw(struct agent_reply *reply, const char *type, const char *stack, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

/* Return new references; NULL without memory. A number that JSON lacks gets its tag, an integer
 * outside ±(2^53-1) is a bigint. */
json_t *agent_real(double value);
json_t *agent_integer(int64_t value);
json_t *agent_unsigned(uint64_t value);
/* For text that may not be UTF-8: invalid parts become U+FFFD. */
json_t *agent_text(const char *text, size_t size);

/* Attach bytes to the result. NULL if they exceed result_bytes (the answer then reports this by
 * itself), or without memory. */
json_t *agent_attach(struct agent_reply *reply, const void *data, size_t size);
/* The same for a typed array; type is one of spec/values.md's. */
json_t *agent_attach_array(struct agent_reply *reply, const char *type, const void *data, size_t size);

/* Set the reply's value from a text form, with bytes as "b64" (JSON that the code wrote). Returns
 * 0, or -1 with the reason. */
int agent_reply_text_form(struct agent_reply *reply, json_t *text_form, char *ret_why, size_t why_size);

/* Fail the current request and exit at once, when it cannot continue. From any thread. */
__attribute__((noreturn)) void agent_fail_now(struct agent *a, const char *type, const char *message);

/* -- requests to the host ---------------------------------------------------------------------------------------- */

/* The answer of a host function. Release it with agent_answer_done(). */
struct agent_answer {
        json_t *value;               /* checked, without references; NULL if it threw */
        json_t *error;               /* {name, message, fields} if it threw */
        struct agent_request origin; /* for agent_bytes and agent_json_text; only its attachments are set */
        void *held;
};

/* Call a host function. target, args and kwargs are stolen; kwargs may be NULL. Blocks.
 * Returns 0 with *ret filled, also if the host function threw; -1 if the channel has ended:
 * the process should exit. */
int agent_bridge(struct agent *a, json_t *target, json_t *args, json_t *kwargs, const void *attachments,
                 size_t attachments_size, struct agent_answer *ret);
void agent_answer_done(struct agent_answer *answer);

/* A request to the host of any other kind. */
struct agent_host_request {
        const char *method;
        json_t *params; /* stolen */
        const void *attachments;
        size_t attachments_size;
        int (*gives_up)(void); /* called while the answer is awaited, ten times a second and at each signal; NULL: never
                                */
};

/* ret is for an answer {"value": V}; NULL: the answer does not matter. Returns 0 or -1 like
 * agent_bridge(), and -1 also in a rehearsal; 1 if it gave up: the answer is dropped when it
 * comes. */
int agent_send_request(struct agent *a, const struct agent_host_request *question, struct agent_answer *ret);
/* Return when no process of the code waits for an answer: until then it reads the channel, and no
 * other code may. */
void agent_await_askers(struct agent *a);

/* -- rehearsing ----------------------------------------------------------------------------------------------- */

/* Handle a request as if it had been received, and drop the answer: for warm_up and get_ready.
 * params is stolen. */
void agent_rehearse(struct agent *a, const char *method, json_t *params);

#ifdef __cplusplus
}
#endif

#endif
