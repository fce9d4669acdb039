/* Messages over ZeroMQ. Runs in: cloche-kernel's second process, which has given up its rights. */
#include "sockets.h"

#include "base/err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define LINGER_MS 1000
#define STUCK_MS 5000 /* after which a client that takes nothing is disconnected; it connects again if it lives */
#define HANDSHAKE_MS 3000
#define PARTS_MAX 16

struct outgoing {
        TAILQ_ENTRY(outgoing) link;
        size_t count, sizes[PARTS_MAX], bytes;
        char data[];
};

/* -- life ---------------------------------------------------------------------------------------------------------- */

static int set(void *socket, int option, int value)
{
        return zmq_setsockopt(socket, option, &value, sizeof(value));
}

static int open_socket(struct sockets *s, enum connection_port port, int fd)
{
        static const int types[PORT_COUNT] = {[PORT_SHELL] = ZMQ_ROUTER,
                                              [PORT_IOPUB] = ZMQ_PUB,
                                              [PORT_STDIN] = ZMQ_ROUTER,
                                              [PORT_CONTROL] = ZMQ_ROUTER,
                                              [PORT_HB] = ZMQ_REP};
        int64_t most = FRAMES_BYTES_MAX;
        void *socket = s->of[port] = zmq_socket(s->context, types[port]);

        if (!socket || set(socket, ZMQ_LINGER, LINGER_MS) < 0 || set(socket, ZMQ_USE_FD, fd) < 0 ||
            set(socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS) < 0 || set(socket, ZMQ_TCP_MAXRT, STUCK_MS) < 0 ||
            zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &most, sizeof(most)) < 0)
                return -1;
        /* Without ZMQ_ROUTER_HANDOVER: identities of clients are no secret, and another
         * connection with one would get its replies. */
        return port == PORT_IOPUB ? set(socket, ZMQ_XPUB_NODROP, 1) : 0;
}

int sockets_open(struct sockets *s, const struct connection *c, struct cloche_err *e)
{
        *s = (struct sockets){.context = zmq_ctx_new()};
        TAILQ_INIT(&s->waiting);
        for (int port = 0; s->context && port < PORT_COUNT; port++)
                if (open_socket(s, port, c->fds[port]) < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, errno, "make the sockets of the kernel");
        return s->context ? 0 : err_os(e, CLOCHE_E_RESOURCE, errno, "start libzmq");
}

int sockets_bind(struct sockets *s, const struct connection *c, struct cloche_err *e)
{
        for (int port = 0; port < PORT_COUNT; port++)
                if (zmq_bind(s->of[port], c->address[port]) < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, errno, "serve %.150s", c->address[port]);
        return 0;
}

/* -- messages that come
 * ---------------------------------------------------------------------------------------------
 * */

struct received {
        zmq_msg_t messages[FRAMES_MAX];
        struct frames_part parts[FRAMES_MAX];
        size_t count;
};

struct received *received_new(void)
{
        return calloc(1, sizeof(struct received));
}

static void clear(struct received *r)
{
        while (r->count > 0)
                zmq_msg_close(&r->messages[--r->count]);
}

void received_free(struct received *r)
{
        clear(r);
        free(r);
}

size_t sockets_receive(struct sockets *s, enum connection_port port, struct received *r, const struct frames_part **ret)
{
        int more = 1;
        size_t count = 0;

        clear(r);
        while (more) {
                zmq_msg_t extra, *message = count < FRAMES_MAX ? &r->messages[count] : &extra;

                zmq_msg_init(message);
                if (zmq_msg_recv(message, s->of[port], ZMQ_DONTWAIT) < 0) {
                        zmq_msg_close(message);
                        break; /* only before the first part */
                }
                more = zmq_msg_more(message);
                if (message == &extra) {
                        zmq_msg_close(&extra);
                } else {
                        r->parts[count] = (struct frames_part){zmq_msg_data(message), zmq_msg_size(message)};
                        r->count = count + 1;
                }
                count += count <= FRAMES_MAX;
        }
        *ret = r->parts;
        return count;
}

void sockets_echo(struct sockets *s)
{
        zmq_msg_t message;
        int more = 1;

        zmq_msg_init(&message);
        while (more && zmq_msg_recv(&message, s->of[PORT_HB], ZMQ_DONTWAIT) >= 0) {
                more = zmq_msg_more(&message);
                if (zmq_msg_send(&message, s->of[PORT_HB], ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) < 0)
                        break;
        }
        zmq_msg_close(&message);
}

/* -- messages that go
 * -----------------------------------------------------------------------------------------------
 * */

/* -1: a client is behind; it is so before the first part only. */
static int put(void *socket, const struct frames_part *parts, size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (zmq_send(socket, parts[i].data, parts[i].size, ZMQ_DONTWAIT | (i + 1 < count ? ZMQ_SNDMORE : 0)) <
                    0)
                        return -1;
        return 0;
}

static int put_outgoing(struct sockets *s, const struct outgoing *message)
{
        struct frames_part parts[PARTS_MAX];
        const char *at = message->data;

        for (size_t i = 0; i < message->count; i++) {
                parts[i] = (struct frames_part){at, message->sizes[i]};
                at += message->sizes[i];
        }
        return put(s->of[PORT_IOPUB], parts, message->count);
}

static void outgoing_free(struct sockets *s, struct outgoing *message)
{
        TAILQ_REMOVE(&s->waiting, message, link);
        s->waiting_bytes -= message->bytes;
        free(message);
}

static void keep(struct sockets *s, const struct frames_part *parts, size_t count)
{
        struct outgoing *message;
        size_t bytes = 0;
        char *to;

        for (size_t i = 0; i < count; i++)
                bytes += parts[i].size;
        message = malloc(sizeof(*message) + bytes);
        if (!message)
                abort(); /* a message that is lost would be a wrong result */
        message->count = count;
        message->bytes = bytes;
        to = message->data;
        for (size_t i = 0; i < count; i++) {
                message->sizes[i] = parts[i].size;
                memcpy(to, parts[i].data, parts[i].size);
                to += parts[i].size;
        }
        TAILQ_INSERT_TAIL(&s->waiting, message, link);
        s->waiting_bytes += bytes;
}

void sockets_send(struct sockets *s, enum connection_port port, const struct frames_part *parts, size_t count)
{
        if (port == PORT_IOPUB && !TAILQ_EMPTY(&s->waiting))
                keep(s, parts, count);
        else if (put(s->of[port], parts, count) < 0 && port == PORT_IOPUB)
                keep(s, parts, count);
}

void sockets_flush(struct sockets *s)
{
        struct outgoing *message;

        while ((message = TAILQ_FIRST(&s->waiting)) && put_outgoing(s, message) == 0)
                outgoing_free(s, message);
}

void sockets_close(struct sockets *s)
{
        struct outgoing *message;

        set(s->of[PORT_IOPUB], ZMQ_XPUB_NODROP, 0);
        while ((message = TAILQ_FIRST(&s->waiting))) {
                (void)put_outgoing(s, message);
                outgoing_free(s, message);
        }
        for (int port = 0; port < PORT_COUNT; port++)
                if (s->of[port])
                        zmq_close(s->of[port]);
        if (s->context)
                zmq_ctx_term(s->context);
}
