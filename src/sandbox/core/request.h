/* Requests: their life, parameters, outcome and events. */
#ifndef CLOCHE_SANDBOX_CORE_REQUEST_H
#define CLOCHE_SANDBOX_CORE_REQUEST_H

#include "sandbox.h"

#include "base/buf.h"

#include <stdint.h>
#include <sys/queue.h>

#define SANDBOX_REQUESTS_MAX 4096 /* under way in one sandbox */

struct sandbox;

enum sandbox_request_phase {
        REQUEST_OPEN,
        REQUEST_WAITING, /* until its sandbox runs */
        REQUEST_ENDED,   /* its outcome is to be delivered */
        REQUEST_PHASES
};

struct sandbox_request {
        TAILQ_ENTRY(sandbox_request) link;      /* in the list of its sandbox, or of those without one */
        TAILQ_ENTRY(sandbox_request) turn_link; /* in waiting of its sandbox, in ended or in released */
        struct sandboxes *all;
        struct sandbox *sandbox; /* or NULL */
        const struct method *method;
        int64_t principal;
        json_t *params;
        struct buf attachments;
        const struct sandbox_face *face;
        void *data;
        /* For the handler. cancel frees state; it may be NULL. */
        void *state;
        void (*cancel)(struct sandbox_request *request);
        void (*flush)(struct sandbox_request *request);   /* may be NULL */
        void (*release)(struct sandbox_request *request); /* the client accepts events again; may be NULL */
        enum sandbox_request_phase phase;                 /* set by sandbox_request_set_phase */
        int is_held, is_to_release;
        int has_made_sandbox; /* its sandbox did not exist before */
        /* The outcome, until it is delivered. */
        json_t *outcome;
        struct buf outcome_attachments;
        struct cloche_err error;
};

/* A column of spec/sandbox.def. */
enum method_needs { NEEDS_NO_SANDBOX, NEEDS_NOTHING, NEEDS_EXISTING, NEEDS_ANY_STATE, NEEDS_RUNNING };

struct method {
        const char *name;
        /* Handle the request. 0: sandbox_request_result or sandbox_request_fail delivers the
         * outcome, now or later. Negative: it did not begin, with e. */
        int (*handle)(struct sandbox_request *request, struct cloche_err *e);
        enum method_needs needs;
};

/* The transition must be legal; the caller moves the request between the lists. */
void sandbox_request_set_phase(struct sandbox_request *request, enum sandbox_request_phase phase);
/* Begin, or fail, the requests that waited for the sandbox to run (output: a member of the error,
 * borrowed, or NULL); end those under way when it has
 * ended. */
void sandbox_requests_begin(struct sandbox *s);
void sandbox_requests_refuse(struct sandbox *s, const struct cloche_err *e, json_t *output);
void sandbox_requests_end(struct sandbox *s, const struct cloche_err *e);

/* result is stolen; NULL: no memory. attachments: moved, or NULL. */
void sandbox_request_result(struct sandbox_request *request, json_t *result, struct buf *attachments);
/* about is stolen; it may be NULL. */
void sandbox_request_fail(struct sandbox_request *request, const struct cloche_err *e, json_t *about);
/* about is stolen. */
void sandbox_request_event(struct sandbox_request *request, const char *event, json_t *about,
                           const struct buf *attachments);

/* Send the event "output", for exec and similar methods. */
void sandbox_request_output(struct sandbox_request *request, const char *stream, const char *data, size_t size);

/* Call its release in the next loop iteration. */
void sandbox_request_schedule_release(struct sandbox_request *request);

const char *sandbox_request_text(const struct sandbox_request *request, const char *name); /* NULL: absent */
uint64_t sandbox_request_count(const struct sandbox_request *request, const char *name, uint64_t absent);
int sandbox_request_flag(const struct sandbox_request *request, const char *name, int absent);
/* A time of our form, or the beginning of one, to be compared as text; NULL: absent. */
int sandbox_request_time(const struct sandbox_request *request, const char *name, const char **ret,
                         struct cloche_err *e);
/* Text or bytes; NULL: absent. Borrowed from the request. */
const char *sandbox_request_bytes(const struct sandbox_request *request, const char *name, size_t *ret_size);
/* Add data as text if it is UTF-8, else as bytes in attachments. Returns 0 or -ENOMEM. */
int sandbox_put_bytes(json_t *object, const char *name, const void *data, size_t size, struct buf *attachments);
/* The same, always as bytes. */
int sandbox_put_raw(json_t *object, const char *name, const void *data, size_t size, struct buf *attachments);
json_t *sandbox_time_json(uint64_t real_ms);

/* -- handlers, a file each area -------------------------------------------------------------------------------- */

#define SANDBOX_OPERATION(symbol, method, verb, path, success, kind, ...) \
        int handle_##symbol(struct sandbox_request *request, struct cloche_err *e);
#define SANDBOX_FIELD(symbol, name, type, need, doc)
#include <cloche/sandbox.def>
#undef SANDBOX_OPERATION
#undef SANDBOX_FIELD

#endif
