/* One Jupyter kernel (protocol 5.3): its messages are translated to the operations context.* of
 * spec/sandbox.md, and their results to messages. The carrier brings messages and requests to
 * their places: cloche-kernel by ZeroMQ and a connection to cloched, cloched itself by
 * WebSockets. Nothing here makes system calls but for random bytes and the time. */
#ifndef CLOCHE_JUPYTER_JUPYTER_H
#define CLOCHE_JUPYTER_JUPYTER_H

#include <cloche/error.h>
#include <jansson.h>
#include <stddef.h>

#define JUPYTER_PROTOCOL "5.3"
#define JUPYTER_ADDRESS_BYTES 1100 /* of a client */
#define JUPYTER_QUEUE_MAX 256      /* requests on shell that wait */
#define JUPYTER_QUEUE_BYTES_MAX ((size_t)64 << 20)

struct jupyter_kernel;
struct jupyter_call;

enum jupyter_channel { JUPYTER_SHELL, JUPYTER_CONTROL, JUPYTER_STDIN, JUPYTER_IOPUB };
enum jupyter_end { JUPYTER_SHUTDOWN, JUPYTER_DEAD };

/* A message of a client. All is borrowed. */
struct jupyter_message {
        enum jupyter_channel channel;
        json_t *header, *content; /* objects */
        const void *address;      /* of the client, for the carrier */
        size_t address_size;
        size_t size; /* of its text */
};

/* The answer of the core, in the form of frames. */
struct jupyter_reply {
        const json_t *result; /* NULL: it failed */
        const void *attachments;
        size_t attachments_size;
        const struct cloche_err *e;
};

struct jupyter_carrier {
        /* message: {header, parent_header, metadata, content}, borrowed. address: NULL on iopub,
         * where all clients get it. */
        void (*send)(void *data, enum jupyter_channel channel, const void *address, size_t address_size,
                     const json_t *message);
        /* Send a request to the core. params: stolen; the carrier adds the sandbox. The reply may
         * come at once. */
        void (*call)(void *data, struct jupyter_call *call, const char *method, json_t *params);
        /* No reply is wanted any more. */
        void (*drop)(void *data, struct jupyter_call *call);
        /* The kernel has ended, and takes no more messages. */
        void (*ended)(void *data, enum jupyter_end how);
};

struct jupyter_options {
        const char *language, *sandbox, *context; /* copied */
        const char *cwd;                          /* of the context; NULL: its default */
        int is_forkable;                          /* the context can be forked and kept */
};

/* A language that has contexts, as front ends call it. */
struct jupyter_language {
        const char *name; /* ours */
        const char *display, *jupyter, *mimetype, *extension, *pygments, *codemirror;
};
/* NULL: it has none. */
const struct jupyter_language *jupyter_language_find(const char *name);
/* NULL: there are no more. */
const struct jupyter_language *jupyter_language_at(size_t index);

/* NULL: out of memory, or no such language. */
struct jupyter_kernel *jupyter_kernel_new(const struct jupyter_carrier *carrier, void *data,
                                          const struct jupyter_options *options);
/* Open calls are dropped. Accepts NULL. */
void jupyter_kernel_free(struct jupyter_kernel *kernel);
/* Make the context. Requests wait until it is there. */
void jupyter_kernel_start(struct jupyter_kernel *kernel);
/* The reason why the context could not be made; code 0: it was, or is being made. */
const struct cloche_err *jupyter_kernel_failure(const struct jupyter_kernel *kernel);
/* The connection to the core was lost, and all that it had: open calls fail with e, and the next
 * request makes the context anew. */
void jupyter_kernel_lost(struct jupyter_kernel *kernel, const struct cloche_err *e);
void jupyter_kernel_take(struct jupyter_kernel *kernel, const struct jupyter_message *message);
/* Tell the clients that another kernel takes the place of this one. */
void jupyter_kernel_restarting(struct jupyter_kernel *kernel);
/* Interrupt the cell that runs. */
void jupyter_kernel_interrupt(struct jupyter_kernel *kernel);
/* So many requests on shell wait that the carrier may pass on no more. */
int jupyter_kernel_is_full(const struct jupyter_kernel *kernel);
/* "starting", "idle", "busy" or "dead". */
const char *jupyter_kernel_state(const struct jupyter_kernel *kernel);

/* The carrier's own value of a call. */
void jupyter_call_set(struct jupyter_call *call, void *carried);
void *jupyter_call_get(const struct jupyter_call *call);
/* An event of a request to the core. */
void jupyter_call_event(struct jupyter_call *call, const char *event, const json_t *about, const void *attachments,
                        size_t attachments_size);
/* Its end: call is freed. */
void jupyter_call_end(struct jupyter_call *call, const struct jupyter_reply *reply);

#endif
