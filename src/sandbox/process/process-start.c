/* Start of processes: exec runs in a session's shell, others in a forked copy of it. If the shell
 * is busy or a terminal is requested, PID 1 starts the process with the shell's last directory and
 * variables. Runs in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "process-end.h"
#include "process.h"
#include "sandbox/core/spawn.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "engine/loop/watch.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void not_begun(struct process *p, const struct cloche_err *e)
{
        struct cloche_err copy = *e;

        process_set_state(p, PROCESS_ENDED);
        p->is_removed = 1;
        process_stop_timers(p);
        p->pins++; /* the callback may release it */
        if (p->on_begin)
                p->on_begin(p, &copy);
        p->on_begin = NULL;
        process_unpin(p);
}

static void begun(struct process *p)
{
        int is_cancelled = p->state == PROCESS_CANCELLED;

        process_set_state(p, PROCESS_RUNNING);
        p->started_ms = clock_real_ms();
        p->started_ns = clock_now_ns();
        process_arm_timeout(p);
        if (!p->is_hidden)
                sandbox_send_event(p->sandbox, "processStarted", process_json(p));
        if (p->on_begin)
                p->on_begin(p, NULL);
        p->on_begin = NULL;
        if (is_cancelled && p->pid)
                process_kill_hard(p);
}

static void on_status(void *data, int status, int events)
{
        struct process *p = data;
        struct shell_status reported;
        ssize_t n = read(p->status_fd, &reported, sizeof(reported));

        (void)events;
        if (n < 0 && (errno == EAGAIN || errno == EINTR) && status >= 0)
                return;
        if (n == sizeof(reported))
                process_ended_as(p, reported.wait_status);
        else /* the copy of the shell was killed before it wrote its status */
                process_ended(p, 128 + SIGKILL, SIGKILL);
}

static void on_shell_begin(void *data, int32_t pid)
{
        struct process *p = data;
        struct cloche_err e;

        if (!p->shell.is_fork) {
                begun(p);
                return;
        }
        p->has_shell_command = 0;
        if (pid <= 0) {
                err_os(&e, CLOCHE_E_SPAWN, pid < 0 ? -pid : ESRCH, "start a command beside the session's shell");
                not_begun(p, &e);
                return;
        }
        p->pid = pid;
        p->supervisor_pid = p->shell.supervisor_pid;
        /* Only now: the command may have ended before the report of its start. */
        watch_set(p->status_watch, UV_READABLE);
        begun(p);
}

static void on_shell_end(void *data, int exit_code, int signal, int session_ended, int interrupted)
{
        struct process *p = data;

        p->has_shell_command = 0;
        p->session_ended = session_ended;
        if (interrupted && !signal)
                signal = SIGKILL;
        process_ended(p, signal && !session_ended ? 128 + signal : exit_code, signal);
}

static void on_shell_fail(void *data, const struct cloche_err *e)
{
        struct process *p = data;

        p->has_shell_command = 0;
        not_begun(p, e);
}

static void on_spawned(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        struct process *p = data;
        struct cloche_err failure = {0};
        int r = 0;

        if (!e && p->is_terminal) {
                struct stream *s = &p->streams[STREAM_OUT].stream;

                p->input_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3); /* an epoll instance accepts each descriptor once */
                s->fd = fd_take(&fd);
                r = p->input_fd < 0 ? err_set(&failure, CLOCHE_E_SPAWN, "the command got no terminal")
                                    : stream_start(s, &p->sandbox->all->engine->streams, &failure);
        }
        fd_close(&fd);
        if (e || r < 0) {
                if (!e)
                        (void)sandbox_send_kill(p->control, answer->pid, SIGKILL, INIT_KILL_TREE, NULL, 0, NULL, NULL,
                                                NULL);
                not_begun(p, e ? e : &failure);
                return;
        }
        p->pid = answer->pid;
        begun(p);
}

/* Open the pipes; fds receives the guest's ends, owned by the caller. */
static int open_pipes(struct process *p, int wants_input, int fds[3], struct cloche_err *e)
{
        int r = 0;

        if (wants_input)
                r = stream_pipe(&p->input_fd, &fds[0], 0, e);
        else
                fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fds[0] < 0 && r == 0)
                r = err_os(e, CLOCHE_E_RESOURCE, errno, "open /dev/null");
        for (int i = 0; r == 0 && i < STREAMS; i++) {
                struct stream *s = &p->streams[i].stream;

                r = stream_pipe(&s->fd, &fds[1 + i], 1, e);
                if (r == 0)
                        r = stream_start(s, &p->sandbox->all->engine->streams, e);
        }
        return r;
}

