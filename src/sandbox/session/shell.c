/* A session's shell: its start in the sandbox or in a box of its own, its answers (proto/shell.h),
 * its end. A guest shares its process, so an answer is trusted only for the session's own
 * directory, variables and commands. Runs in: cloched-engine, on its loop, with the rights of the
 * daemon's user. */
#include "shell.h"
#include "base/state.h"
#include "sandbox/core/spawn.h"
#include "sandbox/process/process.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/peer.h"
#include "engine/loop/watch.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* -- states ---------------------------------------------------------------------------------------------------- */

/* A shell may end in each state. */
static const unsigned transitions[SHELL_STATES] = {
        [SHELL_NONE] = STATE_TO(SHELL_NONE) | STATE_TO(SHELL_STARTING),
        [SHELL_STARTING] = STATE_TO(SHELL_IDLE) | STATE_TO(SHELL_LOST) | STATE_TO(SHELL_NONE),
        [SHELL_IDLE] = STATE_TO(SHELL_BUSY) | STATE_TO(SHELL_LOST) | STATE_TO(SHELL_NONE),
        [SHELL_BUSY] = STATE_TO(SHELL_SETTLING) | STATE_TO(SHELL_IDLE) | STATE_TO(SHELL_LOST) | STATE_TO(SHELL_NONE),
        [SHELL_SETTLING] = STATE_TO(SHELL_IDLE) | STATE_TO(SHELL_LOST) | STATE_TO(SHELL_NONE),
        [SHELL_LOST] = STATE_TO(SHELL_LOST) | STATE_TO(SHELL_NONE),
};

void shell_set_state(struct session *session, enum shell_state state)
{
        STATE_CHECK(transitions, session->state, state);
        session->state = state;
}

/* -- the end of a shell --------------------------------------------------------------------------------------- */

void shell_close(struct session *session)
{
        watch_close(session->watch);
        session->watch = NULL;
        peer_close(&session->shell_fd);
        sandbox_timer_stop(session->stuck_timer);
        shell_set_state(session, SHELL_NONE);
        session->is_ready = 0;
        session->pid = 0;
        session->job_count = 0;
        free(session->cwd);
        session->cwd = NULL;
        sandbox_env_free(session->exported);
        session->exported = NULL;
}

/* The current command has ended with the shell; the others wait for a new one. */
static void shell_ended(struct session *session, int exit_code, int signal)
{
        struct shell_command *command = TAILQ_FIRST(&session->commands);
        int was_under_way = command && command->is_sent;

        shell_close(session);
        if (was_under_way) {
                shell_take_first(session);
                if (command->is_fork)
                        command->on_begin(command->data, -ESRCH);
                else
                        command->on_end(command->data, exit_code, signal, 1, command->is_killed);
        }
        shell_take_up(session);
}

/* The shell sent an invalid answer or closed its socket: the process is no longer our shell. */
static void lose_shell(struct session *session, int was_closed)
{
        const struct shell_command *command = TAILQ_FIRST(&session->commands);
        /* After `exec PROGRAM` that program is in its place: the command ends when it exits. */
        int goes_on = was_closed && command && command->is_sent && !command->is_fork && !command->is_export;

        if (session->pid && !goes_on)
                (void)sandbox_send_kill(session->control, session->pid, SIGKILL, INIT_KILL_TREE, NULL, 0, NULL, NULL,
                                        NULL);
        watch_close(session->watch);
        session->watch = NULL;
        peer_close(&session->shell_fd);
        shell_set_state(session, SHELL_LOST); /* until the report of its exit */
}

void shell_refuse_all(struct session *session, const struct cloche_err *e)
{
        struct shell_command *command;
        struct cloche_err copy = *e;

        while ((command = shell_take_first(session)))
                command->on_fail(command->data, &copy);
}

