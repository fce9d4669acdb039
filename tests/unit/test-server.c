/* A server of three methods on a socket pair, and its client. */
#include "base/err.h"
#include "base/fd.h"
#include "tap.h"
#include "wire/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct server server;
static struct frame_reader answers;
static int client_fd, received_fd;
static char last_reply[4096];

/* -- the server's methods --------------------------------------------------------------------------------------- */

static int do_open(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        (void)argument;
        if (json_is_true(json_object_get(params, "long")))
                (void)server_is_cancelled(&server);
        if (json_is_true(json_object_get(params, "fail")))
                return err_set(e, CLOCHE_E_MOUNT, "the door is stuck");
        ret->result = json_string("open");
        return 0;
}

static int do_echo(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        (void)argument;
        (void)e;
        ret->result = json_incref((json_t *)(uintptr_t)params);
        return buf_append(&ret->attachments, "raw", 3);
}

/* Send the descriptor back that came with the request. */
static int do_swap(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        (void)argument;
        (void)params;
        ret->fd = server_take_fd(&server);
        return ret->fd < 0 ? err_set(e, CLOCHE_E_INVALID_ARGUMENT, "no descriptor came") : 0;
}

static int do_work(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        (void)argument;
        (void)params;
        (void)ret;
        return server_is_cancelled(&server) ? err_set(e, CLOCHE_E_CANCELLED, "cancelled") : 0;
}

/* "later" is replied to by test_replies_that_come_later, "note" to nobody. */
static json_t *later_id;
static int notes;

static int do_others(void *argument, const struct rpc_message *m, const struct frame *f, struct server_reply *ret,
                     struct cloche_err *e)
{
        (void)argument;
        (void)ret;
        notes += m->kind == RPC_NOTIFICATION;
        if (strcmp(m->method, "later") == 0) {
                later_id = json_incref(m->id);
                return SERVER_LATER;
        }
        if (strcmp(m->method, "refuse") == 0)
                return err_set(e, CLOCHE_E_STATE, "%zu bytes \xff", f->attachments_size);
        return SERVER_UNKNOWN;
}

static const struct server_method methods[] = {
        {"early", SERVER_ALWAYS, do_echo}, {"open", SERVER_OPENS, do_open}, {"echo", SERVER_AFTER, do_echo},
        {"swap", SERVER_AFTER, do_swap},   {"work", SERVER_AFTER, do_work}, {NULL, SERVER_ALWAYS, NULL},
};

/* -- the client ------------------------------------------------------------------------------------------------- */

static void begin_with(const struct server_method *table,
                       int (*others)(void *argument, const struct rpc_message *m, const struct frame *f,
                                     struct server_reply *ret, struct cloche_err *e))
{
        const struct server_options options = {.methods = table,
                                               .handle = others,
                                               .request_bytes_max = 1 << 16,
                                               .reply_bytes_max = 64 << 20,
                                               .notify_bytes_max = 1 << 16};
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                abort();
        fcntl(ends[1], F_SETFL, O_NONBLOCK);
        server_init(&server, ends[0], &options);
        client_fd = ends[1];
        received_fd = -EBADF;
        frame_reader_init(&answers, FRAME_BYTES_MAX);
}

static void begin(void)
{
        begin_with(methods, NULL);
}

static void end(void)
{
        int fd = server.transport.socket_fd;

        server_done(&server);
        fd_close(&fd);
        fd_close(&client_fd);
        fd_close(&received_fd);
        frame_reader_done(&answers);
}

static void request_with(int id, const char *method, json_t *params, int fd)
{
        _cleanup_buf_ struct buf out = BUF_INIT(1 << 20);

        if (rpc_request(json_integer(id), method, params, NULL, 0, &out, NULL) < 0 ||
            fd_send(client_fd, out.data, out.size, &fd, fd >= 0) < 0)
                abort();
}

static void request(int id, const char *method, json_t *params)
{
        request_with(id, method, params, -1);
}

