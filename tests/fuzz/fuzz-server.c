/* The bytes of a client, in turns of the server: nothing is leaked, and a connection that ended stays so. */
#include "base/err.h"
#include "base/fd.h"
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const struct server_options options = {.methods = methods,
                                               .request_bytes_max = 1 << 16,
                                               .reply_bytes_max = 1 << 20,
                                               .notify_bytes_max = 1 << 16};
        int ends[2];

        if (size > 1 << 16 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return 0;
        server_init(&server, ends[0], &options);
        if (fd_write_full(ends[1], data, size) < 0)
                abort();
        shutdown(ends[1], SHUT_WR);
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
        close(ends[0]);
        close(ends[1]);
        return 0;
}
