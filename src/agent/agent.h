/* For agents that are written in C (spec/agent.md): the channel, the shapes of requests, answers, and being a template. What is
 * left to a language is to run code.
 *
 * Life cycle: agent_serve(language) takes the channel on descriptor 3, and returns when the process is to end. Where the process
 * was started as a template it calls language->warm_up first, and after `freeze` it returns in forked children only, each
 * of which was renewed and then served like a freshly started agent. One thread uses an agent.
 *
 * Values are jansson trees in frame form (spec/values.md): bytes are {"$":"bytes","at":…,"n":…} and stand, without any copy, in
 * the attachments that came along (agent_bytes). Values of requests were checked, and hold no references: what was shared is
 * the same json_t in several places; a value that holds itself was refused. */
#ifndef CLOCHE_AGENT_H
#define CLOCHE_AGENT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "base/buf.h"

struct agent;

/* Everything is borrowed for the time of the handler. What a method does not have is NULL or 0. */
struct agent_request {
        const char *code; /* terminated; code_size tells of NULs in it */
        size_t code_size;
        const char *filename;
        const char *function;         /* NULL: none was named */
        const json_t *args;           /* array; null in the places of holes */
        const json_t *holes;          /* array of positions, ascending, without repetition; may be empty */
        const json_t *kwargs;         /* object, a plain one although it may have a key "$" */
        const json_t *order;          /* array of names, or NULL */
        const json_t *build;          /* object, or NULL */
        const json_t *artifact;       /* bytes that an earlier build answered, or NULL */
        const json_t *argv;           /* array of strings */
        const json_t *globals, *imports; /* objects of declarations, whose values are NOT checked: agent_value */
        size_t result_bytes;
        const unsigned char *attachments;
        size_t attachments_size;
};

/* What a handler gives back. Filled by the calls below; zeroed by the library. */
struct agent_reply {
        json_t *value;                /* owned by the reply; NULL is sent as null */
        const char *signature_source; /* "schema", "inferred" or "convention" */
        struct buf attachments;       /* its maximum is the request's result_bytes */
        size_t result_bytes;
        int is_over;                  /* result_bytes were not enough for what was attached */
        int is_build;                 /* value is sent as the member artifact */
        json_t *error;                /* {type, message, stack} when the code threw */
};

/* An error of JSON-RPC. */
struct agent_refusal {
        int code;         /* spec/agent.md */
        const char *type; /* of data, for -32000; NULL: no data. Borrowed */
        char message[512];
};

/* A method beside those of struct agent_language, such as those of contexts (spec/agent.md). */
struct agent_method {
        const char *name;
        /* params is what came, unchecked and borrowed; NULL: none. Returns 0 with *ret_result, a new reference, or -1 with what to refuse by. */
        int (*answer)(struct agent *a, const json_t *params, json_t **ret_result, struct agent_refusal *ret_refusal);
};

struct agent_language {
        /* Return 0, or -1 after agent_throw(). A handler that is NULL makes its method an unknown one. */
        int (*prepare)(struct agent *a, const struct agent_request *request, struct agent_reply *reply);
        int (*call)(struct agent *a, const struct agent_request *request, struct agent_reply *reply);
        /* A script: returns its exit status, which agent_serve then returns. */
        int (*run)(struct agent *a, const struct agent_request *request);
        /* Of compiled languages: compile, and run or load nothing of the code's. The value is what was built, as bytes; none: what
         * the request brought was good. */
        int (*build)(struct agent *a, const struct agent_request *request, struct agent_reply *reply);

        /* The rest may be NULL. */
        void (*warm_up)(struct agent *a);   /* in a process that is to be a template, before its first request */
        const char *(*hinder)(struct agent *a); /* what of the language's own is in the way of freezing; NULL: nothing */
        void (*renew)(struct agent *a);     /* in each forked child, first: what siblings must not share */
        void (*get_ready)(struct agent *a); /* in a forked child that nobody has asked yet */

        const char *refused;   /* type of the error for a value that cannot be sent: "TypeError" when NULL */
        const char *too_large; /* type of the error for a result over result_bytes: "ValueError" when NULL */

        const struct agent_method *methods; /* ended by a row without a name */

        /* Processes that the code forks may ask the host too (agent_bridge), one after the other. Otherwise they lose the channel
         * at once. */
        int forks_ask;
};

/* Serve the channel. data: the language's own, for agent_data. Returns the exit status of the process: that of a script, 0 at the
 * end of the channel, 1 when it cannot be followed. */
int agent_serve(const struct agent_language *language, void *data);

