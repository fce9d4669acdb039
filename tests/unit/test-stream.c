/* A guest's output, written by this test to a pipe: pieces, holding, draining, ends. */
#include "engine/loop/stream.h"

#include "base/fd.h"
#include "tap.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static struct guest {
        struct stream stream;
        int fd; /* the guest's end */
        size_t bytes, pieces, largest;
        int is_full, ends, holds_itself, closes_itself, writes_more;
} flood, other;
static uv_loop_t loop;
static struct stream_turns turns;
static char block[4 * STREAM_PIECE_BYTES];

static void take(void *owner, const char *data, size_t size)
{
        struct guest *g = owner;

        (void)data;
        g->bytes += size;
        g->pieces++;
        if (size > g->largest)
                g->largest = size;
        if (g->holds_itself)
                stream_hold(&g->stream, 1);
        if (g->writes_more)
                (void)!write(g->fd, block, size);
        if (g->closes_itself)
                stream_close(&g->stream);
}

static int is_full(void *owner)
{
        return ((struct guest *)owner)->is_full;
}

static void on_end(void *owner)
{
        ((struct guest *)owner)->ends++;
}

static const struct stream_owner calls = {.take = take, .is_full = is_full, .on_end = on_end};

static void begin(struct guest *g)
{
        *g = (struct guest){.fd = -EBADF};
        stream_init(&g->stream, &calls, g, -EBADF);
        if (stream_pipe(&g->stream.fd, &g->fd, 1, NULL) < 0 || fcntl(g->fd, F_SETPIPE_SZ, sizeof(block)) < 0 ||
            fcntl(g->fd, F_SETFL, O_NONBLOCK) < 0)
                _exit(1);
}

static void start(struct guest *g)
{
        begin(g);
        if (stream_start(&g->stream, &turns, NULL) < 0)
                _exit(1);
}

static void end(struct guest *g)
{
        stream_close(&g->stream);
        fd_close(&g->fd);
        uv_run(&loop, UV_RUN_NOWAIT);
}

static void print(struct guest *g, size_t size)
{
        if (write(g->fd, block, size) != (ssize_t)size)
                _exit(1);
}

static void turn(void)
{
        uv_run(&loop, UV_RUN_NOWAIT);
}

static void test_pieces(void)
{
        start(&flood);
        start(&other);
        CHECK((fcntl(flood.stream.fd, F_GETFL) & O_NONBLOCK) && fcntl(flood.stream.fd, F_GETFD) == FD_CLOEXEC,
              "our end is nonblocking and closed by exec");
        turn();
        CHECK(flood.pieces == 0, "nothing is read before something was written");
        print(&flood, sizeof(block));
        print(&other, 5);
        turn();
        CHECK(flood.pieces == 1 && flood.bytes == STREAM_PIECE_BYTES,
              "an iteration reads a piece of a flood: %zu of %zu", flood.pieces, flood.bytes);
        CHECK(other.bytes == 5, "and the others meanwhile");
        for (int i = 0; i < 100; i++)
                turn();
        CHECK(flood.bytes == sizeof(block) && flood.largest == STREAM_PIECE_BYTES, "later ones read the rest: %zu",
              flood.bytes);
        end(&flood);
        end(&other);
}

static size_t sum(const struct guest *guests, size_t count, size_t *ret_least)
{
        size_t sum = 0;

        *ret_least = SIZE_MAX;
        for (size_t i = 0; i < count; i++) {
                sum += guests[i].bytes;
                if (guests[i].bytes < *ret_least)
                        *ret_least = guests[i].bytes;
        }
        return sum;
}

/* Each guest fills its pipe again whenever it was read. */
static void test_turns(void)
{
        static struct guest guests[40];
        const size_t count = sizeof(guests) / sizeof(guests[0]);
        size_t before = 0, most = 0, least;

        for (size_t i = 0; i < count; i++) {
                start(&guests[i]);
                guests[i].writes_more = 1;
                print(&guests[i], 2 * STREAM_PIECE_BYTES);
        }
        for (int i = 0; i < 120; i++) {
                size_t now;

                turn();
                now = sum(guests, count, &least);
                most = now - before > most ? now - before : most;
                before = now;
        }
        CHECK(most > 0 && most <= STREAM_TURN_BYTES, "floods together are bounded in an iteration: %zu", most);
        CHECK(least >= 9 * STREAM_PIECE_BYTES, "they take turns: the least got %zu", least);
        guests[0].closes_itself = guests[1].holds_itself = 1;
        for (int i = 0; i < 20; i++)
                turn();
        before = guests[1].bytes;
        CHECK(guests[0].stream.fd < 0 && guests[1].stream.is_held, "one may close itself, and one hold itself");
        for (int i = 0; i < 20; i++)
                turn();
        CHECK(guests[1].bytes == before && guests[2].bytes > 11 * STREAM_PIECE_BYTES,
              "the others go on without them: %zu", guests[2].bytes);
        turn();
        for (size_t i = 0; i < count; i++)
                end(&guests[i]);
        CHECK(TAILQ_EMPTY(&turns.ready), "the queue forgets those that are closed");
}

