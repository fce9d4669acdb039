/* The reader of guests' output, for runs, processes and contexts: piece by piece, held while the
 * owner has no room. Runs in: the engine, on its loop. */
#include "stream.h"

#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define PIECE_COST_BYTES 4096 /* for which a piece of any size counts */

/* -- reading -------------------------------------------------------------------------------------------------- */

static ssize_t read_piece(struct stream *s, size_t most)
{
        char data[STREAM_PIECE_BYTES];
        ssize_t n = read(s->fd, data, most < sizeof(data) ? most : sizeof(data));

        if (n > 0)
                s->calls->take(s->owner, data, (size_t)n);
        return n;
}

static void end(struct stream *s)
{
        stream_close(s);
        if (s->calls->on_end)
                s->calls->on_end(s->owner);
}

static void read_ready(struct stream *s)
{
        struct stream_turns *turns = s->turns;
        size_t cost = PIECE_COST_BYTES;
        ssize_t n;

        if (s->calls->is_full && s->calls->is_full(s->owner)) {
                stream_hold(s, 1);
                return;
        }
        n = read_piece(s, STREAM_PIECE_BYTES); /* n > 0: s may be freed by now */
        cost += n > 0 ? (size_t)n : 0;
        turns->left_bytes -= cost < turns->left_bytes ? cost : turns->left_bytes;
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
                end(s); /* read(2) fails with EIO if the other side of a terminal is closed */
}

static void set_ready(struct stream *s, int is_ready)
{
        if (is_ready && !s->is_ready)
                TAILQ_INSERT_TAIL(&s->turns->ready, s, link);
        else if (!is_ready && s->is_ready)
                TAILQ_REMOVE(&s->turns->ready, s, link);
        s->is_ready = is_ready;
}

/* A stream for which nothing is left in this iteration stays in the queue. The loop reports it
 * again in the next one, which serves those first that have waited longest. */
static void on_readable(void *data, int status, int events)
{
        struct stream *s = data;
        struct stream_turns *turns = s->turns;

        (void)events;
        if (status < 0) {
                end(s);
                return;
        }
        set_ready(s, 1);
        while (turns->left_bytes > 0 && (s = TAILQ_FIRST(&turns->ready))) {
                set_ready(s, 0);
                read_ready(s);
        }
}

static void on_iteration(uv_prepare_t *prepare)
{
        ((struct stream_turns *)prepare->data)->left_bytes = STREAM_TURN_BYTES;
}

void stream_turns_open(struct stream_turns *turns, uv_loop_t *loop)
{
        *turns = (struct stream_turns){.loop = loop};
        TAILQ_INIT(&turns->ready);
        uv_prepare_init(loop, &turns->prepare);
        turns->prepare.data = turns;
        uv_prepare_start(&turns->prepare, on_iteration);
}

void stream_turns_close(struct stream_turns *turns)
{
        uv_close((uv_handle_t *)&turns->prepare, NULL);
}

void stream_init(struct stream *s, const struct stream_owner *calls, void *owner, int fd)
{
        *s = (struct stream){.calls = calls, .owner = owner, .fd = fd};
}

static void update_watch(struct stream *s)
{
        if (!s->watch)
                return;
        watch_set(s->watch, s->is_held ? 0 : UV_READABLE);
        if (s->is_held)
                set_ready(s, 0);
}

int stream_start(struct stream *s, struct stream_turns *turns, struct cloche_err *e)
{
        int r = s->watch ? 0 : watch_new(turns->loop, s->fd, &s->watch);

        s->turns = turns;
        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "watch the output of a program");
        watch_on_event(s->watch, on_readable, s);
        update_watch(s);
        return 0;
}

void stream_hold(struct stream *s, int hold)
{
        if (s->is_held == !!hold)
                return;
        s->is_held = !!hold;
        update_watch(s);
}

void stream_drain(struct stream *s)
{
        ssize_t n;
        int left;

        if (s->fd < 0 || ioctl(s->fd, FIONREAD, &left) < 0)
                return;
        for (; left > 0 && s->fd >= 0; left -= (int)n) {
                n = read_piece(s, (size_t)left);
                if (n <= 0)
                        return;
        }
}

void stream_ignore(struct stream *s)
{
        set_ready(s, 0);
        if (s->watch)
                watch_on_event(s->watch, NULL, NULL);
}

void stream_unwatch(struct stream *s)
{
        set_ready(s, 0);
        watch_close(s->watch);
        s->watch = NULL;
}

void stream_close(struct stream *s)
{
        stream_unwatch(s);
        fd_close(&s->fd);
}

/* -- pipes ---------------------------------------------------------------------------------------------------- */

int stream_pipe(int *ret_our_fd, int *ret_guest_fd, int we_read, struct cloche_err *e)
{
        int pair[2];

        if (pipe2(pair, O_CLOEXEC) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a pipe");
        *ret_our_fd = pair[!we_read];
        *ret_guest_fd = pair[we_read];
        /* The guest is another user, and may open its streams by name: /dev/stdin, /dev/stdout. */
        if (fcntl(*ret_our_fd, F_SETFL, O_NONBLOCK) < 0 || fchmod(*ret_our_fd, 0666) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "set up a pipe");
        return 0;
}

int stdio_open(struct stdio *s, struct cloche_err *e)
{
        int r = 0;

        *s = STDIO_NONE;
        for (int i = 0; r == 0 && i < 3; i++)
                r = stream_pipe(&s->our_fds[i], &s->guest_fds[i], i > 0, e);
        return r;
}

int stdio_watch(struct stdio *s, uv_loop_t *loop, struct cloche_err *e)
{
        for (int i = 0; i < 2; i++) {
                int r = watch_new(loop, s->our_fds[i + 1], &s->watches[i]);

                if (r < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, -r, "watch a pipe");
                watch_set(s->watches[i], UV_READABLE);
        }
        return 0;
}

int stdio_open_null(struct stdio *s, struct cloche_err *e)
{
        *s = STDIO_NONE;
        for (int i = 0; i < 3; i++) {
                s->guest_fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
                if (s->guest_fds[i] < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, errno, "open /dev/null");
        }
        return 0;
}

void stdio_close_guest(struct stdio *s)
{
        for (int i = 0; i < 3; i++)
                fd_close(&s->guest_fds[i]);
}

void stdio_close(struct stdio *s)
{
        stdio_close_guest(s);
        for (int i = 0; i < 2; i++) {
                watch_close(s->watches[i]);
                s->watches[i] = NULL;
        }
        for (int i = 0; i < 3; i++)
                fd_close(&s->our_fds[i]);
}
