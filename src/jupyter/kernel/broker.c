/* Connections to daemons. Runs in: cloche-kernel's first process, as its user; it reads bytes of no
 * client and no guest. */
#include "broker.h"

#include "base/err.h"
#include "base/fd.h"
#include "cli/sandbox/daemon-locate.h"
#include "cli/sandbox/daemon-private.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct broker {
        const struct broker_options *options;
        struct daemon_private daemon; /* pid 0: none */
        int has_connected;
};

static const char *const private_options[] = {"--profile", "user", NULL};

/* One that has ended is waited for. */
static void stop_private(struct broker *b)
{
        struct daemon_client none = {.fd = -EBADF};

        if (b->daemon.pid > 0)
                daemon_private_stop(&b->daemon, &none);
}

static int connect_daemon(struct broker *b, struct daemon_client *ret, struct cloche_err *e)
{
        const struct broker_options *o = b->options;
        char path[DAEMON_SOCKET_BYTES];
        int r = daemon_locate(o->socket, o->starts ? LOCATE_THEN_START : LOCATE_ONLY, path, e);

        if (r < 0)
                return e->code ? r : err_set(e, CLOCHE_E_KEEPER, "the daemon did not start: it printed the reason");
        if (r > 0)
                return daemon_open(path, 0, ret, e);
        stop_private(b);
        return daemon_private_start(private_options, &b->daemon, ret, e);
}

static void answer(struct broker *b, int socket_fd)
{
        struct broker_answer answer = {0};
        struct daemon_client client = {.fd = -EBADF};
        int r = connect_daemon(b, &client, &answer.e);

        if (r >= 0)
                answer.e = (struct cloche_err){0};
        b->has_connected |= r >= 0;
        (void)fd_send(socket_fd, &answer, sizeof(answer), &client.fd, r >= 0 ? 1 : 0);
        if (r >= 0)
                daemon_close(&client); /* the connection lives on in the other process */
}

/* The context would be there as long as the sandbox: its name is not known elsewhere. */
static void delete_context(struct broker *b)
{
        const struct broker_options *o = b->options;
        struct daemon_message answer = {0};
        struct daemon_client client;
        struct cloche_err e = {0};
        char path[DAEMON_SOCKET_BYTES];

        if (!b->has_connected || b->daemon.pid > 0 || daemon_locate(o->socket, LOCATE_ONLY, path, &e) <= 0 ||
            daemon_open(path, 0, &client, &e) < 0)
                return;
        if (daemon_call(&client, "context.delete",
                        json_pack("{s:s, s:s}", "sandbox", o->sandbox, "context", o->context), NULL, 0, &answer,
                        &e) >= 0)
                daemon_message_done(&answer);
        daemon_close(&client);
}

/* The front end that started this kernel and did not end it; -1: it is not known. */
static int watch_parent(void)
{
        const char *text = getenv("JPY_PARENT_PID");
        pid_t pid = text ? (pid_t)atoi(text) : 0;

        return pid > 1 && pid == getppid() ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
}

static int exit_code(pid_t pid)
{
        int status = 0;

        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int broker_serve(const struct broker_options *options, int socket_fd, pid_t pid)
{
        struct broker b = {.options = options, .daemon = {.log_fd = -EBADF}};
        struct pollfd fds[] = {{.fd = socket_fd, .events = POLLIN}, {.fd = watch_parent(), .events = POLLIN}};
        char request;
        int code;

        for (;;) {
                if (poll(fds, 2, -1) < 0 && errno != EINTR)
                        break;
                if (fds[1].revents)
                        break;
                if (fds[0].revents && read(socket_fd, &request, 1) != 1)
                        break; /* it has ended */
                if (fds[0].revents)
                        answer(&b, socket_fd);
        }
        if (fds[1].revents)
                kill(pid, SIGKILL);
        code = exit_code(pid);
        if (code)
                delete_context(&b);
        stop_private(&b);
        return code;
}
