/* A client on a socket pair, whose other end this test plays. */
#include "base/err.h"
#include "base/fd.h"
#include "tap.h"
#include "wire/client.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static struct wire_client client;
static int peer_fd;
static char seen[4096]; /* the answers, in order */

static void begin(size_t in_max, size_t out_max)
{
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                abort();
        wire_client_init(&client, ends[0], in_max, out_max);
        peer_fd = ends[1];
        seen[0] = '\0';
}

static void end(void)
{
        int fd = client.transport.socket_fd;

        wire_client_done(&client);
        fd_close(&fd);
        fd_close(&peer_fd);
}

static ssize_t receive(void *data, char *to, size_t room)
{
        ssize_t n = recv(client.transport.socket_fd, to, room, MSG_DONTWAIT);

        (void)data;
        return n < 0 ? -errno : n;
}

static int on_answer(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        size_t at = strlen(seen);

        (void)f;
        snprintf(seen + at, sizeof(seen) - at, "%s%s ", (const char *)data, m->kind == RPC_ERROR ? "!" : "");
        return json_is_false(m->result) ? err_set(e, CLOCHE_E_PROTOCOL, "this answer is invalid") : 0;
}

static int close_client(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        int fd = client.transport.socket_fd, r = on_answer(data, m, f, e);

        wire_client_done(&client);
        fd_close(&fd);
        return r;
}

static json_int_t request(const char *name, wire_answered answered)
{
        json_int_t id = 0;

        if (wire_client_request(&client, "do", json_object(), NULL, answered, (void *)(uintptr_t)name, &id, NULL) < 0)
                abort();
        return id;
}

/* result NULL: an error. */
static void reply(json_int_t id, json_t *result)
{
        const struct cloche_err e = {.code = CLOCHE_E_STATE, .msg = "not now"};
        _cleanup_buf_ struct buf out = BUF_INIT(1 << 20);
        json_t *number = json_integer(id);
        int r = result ? rpc_result(json_incref(number), result, "raw", 3, &out, NULL)
                       : rpc_failure(number, RPC_ERROR_NUMBER, &e, &out);

        json_decref(number);
        if (r < 0 || fd_write_full(peer_fd, out.data, out.size) < 0)
                abort();
}

/* One turn, and all messages that answer no request, which are counted; or the error. */
static int turn(struct cloche_err *e)
{
        int r = wire_client_turn(&client, receive, NULL), others = 0;
        struct rpc_message m;
        struct frame f;

        if (r < 0)
                return r;
        while ((r = wire_client_next(&client, &f, &m, e)) > 0) {
                rpc_message_done(&m);
                others++;
        }
        return r < 0 ? r : others;
}

/* -- tests ------------------------------------------------------------------------------------------------------ */

static void test_answers_in_any_order(void)
{
        struct cloche_err e = {0};
        json_int_t a, b, c;

        begin(1 << 16, 1 << 16);
        a = request("a", on_answer);
        b = request("b", on_answer);
        c = request("c", on_answer);
        CHECK(a != b && b != c && wire_client_events(&client) == (POLLIN | POLLOUT), "ids differ, and frames wait");
        CHECK(turn(&e) == 0 && wire_client_events(&client) == POLLIN, "a turn sends them");
        reply(c, json_true());
        reply(a, NULL);
        reply(b, json_true());
        CHECK(turn(&e) == 0 && strcmp(seen, "c a! b ") == 0, "each callback gets its answer: %s", seen);
        reply(b, json_true());
        CHECK(turn(&e) == 1 && strcmp(seen, "c a! b ") == 0, "a second answer is for no request");
        reply(99, json_true());
        CHECK(turn(&e) == 1, "nor is one with another id");
        end();
}

static void test_requests_that_are_detached(void)
{
        struct cloche_err e = {0};
        json_int_t a, b;

        begin(1 << 16, 1 << 16);
        a = request("a", on_answer);
        b = request("b", on_answer);
        wire_client_detach(&client, a);
        wire_client_detach(&client, 1234);
        reply(a, json_true());
        reply(b, json_true());
        CHECK(turn(&e) == 1 && strcmp(seen, "b ") == 0, "its answer is returned instead: %s", seen);
        reply(request("none", NULL), json_true());
        CHECK(turn(&e) == 1, "so is that of a request without a callback");
        request("left", on_answer);
        end();
}

