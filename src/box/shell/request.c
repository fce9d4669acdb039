/* Receive one request of the engine and check it.
 * Runs in: bash of a session, with the guest's rights, beside the guest's code. */
#include "session.h"

#include "base/fd.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <quit.h>

#define REST_MAX (8u << 20) /* of a memory file, without the command */

static const struct {
        const char *name;
        size_t fds;
} rows[] = {
        [SHELL_RUN] = {"run", 4},
        [SHELL_FORK] = {"fork", 5},
        [SHELL_EXPORT] = {"export", 1},
};

static int refuse(const char *what, unsigned long got, unsigned long expected)
{
        fprintf(stderr, "cloche_session: request: %s is %lu, expected %lu\n", what, got, expected);
        return 0;
}

static int has_row(uint32_t op)
{
        return op < sizeof(rows) / sizeof(rows[0]) && rows[op].name;
}

/* Return the start of the string after *at; NULL if this one is not terminated. */
static char *next_string(char *at, const char *end)
{
        char *zero = at < end ? memchr(at, '\0', (size_t)(end - at)) : NULL;

        return zero ? zero + 1 : NULL;
}

/* A terminator is added to the command, which has none in the file. */
static int read_strings(struct session_request *request, size_t size)
{
        const size_t command_size = request->head.command_size;

        request->strings = xmalloc(size + 1);
        if ((command_size && pread(request->fds[0], request->strings, command_size, 0) != (ssize_t)command_size) ||
            (size > command_size && pread(request->fds[0], request->strings + command_size + 1, size - command_size,
                                          (off_t)command_size) != (ssize_t)(size - command_size)))
                return refuse("bytes of the memory file that can be read", 0, size);
        request->strings[command_size] = '\0';
        return 1;
}

static int split_strings(struct session_request *request, size_t size)
{
        char *at = request->strings + request->head.command_size + 1, *end = request->strings + size + 1;

        if (request->head.has_cwd) {
                request->cwd = at;
                at = next_string(at, end);
        }
        request->env = at;
        for (uint32_t i = 0; at && i < request->head.env_count; i++)
                at = next_string(at, end);
        if (at != end)
                return refuse("strings in the memory file, up to its end", !!at,
                              request->head.env_count + !!request->head.has_cwd);
        return 1;
}

static int take_strings(struct session_request *request)
{
        struct stat st;

        if (fstat(request->fds[0], &st) < 0 || !S_ISREG(st.st_mode))
                return refuse("type of descriptor 0", st.st_mode & S_IFMT, S_IFREG);
        if (request->head.command_size > SHELL_COMMAND_MAX || (uint64_t)st.st_size < request->head.command_size)
                return refuse("size of the command", request->head.command_size, SHELL_COMMAND_MAX);
        if ((uint64_t)st.st_size - request->head.command_size > REST_MAX)
                return refuse("size of the strings", (unsigned long)st.st_size, REST_MAX);
        return read_strings(request, (size_t)st.st_size) && split_strings(request, (size_t)st.st_size);
}

/* bash's handlers for SIGTERM and similar signals only record that they were called. */
static void wait_for_packet(int socket_fd)
{
        struct pollfd polled = {.fd = socket_fd, .events = POLLIN};
        sigset_t all, before;

        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, &before);
        while (!terminating_signal && ppoll(&polled, 1, NULL, &before) < 0 && errno == EINTR)
                ;
        sigprocmask(SIG_SETMASK, &before, NULL);
        CHECK_TERMSIG;
}

int request_receive(int socket_fd, struct session_request *ret)
{
        ssize_t n;

        *ret = (struct session_request){.fd_count = REQUEST_FDS_MAX};
        wait_for_packet(socket_fd);
        n = fd_receive(socket_fd, &ret->head, sizeof(ret->head), ret->fds, &ret->fd_count, 0);
        if (n <= 0) {
                ret->fd_count = 0;
                return 0;
        }
        if (n != (ssize_t)sizeof(ret->head))
                return refuse("size", (unsigned long)n, sizeof(ret->head));
        if (!has_row(ret->head.op))
                return refuse("op", ret->head.op, SHELL_RUN);
        if (ret->fd_count != rows[ret->head.op].fds)
                return refuse(rows[ret->head.op].name, ret->fd_count, rows[ret->head.op].fds);
        return take_strings(ret);
}

void shell_request_done(struct session_request *request)
{
        for (size_t i = 0; i < request->fd_count; i++)
                fd_close(&request->fds[i]);
        request->fd_count = 0;
        free(request->strings);
        request->strings = NULL;
}
