/* A run's standard streams: captured, or relayed to the caller's descriptors. The guest never
 * holds those, for it could reopen them through /proc/self/fd with other rights. Buffers are
 * bounded: the guest is not read while the caller does not read. Runs in: the engine, on its
 * loop. */
#include "base/err.h"
#include "base/fd.h"
#include "engine/loop/engine.h"
#include "engine/loop/watch.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#define READ_SIZE 65536
#define TERMINAL_PATIENCE_MS 100
#define TERMINAL_DRAIN_MAX (16u << 20) /* bytes of an ended program; a terminal holds far less */

static void close_watch(struct watch **watch)
{
        watch_close(*watch);
        *watch = NULL;
}

/* A watch makes the descriptor nonblocking, but the caller's open files must stay unchanged. */
static int watch_unchanged(struct cloche_run *run, int fd, struct watch **ret)
{
        int flags = fcntl(fd, F_GETFL), r = watch_new(&run->engine->loop, fd, ret);

        if (flags >= 0)
                fcntl(fd, F_SETFL, flags);
        return r;
}

static int is_ready(int fd, short events, int timeout_ms)
{
        struct pollfd polled = {.fd = fd, .events = events};

        return poll(&polled, 1, timeout_ms) > 0;
}

/* -- output --------------------------------------------------------------------------------------------------- */

/* The caller's descriptor failed. Close the guest's pipe, too: its next write fails with EPIPE, or
 * ends it by SIGPIPE, as if it held the caller's pipe. A full disk looks the same to the guest, so
 * the result gets a warning. */
static void lose_sink(struct run_stream *s, int error)
{
        char text[120];

        buf_consume(&s->pending, s->pending.size);
        stream_close(&s->output);
        close_watch(&s->sink_watch);
        fd_close(&s->sink_fd);
        if (error == EPIPE)
                return;
        snprintf(text, sizeof(text), "output was lost: cannot write to %s: %s",
                 s == &s->run->streams[0] ? "stdout" : "stderr", strerror(error));
        run_warn(s->run, text);
        s->run->is_output_lost = 1;
}

/* Write to the caller's descriptor, whose flags stay unchanged, for it may be shared. It may block,
 * but a pipe that polls writable takes PIPE_BUF bytes without blocking (pipe(7)). Returns 1 when
 * all is written. */
static int flush_pending(struct run_stream *s, int timeout_ms)
{
        while (s->pending.size > 0 && s->sink_fd >= 0) {
                size_t size = s->pending.size < PIPE_BUF ? s->pending.size : PIPE_BUF;
                ssize_t n;

                if (!is_ready(s->sink_fd, POLLOUT, timeout_ms))
                        return 0;
                n = fd_write_quietly(s->sink_fd, s->pending.data, size);
                if (n >= 0)
                        buf_consume(&s->pending, (size_t)n);
                else if (n != -EINTR && n != -EAGAIN)
                        lose_sink(s, (int)-n);
        }
        return 1;
}

/* With nothing to write, only the reader's close is of interest. */
static void watch_sink(struct run_stream *s)
{
        if (s->sink_watch)
                watch_set(s->sink_watch, s->pending.size > 0 ? UV_WRITABLE : UV_DISCONNECT);
}

/* libuv reports POLLERR, which a pipe without a reader has, as a status. The peer of a socket may
 * have shut down only its own writing: there the next write decides. */
static void on_sink(void *data, int status, int events)
{
        struct run_stream *s = data;

        (void)events;
        if (status < 0)
                lose_sink(s, EPIPE);
        else if (s->pending.size == 0)
                watch_set(s->sink_watch, 0);
        else if (flush_pending(s, 0)) {
                watch_sink(s);
                stream_hold(&s->output, 0);
        }
}

/* Deliver all output of a program that exited by itself, however slowly the caller reads. */
static void flush_last(struct run_stream *s)
{
        while (!flush_pending(s, 100) && s->run->end == RUN_END_NONE && !atomic_load(&s->run->cancelled))
                ;
}

static void relay(struct run_stream *s, const char *data, size_t size)
{
        uint64_t left = s->relay_bytes_max > s->kept.total ? s->relay_bytes_max - s->kept.total : 0;

        s->kept.total += size;
        (void)buf_append(&s->pending, data, size < left ? size : (size_t)left);
        if (run_has_ended(s->run))
                flush_last(s);
        else if (!flush_pending(s, 0) && s->sink_watch) {
                stream_hold(&s->output, 1);
                watch_sink(s);
        }
}

static void take(void *owner, const char *data, size_t size)
{
        struct run_stream *s = owner;
        struct cloche_run *run = s->run;

        if (!run->network.policy && (s == &run->streams[1] || run->has_terminal))
                network_words_add(&run->network.words, data, size);
        if (s->relayed) {
                relay(s, data, size);
                return;
        }
        if (run->on_output)
                run->on_output(run->data, run, s == &run->streams[0] ? 1 : 2, data, size);
        /* Without memory only output of the guest is lost, which the count shows. */
        if (output_append(&s->kept, data, size) < 0)
                s->kept.total += size;
}

