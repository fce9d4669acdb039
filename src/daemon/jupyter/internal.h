/* Shared by the files of the gateway: kernels, their WebSockets, sessions. */
#ifndef CLOCHE_DAEMON_JUPYTER_INTERNAL_H
#define CLOCHE_DAEMON_JUPYTER_INTERNAL_H

#include "gateway.h"

#include "daemon/door/door.h"
#include "daemon/http/server.h"
#include "daemon/web/sandbox-socket.h"
#include "jupyter/jupyter.h"

#define GATEWAY_SANDBOX "jupyter"
#define GATEWAY_ID_SIZE 37 /* a UUID, with its NUL */
#define GATEWAY_KERNELS_MAX 64
#define GATEWAY_SOCKETS_MAX 16  /* of a kernel */
#define GATEWAY_SESSIONS_MAX 64 /* of a caller */

struct gateway_kernel;

/* A client's WebSocket. */
struct gateway_socket {
        struct sandbox_socket base;
        TAILQ_ENTRY(gateway_socket) link;
        struct gateway_kernel *kernel; /* NULL: it was removed */
        uint64_t number;
};

/* A request of a kernel to the core, or one to remove a context, without a kernel. */
struct gateway_call {
        struct door door;
        TAILQ_ENTRY(gateway_call) link;
        struct gateway *gateway;
        struct gateway_kernel *kernel;
        struct jupyter_call *call; /* NULL: nobody waits for the reply */
};

struct gateway_kernel {
        TAILQ_ENTRY(gateway_kernel) link;
        struct gateway *gateway;
        int64_t principal;
        char id[GATEWAY_ID_SIZE];
        char context[64];
        char *cwd; /* NULL: the context's default */
        const struct jupyter_language *language;
        struct jupyter_kernel *jupyter;
        TAILQ_HEAD(gateway_sockets, gateway_socket) sockets;
        unsigned socket_count;
        uint64_t used_ns;    /* a client was there */
        uint64_t real_ms;    /* the same, by the calendar */
        unsigned generation; /* of restarts */
        int is_ended;        /* it is removed, or made anew */
        enum jupyter_end how;
};

struct gateway_session {
        TAILQ_ENTRY(gateway_session) link;
        int64_t principal;
        char id[GATEWAY_ID_SIZE];
        json_t *about; /* path, name, type */
        struct gateway_kernel *kernel;
};

struct gateway {
        struct daemon *daemon;
        TAILQ_HEAD(, gateway_kernel) kernels;
        TAILQ_HEAD(gateway_calls, gateway_call) calls;
        TAILQ_HEAD(, gateway_session) sessions;
        uint64_t socket_number;
        uv_timer_t *turn; /* kernels that ended are removed when nothing of theirs is on the stack */
};

/* -- kernels (kernel.c) -- */

/* cwd: or NULL. NULL: out of memory. */
struct gateway_kernel *gateway_kernel_new(struct gateway *g, int64_t principal, const struct jupyter_language *language,
                                          const char *cwd);
struct gateway_kernel *gateway_kernel_find(const struct gateway *g, int64_t principal, const char *id, size_t size);
/* The context is deleted, and the WebSockets are closed. */
void gateway_kernel_remove(struct gateway_kernel *k);
int gateway_kernel_restart(struct gateway_kernel *k);
json_t *gateway_kernel_model(const struct gateway_kernel *k);
void gateway_kernel_touch(struct gateway_kernel *k);
void gateway_make_id(char ret[GATEWAY_ID_SIZE]);
/* Call it when output was sent, or waits: the core stops while a client is behind. */
void gateway_kernel_hold(struct gateway_kernel *k);
void gateway_free_kernels(struct gateway *g);
void gateway_free_calls(struct gateway *g);

/* -- WebSockets (socket.c) -- */

/* 0, or an error: the request needs an answer. */
int gateway_socket_open(struct gateway_kernel *k, struct http_request *request, struct cloche_err *e);
void gateway_socket_send(struct gateway_kernel *k, enum jupyter_channel channel, const void *address,
                         size_t address_size, const json_t *message);

/* -- sessions (session.c) -- */

void gateway_sessions_drop(struct gateway *g, const struct gateway_kernel *k);
void gateway_on_sessions(struct gateway *g, struct http_request *request, int64_t principal, const char *id,
                         size_t size, const json_t *body);

/* -- answers (route.c) -- */

void gateway_answer(struct http_request *request, unsigned status, json_t *body); /* stolen; NULL: none */
void gateway_refuse(struct http_request *request, unsigned status, const char *text);
/* The language of a kernelspec; NULL name: python. */
const struct jupyter_language *gateway_language(const json_t *name);
/* A kernel by its model in a request: made, or NULL after an answer. */
struct gateway_kernel *gateway_make_kernel(struct gateway *g, struct http_request *request, int64_t principal,
                                           const json_t *body);

#endif
