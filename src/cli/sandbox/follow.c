/* The loop of one request: events, input, signals, output. Runs in: the CLI, as its user. */
#include "follow.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "cli/output/print.h"
#include "cli/output/progress.h"
#include "cli/output/signals.h"
#include "sandbox-options.h"
#include "wire/json.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define INPUT_PIECE_BYTES 65536
#define HOLD_BYTES (1u << 20)  /* above this the daemon is asked to hold events */
#define GO_BYTES (256u << 10)  /* below this it may continue */
#define READ_BYTES (64u << 20) /* above this no more is read, whatever the daemon sends */
#define LEAVE_KEY 0x1d         /* Ctrl-] */
#define KILL_GRACE_MS 1000
#define CANCEL_PATIENCE_NS 10000000000u
#define END_PATIENCE_NS UINT64_C(5000000000) /* from the end of the input to a kill */

/* -- further requests ----------------------------------------------------------------------------------------- */

static json_t *about_process(const struct follow *f)
{
        return json_pack("{s:s, s:s}", "sandbox", f->sandbox, "process", f->process);
}

static int send_size(struct follow *f, struct cloche_err *e)
{
        json_t *params = about_process(f);
        unsigned cols, rows;
        json_int_t id;

        terminal_size(&cols, &rows);
        json_object_set_new(params, "cols", json_integer(cols));
        json_object_set_new(params, "rows", json_integer(rows));
        return daemon_request(f->client, "process.resize", params, NULL, 0, &id, e);
}

static int send_input(struct follow *f, const char *data, size_t size, int end, struct cloche_err *e)
{
        json_t *params = about_process(f);

        if (size)
                json_object_set_new(params, "data", json_attachment(0, size));
        if (end)
                json_object_set_new(params, "end", json_true());
        return daemon_request(f->client, "process.input", params, data, size, &f->input_id, e);
}

/* Kill the process, or cancel another kind of request. */
static int stop(struct follow *f, struct cloche_err *e)
{
        json_t *params = f->process ? about_process(f) : json_pack("{s:I}", "id", f->id);
        json_int_t id;

        f->ends_input = 0;
        f->input_is_over = 1;
        f->deadline_ns = clock_now_ns() + CANCEL_PATIENCE_NS;
        if (f->process)
                json_object_set_new(params, "graceMs", json_integer(KILL_GRACE_MS));
        return daemon_request(f->client, f->process ? "process.kill" : "cancel", params, NULL, 0, &id, e);
}

/* The other side of our input has gone, or will. */
static void expect_end(struct follow *f)
{
        if (!f->deadline_ns)
                f->deadline_ns = clock_now_ns() + END_PATIENCE_NS;
        f->cancels += !f->cancels;
}

static int end_input(struct follow *f, struct cloche_err *e)
{
        expect_end(f);
        if (f->input_is_over)
                return 0;
        f->input_is_over = 1;
        return send_input(f, NULL, 0, 1, e);
}

static int cancel(struct follow *f, struct cloche_err *e)
{
        if (f->ends_input)
                return end_input(f, e);
        if (!f->cancels++)
                return stop(f, e);
        return err_set(e, CLOCHE_E_CANCELLED, "stopped waiting: the started process may still run");
}

static int interrupt(struct follow *f, struct cloche_err *e)
{
        json_int_t id;

        return daemon_request(f->client, "context.interrupt",
                              json_pack("{s:s, s:s}", "sandbox", f->sandbox, "context", f->context), NULL, 0, &id, e);
}

static int on_signal(struct follow *f, struct cloche_err *e)
{
        struct signalfd_siginfo info;

        if (read(f->signal_fd, &info, sizeof(info)) != sizeof(info))
                return 0;
        if (info.ssi_signo == SIGWINCH)
                return f->terminal ? send_size(f, e) : 0;
        if (info.ssi_signo == SIGINT && f->context && f->has_begun && !f->is_over && !f->interrupts++)
                return interrupt(f, e);
        f->code = f->code ? f->code : FOLLOW_CANCELLED;
        f->ended_by = (int)info.ssi_signo;
        signals_note(f->ended_by);
        if (f->is_over)
                output_queue_done(&f->out);
        return f->is_over ? 0 : cancel(f, e);
}

/* -- input ---------------------------------------------------------------------------------------------------- */

static int read_input(struct follow *f, struct cloche_err *e)
{
        char data[INPUT_PIECE_BYTES];
        ssize_t n = read(STDIN_FILENO, data, sizeof(data));
        const char *leave;

        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return 0;
        if (n <= 0 && f->ends_input)
                return end_input(f, e);
        if (n <= 0) {
                f->input_is_over = 1;
                return send_input(f, NULL, 0, 1, e);
        }
        leave = f->terminal ? memchr(data, LEAVE_KEY, (size_t)n) : NULL;
        if (leave) {
                f->is_leaving = f->input_is_over = 1;
                n = leave - data;
        }
        return n ? send_input(f, data, (size_t)n, 0, e) : 0;
}

