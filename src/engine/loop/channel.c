#include "channel.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/peer.h"
#include "handle.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

int channel_open(struct channel *c, uint64_t frame_bytes_max, int *ret_agent_fd, struct cloche_err *e)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make the agent's channel");
        *c = (struct channel){.fd = pair[0], .received_fd = -EBADF, .out_fd = -EBADF, .out = BUF_INIT(FRAME_BYTES_MAX)};
        frame_reader_init(&c->reader, frame_bytes_max > FRAME_BYTES_MAX ? FRAME_BYTES_MAX : (size_t)frame_bytes_max);
        peer_open(c->fd);
        *ret_agent_fd = pair[1];
        return 0;
}

static void stop(struct channel *c, const struct cloche_err *e)
{
        if (c->poll)
                uv_poll_stop(c->poll);
        c->is_ended = 1;
        c->on_end(c->data, e);
}

static int take_frames(struct channel *c, struct cloche_err *e)
{
        struct frame frame;
        int r;

        while (c->fd >= 0 && (r = frame_reader_next(&c->reader, &frame, e)) != 0) {
                struct rpc_message m;

                if (r > 0)
                        r = rpc_parse(&frame, &m, e);
                if (r < 0)
                        return r;
                r = c->on_message(c->data, &m, &frame, e);
                rpc_message_done(&m);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Accept only memory as a file: a file's server could delay our reads and closes. Only memory has
 * seals. Its size is fixed and small, and so are
 * its blocks, of which fallocate(2) can add more: the last close frees its pages, in our time. */
static int is_wanted(const struct channel *c, int fd)
{
        const int fixed = F_SEAL_SHRINK | F_SEAL_GROW;
        int seals = c->takes == S_IFREG ? fcntl(fd, F_GET_SEALS) : 0;
        struct stat st;

        return c->takes != S_IFREG ||
               (seals >= 0 && (seals & fixed) == fixed && fstat(fd, &st) == 0 &&
                st.st_size <= CHANNEL_MEMORY_BYTES_MAX && st.st_blocks <= CHANNEL_MEMORY_BYTES_MAX / 512);
}

static ssize_t receive_with_descriptor(struct channel *c, char *to, size_t room)
{
        int fd;
        ssize_t n = peer_receive_with(c->fd, to, room, c->takes, &fd, MSG_DONTWAIT);

        if (fd >= 0 && !is_wanted(c, fd)) {
                peer_discard(&fd, 1);
                n = -EBADMSG;
        } else if (fd >= 0) {
                fd_close(&c->received_fd);
                c->received_fd = fd;
        }
        errno = n < 0 ? (int)-n : 0;
        return n < 0 ? -1 : n;
}

/* 1: more may be there. The callbacks may close the channel. */
static int read_some(struct channel *c)
{
        struct cloche_err e = {0};
        size_t room;
        char *to = frame_reader_room(&c->reader, &room);
        ssize_t n = !to ? -1 : c->takes ? receive_with_descriptor(c, to, room) : peer_receive(c->fd, to, room);

        if (n < 0 && to && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n < 0 && to && errno == EBADMSG)
                err_set(&e, CLOCHE_E_PROTOCOL, "descriptors came along, of which none is taken");
        if (n <= 0) {
                stop(c, e.code ? &e : NULL);
                return 0;
        }
        frame_reader_filled(&c->reader, (size_t)n);
        if (take_frames(c, &e) < 0) {
                if (c->fd >= 0)
                        stop(c, &e);
                return 0;
        }
        return c->fd >= 0 && (size_t)n == room;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
        struct channel *c = poll->data;

        if (events & UV_WRITABLE)
                channel_flush(c);
        if (status < 0 || (events & UV_READABLE))
                channel_drain(c);
}

static void watch_poll(struct channel *c)
{
        int events = (c->is_paused ? 0 : UV_READABLE) | (c->out.size > 0 ? UV_WRITABLE : 0);

        if (events)
                uv_poll_start(c->poll, events, on_poll);
        else
                uv_poll_stop(c->poll);
}

int channel_watch(struct channel *c, uv_loop_t *loop, struct cloche_err *e)
{
        int r = handle_poll(loop, c->fd, c, &c->poll);

        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "watch a channel");
        watch_poll(c);
        return 0;
}

void channel_pause(struct channel *c, int is_paused)
{
        c->is_paused = is_paused;
        if (c->poll && !c->is_ended)
                watch_poll(c);
}

int channel_attach(struct channel *c, int fd)
{
        if (c->out_fd >= 0) {
                fd_close(&fd);
                return -EBUSY;
        }
        c->out_fd = fd;
        c->out_fd_at = c->out.size;
        return 0;
}

void channel_detach(struct channel *c)
{
        fd_close(&c->out_fd);
}

/* Send as much as possible. A descriptor goes with the first byte of its message. */
static ssize_t send_some(struct channel *c)
{
        size_t size = c->out_fd >= 0 && c->out_fd_at < c->out.size ? c->out_fd_at : c->out.size;
        int r;

        if (size > 0)
                return send(c->fd, c->out.data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        r = fd_send(c->fd, c->out.data, 1, &c->out_fd, 1);
        if (r < 0) {
                errno = -r;
                return -1;
        }
        fd_close(&c->out_fd);
        return 1;
}

static void consume(struct channel *c, size_t size)
{
        buf_consume(&c->out, size);
        c->out_fd_at -= size < c->out_fd_at ? size : c->out_fd_at;
}

/* The agent is gone, or this process can send nothing now (ETOOMANYREFS, ENOMEM). A message cut
 * short is useless to the agent, so shut the socket down: the end of the stream then comes from the
 * loop, not from here. */
static void abandon(struct channel *c)
{
        consume(c, c->out.size);
        fd_close(&c->out_fd);
        (void)shutdown(c->fd, SHUT_RDWR);
}

void channel_flush(struct channel *c)
{
        while (c->out.size > 0) {
                ssize_t n = send_some(c);

                if (n > 0)
                        consume(c, (size_t)n);
                else if (n < 0 && errno == EAGAIN)
                        break;
                else if (n < 0 && errno != EINTR)
                        abandon(c);
        }
        if (c->poll && !c->is_ended)
                watch_poll(c);
}

int channel_request(struct channel *c, int id, const char *method, json_t *params, struct cloche_err *e)
{
        int r = rpc_request(json_integer(id), method, params, NULL, 0, &c->out, e);

        if (r == 0)
                channel_flush(c);
        return r;
}

void channel_drain(struct channel *c)
{
        while (c->fd >= 0 && !c->is_ended && read_some(c))
                ;
}

void channel_close(struct channel *c)
{
        handle_close(c->poll);
        c->poll = NULL;
        if (c->fd >= 0)
                fd_close(&c->out_fd);
        peer_close(&c->fd);
        if (c->takes)
                fd_close(&c->received_fd);
        frame_reader_done(&c->reader);
        buf_done(&c->out);
}
