/* Runs in: every program that sends or receives JSON-RPC over a socket, with its rights. */
#include "transport.h"

#include "base/err.h"
#include "base/fd.h"

#include <string.h>
#include <sys/socket.h>

#define KEPT_BYTES (256u << 10) /* of each buffer, kept while it is empty */

void wire_transport_init(struct wire_transport *t, int socket_fd, size_t in_max, size_t out_max)
{
        *t = (struct wire_transport){.socket_fd = socket_fd, .out = BUF_INIT(out_max)};
        frame_reader_init(&t->in, in_max);
}

void wire_transport_done(struct wire_transport *t)
{
        while (t->leaving_count)
                fd_close(&t->leaving[--t->leaving_count].fd);
        buf_done(&t->out);
        frame_reader_done(&t->in);
        t->sent = 0;
        t->socket_fd = -EBADF;
}

/* -- sending ---------------------------------------------------------------------------------------------------- */

size_t wire_transport_unsent(const struct wire_transport *t)
{
        return t->out.size - t->sent;
}

static void drop_sent(struct wire_transport *t)
{
        size_t max = t->out.max;

        if (wire_transport_unsent(t) == 0 && t->out.room > KEPT_BYTES) {
                buf_done(&t->out);
                t->out = BUF_INIT(max);
        } else {
                buf_consume(&t->out, t->sent);
        }
        for (unsigned i = 0; i < t->leaving_count; i++)
                t->leaving[i].at -= t->sent;
        t->sent = 0;
}

struct buf *wire_transport_out(struct wire_transport *t)
{
        /* Sent bytes must not take the place of frames when the buffer is nearly full. */
        if (t->sent > 0 && t->out.size > t->out.max / 2)
                drop_sent(t);
        return &t->out;
}

int wire_transport_attach(struct wire_transport *t, size_t at, int fd)
{
        /* A frame takes one along. */
        if (t->leaving_count == WIRE_FDS_MAX || (t->leaving_count > 0 && t->leaving[t->leaving_count - 1].at == at)) {
                fd_close(&fd);
                return -EBUSY;
        }
        t->leaving[t->leaving_count].at = at;
        t->leaving[t->leaving_count++].fd = fd;
        return 0;
}

void wire_transport_detach(struct wire_transport *t)
{
        if (t->leaving_count > 0 && t->leaving[t->leaving_count - 1].at == t->out.size)
                fd_close(&t->leaving[--t->leaving_count].fd);
}

/* Send up to the next frame with a descriptor: a descriptor is sent with the first byte of its
 * frame. */
static ssize_t send_piece(struct wire_transport *t)
{
        unsigned next = t->leaving_count > 0 && t->leaving[0].at == t->sent;
        size_t end = next < t->leaving_count ? t->leaving[next].at : t->out.size;

        return fd_send_some(t->socket_fd, t->out.data + t->sent, end - t->sent, &t->leaving[0].fd, next, MSG_DONTWAIT);
}

int wire_transport_flush(struct wire_transport *t)
{
        while (wire_transport_unsent(t) > 0) {
                ssize_t n = send_piece(t);

                if (n == -EAGAIN)
                        break;
                if (n < 0)
                        return (int)n;
                if (t->leaving_count > 0 && t->leaving[0].at == t->sent) {
                        fd_close(&t->leaving[0].fd);
                        memmove(t->leaving, t->leaving + 1, --t->leaving_count * sizeof(t->leaving[0]));
                }
                t->sent += (size_t)n;
        }
        /* No more is moved than was sent since the last time. */
        if (t->sent > 0 && t->sent >= t->out.size / 2)
                drop_sent(t);
        return 0;
}

void wire_transport_drop(struct wire_transport *t)
{
        while (t->leaving_count)
                fd_close(&t->leaving[--t->leaving_count].fd);
        t->sent = t->out.size;
        drop_sent(t);
}

/* -- receiving -------------------------------------------------------------------------------------------------- */

ssize_t wire_transport_receive(struct wire_transport *t, wire_read read, void *data, size_t *ret_room)
{
        char *to = frame_reader_room(&t->in, ret_room);
        ssize_t n = to ? read(data, to, *ret_room) : -ENOMEM;

        if (n == -EINTR)
                return -EAGAIN;
        frame_reader_filled(&t->in, n > 0 ? (size_t)n : 0);
        return n;
}

int wire_transport_next(struct wire_transport *t, struct frame *f, struct rpc_message *m, struct cloche_err *e)
{
        int r = t->socket_fd < 0 ? 0 : frame_reader_next(&t->in, f, e);

        if (r == 0 && t->in.in.room > KEPT_BYTES && frame_reader_pending(&t->in) == 0) {
                size_t max = t->in.max_bytes;

                frame_reader_done(&t->in);
                frame_reader_init(&t->in, max);
        }
        if (r > 0)
                r = rpc_parse(f, m, e);
        else
                return r;
        return r < 0 ? r : 1;
}