/* -- output --------------------------------------------------------------------------------------------------- */

/* Queue bytes without those that could control a terminal. */
static int keep_plain(struct follow *f, const void *data, size_t size)
{
        char *text = NULL;
        size_t text_size;
        FILE *out = open_memstream(&text, &text_size);
        int r;

        if (!out)
                return -ENOMEM;
        print_bytes(out, data, size, PRINT_TEXT);
        r = fclose(out) == 0 ? output_queue_put(&f->out, STDERR_FILENO, text, text_size) : -ENOMEM;
        free(text);
        return r;
}

static int keep_output(struct follow *f, const struct daemon_message *message, struct cloche_err *e)
{
        const char *stream = json_string_value(json_object_get(message->body, "stream"));
        int is_error = f->all_is_error || (stream && strcmp(stream, "stderr") == 0);
        const void *data;
        size_t size;
        int r = daemon_bytes(message, json_object_get(message->body, "data"), "output", &data, &size, e);

        if (r < 0)
                return r;
        r = is_error && f->is_error_plain
                    ? keep_plain(f, data, size)
                    : output_queue_put(&f->out, is_error ? STDERR_FILENO : STDOUT_FILENO, data, size);
        return r < 0 ? err_os(e, CLOCHE_E_RESOURCE, -r, "hold output") : 0;
}

/* The daemon disconnects slow readers, so it is asked to hold events first. */
static int hold(struct follow *f, struct cloche_err *e)
{
        int hold = f->out.waiting_bytes > (f->is_held ? GO_BYTES : HOLD_BYTES);
        json_int_t id;

        if (hold == f->is_held)
                return 0;
        f->is_held = hold;
        return daemon_request(f->client, "hold", json_pack("{s:I, s:b}", "id", f->id, "hold", hold), NULL, 0, &id, e);
}

static int write_output(struct follow *f, struct cloche_err *e)
{
        /* The descriptor is polled for errors only, so the reader has gone. */
        int r = output_queue_fd(&f->out) >= 0 ? output_queue_write(&f->out) : -EPIPE;

        if (r == 0)
                return 0;
        if (r != -EPIPE)
                cli_bad("cannot write output: %s", strerror(-r));
        f->code = r == -EPIPE ? FOLLOW_UNREAD : 1;
        return f->cancels ? 0 : cancel(f, e);
}

/* -- messages of the daemon ----------------------------------------------------------------------------------- */

static int take_event(struct follow *f, const struct daemon_message *message, struct cloche_err *e)
{
        if (message->id != f->id)
                return 0;
        if (strcmp(message->event, "output") == 0 && !f->takes_output)
                return keep_output(f, message, e);
        if (!f->has_begun && strcmp(message->event, "begin") == 0) {
                f->has_begun = 1;
                progress_end();
        }
        if (f->questions && strcmp(message->event, "input") == 0)
                return questions_take(f->questions, message->body, &f->out, f->client, e);
        if (f->on_event && !f->cancels) {
                int code = f->on_event(f->data, message);

                if (code) {
                        f->code = code;
                        return cancel(f, e);
                }
        }
        return 0;
}

static int take_answer(struct follow *f, const struct daemon_message *message, struct cloche_err *e)
{
        f->is_over = 1;
        if (message->kind == DAEMON_ANSWER)
                return daemon_text_form(message, &f->result, e);
        /* A cancelled request is answered with an error. */
        if (f->cancels)
                return 0;
        *e = message->e;
        return -e->code;
}

static int take(struct follow *f, const struct daemon_message *message, struct cloche_err *e)
{
        if (message->kind == DAEMON_EVENT)
                return take_event(f, message, e);
        if (message->id == f->id)
                return take_answer(f, message, e);
        if (message->id == f->input_id) {
                f->input_id = 0;
                /* The process has exited or closed its input: the remaining input is not for it. */
                f->input_is_over |= message->kind == DAEMON_FAILURE;
        }
        return 0;
}

static int take_all(struct follow *f, struct cloche_err *e)
{
        int r = 0;

        while (r == 0 && !f->is_over && f->out.waiting_bytes < READ_BYTES) {
                struct daemon_message message;

                r = daemon_next(f->client, &message, e);
                if (r <= 0)
                        return r;
                r = take(f, &message, e);
                daemon_message_done(&message);
        }
        return r;
}

/* -- the loop ------------------------------------------------------------------------------------------------- */

