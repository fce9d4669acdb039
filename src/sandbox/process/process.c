/* Processes: their end, kills, records and descriptions. */
#include "process.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "engine/loop/handle.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>

/* -- records -------------------------------------------------------------------------------------------------- */

static void process_free(struct process *p)
{
        struct sandbox *s = p->sandbox;

        TAILQ_REMOVE(&s->processes, p, link);
        if (p->is_hidden)
                s->output_count--;
        else
                s->process_count--;
        streams_close(p);
        input_close(p);
        handle_close(p->status_poll);
        fd_close(&p->status_fd);
        handle_close(p->timer);
        handle_close(p->grace_timer);
        handle_close(p->sweep_timer);
        session_unuse(p->session);
        json_decref(p->env);
        free(p->cwd);
        free(p->id);
        free(p->command);
        free(p);
}

void process_pin(struct process *p)
{
        p->pins++;
}

void process_unpin(struct process *p)
{
        if (--p->pins == 0 && p->is_forgotten)
                process_free(p);
}

void process_forget(struct process *p)
{
        p->is_forgotten = 1;
        if (p->pins == 0)
                process_free(p);
}

static struct process *oldest_output(struct sandbox *s)
{
        struct process *p;

        TAILQ_FOREACH (p, &s->processes, link)
                if (p->is_hidden && p->is_ended && p->pins == 0)
                        return p;
        return NULL;
}

static uint64_t spooled(const struct sandbox *s)
{
        const struct process *p;
        uint64_t bytes = 0;

        TAILQ_FOREACH (p, &s->processes, link)
                for (int i = 0; i < STREAMS; i++)
                        bytes += spool_bytes(&p->streams[i].spool);
        return bytes + outputs_bytes(s);
}

void outputs_forget_old(struct sandbox *s)
{
        struct process *p;

        while ((s->output_count > SANDBOX_OUTPUTS_MAX || spooled(s) > SANDBOX_SPOOL_BYTES) && (p = oldest_output(s)))
                process_forget(p);
}

struct process *process_find(struct sandbox *s, const char *id, struct cloche_err *e)
{
        struct process *p;

        TAILQ_FOREACH (p, &s->processes, link)
                if (!p->is_hidden && !p->is_forgotten && strcmp(p->id, id) == 0)
                        return p;
        err_set(e, CLOCHE_E_NOT_FOUND, "there is no process \"%.64s\" in this sandbox", id);
        return NULL;
}

const struct process *process_find_output(const struct sandbox *s, const char *id)
{
        const struct process *p;

        TAILQ_FOREACH (p, &s->processes, link)
                if (p->is_hidden && p->is_ended && !p->is_forgotten && strcmp(p->id, id) == 0)
                        return p;
        return NULL;
}

unsigned processes_running(const struct sandbox *s)
{
        const struct process *p;
        unsigned count = 0;

        TAILQ_FOREACH (p, &s->processes, link)
                count += !p->is_ended;
        return count;
}

#define SWEEP_EVERY_MS 20
#define END_PATIENCE_MS 2000 /* from a kill to the report of the supervisor */

static void on_sweep(uv_timer_t *timer);

/* -- the end -------------------------------------------------------------------------------------------------- */

void process_stop_timers(struct process *p)
{
        handle_close(p->timer);
        handle_close(p->grace_timer);
        p->timer = p->grace_timer = NULL;
}

/* A process may fork between SIGTERM and SIGKILL, so all processes beneath the supervisor are
 * signalled repeatedly until none remain. */
static void sweep_over(struct process *p)
{
        p->is_sweeping = 0;
        handle_close(p->sweep_timer);
        p->sweep_timer = NULL;
        killings_ended(p);
        process_unpin(p);
}

static void on_swept(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        struct process *p = data;

        fd_close(&fd);
        if (e && e->code == CLOCHE_E_TIMEOUT)
                killings_failed(p, e);
        if (e || answer->pid == 0)
                sweep_over(p);
        else
                uv_timer_start(p->sweep_timer, on_sweep, SWEEP_EVERY_MS, 0);
}

static int ask_sweep(struct process *p)
{
        int signal = clock_now_ns() < p->grace_ns ? SIGTERM : SIGKILL;

        return kill_ask(p->control, p->supervisor_pid, signal, INIT_KILL_TREE | INIT_KILL_BELOW, NULL, 0, on_swept, p,
                        NULL);
}