/* The kernel delivers terminal output late. End of file follows it, unless a process still holds
 * the other side. */
static void drain_terminal(struct run_stream *s)
{
        uint64_t before, stop = s->kept.total + TERMINAL_DRAIN_MAX;

        do {
                before = s->kept.total;
                if (s->output.fd >= 0 && is_ready(s->output.fd, POLLIN, TERMINAL_PATIENCE_MS))
                        stream_drain(&s->output);
        } while (s->kept.total > before && s->kept.total < stop && s->pending.size == 0);
}

static void stop_output(struct run_stream *s)
{
        if (s->sink_watch)
                watch_set(s->sink_watch, 0);
        flush_last(s);
        if (s->pending.size > 0) /* the run was ended, and the caller does not read */
                return;
        stream_drain(&s->output);
        if (s->run->has_terminal)
                drain_terminal(s);
}

/* -- input ---------------------------------------------------------------------------------------------------- */

static void close_input(struct cloche_run *run)
{
        close_watch(&run->input.guest_watch);
        close_watch(&run->input.source_watch);
        fd_close(&run->input.guest_fd); /* the guest reads the end of file */
}

static void watch_input(struct cloche_run *run);

static void on_guest_writable(void *data, int status, int events)
{
        struct cloche_run *run = data;
        struct buf *pending = &run->input.pending;
        ssize_t n = 0;

        (void)status;
        (void)events;
        if (pending->size > 0)
                n = fd_write_quietly(run->input.guest_fd, pending->data, pending->size);
        if (n > 0)
                buf_consume(pending, (size_t)n);
        if (n < 0 && n != -EAGAIN && n != -EINTR) {
                close_input(run); /* the guest closed its stdin */
                return;
        }
        if (pending->size == 0) {
                watch_set(run->input.guest_watch, 0);
                watch_input(run);
        }
}

static void read_input(struct cloche_run *run)
{
        char data[READ_SIZE];
        ssize_t n = read(run->input.source_fd, data, sizeof(data));

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n <= 0 || buf_append(&run->input.pending, data, (size_t)n) < 0) {
                close_input(run);
                return;
        }
        if (run->input.source_watch)
                watch_set(run->input.source_watch, 0);
        watch_set(run->input.guest_watch, UV_WRITABLE);
}

static void on_source_readable(void *data, int status, int events)
{
        (void)status;
        (void)events;
        read_input(data);
}

/* A regular file cannot be polled (epoll fails with EPERM) and never blocks for long: it is read
 * whenever the guest accepts more. */
static void watch_input(struct cloche_run *run)
{
        if (run->input.source_watch)
                watch_set(run->input.source_watch, UV_READABLE);
        else
                read_input(run);
}

/* -- life ----------------------------------------------------------------------------------------------------- */

static int copy_fd(int fd, int *ret_fd, struct cloche_err *e)
{
        *ret_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        return *ret_fd < 0 ? err_os(e, CLOCHE_E_INVALID_ARGUMENT, errno, "take descriptor %d", fd) : 0;
}

static int take_output(struct cloche_run *run, int i, struct cloche_err *e)
{
        struct run_stream *s = &run->streams[i];

        if (s->sink_fd < 0)
                return 0;
        s->relayed = 1;
        s->pending = BUF_INIT(2 * READ_SIZE);
        return copy_fd(s->sink_fd, &s->sink_fd, e);
}

void streams_init(struct cloche_run *run)
{
        static const struct stream_owner calls = {.take = take};

        for (int i = 0; i < 2; i++) {
                struct run_stream *s = &run->streams[i];

                s->run = run;
                s->sink_fd = -EBADF;
                stream_init(&s->output, &calls, s, -EBADF);
                output_init(&s->kept, run->limits.output_bytes);
        }
        run->input.source_fd = run->input.guest_fd = -EBADF;
        run->input.pending = BUF_INIT(READ_SIZE);
}

int streams_keep(struct cloche_run *run, const struct cloche_run_options *opt, struct cloche_err *e)
{
        int r;

        if (!opt->stream_fds)
                return 0;
        for (int i = 0; i < 2; i++) {
                run->streams[i].sink_fd = i == 0 ? opt->stdout_fd : opt->stderr_fd;
                /* Relayed output is unlimited unless the caller set a limit. */
                run->streams[i].relay_bytes_max = opt->limits.output_bytes ? run->limits.output_bytes : UINT64_MAX;
        }
        r = take_output(run, 0, e);
        if (r < 0)
                run->streams[1].sink_fd = -EBADF; /* still the caller's */
        else
                r = take_output(run, 1, e);
        if (r == 0 && opt->stdin_fd >= 0)
                r = copy_fd(opt->stdin_fd, &run->input.source_fd, e);
        return r;
}

