/* The commands of a session's shell: one after the other, each with its own descriptors. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "sandbox/core/spawn.h"
#include "session.h"
#include "shell.h"

#include "base/err.h"
#include "base/fd.h"

#include <signal.h>
#include <string.h>

#define STUCK_AFTER_MS 1500      /* the shell is killed too if a killed command still runs after this time */
#define ANSWER_PATIENCE_MS 30000 /* for a shell that only starts, forks or exports: its guest may have stopped it */

static void close_fds(struct shell_command *command)
{
        for (int i = 0; i < 3; i++)
                fd_close(&command->fds[i]);
        fd_close(&command->status_fd);
}

struct shell_command *shell_take_first(struct session *session)
{
        struct shell_command *command = TAILQ_FIRST(&session->commands);

        if (command) {
                TAILQ_REMOVE(&session->commands, command, link);
                close_fds(command);
        }
        return command;
}

uint32_t shell_op_of(const struct shell_command *command)
{
        return command->is_export ? SHELL_EXPORT : command->is_fork ? SHELL_FORK : SHELL_RUN;
}

/* Send SIGKILL to the processes of the current command; those of earlier commands are spared. */
static void kill_below(struct session *session)
{
        (void)sandbox_send_kill(session->control, session->pid, SIGKILL, INIT_KILL_TREE | INIT_KILL_BELOW,
                                session->jobs, session->job_count, NULL, NULL, NULL);
}

static int pack_command(const struct shell_command *command, struct buf *strings, struct shell_request *request)
{
        const char *name;
        json_t *value;
        int r = buf_append(strings, command->command, command->command_size);

        request->command_size = (uint32_t)command->command_size;
        request->has_cwd = command->cwd != NULL;
        if (r == 0 && command->cwd)
                r = buf_append(strings, command->cwd, strlen(command->cwd) + 1);
        json_object_foreach ((json_t *)command->env, name, value) {
                if (r == 0)
                        r = buf_append(strings, name, strlen(name) + json_is_null(value));
                if (r == 0 && !json_is_null(value))
                        r = buf_append(strings, "=", 1);
                if (r == 0 && !json_is_null(value))
                        r = buf_append(strings, json_string_value(value), json_string_length(value) + 1);
                request->env_count++;
        }
        return r;
}

static int send_command(struct session *session, struct shell_command *command, struct cloche_err *e)
{
        struct shell_request request = {.op = shell_op_of(command), .serial = ++session->next_serial};
        _cleanup_buf_ struct buf strings = BUF_INIT(SHELL_COMMAND_MAX + SHELL_EXPORTED_BYTES_MAX);
        _cleanup_fd_ int strings_fd = -EBADF;
        int r = pack_command(command, &strings, &request);

        if (r < 0)
                return err_os(e, r == -ENOBUFS ? CLOCHE_E_TOO_LARGE : CLOCHE_E_RESOURCE, -r,
                              "hand a command of %zu bytes to the shell", command->command_size);
        strings_fd = fd_from_bytes("command", strings.size ? strings.data : "", strings.size);
        if (strings_fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -strings_fd, "hold a command");
        command->serial = request.serial;
        if (command->is_export) {
                r = fd_send(session->shell_fd, &request, sizeof(request), &strings_fd, 1);
        } else {
                int fds[5] = {strings_fd, command->fds[0], command->fds[1], command->fds[2], command->status_fd};

                r = fd_send(session->shell_fd, &request, sizeof(request), fds, command->is_fork ? 5 : 4);
        }
        if (r < 0)
                return err_os(e, CLOCHE_E_SESSION_ENDED, -r, "the session's shell has ended");
        return 0;
}

static void on_stuck(uv_timer_t *timer)
{
        struct session *session = timer->data;

        if (session->pid)
                (void)sandbox_send_kill(session->control, session->pid, SIGKILL, INIT_KILL_TREE, session->jobs,
                                        session->job_count, NULL, NULL, NULL);
}

void shell_await_answer(struct session *session)
{
        sandbox_timer_start(session->stuck_timer, on_stuck, ANSWER_PATIENCE_MS, 0);
}

