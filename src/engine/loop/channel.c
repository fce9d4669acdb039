/* Frames to and from an agent, whose bytes are hostile. Runs in: the engine, on its loop. */
#include "channel.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/peer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

static size_t frame_size(uint64_t bytes_max)
{
        return bytes_max > FRAME_BYTES_MAX ? FRAME_BYTES_MAX : (size_t)bytes_max;
}

int channel_open(struct channel *c, uint64_t frame_bytes_max, int *ret_agent_fd, struct cloche_err *e)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make the agent's channel");
        *c = (struct channel){.fd = pair[0], .received_fd = -EBADF};
        wire_client_init(&c->client, c->fd, frame_size(frame_bytes_max), FRAME_BYTES_MAX);
        peer_open(c->fd);
        *ret_agent_fd = pair[1];
        return 0;
}

static void stop(struct channel *c, const struct cloche_err *e)
{
        if (c->watch)
                watch_set(c->watch, 0);
        c->is_ended = 1;
        c->on_end(c->data, e);
}

static int take_messages(struct channel *c, struct cloche_err *e)
{
        struct rpc_message m;
        struct frame frame;
        int r;

        while ((r = wire_client_next(&c->client, &frame, &m, e)) > 0) {
                r = c->on_message(c->data, &m, &frame, e);
                rpc_message_done(&m);
                if (r < 0)
                        return r;
        }
        return r;
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

static ssize_t receive(void *data, char *to, size_t room)
{
        struct channel *c = data;
        int fd = -EBADF;
        ssize_t n;

        if (!c->takes) {
                n = peer_receive(c->fd, to, room);
                return n < 0 ? -errno : n;
        }
        n = peer_receive_with(c->fd, to, room, c->takes, &fd, MSG_DONTWAIT);
        if (fd >= 0 && !is_wanted(c, fd)) {
                peer_discard(&fd, 1);
                return -EBADMSG;
        }
        if (fd >= 0) {
                fd_close(&c->received_fd);
                c->received_fd = fd;
        }
        return n;
}

/* 1: more may be there. The callbacks may close the channel. */
static int read_some(struct channel *c)
{
        struct cloche_err e = {0};
        size_t room;
        ssize_t n = wire_transport_receive(&c->client.transport, receive, c, &room);

        if (n == -EAGAIN)
                return 0;
        if (n == -EBADMSG)
                err_set(&e, CLOCHE_E_PROTOCOL, "a message came with descriptors, expected none");
        c->is_unread |= n == -ECONNRESET; /* unix(7): the agent's end was closed before it read all */
        if (n <= 0) {
                stop(c, e.code ? &e : NULL);
                return 0;
        }
        if (take_messages(c, &e) < 0) {
                if (c->fd >= 0)
                        stop(c, &e);
                return 0;
        }
        return c->fd >= 0 && (size_t)n == room;
}

static void on_event(void *data, int status, int events)
{
        struct channel *c = data;

        if (events & UV_WRITABLE)
                channel_flush(c);
        if (status < 0 || (events & UV_READABLE))
                channel_drain(c);
}

static void set_events(struct channel *c)
{
        watch_set(c->watch, (c->is_paused ? 0 : UV_READABLE) | (channel_unsent(c) > 0 ? UV_WRITABLE : 0));
}

int channel_register(struct channel *c, uv_loop_t *loop, struct cloche_err *e)
{
        int r = watch_new(loop, c->fd, &c->watch);

        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "watch a channel");
        watch_set(c->watch, UV_READABLE);
        return 0;
}

int channel_watch(struct channel *c, uv_loop_t *loop, struct cloche_err *e)
{
        int r = c->watch ? 0 : channel_register(c, loop, e);

        if (r < 0)
                return r;
        watch_on_event(c->watch, on_event, c);
        set_events(c);
        return 0;
}

void channel_ignore(struct channel *c)
{
        if (c->watch)
                watch_on_event(c->watch, NULL, NULL);
}

void channel_unwatch(struct channel *c)
{
        watch_close(c->watch);
        c->watch = NULL;
}

void channel_pause(struct channel *c, int is_paused)
{
        c->is_paused = is_paused;
        if (c->watch && !c->is_ended)
                set_events(c);
}

void channel_limit_frames(struct channel *c, uint64_t frame_bytes_max)
{
        frame_reader_limit(&c->client.transport.in, frame_size(frame_bytes_max));
}

struct buf *channel_out(struct channel *c)
{
        return wire_transport_out(&c->client.transport);
}

size_t channel_unsent(const struct channel *c)
{
        return wire_transport_unsent(&c->client.transport);
}

void channel_flush(struct channel *c)
{
        /* The agent is gone, or this process can send nothing now (ETOOMANYREFS, ENOMEM). A
         * message cut short is useless to the agent, so shut the socket down: the end of the
         * stream then comes from the loop, not from here. */
        int r = c->fd < 0 ? -EBADF : wire_transport_flush(&c->client.transport);

        if (r < 0) {
                c->is_unread |= r == -EPIPE || r == -ECONNRESET;
                wire_transport_drop(&c->client.transport);
                (void)shutdown(c->fd, SHUT_RDWR);
        }
        if (c->watch && !c->is_ended)
                set_events(c);
}

int channel_request(struct channel *c, const char *method, json_t *params, int fd, wire_answered answered,
                    struct cloche_err *e)
{
        int r = 0;

        if (fd >= 0 && wire_transport_attach(&c->client.transport, channel_out(c)->size, fd) < 0) {
                json_decref(params);
                return err_set(e, CLOCHE_E_RESOURCE, "%s: too many descriptors wait to be sent", method);
        }
        r = wire_client_request(&c->client, method, params, NULL, answered, c->data, NULL, e);
        if (r < 0 && fd >= 0)
                wire_transport_detach(&c->client.transport); /* else the next message would carry it */
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
        channel_unwatch(c);
        if (c->takes)
                fd_close(&c->received_fd);
        wire_client_done(&c->client);
        peer_close(&c->fd);
}
