/* The bytes of a peer, in turns of the server and of the client: nothing is leaked, and a connection of
 * the server that ended stays so. */
#include "base/err.h"
#include "base/fd.h"
#include "wire/client.h"
#include "wire/server.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct server server;

static int echo(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        (void)argument;
        if (server_is_cancelled(&server))
                return err_set(e, CLOCHE_E_CANCELLED, "cancelled");
        ret->result = json_incref((json_t *)(uintptr_t)params);
        return buf_append(&ret->attachments, "raw", 3);
}

static const struct server_method methods[] = {{"open", SERVER_OPENS, echo},
                                               {"echo", SERVER_AFTER, echo},
                                               {"early", SERVER_ALWAYS, echo},
                                               {NULL, SERVER_ALWAYS, NULL}};

static void be_server(const int ends[2])
{
        const struct server_options options = {.methods = methods,
                                               .request_bytes_max = 1 << 16,
                                               .reply_bytes_max = 1 << 20,
                                               .notify_bytes_max = 1 << 16};

        server_init(&server, ends[0], &options);
        for (int turns = 0; server_turn(&server) == 0; turns++) {
                char answers[4096];

                while (recv(ends[1], answers, sizeof(answers), MSG_DONTWAIT) > 0)
                        continue;
                if (turns > 1000)
                        abort();
        }
        if (server_turn(&server) == 0)
                abort();
        server_done(&server);
}

static int answered(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        int *count = data;

        ++*count;
        return m->kind == RPC_ERROR ? err_set(e, CLOCHE_E_PROTOCOL, "%zu bytes", f->attachments_size) : 0;
}

static ssize_t receive(void *data, char *to, size_t room)
{
        ssize_t n = recv(*(const int *)data, to, room < 100 ? room : 100, MSG_DONTWAIT);

        return n < 0 ? -errno : n;
}

/* Each of its requests is answered at most once. */
static void be_client(const int ends[2])
{
        struct wire_client client;
        struct rpc_message m;
        struct cloche_err e;
        struct frame f;
        int counts[4] = {0}, r = 0;

        wire_client_init(&client, ends[0], 1 << 16, 1 << 16);
        for (int i = 0; i < 4; i++)
                if (wire_client_request(&client, "echo", json_object(), NULL, answered, &counts[i], NULL, &e) < 0)
                        abort();
        wire_client_detach(&client, 4);
        while (r >= 0 && (r = wire_client_turn(&client, receive, (void *)(uintptr_t)&ends[0])) == 0)
                while ((r = wire_client_next(&client, &f, &m, &e)) > 0)
                        rpc_message_done(&m);
        for (int i = 0; i < 4; i++)
                if (counts[i] > (i < 3))
                        abort();
        wire_client_done(&client);
}

static void play(const uint8_t *data, size_t size, void (*be)(const int ends[2]))
{
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return;
        if (fd_write_full(ends[1], data, size) < 0)
                abort();
        shutdown(ends[1], SHUT_WR);
        be(ends);
        close(ends[0]);
        close(ends[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size > 1 << 16)
                return 0;
        play(data, size, be_server);
        play(data, size, be_client);
        return 0;
}
