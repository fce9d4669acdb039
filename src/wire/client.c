/* Runs in: the engine, cloched and the CLI, with the rights of each. */
#include "client.h"

#include "base/err.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

struct wire_pending {
        struct wire_pending *next;
        json_int_t id;
        wire_answered answered;
        void *data;
};

void wire_client_init(struct wire_client *c, int socket_fd, size_t in_max, size_t out_max)
{
        *c = (struct wire_client){0};
        wire_transport_init(&c->transport, socket_fd, in_max, out_max);
}

void wire_client_done(struct wire_client *c)
{
        while (c->pending)
                wire_client_detach(c, c->pending->id);
        wire_transport_done(&c->transport);
}

/* -- requests --------------------------------------------------------------------------------------------------- */

/* Returns NULL for an id that no pending request has. */
static struct wire_pending *take_pending(struct wire_client *c, json_int_t id)
{
        struct wire_pending **at = &c->pending, *found;

        while (*at && (*at)->id != id)
                at = &(*at)->next;
        found = *at;
        if (found)
                *at = found->next;
        return found;
}

void wire_client_detach(struct wire_client *c, json_int_t id)
{
        free(take_pending(c, id));
}

int wire_client_request(struct wire_client *c, const char *method, json_t *params, const struct buf *attachments,
                        wire_answered answered, void *data, json_int_t *ret_id, struct cloche_err *e)
{
        struct wire_pending *pending = params && answered ? malloc(sizeof(*pending)) : NULL;
        int r;

        if (!params || (answered && !pending)) {
                json_decref(params);
                free(pending);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "send the request %s", method);
        }
        r = rpc_request(json_integer(++c->last_id), method, params, attachments ? attachments->data : NULL,
                        attachments ? attachments->size : 0, wire_transport_out(&c->transport), e);
        if (r < 0) {
                free(pending);
                return r;
        }
        if (pending) {
                *pending = (struct wire_pending){c->pending, c->last_id, answered, data};
                c->pending = pending;
        }
        if (ret_id)
                *ret_id = c->last_id;
        return 0;
}

/* -- answers ---------------------------------------------------------------------------------------------------- */

static struct wire_pending *find_request(struct wire_client *c, const struct rpc_message *m)
{
        if ((m->kind != RPC_RESULT && m->kind != RPC_ERROR) || !json_is_integer(m->id))
                return NULL;
        return take_pending(c, json_integer_value(m->id));
}

int wire_client_next(struct wire_client *c, struct frame *f, struct rpc_message *m, struct cloche_err *e)
{
        int r;

        while ((r = wire_transport_next(&c->transport, f, m, e)) > 0) {
                struct wire_pending *pending = find_request(c, m);

                if (!pending)
                        return 1;
                r = pending->answered(pending->data, m, f, e);
                free(pending);
                rpc_message_done(m);
                if (r < 0)
                        return r;
        }
        return r;
}

/* -- turns ------------------------------------------------------------------------------------------------------ */

short wire_client_events(const struct wire_client *c)
{
        return (short)(POLLIN | (wire_transport_unsent(&c->transport) > 0 ? POLLOUT : 0));
}

int wire_client_move(struct wire_client *c, short events, wire_read read, void *data)
{
        size_t room;
        ssize_t n = -EAGAIN;
        int r = 0;

        /* The reason for a close is in the receive buffer, so read first. */
        if (events & (POLLIN | POLLERR | POLLHUP))
                n = wire_transport_receive(&c->transport, read, data, &room);
        if (n == 0 || (n < 0 && n != -EAGAIN))
                return n == 0 ? -EPIPE : (int)n;
        if (events & POLLOUT)
                r = wire_transport_flush(&c->transport);
        return r == -EPIPE || r == -ECONNRESET ? 0 : r; /* the next turn reads that reason */
}

int wire_client_turn(struct wire_client *c, wire_read read, void *data)
{
        struct pollfd polled = {.fd = c->transport.socket_fd, .events = wire_client_events(c)};

        if (poll(&polled, 1, -1) < 0)
                return errno == EINTR ? 0 : -errno;
        return wire_client_move(c, polled.revents, read, data);
}