static void exited(struct session *session, const struct init_answer *exit)
{
        int status = exit->wait_status;
        struct cloche_err e;

        if (!session->is_ready) { /* a second one would fail too */
                err_set(&e, CLOCHE_E_SPAWN,
                        "the session's shell could not start: it ended with %s %d (sessions need a bash with the GNU C "
                        "library, of which libdl.so.2 and libpthread.so.0 too)",
                        WIFSIGNALED(status) ? "signal" : "status",
                        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
                shell_close(session);
                shell_refuse_all(session, &e);
                return;
        }
        if (WIFSIGNALED(status))
                shell_ended(session, 128 + WTERMSIG(status), WTERMSIG(status));
        else
                shell_ended(session, WEXITSTATUS(status), 0);
}

void sessions_exited(struct sandbox *s, const struct init_answer *exit)
{
        struct session *session;

        TAILQ_FOREACH (session, &s->sessions, link)
                if (session->control == &s->control && session->pid == exit->pid) {
                        exited(session, exit);
                        return;
                }
}

/* -- answers of a shell ----------------------------------------------------------------------------------------- */

/* Read the list of terminated strings from a memory file that the guest made. */
static void take_exported(struct session *session, int fd)
{
        char *text = malloc(SHELL_EXPORTED_BYTES_MAX + 1), **rows, **shrunk;
        ssize_t size = text ? pread(fd, text, SHELL_EXPORTED_BYTES_MAX, 0) : -1;
        size_t count = 0;

        rows = size > 0 && text[size - 1] == '\0' ? calloc((size_t)size + 1, sizeof(*rows)) : NULL;
        for (char *at = text; rows && at < text + size; at += strlen(at) + 1)
                if (strchr(at, '=') && (rows[count] = strdup(at)))
                        count++;
        free(text);
        if (!rows)
                return;
        sandbox_env_free(session->exported);
        shrunk = reallocarray(rows, count + 1, sizeof(*rows));
        session->exported = shrunk ? shrunk : rows;
}

static void take_state(struct session *session, const struct shell_answer *answer)
{
        size_t size = strnlen(answer->cwd, SHELL_CWD_MAX);

        if (size > 0 && size < SHELL_CWD_MAX && answer->cwd[0] == '/' &&
            (!session->cwd || strcmp(session->cwd, answer->cwd) != 0)) {
                char *cwd = strdup(answer->cwd);

                if (cwd) {
                        free(session->cwd);
                        session->cwd = cwd;
                }
        }
        session->job_count = answer->job_count < SHELL_JOBS_MAX ? answer->job_count : SHELL_JOBS_MAX;
        memcpy(session->jobs, answer->jobs, session->job_count * sizeof(session->jobs[0]));
}

/* End the current command with this answer. */
static void conclude(struct session *session, const struct shell_answer *answer)
{
        struct shell_command *command = TAILQ_FIRST(&session->commands);

        shell_set_state(session, SHELL_IDLE);
        take_state(session, answer);
        shell_take_first(session);
        command->supervisor_pid = answer->exit_code;
        if (command->is_fork)
                command->on_begin(command->data, answer->pid);
        else
                command->on_end(command->data, answer->exit_code & 255, 0, 0, command->is_killed);
        shell_take_up(session);
}

static void on_settled(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        struct session *session = data;

        (void)answer;
        (void)e; /* the end of the box, which is reported elsewhere */
        fd_close(&fd);
        if (session->state == SHELL_SETTLING)
                conclude(session, &session->last_answer);
}

/* Kill the processes that it started since the last kill, before the next command starts any. */
static void settle(struct session *session, const struct shell_answer *answer)
{
        shell_set_state(session, SHELL_SETTLING);
        session->last_answer = *answer;
        if (sandbox_send_kill(session->control, session->pid, SIGKILL, INIT_KILL_TREE | INIT_KILL_BELOW, session->jobs,
                              session->job_count, on_settled, session, NULL) < 0)
                conclude(session, answer);
}

/* The shell is idle after both its ready message and PID 1's report of its pid, which come in
 * either order: without the pid it could not be killed. */
static void begin_idle(struct session *session)
{
        if (session->state != SHELL_STARTING || !session->is_ready || !session->pid)
                return;
        shell_set_state(session, SHELL_IDLE);
        shell_take_up(session);
}

static int answered(struct session *session, const struct shell_answer *answer)
{
        const struct shell_command *command = TAILQ_FIRST(&session->commands);

        if (answer->op == SHELL_READY && session->state == SHELL_STARTING && !session->is_ready) {
                sandbox_timer_stop(session->stuck_timer);
                take_state(session, answer);
                session->is_ready = 1;
                begin_idle(session);
                return 0;
        }
        if (session->state != SHELL_BUSY || !command || !command->is_sent || answer->serial != command->serial ||
            answer->op != shell_op_of(command))
                return -EPROTO;
        sandbox_timer_stop(session->stuck_timer);
        if (command->is_killed && !command->is_fork)
                settle(session, answer);
        else
                conclude(session, answer);
        return 0;
}

static void on_shell(void *data, int status, int events)
{
        struct session *session = data;
        const struct watch *watch = session->watch;

        (void)events;
        while (session->watch == watch) {
                struct shell_answer answer = {0};
                int fd = -EBADF;
                ssize_t n = peer_receive_with(session->shell_fd, &answer, sizeof(answer), S_IFREG, &fd, MSG_DONTWAIT);

                if (n == -EAGAIN && status >= 0)
                        break;
                if (n == -EMFILE) /* too many open files: only the variables are lost */
                        n = sizeof(answer);
                if (n == sizeof(answer) && fd >= 0 && (answer.flags & SHELL_ENVIRONMENT))
                        take_exported(session, fd);
                fd_close(&fd);
                if (n != sizeof(answer) || answered(session, &answer) < 0) {
                        if (session->watch == watch)
                                lose_shell(session, n == 0);
                        break;
                }
        }
}

/* -- the start of a shell --------------------------------------------------------------------------------------- */

/* Return the error of a bash that cannot be started: *ret if the image lacks it, else e. */
static const struct cloche_err *explain(const struct cloche_err *e, struct cloche_err *ret)
{
        if (e->code != CLOCHE_E_SPAWN || (e->os_errno != ENOENT && e->os_errno != ELIBACC))
                return e;
        err_set(ret, CLOCHE_E_MISSING_RUNTIME,
                "the image has no bash with the GNU C library, which commands and sessions need; files, and contexts "
                "of other languages, work without it (%.120s)",
                e->msg);
        return ret;
}

static void on_spawned(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        struct session *session = data;

        fd_close(&fd);
        if (e) {
                struct cloche_err missing;

                shell_close(session);
                shell_refuse_all(session, explain(e, &missing));
                return;
        }
        session->pid = answer->pid;
        if (session->state == SHELL_LOST)
                lose_shell(session, 0);
        begin_idle(session);
}

static int spawn_shell(struct session *session, int their_fd, struct cloche_err *e)
{
        /* A removed or unreadable directory must not keep a session from starting. */
        static const char script[] =
                "cd -- \"$1\" 2>/dev/null || { mkdir -p -- \"$1\" && cd -- \"$1\"; } 2>/dev/null || cd /\n"
                "set --; enable -f /proc/self/fd/4 cloche_session && cloche_session";
        const char *const argv[] = {"bash", "--norc", "--noprofile", "-c", script, "bash", session->start_cwd, NULL};
        struct sandbox *s = session->sandbox;
        int fds[5] = {-EBADF, -EBADF, -EBADF, their_fd, s->all->shell_fd};
        struct spawn spawn = {.control = session->control,
                              .argv = argv,
                              .fds = fds,
                              .fd_count = 5,
                              .flags = INIT_SPAWN_REAPS};

        return sandbox_spawn_own(s, session->env, &spawn, on_spawned, session, e);
}

static int open_shell(struct session *session, struct cloche_err *e)
{
        _cleanup_fd_ int their_fd = -EBADF;
        int pair[2], r;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a socket pair");
        session->shell_fd = pair[0];
        their_fd = pair[1];
        r = watch_new(&session->sandbox->all->engine->loop, session->shell_fd, &session->watch);
        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "watch a shell");
        watch_on_event(session->watch, on_shell, session);
        watch_set(session->watch, UV_READABLE);
        shell_set_state(session, SHELL_STARTING);
        shell_await_answer(session);
        return spawn_shell(session, their_fd, e);
}

