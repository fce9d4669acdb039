/* cloche daemon: manage the daemon used when none is named. Runs in: the CLI, as its user. */
#include "cli/options/options.h"
#include "cli/output/style.h"
#include "cli/sandbox/daemon-locate.h"
#include "cli/sandbox/sandbox-options.h"

#include "base/err.h"
#include "base/fd.h"
#include "user/token.h"

#include <fcntl.h>
#include <netdb.h>

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

/* True if one listens, whoever may use it. */
static int has_system(void)
{
        struct cloche_err ignored;
        _cleanup_fd_ int fd = daemon_connect(DAEMON_SYSTEM_SOCKET, &ignored);

        return fd >= 0 || fd == -CLOCHE_E_FORBIDDEN;
}

static int print_none(int json)
{
        print_nothing(json);
        if (has_system()) {
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
        int is_on = style_is_on(stdout);
        enum style style = json_array_size(missing) ? STYLE_WAITING : STYLE_GOOD;

        printf("%-20s %s\n%-20s %s", "socket", path, "missing guards", style_begin(style, is_on));
        sandbox_print_missing(stdout, missing);
        printf("%s%s\n%-20s %lld\n", json_array_size(missing) ? "" : "none", style_end(style, is_on),
               "sandboxes running",
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

/* -- e2b env ------------------------------------------------------------------------------------------------------ */

#define E2B_ADDRESS "127.0.0.1:7071"

static int read_token(const char *named, char ret[TOKEN_BYTES_MAX])
{
        char path[4096];
        int r = token_read(named, path, sizeof(path), ret);

        if (r == -ENODATA)
                return cli_bad("the file %s is empty, expected the daemon's token", path);
        return r == 0 ? 0
                      : cli_bad("cannot read the daemon's token in %s: %s (--token-file names the file; cloched makes "
                                "it at its first start with --e2b-listen or --listen)",
                                path, strerror(-r));
}

/* Connect, or print a line. */
static int connect_to(const char *address)
{
        const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
        const char *colon = strrchr(address, ':');
        struct addrinfo *list = NULL;
        char host[256];
        int fd, r;

        if (!colon || colon == address || !colon[1])
                return -cli_bad("expected HOST:PORT, not '%s'", address);
        snprintf(host, sizeof(host), "%.*s", (int)(colon - address), address);
        if (getaddrinfo(host, colon + 1, &hints, &list) != 0)
                return -cli_bad("expected HOST:PORT, not '%s'", address);
        fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        r = fd < 0 ? -1 : connect(fd, list->ai_addr, list->ai_addrlen);
        freeaddrinfo(list);
        if (r == 0)
                return fd;
        cli_bad("nothing accepts connections at %s: %s (cloched --e2b-listen %s does)", address, strerror(errno),
                address);
        fd_close(&fd);
        return -1;
}

/* The daemon there may be another user's, with another token. 0, or a line was printed. */
static int try_key(const char *address, const char *key)
{
        static const char good[] = "HTTP/1.1 200";
        _cleanup_fd_ int fd = connect_to(address);
        char text[1024];
        size_t got = 0;
        ssize_t n = 1;
        int size;

        if (fd < 0)
                return -fd;
        size = snprintf(text, sizeof(text),
                        "GET /teams HTTP/1.1\r\nHost: %s\r\nX-API-KEY: " TOKEN_E2B_KEY_PREFIX
                        "%s\r\nConnection: close\r\n\r\n",
                        address, key);
        if (size < (int)sizeof(text) && fd_write_full(fd, text, (size_t)size) == 0)
                while (n > 0 && got < sizeof(good) - 1) {
                        n = read(fd, text + got, sizeof(good) - 1 - got);
                        got += n > 0 ? (size_t)n : 0;
                }
        if (got == sizeof(good) - 1 && strncmp(text, good, got) == 0)
                return 0;
        cli_bad("the daemon at %s refuses the key of this token: --token-file names the file of its own, which only "
                "the "
                "user who started it can read",
                address);
        return 1;
}

static int run_e2b_env(struct cli_request *request)
{
        const char *address = request->positional_count > 0 ? request->positional[0] : E2B_ADDRESS;
        char token[TOKEN_BYTES_MAX], key[TOKEN_SECRET_SIZE];
        int code = read_token(request->token_file, token);

        if (code)
                return code;
        token_derive(token, TOKEN_E2B_KEY, "", key);
        code = try_key(address, key);
        if (code)
                return code;
        printf("export E2B_API_URL=http://%s\nexport E2B_SANDBOX_URL=http://%s\n"
               "export E2B_VOLUME_API_URL=http://%s\nexport E2B_API_KEY=" TOKEN_E2B_KEY_PREFIX "%s\n",
               address, address, address, key);
        return 0;
}

const struct cli_handler command_e2b_env = {
        .run = run_e2b_env,
        .positional_max = 1,
};
