/* The output of a context: read when it arrives, kept for the current or the next cell. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "context.h"

#include "base/fd.h"

#define KEEP_BYTES (UINT64_C(64) << 20)

static void take(void *owner, const char *data, size_t size)
{
        struct context_stream *s = owner;
        struct cell *cell = context_cell_of(s->context);

        (void)spool_append(&s->spool, data, size); /* with a full disk output is lost, which the totals show */
        if (cell)
                context_cell_bytes(cell, s == &s->context->streams[STREAM_OUT] ? STREAM_OUT : STREAM_ERR, data, size);
}

void context_streams_init(struct context *c)
{
        static const struct stream_owner calls = {.take = take};

        for (int i = 0; i < STREAMS; i++) {
                c->streams[i] = (struct context_stream){.context = c, .spool = {.fd = -EBADF}};
                stream_init(&c->streams[i].stream, &calls, &c->streams[i], -EBADF);
        }
}

void context_stream_renew(struct context_stream *s)
{
        spool_done(&s->spool);
        spool_init(&s->spool, SPOOL_FIRST, KEEP_BYTES, s->context->sandbox->all->state_fd);
        s->sent_bytes = 0;
}

int context_streams_open(struct context *c, struct stdio *stdio, struct cloche_err *e)
{
        int r = 0;

        for (int i = 0; r == 0 && i < STREAMS; i++) {
                struct context_stream *s = &c->streams[i];

                context_stream_renew(s);
                s->stream.fd = fd_take(&stdio->our_fds[i + 1]);
                r = stream_start(&s->stream, &c->sandbox->all->engine->streams, e);
        }
        fd_close(&stdio->our_fds[0]); /* standard input is empty */
        return r;
}

void context_streams_take(struct context *c)
{
        for (int i = 0; i < STREAMS; i++)
                stream_drain(&c->streams[i].stream);
}

void context_streams_pause(struct context *c, int is_paused)
{
        for (int i = 0; i < STREAMS; i++)
                stream_hold(&c->streams[i].stream, is_paused);
}

void context_streams_close(struct context *c)
{
        for (int i = 0; i < STREAMS; i++)
                stream_close(&c->streams[i].stream);
}