static void on_isolated_exit(void *data, const struct init_answer *exit)
{
        struct session *session = data;

        if (session->pid == exit->pid)
                exited(session, exit);
        else
                processes_exited(session->sandbox, &session->own_control, exit);
}

static void on_isolated_end(void *data, const struct cloche_err *e)
{
        struct session *session = data;

        (void)e;
        if (session->has_box)
                sandbox_drop_box(session->sandbox->all, session->box);
        session->has_box = 0;
        if (session->state != SHELL_NONE)
                shell_ended(session, 128 + SIGKILL, SIGKILL);
}

static void on_box(void *data, struct keeper_reply *reply)
{
        struct session *session = data;
        struct cloche_err e = {0};
        struct keeper_box made;
        int r = reply->error ? -1 : keeper_box_take(reply->answer->box, reply->fds, reply->fd_count, &made, &e);

        if (r == 0) {
                fd_close(&made.pidfd);
                fd_close(&made.fork_fd);
                if (session->is_closing || !sandbox_is_live(session->sandbox)) {
                        fd_close(&made.control_fd);
                        sandbox_drop_box(session->sandbox->all, made.id);
                        session_unuse(session);
                        return;
                }
                session->box = made.id;
                session->has_box = 1;
                session->own_control.on_exit = on_isolated_exit;
                session->own_control.on_end = on_isolated_end;
                session->own_control.data = session;
                r = control_open(&session->own_control, made.control_fd, &session->sandbox->all->engine->loop, &e);
                control_hold(&session->own_control, session->sandbox->are_timers_held);
        }
        if (r < 0)
                shell_refuse_all(session, reply->error ? reply->error : &e);
        shell_set_state(session, SHELL_NONE);
        shell_take_up(session);
        session_unuse(session);
}

/* Make the session's own box, with its own pid namespace. */
static int make_box(struct session *session, struct cloche_err *e)
{
        struct sandbox *s = session->sandbox;
        int r = s->all->boxes->make(s->all, &s->image, &s->limits, s->box, 0, 0, NULL, NULL, NULL, on_box, session, e);

        if (r == 0) {
                shell_set_state(session, SHELL_STARTING);
                session->users++;
        }
        return r;
}

void shell_start(struct session *session)
{
        struct cloche_err e = {0};
        int needs_box = session->is_isolated && !session->has_box;
        int r = needs_box ? make_box(session, &e) : open_shell(session, &e);

        if (r < 0) {
                shell_close(session);
                shell_refuse_all(session, &e);
        }
}