static int wait_ms(const struct follow *f)
{
        uint64_t now = clock_now_ns();

        if (!f->deadline_ns)
                return -1;
        return f->deadline_ns > now ? (int)((f->deadline_ns - now) / 1000000) + 1 : 0;
}

static short daemon_events(const struct follow *f)
{
        short wanted = daemon_poll_events(f->client);

        if (f->is_over)
                return 0;
        return f->out.waiting_bytes < READ_BYTES ? wanted : wanted & POLLOUT;
}

enum { SIGNALS, DAEMON, INPUT, OUTPUT, POLLED };

static int turn(struct follow *f, struct cloche_err *e)
{
        int has_questions = f->questions && questions_are_open(f->questions) && !f->is_over;
        int wants_input = has_questions || (f->passes_input && !f->input_is_over && !f->input_id && !f->is_over);
        int awaits_end = f->ends_input && !f->cancels && !f->is_over; /* while the process reads no more */
        int has_output = output_queue_fd(&f->out) >= 0;
        short events = daemon_events(f);
        struct pollfd polled[POLLED] = {
                [SIGNALS] = {.fd = f->signal_fd, .events = POLLIN},
                [DAEMON] = {.fd = events ? f->client->fd : -1, .events = events},
                [INPUT] = {.fd = wants_input || awaits_end ? STDIN_FILENO : -1, .events = wants_input ? POLLIN : 0},
                [OUTPUT] = {.fd = has_output                      ? output_queue_fd(&f->out)
                                  : f->ends_unread && !f->cancels ? STDOUT_FILENO
                                                                  : -1,
                            .events = has_output ? POLLOUT : 0},
        };
        int n = poll(polled, POLLED, wait_ms(f)), r = 0;

        if (n < 0)
                return errno == EINTR ? 0 : err_os(e, CLOCHE_E_RESOURCE, errno, "wait");
        if (n == 0 && f->ends_input)
                return stop(f, e);
        if (n == 0)
                return err_set(e, CLOCHE_E_CANCELLED,
                               "the daemon did not confirm the end of the command in time: it may still run");
        if (polled[SIGNALS].revents)
                r = on_signal(f, e);
        if (r == 0 && polled[OUTPUT].revents)
                r = write_output(f, e);
        if (r == 0 && polled[INPUT].revents && !wants_input)
                expect_end(f);
        else if (r == 0 && polled[INPUT].revents)
                r = has_questions ? questions_read(f->questions, &f->out, f->client, e) : read_input(f, e);
        if (r == 0 && polled[DAEMON].revents)
                r = daemon_move(f->client, polled[DAEMON].revents, e);
        return r == 0 && !f->is_over ? hold(f, e) : r;
}

/* Run until the request is answered and all its output is written. */
static int loop(struct follow *f, struct cloche_err *e)
{
        int r = 0;

        while (r == 0) {
                r = take_all(f, e);
                if (r == 0 && f->is_over && output_queue_fd(&f->out) < 0)
                        return 0;
                if (r == 0 && f->is_leaving && !f->input_id && wire_transport_unsent(&f->client->client.transport) == 0)
                        return 0;
                if (r == 0)
                        r = turn(f, e);
        }
        return r;
}

static int open_signals(sigset_t *before, struct cloche_err *e)
{
        int fd = signals_open();

        if (fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -fd, "receive signals");
        signals_block(before);
        signal(SIGPIPE, SIG_IGN);
        return fd;
}

int follow_run(struct follow *f, json_int_t id, json_t **ret)
{
        _cleanup_fd_ int signal_fd = -EBADF;
        struct cloche_err e = {0};
        sigset_t before;
        int r;

        *ret = NULL;
        signal_fd = open_signals(&before, &e);
        if (signal_fd < 0)
                return sandbox_fail(&e);
        f->id = id;
        if (f->waits_for)
                progress_start(f->waits_for);
        f->signal_fd = signal_fd;
        output_queue_init(&f->out);
        r = loop(f, &e);
        progress_end();
        if (f->questions)
                questions_drop(f->questions);
        output_queue_done(&f->out);
        *ret = f->result;
        sigprocmask(SIG_SETMASK, &before, NULL);
        if (r == 0)
                return f->code;
        if (f->terminal)
                terminal_restore(f->terminal);
        r = f->is_quiet ? 1 : sandbox_fail(&e);
        return f->code ? f->code : r;
}

int follow_request(struct follow *f, const char *method, json_t *params, json_t **ret)
{
        struct cloche_err e = {0};
        json_int_t id;

        *ret = NULL;
        if (daemon_request(f->client, method, params, NULL, 0, &id, &e) < 0)
                return sandbox_fail(&e);
        return follow_run(f, id, ret);
}