/* The next message as "ID RESULT" or "ID !ERROR" or "METHOD", "" when none has come. */
static const char *reply(void)
{
        char *text = NULL;
        struct frame frame;
        struct rpc_message m;
        size_t room, fds = 1;
        char *at = frame_reader_room(&answers, &room);
        int fd = -1;
        ssize_t n = fd_receive(client_fd, at, room, &fd, &fds, 0);

        if (n > 0)
                frame_reader_filled(&answers, (size_t)n);
        if (n > 0 && fds)
                received_fd = fd;
        last_reply[0] = '\0';
        if (frame_reader_next(&answers, &frame, NULL) <= 0 || rpc_parse(&frame, &m, NULL) < 0)
                return last_reply;
        if (m.kind == RPC_RESULT)
                text = json_dumps(m.result, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
        snprintf(last_reply, sizeof(last_reply),
                 m.kind == RPC_NOTIFICATION ? "%.0lld%s"
                 : m.kind == RPC_ERROR      ? "%lld !%s"
                                            : "%lld %s",
                 m.id ? json_integer_value(m.id) : 0,
                 m.kind == RPC_NOTIFICATION ? m.method
                 : m.kind == RPC_ERROR      ? m.error_message
                                            : text);
        free(text);
        rpc_message_done(&m);
        return last_reply;
}

static const char *asked(int id, const char *method, json_t *params)
{
        request(id, method, params);
        return server_turn(&server) < 0 ? "(end)" : reply();
}

#define SAYS(expected, id, method, params) \
        CHECK(strcmp(asked(id, method, params), expected) == 0, "%s: %s", method, last_reply)

/* -- tests ------------------------------------------------------------------------------------------------------ */

static void test_order(void)
{
        begin();
        SAYS("1 !echo: open comes first", 1, "echo", json_object());
        SAYS("2 {\"a\":1}", 2, "early", json_pack("{s:i}", "a", 1));
        SAYS("3 \"open\"", 3, "open", json_object());
        SAYS("4 !open: the request may be sent once only", 4, "open", json_object());
        SAYS("5 {}", 5, "echo", json_object());
        SAYS("6 !there is no method 'other'", 6, "other", json_object());
        SAYS("7 {\"cancelled\":false}", 7, "cancel", json_object());
        end();
}

static void test_an_opening_that_fails(void)
{
        begin();
        request(1, "open", json_pack("{s:b}", "fail", 1));
        request(2, "early", json_object());
        CHECK(server_turn(&server) < 0, "the connection ends");
        CHECK(strcmp(reply(), "1 !the door is stuck") == 0, "after its reply: %s", last_reply);
        CHECK(strcmp(reply(), "") == 0, "and handles nothing more");
        end();
}

static void test_cancel(void)
{
        begin();
        asked(1, "open", json_object());
        SAYS("2 {}", 2, "work", json_object());
        request(3, "work", json_object());
        request(4, "echo", json_object());
        request(5, "cancel", json_object());
        CHECK(server_turn(&server) == 0 &&
                      strcmp(reply(), "4 !echo: another request is at work: wait for its reply, or cancel it") == 0,
              "%s", last_reply);
        CHECK(strcmp(reply(), "5 {\"cancelled\":true}") == 0, "%s", last_reply);
        CHECK(strcmp(reply(), "3 !cancelled") == 0, "%s", last_reply);
        SAYS("6 {}", 6, "work", json_object());
        request(7, "work", json_object());
        shutdown(client_fd, SHUT_WR);
        CHECK(server_turn(&server) < 0 && server.state == SERVER_CLOSED, "a client that has gone cancels, too");
        end();
        begin();
        request(1, "open", json_pack("{s:b, s:b}", "long", 1, "fail", 1));
        shutdown(client_fd, SHUT_WR);
        CHECK(server_turn(&server) < 0 && server.state == SERVER_CLOSED, "and ends an opening that is at work");
        CHECK(server_is_cancelled(&server) && server_turn(&server) < 0, "for good");
        end();
}

static void test_descriptors(void)
{
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        begin();
        asked(1, "open", json_object());
        SAYS("2 !no descriptor came", 2, "swap", json_object());
        request_with(3, "swap", json_object(), fd);
        request(4, "echo", json_object());
        CHECK(server_turn(&server) == 0 && strcmp(reply(), "3 {}") == 0 && received_fd >= 0,
              "a descriptor there and back: %s", last_reply);
        CHECK(server_turn(&server) == 0 && strcmp(reply(), "4 {}") == 0, "the next reply has none: %s", last_reply);
        for (int i = 0; i <= SERVER_FDS_MAX; i++)
                request_with(5 + i, "echo", json_object(), fd);
        CHECK(server_turn(&server) < 0 || server_turn(&server) < 0 || server_turn(&server) < 0 ||
                      server_turn(&server) < 0 || server_turn(&server) < 0,
              "descriptors that nobody takes are bounded");
        end();
        fd_close(&fd);
}

static void test_a_client_that_does_not_read(void)
{
        int sent = 0, read = 0;

        begin();
        asked(1, "open", json_object());
        while (sent < 100000 &&
               server_notify(&server, "event",
                             json_pack("{s:s}", "text", "some hundred bytes of text that nobody reads for now")) == 0)
                sent++;
        CHECK(sent > 0 && sent < 100000, "notifications are dropped: after %d", sent);
        CHECK(server_events(&server) & POLLOUT, "there is something to send");
        while (server_turn(&server) == 0 && reply()[0])
                read++;
        CHECK(read == sent, "those that were not dropped come: %d", read);
        CHECK(server_events(&server) == POLLIN, "then only requests are waited for");
        end();
}

static int do_large(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        static char bytes[3 << 20];

        (void)argument;
        (void)params;
        (void)e;
        notes++;
        return buf_append(&ret->attachments, bytes, sizeof(bytes));
}

/* Requests that arrived together wait until the replies before theirs were read. */
static void test_large_replies(void)
{
        static const struct server_method table[] = {{"large", SERVER_ALWAYS, do_large}, {NULL, SERVER_ALWAYS, NULL}};
        int read = 0;

        notes = 0;
        begin_with(table, NULL);
        for (int i = 0; i < 20; i++)
                request(i, "large", json_object());
        CHECK(server_turn(&server) == 0 && notes == 1, "one reply is made");
        CHECK(server_events(&server) == POLLOUT, "nothing more is read");
        for (int i = 0; i < 10000 && read < 20 && server_turn(&server) == 0; i++)
                read += reply()[0] != '\0';
        CHECK(notes == 20 && read == 20, "then one after the other: %d %d", notes, read);
        notes = 0;
        end();
}

/* PAUSES: the next send finds the socket full. READS_ALL: the client reads as fast as the server sends. */
static enum { CLIENT_IS_REAL, CLIENT_PAUSES, CLIENT_READS_ALL } client_mode;

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
        if (client_mode == CLIENT_IS_REAL || fd != server.transport.socket_fd)
                return syscall(SYS_sendmsg, fd, msg, flags);
        if (client_mode == CLIENT_READS_ALL)
                return (ssize_t)msg->msg_iov[0].iov_len;
        client_mode = CLIENT_READS_ALL;
        errno = EAGAIN;
        return -1;
}

