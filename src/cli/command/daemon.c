/* cloche daemon: manage the daemon used when none is named. Runs in: the CLI, as its user. */
#include "cli/options/options.h"
#include "cli/sandbox/daemon-locate.h"
#include "cli/sandbox/sandbox-options.h"

#include "base/err.h"
#include "base/fd.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* With --json the status is an object in any case. */
static void print_nothing(int json)
{
        if (json)
                printf("{\"socket\":null,\"missing\":null,\"stats\":null}\n");
}

static int print_none(int json)
{
        print_nothing(json);
        if (access(DAEMON_SYSTEM_SOCKET, F_OK) == 0) {
                cli_bad("no daemon runs for this user alone; the system's, at " DAEMON_SYSTEM_SOCKET
                        ", is stopped by: systemctl stop cloched.socket cloched");
                return 1;
        }
        cli_bad("no daemon runs for this user (commands that need one start it; so does cloche daemon start)");
        return 1;
}

/* -- start ---------------------------------------------------------------------------------------------------- */

/* CLOCHE_SOCKET may name a socket at which no daemon listens. */
static int start(struct cli_request *request)
{
        _cleanup_fd_ int fd = -EBADF;
        char path[DAEMON_SOCKET_BYTES];
        struct cloche_err e = {0};

        (void)request;
        if (daemon_locate(NULL, LOCATE_THEN_START, path, &e) < 0)
                return e.code ? cli_fail(&e) : 1;
        if (daemon_is_named(NULL) && (fd = daemon_connect(path, &e)) < 0) {
                sandbox_fail(&e);
                return 1;
        }
        printf("%s\n", path);
        return 0;
}

/* -- status --------------------------------------------------------------------------------------------------- */

static void print_status_rows(const char *path, const json_t *missing, const json_t *stats)
{
        printf("%-20s %s\n%-20s ", "socket", path, "missing guards");
        sandbox_print_missing(stdout, missing);
        printf("%s\n%-20s %lld\n", json_array_size(missing) ? "" : "none", "sandboxes running",
               (long long)json_integer_value(json_object_get(json_object_get(stats, "sandboxes"), "running")));
}

static int print_status(const struct cli_request *request, const char *path, struct daemon_client *client)
{
        json_t *stats = NULL, *whole;
        int code = sandbox_request(client, "stats", json_object(), &stats);

        if (code)
                return 1;
        if (!request->json) {
                print_status_rows(path, client->missing, stats);
                json_decref(stats);
                return 0;
        }
        whole = json_pack("{s:s, s:O, s:o}", "socket", path, "missing", client->missing, "stats", stats);
        if (!whole) {
                cli_bad("cannot print the status: the socket's path is not UTF-8, or memory ran out");
                return 1;
        }
        sandbox_print_json(whole);
        json_decref(whole);
        return 0;
}

static int status(struct cli_request *request)
{
        char path[DAEMON_SOCKET_BYTES];
        struct daemon_client client;
        struct cloche_err e = {0};
        int code, r = daemon_locate(request->sandbox.socket, LOCATE_ONLY, path, &e);

        if (r == 0)
                return print_none(request->json);
        if (r == 1)
                r = daemon_open(path, 0, &client, &e);
        if (r < 0) {
                print_nothing(request->json);
                sandbox_fail(&e);
                return 1;
        }
        code = print_status(request, path, &client);
        daemon_close(&client);
        return code;
}

/* -- stop ----------------------------------------------------------------------------------------------------- */

/* Find the process that listens at the other end of fd. 1: *ret_pidfd; 0: it has exited, and
 * another process may have its id. */
static int open_listener(int fd, int *ret_pidfd, struct cloche_err *e)
{
        struct pollfd polled = {.fd = fd}; /* POLLHUP: the daemon has closed the connection, as it does on exit */
        struct ucred peer;
        socklen_t size = sizeof(peer);

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid <= 0)
                return err_set(e, CLOCHE_E_STATE, "the daemon is in another process namespace: end it there");
        *ret_pidfd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
        if (*ret_pidfd < 0 && errno != ESRCH)
                return err_os(e, CLOCHE_E_STATE, errno, "open the daemon, process %d", (int)peer.pid);
        return *ret_pidfd >= 0 && poll(&polled, 1, 0) == 0;
}

static int end_listener(int fd, struct cloche_err *e)
{
        _cleanup_fd_ int pidfd = -EBADF;
        struct pollfd polled = {.events = POLLIN};
        int r = open_listener(fd, &pidfd, e);

        if (r <= 0)
                return r;
        if (syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0) < 0)
                return err_os(e, CLOCHE_E_STATE, errno, "end the daemon");
        polled.fd = pidfd;
        while (poll(&polled, 1, -1) < 0)
                if (errno != EINTR)
                        return err_os(e, CLOCHE_E_RESOURCE, errno, "wait for the daemon");
        return 0;
}

/* 1: *ret_fd is a connection to the daemon; 0: none. */
static int find_to_stop(const char *socket, int *ret_fd, struct cloche_err *e)
{
        char path[DAEMON_SOCKET_BYTES];
        int r;

        if (!daemon_is_named(socket))
                return daemon_find_own(path, ret_fd, e);
        r = daemon_locate(socket, LOCATE_ONLY, path, e);
        if (r == 1)
                *ret_fd = daemon_connect(path, e);
        return r == 1 && *ret_fd < 0 ? -(int)e->code : r;
}

static int stop(struct cli_request *request)
{
        _cleanup_fd_ int fd = -EBADF;
        struct cloche_err e = {0};
        int r = find_to_stop(request->sandbox.socket, &fd, &e);

        if (r == 0)
                return print_none(0);
        if (r == 1)
                r = end_listener(fd, &e);
        if (r < 0)
                sandbox_fail(&e);
        return r < 0;
}

const struct cli_handler command_daemon_start = {.run = start};
const struct cli_handler command_daemon_status = {.run = status};
const struct cli_handler command_daemon_stop = {.run = stop};
