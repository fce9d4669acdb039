/* Output of a process: read from its pipes, kept in spools, sent to followers. A slow follower
 * reads from the spool; only if a spool that keeps the beginning is full, or the process is paced,
 * the process waits. Runs
 * in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "process.h"
#include "sandbox/core/wait.h"

#include "base/fd.h"

#include <stdlib.h>

const char *const stream_names[] = {"stdout", "stderr"};

/* -- followers ------------------------------------------------------------------------------------------------ */

static void send_piece(struct follower *f, enum stream_index index, const char *data, size_t size)
{
        sandbox_request_output(f->request, f->process->is_terminal ? "terminal" : stream_names[index], data, size);
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
        char data[STREAM_PIECE_BYTES];

        while (!f->request->is_held && f->at[index] < spool_end(spool)) {
                long n;

                if (f->at[index] < spool_begin(spool))
                        f->at[index] = spool_begin(spool); /* dropped: the follower was too slow */
                n = spool_read(spool, f->at[index], data, sizeof(data));
                if (n <= 0) {
                        f->at[index] = spool_end(spool); /* lost: the disk was full */
                        return;
                }
                f->at[index] += (uint64_t)n;
                send_piece(f, index, data, (size_t)n);
        }
}

static void resume(struct process *p)
{
        for (int i = 0; i < STREAMS; i++)
                stream_hold(&p->streams[i].stream, 0);
}

void process_follower_feed(struct follower *f)
{
        struct process *p = f->process;

        for (int i = 0; i < STREAMS; i++)
                feed_stream(f, (enum stream_index)i);
        if (!has_all(f))
                return;
        resume(p);
        if (process_is_ended(p))
                f->complete(f);
}

void process_followers_feed(struct process *p)
{
        struct follower *f, *next;

        for (f = TAILQ_FIRST(&p->followers); f; f = next) {
                next = TAILQ_NEXT(f, link);
                process_follower_feed(f);
        }
}

void process_follow(struct follower *f, struct process *p, struct sandbox_request *request, uint64_t from,
                    void (*complete)(struct follower *f))
{
        f->process = p;
        f->request = request;
        f->complete = complete;
        for (int i = 0; i < STREAMS; i++)
                f->at[i] = from < p->streams[i].spool.total ? from : p->streams[i].spool.total;
        p->was_followed = 1;
        TAILQ_INSERT_TAIL(&p->followers, f, link);
}

void process_unfollow(struct follower *f)
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

static void take(void *owner, const char *data, size_t size)
{
        struct stream_of *s = owner;
        enum stream_index index = index_of(s);
        uint64_t before = s->spool.total;
        struct follower *f;

        if (s->is_mute)
                return;
        (void)spool_append(&s->spool, data, size); /* with a full disk output is lost, which the totals show */
        TAILQ_FOREACH (f, &s->process->followers, link)
                if (f->at[index] == before && !f->request->is_held) {
                        f->at[index] = s->spool.total;
                        send_piece(f, index, data, size);
                }
        sandbox_waits_bytes(s->process, index, data, size);
}

/* True if more bytes could drop some that a follower has not received. Half of the room is left for
 * those that are in the pipe when the process ends. */
static int is_ahead(const struct stream_of *s)
{
        uint64_t most = s->spool.total + STREAM_PIECE_BYTES - s->spool.room_bytes / 2;
        const struct follower *f;

        if (s->spool.total + STREAM_PIECE_BYTES <= s->spool.room_bytes / 2)
                return 0;
        TAILQ_FOREACH (f, &s->process->followers, link)
                if (f->at[index_of(s)] < most)
                        return 1;
        return !s->process->was_followed;
}

/* True if the spool has no room for bytes that a follower has not received. */
static int is_full(void *owner)
{
        const struct stream_of *s = owner;
        const struct follower *f;

        if (s->process->is_paced && !s->is_mute)
                return is_ahead(s);
        if (s->spool.keep != SPOOL_FIRST || s->is_mute || s->spool.total + STREAM_PIECE_BYTES <= s->spool.room_bytes)
                return 0;
        TAILQ_FOREACH (f, &s->process->followers, link)
                if (f->at[index_of(s)] < s->spool.total || f->request->is_held)
                        return 1;
        return 0;
}

void process_streams_init(struct process *p, enum spool_keep keep, uint64_t keep_bytes)
{
        static const struct stream_owner calls = {.take = take, .is_full = is_full};

        for (int i = 0; i < STREAMS; i++) {
                struct stream_of *s = &p->streams[i];

                s->process = p;
                stream_init(&s->stream, &calls, s, -EBADF);
                spool_init(&s->spool, keep, keep_bytes, p->sandbox->all->state_fd);
        }
}

void process_streams_drain(struct process *p, int is_last)
{
        for (int i = 0; i < STREAMS; i++) {
                stream_drain(&p->streams[i].stream);
                p->streams[i].is_mute |= is_last;
                if (is_last)
                        stream_hold(&p->streams[i].stream, 0);
        }
}

/* -- pipes of freed processes --------------------------------------------------------------------------------- */

/* A pipe whose writers outlive its owner. It is read so that they do not fail, and the bytes are
 * dropped. */
struct drain {
        TAILQ_ENTRY(drain) link;
        struct sandbox *sandbox;
        struct stream stream;
};

static void drop(void *owner, const char *data, size_t size)
{
        (void)owner, (void)data, (void)size;
}

static void drain_free(void *owner)
{
        struct drain *d = owner;

        TAILQ_REMOVE(&d->sandbox->drains, d, link);
        stream_close(&d->stream);
        free(d);
}

static void leave_to_drain(struct sandbox *sandbox, struct stream *s)
{
        static const struct stream_owner calls = {.take = drop, .on_end = drain_free};
        struct drain *d = s->fd >= 0 && sandbox->state == SANDBOX_RUNNING ? calloc(1, sizeof(*d)) : NULL;

        if (d) {
                d->sandbox = sandbox;
                TAILQ_INSERT_TAIL(&sandbox->drains, d, link);
                stream_init(&d->stream, &calls, d, fd_take(&s->fd));
        }
        stream_close(s);
        if (d && stream_start(&d->stream, &sandbox->all->engine->streams, NULL) < 0)
                drain_free(d);
}

void process_streams_close(struct process *p)
{
        for (int i = 0; i < STREAMS; i++) {
                leave_to_drain(p->sandbox, &p->streams[i].stream);
                spool_done(&p->streams[i].spool);
        }
}

void process_drains_close(struct sandbox *s)
{
        while (!TAILQ_EMPTY(&s->drains))
                drain_free(TAILQ_FIRST(&s->drains));
}