static int watch_status(struct process *p, struct cloche_err *e)
{
        int r = stream_pipe(&p->status_fd, &p->shell.status_fd, 1, e);

        if (r < 0)
                return r;
        r = watch_new(&p->sandbox->all->engine->loop, p->status_fd, &p->status_watch);
        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "watch a command");
        watch_on_event(p->status_watch, on_status, p);
        return 0;
}

/* A shell has our file of npm's authorities, which would take those of the command from it
 * (sandbox/core/spawn.c). For npm an empty name is none. */
static int leave_authorities_to_node(struct process *p, struct cloche_err *e)
{
        char **base = NULL, **rows = p->session->exported;
        json_t *env;
        int is_ours;

        if (!json_is_string(json_object_get(p->env, "NODE_EXTRA_CA_CERTS")) ||
            json_object_get(p->env, "NPM_CONFIG_CAFILE"))
                return 0;
        if (!rows)
                rows = base = sandbox_env_list(p->sandbox, p->session->env);
        is_ours = sandbox_env_has_npm_authorities(rows);
        sandbox_env_free(base);
        if (!is_ours)
                return 0;
        env = json_copy(p->env);
        if (!env || json_object_set_new(env, "NPM_CONFIG_CAFILE", json_string("")) < 0) {
                json_decref(env);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start a command");
        }
        json_decref(p->env);
        p->env = env;
        return 0;
}

static int start_in_shell(struct process *p, int is_fork, int wants_input, struct cloche_err *e)
{
        struct shell_command *shell = &p->shell;
        int r = leave_authorities_to_node(p, e);

        if (r < 0)
                return r;
        *shell = (struct shell_command){.command = p->command,
                                        .command_size = p->command_size,
                                        .cwd = p->cwd,
                                        .env = p->env,
                                        .fds = {-EBADF, -EBADF, -EBADF},
                                        .is_fork = is_fork,
                                        .status_fd = -EBADF,
                                        .on_begin = on_shell_begin,
                                        .on_end = on_shell_end,
                                        .on_fail = on_shell_fail,
                                        .data = p};
        r = open_pipes(p, wants_input, shell->fds, e);
        if (r == 0 && is_fork)
                r = watch_status(p, e);
        if (r < 0) {
                for (int i = 0; i < 3; i++)
                        fd_close(&shell->fds[i]);
                fd_close(&shell->status_fd);
                return r;
        }
        p->has_shell_command = 1;
        session_run(p->session, shell);
        return 0;
}

static int start_by_init(struct process *p, int wants_input, struct cloche_err *e)
{
        const struct session *session = p->session;
        const char *const argv[] = {"bash", "--norc", "--noprofile", "-c", p->command, NULL};
        const char *here = session->cwd ? session->cwd : session->start_cwd;
        char **base = session->exported ? NULL : sandbox_env_list(p->sandbox, session->env);
        char **env = sandbox_env_from(session->exported ? session->exported : base ? base : (char *[]){NULL}, p->env);
        int fds[3] = {-EBADF, -EBADF, -EBADF}, r = env ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start a command");
        struct spawn spawn = {.control = p->control,
                              .cwd = p->cwd ? p->cwd : here,
                              .argv = argv,
                              .env = (const char *const *)env,
                              .fds = fds,
                              .fd_count = p->is_terminal ? 0 : 3,
                              .flags = INIT_SPAWN_REAPS | (p->is_terminal ? INIT_SPAWN_TERMINAL : 0),
                              .cols = p->cols,
                              .rows = p->rows};

        p->is_spawned = 1;
        if (r == 0 && strlen(p->command) != p->command_size)
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the command contains NUL");
        if (r == 0 && !p->is_terminal)
                r = open_pipes(p, wants_input, fds, e);
        if (r == 0)
                r = sandbox_send_spawn(&spawn, on_spawned, p, e);
        for (int i = 0; i < 3; i++)
                fd_close(&fds[i]);
        sandbox_env_free(base);
        sandbox_env_free(env);
        return r;
}

