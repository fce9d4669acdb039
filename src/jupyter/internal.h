/* Shared by the files of the translator: a kernel, its requests, its calls of the core. */
#ifndef CLOCHE_JUPYTER_INTERNAL_H
#define CLOCHE_JUPYTER_INTERNAL_H

#include "jupyter.h"
#include "text.h"

#include "base/buf.h"

#include <sys/queue.h>

#define NAME_BYTES 64
#define SESSION_BYTES 33

/* A request of a client that waits or is handled. */
struct jupyter_request {
        TAILQ_ENTRY(jupyter_request) link;
        struct jupyter_kernel *kernel;
        enum jupyter_channel channel;
        json_t *header, *content;
        const char *type; /* of the header */
        unsigned char address[JUPYTER_ADDRESS_BYTES];
        size_t address_size;
        size_t size;               /* of its text */
        struct cell *cell;         /* NULL: it runs no code */
        const struct magic *magic; /* of its first line; NULL: none */
};

typedef void (*jupyter_then)(struct jupyter_call *call, const struct jupyter_reply *reply);
typedef void (*jupyter_on_event)(struct jupyter_call *call, const char *event, const json_t *about,
                                 const void *attachments, size_t attachments_size);

struct jupyter_call {
        LIST_ENTRY(jupyter_call) link;
        struct jupyter_kernel *kernel;
        struct jupyter_request *request; /* NULL: of the kernel itself */
        jupyter_then then;
        jupyter_on_event on_event;
        void *carried;
};

enum kernel_state { KERNEL_NEW, KERNEL_STARTING, KERNEL_READY, KERNEL_LOST, KERNEL_ENDED, KERNEL_STATE_COUNT };

struct jupyter_kernel {
        const struct jupyter_carrier *carrier;
        void *data;
        const struct jupyter_language *language;
        char *sandbox, *context, *cwd;
        int is_forkable, is_ending; /* is_ending: a client requested the end */
        enum kernel_state state;
        struct cloche_err failure;
        char session[SESSION_BYTES];
        uint64_t message_count;
        char version[NAME_BYTES]; /* of the interpreter */
        json_int_t count;         /* of the last cell */
        struct jupyter_request *current;
        TAILQ_HEAD(, jupyter_request) waiting;
        size_t waiting_count, waiting_bytes;
        LIST_HEAD(, jupyter_call) calls;
};

/* -- messages (message.c) -- */

void jupyter_make_session(char ret[SESSION_BYTES]);
/* metadata, content: stolen; metadata NULL: none. request: the parent, NULL: of none. */
void jupyter_publish(struct jupyter_kernel *k, const struct jupyter_request *request, const char *type,
                     json_t *content);
void jupyter_send(struct jupyter_request *request, enum jupyter_channel channel, const char *type, json_t *metadata,
                  json_t *content);
void jupyter_publish_status(struct jupyter_kernel *k, const struct jupyter_request *request, const char *state);

/* -- requests (kernel.c) -- */

/* params: stolen. */
void jupyter_call_core(struct jupyter_kernel *k, struct jupyter_request *request, const char *method, json_t *params,
                       jupyter_then then, jupyter_on_event on_event);
/* Reply as TYPE_reply for TYPE_request, and end the request. content: stolen. */
void jupyter_reply(struct jupyter_request *request, json_t *content);
void jupyter_reply_with(struct jupyter_request *request, json_t *metadata, json_t *content);
void jupyter_fail(struct jupyter_request *request, const struct cloche_err *e);
/* The request is over: idle is sent, it is freed, and the next one begins. */
void jupyter_finish(struct jupyter_request *request);
/* Requests for cells that wait are aborted. */
void jupyter_abort_waiting(struct jupyter_kernel *k);
void jupyter_end(struct jupyter_kernel *k, enum jupyter_end how);
/* Parameters that name the context. */
json_t *jupyter_params(const struct jupyter_kernel *k);
/* The parts of an error message: {ename, evalue, traceback}. */
json_t *jupyter_error(const char *name, const char *text);

/* -- handlers -- */

void jupyter_execute(struct jupyter_request *request); /* cell.c */
void jupyter_cell_free(struct cell *cell);
void jupyter_take_input(struct jupyter_kernel *k, const json_t *content);
/* The size of the magic's line with which the code begins, without its end; 0: with none. */
size_t jupyter_magic_size(const char *code, size_t size); /* magic.c */
void jupyter_run_magic(struct jupyter_request *request, const char *line);
void jupyter_kernel_info(struct jupyter_request *request); /* query.c */
void jupyter_complete(struct jupyter_request *request);
void jupyter_inspect(struct jupyter_request *request);
void jupyter_is_complete(struct jupyter_request *request);
void jupyter_history(struct jupyter_request *request);
void jupyter_comm_info(struct jupyter_request *request);
void jupyter_comm_refuse(struct jupyter_request *request);

/* -- cells (cell.c), for magics -- */

/* Print to the client as the cell's output. text: stolen. */
void jupyter_cell_print(struct jupyter_request *request, json_t *text);
/* Run the code after the magic's line, or end the cell if there is none. */
void jupyter_cell_go_on(struct jupyter_request *request);
void jupyter_cell_fail(struct jupyter_request *request, const char *name, const char *text);

#endif
