/* The output of a context: read when it arrives, kept for the current or the next cell. */
#include "context.h"

#include "base/err.h"
#include "base/fd.h"
#include "engine/loop/handle.h"

#include <sys/ioctl.h>

#define READ_BYTES 65536
#define KEEP_BYTES (UINT64_C(64) << 20)

static void end(struct context_stream *s)
{
        handle_close(s->poll);
        s->poll = NULL;
        fd_close(&s->fd);
}

static ssize_t read_some(struct context_stream *s, size_t most)
{
        struct cell *cell = cell_of(s->context);
        enum stream_index index = s == &s->context->streams[STREAM_OUT] ? STREAM_OUT : STREAM_ERR;
        char data[READ_BYTES];
        ssize_t n = read(s->fd, data, most < sizeof(data) ? most : sizeof(data));

        if (n <= 0)
                return n;
        (void)spool_append(&s->spool, data, (size_t)n); /* with a full disk output is lost, which the totals show */
        if (cell)
                cell_bytes(cell, index, data, (size_t)n);
        return n;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
        struct context_stream *s = poll->data;
        ssize_t n = read_some(s, READ_BYTES);

        (void)events;
        if (n == 0 || (n < 0 && (status < 0 || (errno != EAGAIN && errno != EINTR))))
                end(s); /* the guest closed it */
}

void context_stream_renew(struct context_stream *s)
{
        spool_done(&s->spool);
        spool_init(&s->spool, SPOOL_FIRST, KEEP_BYTES, s->context->sandbox->all->state_fd);
        s->told = 0;
}

int context_streams_open(struct context *c, struct stdio *stdio, struct cloche_err *e)
{
        for (int i = 0; i < STREAMS; i++) {
                struct context_stream *s = &c->streams[i];
                int r;

                context_stream_renew(s);
                s->fd = fd_take(&stdio->our_fds[i + 1]);
                r = handle_poll(&c->sandbox->all->engine->loop, s->fd, s, &s->poll);
                if (r < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, -r, "watch what a context prints");
                uv_poll_start(s->poll, UV_READABLE, on_readable);
        }
        fd_close(&stdio->our_fds[0]); /* standard input is empty */
        return 0;
}

/* Read only the bytes that are there now: a guest may write without end. */
void context_streams_take(struct context *c)
{
        for (int i = 0; i < STREAMS; i++) {
                struct context_stream *s = &c->streams[i];
                int left = 0;

                if (s->fd < 0 || ioctl(s->fd, FIONREAD, &left) < 0)
                        continue;
                while (left > 0) {
                        ssize_t n = read_some(s, (size_t)left);

                        if (n <= 0)
                                break;
                        left -= (int)n;
                }
        }
}

void context_streams_pause(struct context *c, int is_paused)
{
        for (int i = 0; i < STREAMS; i++) {
                if (!c->streams[i].poll)
                        continue;
                if (is_paused)
                        uv_poll_stop(c->streams[i].poll);
                else
                        uv_poll_start(c->streams[i].poll, UV_READABLE, on_readable);
        }
}

void context_streams_close(struct context *c)
{
        for (int i = 0; i < STREAMS; i++)
                end(&c->streams[i]);
}