void streams_take(struct cloche_run *run, struct stdio *stdio)
{
        run->input.guest_fd = TAKE_FD(stdio->our_fds[0]);
        for (int i = 0; i < 2; i++) {
                run->streams[i].output.fd = TAKE_FD(stdio->our_fds[i + 1]);
                run->streams[i].output.watch = stdio->watches[i];
                stdio->watches[i] = NULL;
        }
        if (run->input.source_fd < 0)
                fd_close(&run->input.guest_fd);
}

int streams_take_terminal(struct cloche_run *run, int master_fd, struct cloche_err *e)
{
        run->streams[0].output.fd = master_fd;
        if (master_fd < 0)
                return err_set(e, CLOCHE_E_PROTOCOL, "the terminal of the script could not be opened");
        if (fcntl(master_fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "set up the terminal");
        /* Also without input: a program may close its terminal and go on, and would be sent SIGHUP
         * if the last copy were closed at that end of its output. */
        return copy_fd(master_fd, &run->input.guest_fd, e);
}

void stream_size(const struct cloche_run *run, uint32_t *ret_cols, uint32_t *ret_rows)
{
        uint32_t size = atomic_load(&run->terminal_size);

        *ret_cols = size >> 16;
        *ret_rows = size & UINT16_MAX;
}

void stream_resize(struct cloche_run *run)
{
        uint32_t cols, rows;
        struct winsize size = {0};

        stream_size(run, &cols, &rows);
        size.ws_col = (unsigned short)cols;
        size.ws_row = (unsigned short)rows;
        if (run->streams[0].output.fd >= 0)
                (void)ioctl(run->streams[0].output.fd, TIOCSWINSZ, &size);
}

static int start_output(struct run_stream *s, struct cloche_err *e)
{
        int r;

        if (s->output.fd < 0) /* a terminal has one stream */
                return 0;
        r = stream_start(&s->output, &s->run->engine->streams, e);
        if (r == 0 && s->relayed) {
                if (watch_unchanged(s->run, s->sink_fd, &s->sink_watch) == 0)
                        watch_on_event(s->sink_watch, on_sink, s);
                watch_sink(s);
        }
        return r;
}

void cloche_run_hold_output(cloche_run *run, int hold)
{
        for (int i = 0; i < 2; i++)
                if (!run_has_ended(run) && !run->streams[i].relayed)
                        stream_hold(&run->streams[i].output, hold);
}

int streams_start(struct cloche_run *run, struct cloche_err *e)
{
        int r = start_output(&run->streams[0], e);

        if (r == 0)
                r = start_output(&run->streams[1], e);
        if (r < 0 || run->input.source_fd < 0)
                return r;
        r = watch_unchanged(run, run->input.guest_fd, &run->input.guest_watch);
        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "watch the input of the program");
        watch_on_event(run->input.guest_watch, on_guest_writable, run);
        if (watch_unchanged(run, run->input.source_fd, &run->input.source_watch) == 0)
                watch_on_event(run->input.source_watch, on_source_readable, run);
        watch_input(run);
        return 0;
}

/* Most programs have printed nothing since the loop looked last: one poll(2) shows it for both
 * pipes. */
static int may_have_rest(const struct cloche_run *run)
{
        struct pollfd polled[2];

        for (int i = 0; i < 2; i++)
                polled[i] = (struct pollfd){.fd = run->streams[i].output.fd, .events = POLLIN};
        return run->has_terminal || run->streams[0].relayed || run->streams[1].relayed || poll(polled, 2, 0) != 0;
}

void streams_stop(struct cloche_run *run)
{
        if (run->input.guest_fd >= 0 && run->input.source_fd >= 0)
                close_input(run);
        for (int i = 0; i < 2; i++)
                stream_ignore(&run->streams[i].output);
        if (!may_have_rest(run))
                return;
        stop_output(&run->streams[0]);
        stop_output(&run->streams[1]);
}

void streams_unwatch(struct cloche_run *run)
{
        for (int i = 0; i < 2; i++)
                stream_unwatch(&run->streams[i].output);
}

void streams_close_relays(struct cloche_run *run)
{
        for (int i = 0; i < 2; i++)
                close_watch(&run->streams[i].sink_watch);
        close_watch(&run->input.guest_watch);
        close_watch(&run->input.source_watch);
}

void streams_done(struct cloche_run *run)
{
        for (int i = 0; i < 2; i++) {
                stream_close(&run->streams[i].output);
                fd_close(&run->streams[i].sink_fd);
                output_done(&run->streams[i].kept);
                buf_done(&run->streams[i].pending);
        }
        fd_close(&run->input.source_fd);
        fd_close(&run->input.guest_fd);
        buf_done(&run->input.pending);
}