static int check(struct sandbox *s, const struct process_options *opt, struct cloche_err *e)
{
        if (opt->command_size == 0 && !opt->is_foreground)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the command is empty");
        if (opt->command_size > SHELL_COMMAND_MAX)
                return err_set(e, CLOCHE_E_TOO_LARGE, "the command has %zu bytes, at most %u are accepted",
                               opt->command_size, SHELL_COMMAND_MAX);
        if (opt->stdin_size > PROCESS_INPUT_BYTES_MAX)
                return err_set(e, CLOCHE_E_QUEUE_FULL,
                               "stdin has %zu bytes, at most %u are accepted: send the rest by process.input",
                               opt->stdin_size, PROCESS_INPUT_BYTES_MAX);
        if (opt->cwd && (!*opt->cwd || strlen(opt->cwd) >= SHELL_CWD_MAX))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "cwd must have 1 to %d bytes", SHELL_CWD_MAX - 1);
        if (!opt->is_hidden && s->process_count >= SANDBOX_PROCESSES_MAX)
                return err_set(e, CLOCHE_E_QUEUE_FULL,
                               "%u processes are kept already: process.cleanup removes those that have ended",
                               s->process_count);
        if (opt->id && (!*opt->id || strlen(opt->id) > 128))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "process: the id must have 1 to 128 bytes");
        if (opt->id && process_find(s, opt->id, NULL))
                return err_set(e, CLOCHE_E_STATE, "there is a process \"%.64s\" already: use another id", opt->id);
        return opt->env ? sandbox_env_check(opt->env, e) : 0;
}

static struct process *process_new(struct sandbox *s, const struct process_options *opt, struct session *session,
                                   struct cloche_err *e)
{
        struct process *p = calloc(1, sizeof(*p));
        char made_up[40];

        snprintf(made_up, sizeof(made_up), "%s-%llu", opt->is_hidden ? "output" : "process",
                 (unsigned long long)(opt->is_hidden ? ++s->next_output : ++s->next_process));
        if (p) {
                p->command = malloc(opt->command_size + 1);
                p->id = strdup(opt->id ? opt->id : made_up);
                p->cwd = opt->cwd ? strdup(opt->cwd) : NULL;
        }
        if (!p || !p->command || !p->id || (opt->cwd && !p->cwd)) {
                if (p) {
                        free(p->command);
                        free(p->id);
                        free(p->cwd);
                }
                free(p);
                err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start a command");
                return NULL;
        }
        memcpy(p->command, opt->command, opt->command_size);
        p->command[opt->command_size] = '\0';
        p->command_size = opt->command_size;
        p->sandbox = s;
        p->session = session;
        session->users++;
        p->control = session->control;
        p->env = opt->env ? json_incref((json_t *)opt->env) : NULL;
        p->is_hidden = opt->is_hidden;
        p->is_foreground = opt->is_foreground;
        p->is_terminal = opt->cols > 0;
        p->keeps_input = opt->keeps_input || p->is_terminal;
        p->auto_cleanup = opt->auto_cleanup;
        p->is_paced = opt->is_paced;
        p->cols = opt->cols;
        p->rows = opt->rows;
        p->timeout_ms = opt->timeout_ms ? opt->timeout_ms : opt->is_foreground ? session->timeout_ms : 0;
        p->status_fd = p->input_fd = -EBADF;
        p->started_ms = clock_real_ms();
        p->denials_since = s->decision_count;
        STAILQ_INIT(&p->input);
        TAILQ_INIT(&p->followers);
        TAILQ_INIT(&p->waits);
        TAILQ_INIT(&p->killings);
        process_streams_init(p, opt->keep, opt->keep_bytes);
        p->on_begin = opt->on_begin;
        p->on_end = opt->on_end;
        p->data = opt->data;
        TAILQ_INSERT_TAIL(&s->processes, p, link);
        if (p->is_hidden)
                s->output_count++;
        else
                s->process_count++;
        return p;
}

int process_start(struct sandbox *s, const struct process_options *opt, struct process **ret, struct cloche_err *e)
{
        struct session *session;
        struct process *p;
        int wants_input = opt->keeps_input || opt->stdin_data, r = check(s, opt, e);

        if (r < 0)
                return r;
        session = session_find(s, opt->session, e);
        p = session ? process_new(s, opt, session, e) : NULL;
        if (!p)
                return -(int)e->code;
        process_outputs_drop_old(s);
        *ret = p;
        p->pins++;
        /* A copy of a busy shell would have to wait for it. */
        if (p->is_terminal || (!p->is_foreground && session_delays_forks(session) && session->state != SHELL_STARTING &&
                               session->control->fd >= 0))
                r = start_by_init(p, wants_input, e);
        else
                r = start_in_shell(p, !p->is_foreground, wants_input, e);
        if (r == 0 && opt->stdin_data)
                r = process_write(p, opt->stdin_data, opt->stdin_size, 1, NULL, NULL, e);
        if (r < 0) {
                control_detach(p->control, p); /* PID 1 may have the request to start it already */
                if (p->has_shell_command)
                        session_detach(p->session, &p->shell);
                p->on_begin = NULL;
                p->on_end = NULL;
                if (!process_is_ended(p))
                        process_set_state(p, PROCESS_ENDED);
                p->is_removed = 1;
        }
        process_unpin(p);
        return r;
}