static void test_a_callback_that_closes(void)
{
        struct cloche_err e = {0};
        json_int_t a, b;

        begin(1 << 16, 1 << 16);
        a = request("a", close_client);
        b = request("b", on_answer);
        reply(a, json_true());
        reply(b, json_true());
        CHECK(turn(&e) == 0 && strcmp(seen, "a ") == 0, "nothing more is delivered: %s", seen);
        end();
}

static void test_invalid_messages(void)
{
        struct cloche_err e = {0};

        begin(1 << 16, 1 << 16);
        reply(request("a", on_answer), json_false());
        CHECK(turn(&e) == -CLOCHE_E_PROTOCOL && strcmp(e.msg, "this answer is invalid") == 0, "the callback decides");
        end();
        begin(1 << 10, 1 << 16);
        CHECK(fd_write_full(peer_fd, "\x05\0\0\0\x05\0\0\0[[[[[", 13) == 0 && turn(&e) == -CLOCHE_E_PROTOCOL,
              "a frame without a message");
        end();
        begin(1 << 10, 1 << 16);
        CHECK(fd_write_full(peer_fd, "\x01\x04\0\0\0\0\0\0", 8) == 0 && turn(&e) == -CLOCHE_E_TOO_LARGE,
              "a frame over the bound");
        end();
}

static void test_bounds_of_what_is_sent(void)
{
        const struct buf large = {.data = seen, .size = sizeof(seen)};
        struct cloche_err e = {0};
        int sent = 0;

        begin(1 << 16, 1 << 14);
        while (sent < 100 && wire_client_request(&client, "do", json_object(), &large, on_answer, seen, NULL, &e) == 0)
                sent++;
        CHECK(sent == 3 && e.code == CLOCHE_E_TOO_LARGE, "the queue is bounded: %d", sent);
        CHECK(turn(&e) == 0 &&
                      wire_client_request(&client, "do", json_object(), &large, on_answer, seen, NULL, &e) == 0,
              "it has room again once it was sent");
        CHECK(wire_client_request(&client, "do", NULL, NULL, on_answer, seen, NULL, &e) < 0, "without memory none is");
        end();
}

static void test_descriptors(void)
{
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), received_fd = -EBADF;
        struct wire_transport *t = &client.transport;
        struct cloche_err e = {0};
        char text[4096];
        size_t count = 1, before;

        begin(1 << 16, 1 << 16);
        request("before", on_answer);
        before = wire_transport_unsent(t);
        CHECK(wire_transport_attach(t, wire_transport_out(t)->size, dup(fd)) == 0, "a frame takes a descriptor");
        CHECK(wire_transport_attach(t, wire_transport_out(t)->size, dup(fd)) == -EBUSY, "one");
        wire_transport_detach(t);
        CHECK(wire_transport_attach(t, wire_transport_out(t)->size, dup(fd)) == 0, "unless it was detached");
        request("with", on_answer);
        wire_transport_detach(t);
        CHECK(turn(&e) == 0 && t->leaving_count == 0, "it is sent");
        CHECK(fd_receive(peer_fd, text, before, &received_fd, &count, 0) == (ssize_t)before && count == 0,
              "not with the frame before");
        count = 1;
        CHECK(fd_receive(peer_fd, text, sizeof(text), &received_fd, &count, 0) > 0 && count == 1, "but with its own");
        fd_close(&received_fd);
        end();
        fd_close(&fd);
}

static void test_the_end(void)
{
        struct cloche_err e = {0};

        begin(1 << 16, 1 << 16);
        reply(request("a", on_answer), json_true());
        fd_close(&peer_fd);
        CHECK(turn(&e) == 0 && strcmp(seen, "a ") == 0, "an answer that came before the end is read");
        CHECK(turn(&e) == -EPIPE, "then the end is reported");
        end();
}

int main(void)
{
        test_answers_in_any_order();
        test_requests_that_are_detached();
        test_a_callback_that_closes();
        test_invalid_messages();
        test_bounds_of_what_is_sent();
        test_descriptors();
        test_the_end();
        return tap_done();
}
