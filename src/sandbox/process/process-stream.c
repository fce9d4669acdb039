/* Output of a process: read from its pipes, kept in spools, sent to followers. A slow follower
 * reads from the spool; only if a spool that keeps the beginning is full, the process waits. */
#include "sandbox/core/internal.h"

#include "base/err.h"
#include "base/fd.h"
#include "engine/loop/handle.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define READ_BYTES 65536

const char *const stream_names[] = {"stdout", "stderr"};

static void on_output(uv_poll_t *poll, int status, int events);

/* -- followers ------------------------------------------------------------------------------------------------ */

static void tell(struct follower *f, enum stream_index index, const char *data, size_t size)
{
        ask_output(f->ask, f->process->is_terminal ? "terminal" : stream_names[index], data, size);
}

static int has_all(const struct follower *f)
{
        for (int i = 0; i < STREAMS; i++)
                if (f->at[i] < spool_end(&f->process->streams[i].spool))
                        return 0;
        return 1;
}

static void feed_stream(struct follower *f, enum stream_index index)
{
        const struct spool *spool = &f->process->streams[index].spool;
        char data[READ_BYTES];

        while (!f->ask->is_held && f->at[index] < spool_end(spool)) {
                long n;

                if (f->at[index] < spool_begin(spool))
                        f->at[index] = spool_begin(spool); /* dropped: the follower was too slow */
                n = spool_read(spool, f->at[index], data, sizeof(data));
                if (n <= 0) {
                        f->at[index] = spool_end(spool); /* lost: the disk was full */
                        return;
                }
                f->at[index] += (uint64_t)n;
                tell(f, index, data, (size_t)n);
        }
}

static void resume(struct process *p)
{
        for (int i = 0; i < STREAMS; i++) {
                struct stream_of *s = &p->streams[i];

                if (!s->is_paused || !s->poll)
                        continue;
                s->is_paused = 0;
                uv_poll_start(s->poll, UV_READABLE, on_output);
        }
}

void follower_feed(struct follower *f)
{
        struct process *p = f->process;

        for (int i = 0; i < STREAMS; i++)
                feed_stream(f, (enum stream_index)i);
        if (!has_all(f))
                return;
        resume(p);
        if (p->is_ended)
                f->complete(f);
}

void followers_feed(struct process *p)
{
        struct follower *f, *next;

        for (f = TAILQ_FIRST(&p->followers); f; f = next) {
                next = TAILQ_NEXT(f, link);
                follower_feed(f);
        }
}

void follow(struct follower *f, struct process *p, struct sandbox_ask *ask, uint64_t from,
            void (*complete)(struct follower *f))
{
        f->process = p;
        f->ask = ask;
        f->complete = complete;
        for (int i = 0; i < STREAMS; i++)
                f->at[i] = from < p->streams[i].spool.total ? from : p->streams[i].spool.total;
        TAILQ_INSERT_TAIL(&p->followers, f, link);
}

void unfollow(struct follower *f)
{
        struct process *p = f->process;

        if (!p)
                return;
        TAILQ_REMOVE(&p->followers, f, link);
        f->process = NULL;
        resume(p);
}

/* -- reading -------------------------------------------------------------------------------------------------- */

static enum stream_index index_of(const struct stream_of *s)
{
        return s == &s->process->streams[STREAM_OUT] ? STREAM_OUT : STREAM_ERR;
}

static void take(struct stream_of *s, const char *data, size_t size)
{
        enum stream_index index = index_of(s);
        uint64_t before = s->spool.total;
        struct follower *f;

        if (s->is_mute)
                return;
        (void)spool_append(&s->spool, data, size); /* with a full disk output is lost, which the totals show */
        TAILQ_FOREACH (f, &s->process->followers, link)
                if (f->at[index] == before && !f->ask->is_held) {
                        f->at[index] = s->spool.total;
                        tell(f, index, data, size);
                }
        waits_bytes(s->process, index, data, size);
}

static void end(struct stream_of *s)
{
        handle_close(s->poll);
        s->poll = NULL;
        fd_close(&s->fd);
}