static void on_sweep(uv_timer_t *timer)
{
        struct process *p = timer->data;

        if (ask_sweep(p) < 0)
                sweep_over(p);
}

static int sweep(struct process *p)
{
        p->sweep_timer = handle_timer(&p->sandbox->all->engine->loop, p);
        if (!p->sweep_timer || ask_sweep(p) < 0)
                return -1;
        process_pin(p);
        return 0;
}

void process_ended(struct process *p, int exit_code, int signal)
{
        if (p->is_ended)
                return;
        p->is_ended = 1;
        p->ended_ms = clock_real_ms();
        p->ended_ns = clock_now_ns();
        p->exit_code = exit_code;
        p->signal = signal;
        p->status = signal ? PROCESS_KILLED : exit_code ? PROCESS_FAILED : PROCESS_COMPLETED;
        process_stop_timers(p);
        handle_close(p->status_poll);
        p->status_poll = NULL;
        fd_close(&p->status_fd);
        input_close(p);
        p->pins++;
        streams_drain(p, p->is_hidden);
        waits_ended(p);
        followers_feed(p);
        if (p->is_terminating && p->supervisor_pid && sweep(p) == 0)
                p->is_sweeping = 1;
        else
                killings_ended(p);
        if (!p->is_hidden)
                sandbox_tell(p->sandbox, "processEnded", process_json(p));
        if (p->on_end)
                p->on_end(p);
        p->on_end = NULL;
        if (p->auto_cleanup)
                p->is_forgotten = 1;
        process_unpin(p);
}

void process_ended_as(struct process *p, int wait_status)
{
        if (WIFSIGNALED(wait_status))
                process_ended(p, 128 + WTERMSIG(wait_status), WTERMSIG(wait_status));
        else /* a shell exits with 128 or more if its command was killed */
                process_ended(p, WEXITSTATUS(wait_status), 0);
}

void processes_exited(struct sandbox *s, struct control *control, const struct init_answer *exit)
{
        struct process *p;

        TAILQ_FOREACH (p, &s->processes, link)
                if (p->is_spawned && !p->is_ended && p->control == control && p->pid == exit->pid) {
                        process_ended_as(p, exit->wait_status);
                        return;
                }
}

/* -- kills ---------------------------------------------------------------------------------------------------- */

static void on_killed(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        (void)answer;
        fd_close(&fd);
        if (e && e->code == CLOCHE_E_TIMEOUT) /* other errors: it has ended, or its box has */
                killings_failed(data, e);
}

static int kill_tree(struct process *p, int signal, uint32_t flags, struct cloche_err *e)
{
        return kill_ask(p->control, p->pid, signal, flags, NULL, 0, on_killed, p, e);
}

static int start_timer(struct process *p, uv_timer_t **timer, uv_timer_cb cb, uint64_t ms, struct cloche_err *e)
{
        if (!*timer)
                *timer = handle_timer(&p->sandbox->all->engine->loop, p);
        if (!*timer)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a timer");
        uv_timer_start(*timer, cb, ms, 0);
        return 0;
}

/* The guest may have stopped the supervisor, which then never reports the end. Its death closes the
 * pipe, and that reports it. */
static void on_no_end(uv_timer_t *timer)
{
        struct process *p = timer->data;

        (void)kill_ask(p->control, p->supervisor_pid, SIGKILL, INIT_KILL_TREE, NULL, 0, NULL, NULL, NULL);
}

static int await_end(struct process *p, struct cloche_err *e)
{
        return p->supervisor_pid ? start_timer(p, &p->grace_timer, on_no_end, END_PATIENCE_MS, e) : 0;
}

void process_kill_hard(struct process *p)
{
        if (p->is_ended)
                return;
        if (p->has_shell_command && !p->shell.is_fork)
                session_kill(p->session, &p->shell);
        else if (p->pid && (kill_tree(p, SIGKILL, INIT_KILL_TREE, NULL) < 0 || await_end(p, NULL) < 0))
                return; /* the box has ended, or there is no memory for a timer */
        else if (!p->pid)
                p->is_stopping = 1; /* killed as soon as it has a pid */
}