/* The first turn stops at the first reply, because the client has not read it. By the end of the turn
 * the client has, and sends nothing more. */
static void test_a_client_that_catches_up(void)
{
        static const struct server_method table[] = {{"large", SERVER_ALWAYS, do_large}, {NULL, SERVER_ALWAYS, NULL}};

        notes = 0;
        begin_with(table, NULL);
        request(1, "large", json_object());
        request(2, "large", json_object());
        client_mode = CLIENT_PAUSES;
        for (int i = 0; i < 10 && server_turn(&server) == 0; i++) {
                struct pollfd polled = {.fd = server.transport.socket_fd, .events = server_events(&server)};

                if (poll(&polled, 1, 0) <= 0)
                        break; /* server_run() would wait without end */
        }
        CHECK(notes == 2 && server_unsent(&server) == 0, "both requests are served: %d", notes);
        client_mode = CLIENT_IS_REAL;
        notes = 0;
        end();
}

static void test_replies_that_come_later(void)
{
        const struct cloche_err e = {.code = CLOCHE_E_STATE, .msg = "at last"};
        struct server_reply result = {.result = json_string("late"), .fd = -EBADF};
        static const char event[] = "{\"jsonrpc\":\"2.0\",\"method\":\"event\"}";
        const struct frame frame = {.json = event, .json_size = sizeof(event) - 1};

        begin_with(NULL, do_others);
        SAYS("", 1, "later", json_object());
        SAYS("2 !0 bytes \xef\xbf\xbd", 2, "refuse", json_object());
        SAYS("3 !there is no method 'other'", 3, "other", json_object());
        SAYS("4 !there is no method 'cancel'", 4, "cancel", json_object());
        CHECK(server_unsent(&server) == 0 && server_reply(&server, later_id, &result) == 0 &&
                      server_unsent(&server) > 0,
              "a reply is queued");
        CHECK(server_turn(&server) == 0 && strcmp(reply(), "1 \"late\"") == 0, "%s", last_reply);
        CHECK(server_fail(&server, later_id, &e) == 0 && server_forward(&server, &frame) == 0, "so is an error");
        CHECK(server_turn(&server) == 0 && strcmp(reply(), "1 !at last") == 0, "%s", last_reply);
        CHECK(strcmp(reply(), "event") == 0, "and a frame from elsewhere: %s", last_reply);
        CHECK(fd_write_full(client_fd, "\x21\0\0\0\x1d\0\0\0{\"jsonrpc\":\"2.0\",\"method\":\"\"}", 37) == 0 &&
                      server_turn(&server) == 0 && strcmp(reply(), "") == 0 && notes == 1,
              "a notification is handled, and nothing is replied");
        end();
        json_decref(later_id);
        json_decref(result.result);
}

static void test_garbage(void)
{
        begin();
        CHECK(fd_write_full(client_fd, "\x05\0\0\0\x05\0\0\0[[[[[", 13) == 0 && server_turn(&server) < 0,
              "a frame without a message ends the connection");
        CHECK(reply()[0] == '0' && strcmp(last_reply + 2, "!") > 0 && server.error.code == CLOCHE_E_PROTOCOL,
              "after an error that names the reason: %s", last_reply);
        end();
        begin();
        CHECK(fd_write_full(client_fd, "\xff\xff\xff\x7f\0\0\0\0", 8) == 0 && server_turn(&server) < 0,
              "so does one over the bound");
        end();
}

int main(void)
{
        test_order();
        test_an_opening_that_fails();
        test_cancel();
        test_descriptors();
        test_a_client_that_does_not_read();
        test_large_replies();
        test_a_client_that_catches_up();
        test_replies_that_come_later();
        test_garbage();
        return tap_done();
}