/* True if the spool has no room for bytes that a follower has not received. */
static int must_wait(const struct stream_of *s)
{
        const struct follower *f;

        if (s->spool.keep != SPOOL_FIRST || s->is_mute || s->spool.total + READ_BYTES <= s->spool.room_bytes)
                return 0;
        TAILQ_FOREACH (f, &s->process->followers, link)
                if (f->at[index_of(s)] < s->spool.total || f->ask->is_held)
                        return 1;
        return 0;
}

static ssize_t read_some(struct stream_of *s, size_t most)
{
        char data[READ_BYTES];
        ssize_t n = read(s->fd, data, most < sizeof(data) ? most : sizeof(data));

        if (n > 0)
                take(s, data, (size_t)n);
        return n;
}

static void on_output(uv_poll_t *poll, int status, int events)
{
        struct stream_of *s = poll->data;
        ssize_t n;

        (void)events;
        if (must_wait(s)) {
                s->is_paused = 1;
                uv_poll_stop(poll);
                return;
        }
        n = read_some(s, READ_BYTES);
        if (n > 0 || (n < 0 && status >= 0 && (errno == EAGAIN || errno == EINTR)))
                return;
        end(s); /* read(2) fails with EIO if the other side of a terminal is closed */
}

int stream_open(struct process *p, enum stream_index index, int fd, struct cloche_err *e)
{
        struct stream_of *s = &p->streams[index];
        int r;

        s->fd = fd;
        r = handle_poll(&p->sandbox->all->engine->loop, fd, s, &s->poll);
        if (r < 0) {
                fd_close(&s->fd);
                return err_os(e, CLOCHE_E_RESOURCE, -r, "watch what a command prints");
        }
        uv_poll_start(s->poll, UV_READABLE, on_output);
        return 0;
}

/* Read only the bytes that are there now: a guest may write without end. */
static void take_rest(struct stream_of *s)
{
        int left = 0;

        if (s->fd < 0 || ioctl(s->fd, FIONREAD, &left) < 0)
                return;
        while (left > 0) {
                ssize_t n = read_some(s, (size_t)left);

                if (n <= 0)
                        break;
                left -= (int)n;
        }
}

void streams_drain(struct process *p, int is_last)
{
        for (int i = 0; i < STREAMS; i++) {
                take_rest(&p->streams[i]);
                p->streams[i].is_mute |= is_last;
                if (is_last && p->streams[i].is_paused && p->streams[i].poll) {
                        p->streams[i].is_paused = 0;
                        uv_poll_start(p->streams[i].poll, UV_READABLE, on_output);
                }
        }
}

/* -- pipes of freed processes --------------------------------------------------------------------------------- */

static void drain_free(struct drain *d)
{
        TAILQ_REMOVE(&d->sandbox->drains, d, link);
        handle_close(d->poll);
        fd_close(&d->fd);
        free(d);
}

static void on_drain(uv_poll_t *poll, int status, int events)
{
        struct drain *d = poll->data;
        char data[READ_BYTES];
        ssize_t n = read(d->fd, data, sizeof(data));

        (void)events;
        if (n == 0 || (n < 0 && (status < 0 || (errno != EAGAIN && errno != EINTR))))
                drain_free(d);
}

static void leave_to_drain(struct stream_of *s)
{
        struct sandbox *sandbox = s->process->sandbox;
        struct drain *d = sandbox->state == SANDBOX_RUNNING ? calloc(1, sizeof(*d)) : NULL;

        if (!d) {
                end(s);
                return;
        }
        *d = (struct drain){.sandbox = sandbox, .fd = s->fd, .poll = s->poll};
        s->fd = -EBADF;
        s->poll = NULL;
        d->poll->data = d;
        uv_poll_start(d->poll, UV_READABLE, on_drain);
        TAILQ_INSERT_TAIL(&sandbox->drains, d, link);
}

void streams_close(struct process *p)
{
        for (int i = 0; i < STREAMS; i++) {
                if (p->streams[i].poll)
                        leave_to_drain(&p->streams[i]);
                spool_done(&p->streams[i].spool);
        }
}

void drains_gone(struct sandbox *s)
{
        while (!TAILQ_EMPTY(&s->drains))
                drain_free(TAILQ_FIRST(&s->drains));
}