void *agent_data(const struct agent *a);
/* Whether this process was started as a template, or forked from one. */
int agent_is_template(const struct agent *a);
/* Whether `prepare` is being handled; whether agent_rehearse() is at work. */
int agent_is_preparing(const struct agent *a);
int agent_is_rehearsing(const struct agent *a);

/* -- values of requests --------------------------------------------------------------------------------------- */

/* 1, with where they are, when value is bytes, a buffer or a typed array, else 0. */
int agent_bytes(const struct agent_request *request, const json_t *value, const unsigned char **ret_data, size_t *ret_size);

/* The tag of a tagged form, "bytes" say; NULL when the value is plain JSON. */
const char *agent_tag(const json_t *value);

/* A value as JSON text on one line, bytes as "b64" in it; integers of integral floats keep their ".0". Owned by the caller, NULL
 * without memory. */
char *agent_json_text(const struct agent_request *request, const json_t *value, size_t *ret_size);

/* A value of a declaration, checked and without references, as those of args are; a new reference. NULL and the reason. */
json_t *agent_value(const struct agent_request *request, const json_t *value, char *ret_why, size_t why_size);

/* The shortest text that reads back as this number: "0.1", "3.0", "1e+300"; size of ret at least 32. */
void agent_real_text(double value, char *ret, size_t size);

/* Is position among the holes? */
int agent_is_hole(const struct agent_request *request, size_t position);

/* -- replies -------------------------------------------------------------------------------------------------- */

/* The code threw. type, message and stack are repaired where they are no UTF-8; stack may be NULL. Returns -1. */
int agent_throw(struct agent_reply *reply, const char *type, const char *stack, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

/* New references; NULL without memory. A number that JSON lacks gets its tag, an integer outside ±(2^53-1) is a bigint. */
json_t *agent_real(double value);
json_t *agent_integer(int64_t value);
json_t *agent_unsigned(uint64_t value);
/* Text that may be no UTF-8: what is none becomes U+FFFD. */
json_t *agent_text(const char *text, size_t size);

/* Bytes of the result: NULL when they are over result_bytes, which the answer then says by itself, or there is no memory. */
json_t *agent_attach(struct agent_reply *reply, const void *data, size_t size);
/* The same for a typed array; type is one of spec/values.md's. */
json_t *agent_attach_array(struct agent_reply *reply, const char *type, const void *data, size_t size);

/* A value in text form, with bytes as "b64" (JSON that the code wrote), as the reply's value. 0, or -1 with what is wrong. */
int agent_reply_text_form(struct agent_reply *reply, json_t *text_form, char *ret_why, size_t why_size);

/* The request under way has failed and nothing of it can go on: answer so and end the process at once. From any thread. */
__attribute__((noreturn)) void agent_fail_now(struct agent *a, const char *type, const char *message);

/* -- asking the host --------------------------------------------------------------------------------------------- */

/* What a host function answered: attachments are those of its value. Done with agent_answer_done(). */
struct agent_answer {
        json_t *value;      /* checked, without references; NULL when it threw */
        json_t *error;      /* {name, message, fields} when it threw */
        struct agent_request origin; /* for agent_bytes and agent_json_text; only its attachments are there */
        void *held;
};

/* Ask for a host function. target, args and kwargs are stolen; kwargs may be NULL. Blocks. 0 with *ret filled, also when the host
 * threw; -1 when the channel has ended: the process has nothing left to do. */
int agent_bridge(struct agent *a, json_t *target, json_t *args, json_t *kwargs, const void *attachments, size_t attachments_size,
                 struct agent_answer *ret);
void agent_answer_done(struct agent_answer *answer);

/* Another question than for a host function. */
struct agent_question {
        const char *method;
        json_t *params; /* stolen */
        const void *attachments;
        size_t attachments_size;
        int (*gives_up)(void); /* looked at while the answer is awaited, ten times a second and at each signal; NULL: never */
};

/* ret is for an answer {"value": V}; NULL: what is answered does not matter. 0 or -1 as agent_bridge(), -1 also in a rehearsal; 1 when given up: the
 * answer is dropped when it comes. */
int agent_ask(struct agent *a, const struct agent_question *question, struct agent_answer *ret);
/* Returns when no process of the code's waits for an answer: until then it reads the channel, and nobody else may. */
void agent_await_askers(struct agent *a);

/* -- rehearsing ----------------------------------------------------------------------------------------------- */

/* Handle a request as if it had come, and drop the answer: for warm_up and get_ready. params is stolen. */
void agent_rehearse(struct agent *a, const char *method, json_t *params);

#ifdef __cplusplus
}
#endif

#endif
