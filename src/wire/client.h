/* The client half of JSON-RPC over a stream socket: requests with callbacks, and the messages that
 * answer none of them. One thread. Nothing waits but wire_client_turn(). In a loop of libuv,
 * engine/loop/channel.h does the reading. */
#ifndef CLOCHE_WIRE_CLIENT_H
#define CLOCHE_WIRE_CLIENT_H

#include "transport.h"

/* Called once for the answer of a request: m->kind is RPC_RESULT or RPC_ERROR. It may close the
 * client, but not free it. Negative, with *e: the answer is invalid. */
typedef int (*wire_answered)(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e);

struct wire_pending;
struct wire_client {
        struct wire_transport transport;
        json_int_t last_id;
        struct wire_pending *pending;
};

/* socket_fd is borrowed. Bounds as for wire_transport_init(). A client may be moved while it is not
 * in use on the stack. Close it with wire_client_done(), which calls no callbacks. */
void wire_client_init(struct wire_client *c, int socket_fd, size_t in_max, size_t out_max);
void wire_client_done(struct wire_client *c);

/* Queue a request; wire_transport_flush() sends it. params are stolen, and must not be NULL.
 * attachments: or NULL. answered: or NULL, then wire_client_next() returns the answer.
 * *ret_id: its id; ret_id may be NULL. */
CLOCHE_MUST_CHECK int wire_client_request(struct wire_client *c, const char *method, json_t *params,
                                          const struct buf *attachments, wire_answered answered, void *data,
                                          json_int_t *ret_id, struct cloche_err *e);
/* Call no callback for this request: wire_client_next() returns its answer. */
void wire_client_detach(struct wire_client *c, json_int_t id);

/* Take the messages that were received, up to one that answers no pending request. 1: *f and *m are
 * that message, as in wire_transport_next(). 0: there is none. Negative: a message was invalid. */
CLOCHE_MUST_CHECK int wire_client_next(struct wire_client *c, struct frame *f, struct rpc_message *m,
                                       struct cloche_err *e);

/* Events to wait for, as in poll(2). */
short wire_client_events(const struct wire_client *c);
/* Wait until the socket can be read, or written if something is unsent; then receive and send once.
 * Returns 0, or -errno; -EPIPE at the end of the stream. read: as for wire_transport_receive(). */
CLOCHE_MUST_CHECK int wire_client_turn(struct wire_client *c, wire_read read, void *data);
/* Likewise without waiting, after poll(2) reported these events. */
CLOCHE_MUST_CHECK int wire_client_move(struct wire_client *c, short events, wire_read read, void *data);

#endif
