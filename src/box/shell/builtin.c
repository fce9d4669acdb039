/* The builtin `cloche_session`: bash serves the session's socket, and runs commands in its own
 * process. It does not return.
 * Runs in: bash of a session, with the guest's rights, beside the guest's code. */
#include "session.h"

#include "base/fd.h"

#include <bashjmp.h>
#include <execute_cmd.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define SOCKET_FD 3
#define PROGRAM_FD 4 /* this object */

/* -- answering ------------------------------------------------------------------------------------------------- */

/* Returns whether the engine is still there. */
static int answer(struct shell_answer *a)
{
        _cleanup_fd_ int environment_fd = a->op == SHELL_RUN || a->op == SHELL_EXPORT ? export_environment() : -EBADF;

        export_state(a);
        if (environment_fd >= 0)
                a->flags |= SHELL_ENVIRONMENT;
        return fd_send(fds_get(FDS_SOCKET), a, sizeof(*a), &environment_fd, environment_fd >= 0) == 0;
}

static void fork_copy(struct session_request *request, struct shell_answer *a)
{
        a->pid = copy_run(request, &a->exit_code);
        shell_request_done(request);
}

static int serve_request(struct session_request *request)
{
        static void (*const rows[])(struct session_request * request, struct shell_answer * answer) = {
                [SHELL_RUN] = shell_command_run,
                [SHELL_FORK] = fork_copy,
                [SHELL_EXPORT] = command_export,
        };
        struct shell_answer a = {.op = request->head.op, .serial = request->head.serial};

        rows[request->head.op](request, &a);
        return answer(&a);
}

static void serve_all(void)
{
        struct shell_answer ready = {.op = SHELL_READY};
        struct session_request request;
        int goes_on = answer(&ready);

        while (goes_on && request_receive(fds_get(FDS_SOCKET), &request))
                goes_on = serve_request(&request);
}

/* -- starting -------------------------------------------------------------------------------------------------- */

static int is_session_socket(int fd)
{
        socklen_t size = sizeof(int);
        int type;

        return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

static int fail(const char *what, int r)
{
        builtin_error("%s: %s", what, strerror(-r));
        return -1;
}

static int take_descriptors(void)
{
        int null_fd;

        if (!is_session_socket(SOCKET_FD)) {
                builtin_error("descriptor %d is not a SOCK_SEQPACKET socket", SOCKET_FD);
                return -1;
        }
        null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null_fd < 0)
                return fail("/dev/null", -errno);
        fds_keep(FDS_NULL, null_fd);
        fds_keep(FDS_SOCKET, SOCKET_FD);
        close(PROGRAM_FD);
        return 0;
}

static int start(void)
{
        int r = fds_start();

        if (r < 0)
                return fail("start", r);
        if (export_start() < 0 || take_descriptors() < 0)
                return -1;
        if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
                return fail("PR_SET_CHILD_SUBREAPER", -errno);
        r = interrupt_start();
        return r < 0 ? fail("start the thread that waits for SIGINT", r) : 0;
}

static int serve(WORD_LIST *words)
{
        static int is_serving;

        (void)words;
        if (is_serving) {
                builtin_error("the session is at work");
                return EXECUTION_FAILURE;
        }
        if (!loadable_fits() || start() < 0)
                return EXECUTION_FAILURE;
        is_serving = 1;
        hooks_become_top_level();
        loadable_hide_traces();
        hooks_start();
        command_close();
        serve_all();
        exit_shell(last_command_exit_value & 0xff);
        return EXECUTION_FAILURE;
}

static char *const help[] = {"Serve a session's socket on descriptor 3.", NULL};

__attribute__((visibility("default"))) extern struct builtin cloche_session_struct;
struct builtin cloche_session_struct = {"cloche_session", serve, BUILTIN_ENABLED, help, "cloche_session", NULL};