static void begin(struct session *session, struct shell_command *command)
{
        struct cloche_err e = {0};

        if (send_command(session, command, &e) < 0) {
                shell_take_first(session);
                command->on_fail(command->data, &e);
                return;
        }
        command->is_sent = 1;
        shell_set_state(session, SHELL_BUSY);
        close_fds(command);
        if (command->is_fork || command->is_export) /* the answer needs no guest code */
                shell_await_answer(session);
        if (!command->is_fork)
                command->on_begin(command->data, 0);
}

void shell_take_up(struct session *session)
{
        while (!TAILQ_EMPTY(&session->commands) && session->state == SHELL_IDLE)
                begin(session, TAILQ_FIRST(&session->commands));
        if (!TAILQ_EMPTY(&session->commands) && session->state == SHELL_NONE &&
            session->sandbox->state == SANDBOX_RUNNING && !session->is_closing)
                shell_start(session);
}

/* A copy of a shell that only starts would wait for the end of the commands before
 * it, which may never come. */
static struct shell_command *overtaken_by(const struct session *session, const struct shell_command *command)
{
        struct shell_command *first = TAILQ_FIRST(&session->commands);

        if (!command->is_fork || session->state != SHELL_STARTING)
                return NULL;
        while (first && (first->is_fork || first->is_export))
                first = TAILQ_NEXT(first, link);
        return first;
}

void session_run(struct session *session, struct shell_command *command)
{
        struct shell_command *overtaken = overtaken_by(session, command);

        command->is_sent = command->is_killed = 0;
        if (overtaken)
                TAILQ_INSERT_BEFORE(overtaken, command, link);
        else
                TAILQ_INSERT_TAIL(&session->commands, command, link);
        shell_take_up(session);
}

/* Interrupt the shell first, so that it starts no further part of the command; then kill the parts
 * that run. */
static void interrupt(struct session *session)
{
        (void)sandbox_send_kill(session->control, session->pid, SIGINT, 0, NULL, 0, NULL, NULL, NULL);
        kill_below(session);
        sandbox_timer_start(session->stuck_timer, on_stuck, STUCK_AFTER_MS, 0);
}

void session_kill(struct session *session, struct shell_command *command)
{
        if (command->is_killed)
                return;
        command->is_killed = 1;
        if (command->is_sent) {
                interrupt(session);
                return;
        }
        TAILQ_REMOVE(&session->commands, command, link);
        close_fds(command);
        command->on_end(command->data, 128 + SIGKILL, SIGKILL, 0, 1);
}

static void ignore_begin(void *data, int32_t pid)
{
        (void)data;
        (void)pid;
}

static void ignore_end(void *data, int exit_code, int signal, int session_ended, int interrupted)
{
        (void)data;
        (void)exit_code;
        (void)signal;
        (void)session_ended;
        (void)interrupted;
}

static void ignore_fail(void *data, const struct cloche_err *e)
{
        (void)data;
        (void)e;
}

/* A command of our own takes its place, as the shell will still answer it. */
void session_detach(struct session *session, struct shell_command *command)
{
        static const struct shell_command ignored = {.on_begin = ignore_begin,
                                                     .on_end = ignore_end,
                                                     .on_fail = ignore_fail};
        struct shell_command *stand_in;

        close_fds(command);
        if (!command->is_sent) {
                TAILQ_REMOVE(&session->commands, command, link);
                return;
        }
        stand_in = &session->stand_in;
        *stand_in = ignored;
        for (int i = 0; i < 3; i++)
                stand_in->fds[i] = -EBADF;
        stand_in->status_fd = -EBADF;
        stand_in->serial = command->serial;
        stand_in->is_fork = command->is_fork;
        stand_in->is_sent = 1;
        stand_in->is_killed = command->is_killed;
        TAILQ_INSERT_BEFORE(command, stand_in, link);
        TAILQ_REMOVE(&session->commands, command, link);
        if (!stand_in->is_fork)
                session_kill(session, stand_in);
}

int session_is_busy(const struct session *session)
{
        return session->state == SHELL_BUSY || !TAILQ_EMPTY(&session->commands);
}

int session_delays_forks(const struct session *session)
{
        const struct shell_command *command;

        TAILQ_FOREACH (command, &session->commands, link)
                if (!command->is_fork && !command->is_export)
                        return 1;
        return 0;
}