static void on_timeout(uv_timer_t *timer)
{
        struct process *p = timer->data;

        p->timed_out = 1;
        streams_drain(p, 1); /* drop all later output: whether the shell still prints that the command was killed
                                depends on timing */
        process_kill_hard(p);
}

static void on_grace_over(uv_timer_t *timer)
{
        process_kill_hard(timer->data);
}

void process_arm_timeout(struct process *p)
{
        if (p->timeout_ms && start_timer(p, &p->timer, on_timeout, p->timeout_ms, NULL) < 0)
                process_kill_hard(p); /* without a timer it would run without end */
}

int process_kill(struct process *p, int signal, int tree, uint64_t grace_ms, struct cloche_err *e)
{
        int r;

        if (p->is_ended)
                return 0;
        if (!p->pid || p->has_shell_command) {
                process_kill_hard(p);
                return 0;
        }
        p->is_terminating |= !signal;
        p->grace_ns = clock_now_ns() + grace_ms * 1000000;
        r = kill_tree(p, signal ? signal : SIGTERM, tree ? INIT_KILL_TREE : 0, e);
        if (r == 0 && signal == SIGKILL && tree)
                r = await_end(p, e);
        return r == 0 && !signal ? start_timer(p, &p->grace_timer, on_grace_over, grace_ms, e) : r;
}

void process_abandon(struct process *p)
{
        p->on_begin = NULL;
        p->on_end = NULL;
        p->auto_cleanup = 1;
        if (p->is_ended)
                process_forget(p);
        else
                process_kill_hard(p);
}

/* -- the rest ------------------------------------------------------------------------------------------------- */

int process_resize(struct process *p, uint32_t cols, uint32_t rows, struct cloche_err *e)
{
        struct winsize size = {.ws_col = (unsigned short)cols, .ws_row = (unsigned short)rows};

        if (!p->is_terminal)
                return err_set(e, CLOCHE_E_STATE, "the process %s has no terminal", p->id);
        if (cols < 1 || cols > 1000 || rows < 1 || rows > 1000)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "a terminal of %u columns and %u rows, expected 1 to 1000 each", cols, rows);
        if (p->input_fd < 0 || ioctl(p->input_fd, TIOCSWINSZ, &size) < 0)
                return err_set(e, CLOCHE_E_STATE, "the terminal of the process %s is closed", p->id);
        p->cols = cols;
        p->rows = rows;
        return 0;
}

json_t *signal_json(int signal)
{
        return json_sprintf("SIG%s", sigabbrev_np(signal) ? sigabbrev_np(signal) : "KILL");
}

json_t *process_json(const struct process *p)
{
        static const char *const statuses[] = {"running", "completed", "failed", "killed"};
        json_t *object = json_pack("{s:s, s:i, s:s, s:s, s:o, s:b}", "process", p->id, "pid", (int)p->pid, "status",
                                   statuses[p->status], "session", p->session->name, "startedAt",
                                   time_json(p->started_ms), "timedOut", p->timed_out);
        json_t *command = json_stringn(p->command, p->command_size);

        if (!object) {
                json_decref(command);
                return NULL;
        }
        json_object_set_new(object, "command", command ? command : json_string("(not UTF-8)"));
        if (p->is_ended) {
                json_object_set_new(object, "endedAt", time_json(p->ended_ms));
                json_object_set_new(object, "exitCode", json_integer(p->exit_code));
        }
        if (p->signal)
                json_object_set_new(object, "signal", signal_json(p->signal));
        if (p->is_terminal)
                json_object_set_new(object, "terminal",
                                    json_pack("{s:i, s:i}", "cols", (int)p->cols, "rows", (int)p->rows));
        return object;
}

/* The box is dead, and all its processes with it. */
void processes_gone(struct sandbox *s)
{
        struct process *p;

        TAILQ_FOREACH (p, &s->processes, link)
                p->on_begin = NULL; /* the request has its outcome already */
        while ((p = TAILQ_FIRST(&s->processes))) {
                control_forget(p->control, p);
                if (p->has_shell_command)
                        session_forget(p->session, &p->shell);
                p->has_shell_command = 0;
                p->on_end = NULL;
                p->is_ended = 1;
                p->is_forgotten = 1;
                p->pins = 0;
                process_free(p);
        }
        drains_gone(s);
}