static void test_holding(void)
{
        start(&flood);
        stream_hold(&flood.stream, 1);
        print(&flood, 10);
        turn();
        CHECK(flood.bytes == 0, "a held stream is not read");
        stream_hold(&flood.stream, 0);
        stream_hold(&flood.stream, 0);
        turn();
        CHECK(flood.bytes == 10, "a released one is");
        flood.is_full = 1;
        print(&flood, 10);
        turn();
        CHECK(flood.bytes == 10 && flood.stream.is_held, "a full owner holds it");
        flood.is_full = 0;
        turn();
        CHECK(flood.bytes == 10, "until it is released");
        stream_hold(&flood.stream, 0);
        flood.holds_itself = 1;
        turn();
        print(&flood, 10);
        turn();
        CHECK(flood.bytes == 20 && flood.stream.is_held, "an owner may hold it when it gets a piece");
        stream_hold(&flood.stream, 0);
        turn();
        CHECK(flood.bytes == 30, "and release it");
        end(&flood);
        stream_hold(&flood.stream, 0);
        CHECK(!flood.stream.watch && flood.stream.fd < 0, "to release a closed one does nothing");
        begin(&flood);
        stream_hold(&flood.stream, 1);
        print(&flood, 10);
        CHECK(stream_start(&flood.stream, &turns, NULL) == 0 && (turn(), flood.bytes == 0),
              "a stream that was held before its start is held after it");
        end(&flood);
}

static void test_draining(void)
{
        start(&flood);
        stream_hold(&flood.stream, 1);
        flood.is_full = 1;
        print(&flood, 3 * STREAM_PIECE_BYTES + 1);
        flood.writes_more = 1;
        stream_drain(&flood.stream);
        CHECK(flood.bytes == 3 * STREAM_PIECE_BYTES + 1 && flood.largest == STREAM_PIECE_BYTES,
              "a drain reads the bytes that are there, of a held stream too, and not the later ones: %zu", flood.bytes);
        flood.closes_itself = 1;
        stream_drain(&flood.stream);
        CHECK(flood.stream.fd < 0 && flood.bytes == 4 * STREAM_PIECE_BYTES + 1, "a piece may close the stream: %zu",
              flood.bytes);
        stream_drain(&flood.stream);
        CHECK(flood.bytes == 4 * STREAM_PIECE_BYTES + 1 && flood.ends == 0, "nothing comes from a closed one");
        end(&flood);
}

static void test_ends(void)
{
        start(&flood);
        print(&flood, 7);
        fd_close(&flood.fd);
        turn();
        turn();
        CHECK(flood.bytes == 7 && flood.ends == 1 && flood.stream.fd < 0, "its end follows the last bytes");
        end(&flood);
        start(&flood);
        flood.closes_itself = 1;
        print(&flood, 7);
        fd_close(&flood.fd);
        turn();
        turn();
        CHECK(flood.bytes == 7 && flood.ends == 0, "a stream that its owner closes has no end");
        end(&flood);
        start(&flood);
        flood.is_full = 1;
        fd_close(&flood.fd);
        turn();
        CHECK(flood.ends == 0, "a full owner is not sent the end");
        flood.is_full = 0;
        stream_hold(&flood.stream, 0);
        turn();
        CHECK(flood.ends == 1, "until it has room");
        end(&flood);
}

/* Pipes of an instance are registered before a run takes them. */
static void adopt(struct guest *g, struct stdio *stdio)
{
        *g = (struct guest){.fd = fd_take(&stdio->guest_fds[1])};
        stream_init(&g->stream, &calls, g, fd_take(&stdio->our_fds[1]));
        g->stream.watch = stdio->watches[0];
        stdio->watches[0] = NULL;
}

static void test_registered_before(void)
{
        struct stdio stdio;

        if (stdio_open(&stdio, NULL) < 0 || stdio_watch(&stdio, &loop, NULL) < 0)
                _exit(1);
        if (write(stdio.guest_fds[1], block, 7) != 7)
                _exit(1);
        fd_close(&stdio.guest_fds[2]);
        turn();
        turn();
        adopt(&flood, &stdio);
        stream_hold(&flood.stream, 1);
        turn();
        CHECK(stream_start(&flood.stream, &turns, NULL) == 0 && (turn(), flood.bytes == 0),
              "a stream with a watch of its own, held before its start, is held after it");
        stream_hold(&flood.stream, 0);
        turn();
        CHECK(flood.bytes == 7, "bytes from before there was a reader are read: %zu", flood.bytes);
        print(&flood, 5);
        stream_ignore(&flood.stream);
        turn();
        turn();
        CHECK(flood.bytes == 7 && flood.stream.fd >= 0, "events of an ignored stream are dropped");
        stream_drain(&flood.stream);
        print(&flood, 5);
        stream_unwatch(&flood.stream);
        turn();
        CHECK(flood.bytes == 12, "but a drain reads it");
        stream_drain(&flood.stream);
        CHECK(flood.bytes == 17, "when it is off the loop, too: %zu", flood.bytes);
        end(&flood);
        stdio_close(&stdio); /* with the watch of a pipe whose guest died */
}

static void test_a_terminal(void)
{
        int side_fd;

        flood = (struct guest){.fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};
        if (flood.fd < 0 || grantpt(flood.fd) < 0 || unlockpt(flood.fd) < 0)
                _exit(1);
        side_fd = open(ptsname(flood.fd), O_RDWR | O_NOCTTY | O_CLOEXEC);
        stream_init(&flood.stream, &calls, &flood, fd_take(&flood.fd));
        if (side_fd < 0 || stream_start(&flood.stream, &turns, NULL) < 0 || write(side_fd, "abc", 3) != 3)
                _exit(1);
        while (flood.bytes < 3)
                uv_run(&loop, UV_RUN_ONCE);
        fd_close(&side_fd);
        while (!flood.ends)
                uv_run(&loop, UV_RUN_ONCE);
        CHECK(flood.bytes == 3 && flood.stream.fd < 0, "a terminal ends when its other side is closed");
        end(&flood);
}

int main(void)
{
        uv_loop_init(&loop);
        stream_turns_open(&turns, &loop);
        test_pieces();
        test_turns();
        test_holding();
        test_draining();
        test_ends();
        test_registered_before();
        test_a_terminal();
        stream_turns_close(&turns);
        turn();
        CHECK(uv_loop_close(&loop) == 0, "no handle is left");
        return tap_done();
}
