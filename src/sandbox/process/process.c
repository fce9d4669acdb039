/* Processes: their end, kills, records and descriptions. Runs in: cloched-engine, on its loop,
 * with the rights of the daemon's user. */
#include "process.h"
#include "base/state.h"
#include "process-end.h"
#include "sandbox/context/cell-output.h"
#include "sandbox/core/spawn.h"
#include "sandbox/core/wait.h"
#include "sandbox/network/connections.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "engine/loop/watch.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>

/* -- states ---------------------------------------------------------------------------------------------------- */

static const unsigned transitions[PROCESS_STATES] = {
        [PROCESS_STARTING] = STATE_TO(PROCESS_CANCELLED) | STATE_TO(PROCESS_RUNNING) | STATE_TO(PROCESS_ENDED),
        [PROCESS_CANCELLED] = STATE_TO(PROCESS_CANCELLED) | STATE_TO(PROCESS_RUNNING) | STATE_TO(PROCESS_ENDED),
        [PROCESS_RUNNING] = STATE_TO(PROCESS_TERMINATING) | STATE_TO(PROCESS_ENDED),
        [PROCESS_TERMINATING] = STATE_TO(PROCESS_TERMINATING) | STATE_TO(PROCESS_ENDED),
        [PROCESS_ENDED] = STATE_TO(PROCESS_ENDED) | STATE_TO(PROCESS_SWEEPING),
        [PROCESS_SWEEPING] = STATE_TO(PROCESS_ENDED),
};

void process_set_state(struct process *p, enum process_state state)
{
        STATE_CHECK(transitions, p->state, state);
        p->state = state;
}

/* -- records -------------------------------------------------------------------------------------------------- */

static void process_free(struct process *p)
{
        struct sandbox *s = p->sandbox;

        TAILQ_REMOVE(&s->processes, p, link);
        if (p->is_hidden)
                s->output_count--;
        else
                s->process_count--;
        process_streams_close(p);
        process_input_close(p);
        watch_close(p->status_watch);
        fd_close(&p->status_fd);
        sandbox_timer_close(p->timer);
        sandbox_timer_close(p->grace_timer);
        sandbox_timer_close(p->sweep_timer);
        session_unuse(p->session);
        json_decref(p->env);
        json_decref(p->denials);
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
        if (--p->pins == 0 && p->is_removed)
                process_free(p);
}

void process_remove(struct process *p)
{
        p->is_removed = 1;
        if (p->pins == 0)
                process_free(p);
}

static struct process *oldest_output(struct sandbox *s)
{
        struct process *p;

        TAILQ_FOREACH (p, &s->processes, link)
                if (p->is_hidden && process_is_ended(p) && p->pins == 0)
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
        return bytes + context_outputs_bytes(s);
}

void process_outputs_drop_old(struct sandbox *s)
{
        struct process *p;

        while ((s->output_count > SANDBOX_OUTPUTS_MAX || spooled(s) > SANDBOX_SPOOL_BYTES) && (p = oldest_output(s)))
                process_remove(p);
}

struct process *process_find(struct sandbox *s, const char *id, struct cloche_err *e)
{
        struct process *p;

        TAILQ_FOREACH (p, &s->processes, link)
                if (!p->is_hidden && !p->is_removed && strcmp(p->id, id) == 0)
                        return p;
        err_set(e, CLOCHE_E_NOT_FOUND, "there is no process \"%.64s\" in this sandbox (process.list lists them)", id);
        return NULL;
}

const struct process *process_find_output(const struct sandbox *s, const char *id)
{
        const struct process *p;

        TAILQ_FOREACH (p, &s->processes, link)
                if (p->is_hidden && process_is_ended(p) && !p->is_removed && strcmp(p->id, id) == 0)
                        return p;
        return NULL;
}

unsigned processes_running(const struct sandbox *s)
{
        const struct process *p;
        unsigned count = 0;

        TAILQ_FOREACH (p, &s->processes, link)
                count += !process_is_ended(p);
        return count;
}

#define SWEEP_EVERY_MS 20
#define END_PATIENCE_MS 2000 /* from a kill to the report of the supervisor */

static void on_sweep(uv_timer_t *timer);

/* -- the end -------------------------------------------------------------------------------------------------- */

void process_stop_timers(struct process *p)
{
        sandbox_timer_close(p->timer);
        sandbox_timer_close(p->grace_timer);
        p->timer = p->grace_timer = NULL;
}

/* A process may fork between SIGTERM and SIGKILL, so all processes beneath the supervisor are
 * signalled repeatedly until none remain. */
static void sweep_done(struct process *p)
{
        process_set_state(p, PROCESS_ENDED);
        sandbox_timer_close(p->sweep_timer);
        p->sweep_timer = NULL;
        process_killings_ended(p);
        process_unpin(p);
}

static void on_swept(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        struct process *p = data;

        fd_close(&fd);
        if (e && e->code == CLOCHE_E_TIMEOUT)
                process_killings_failed(p, e);
        if (e || answer->pid == 0)
                sweep_done(p);
        else
                sandbox_timer_start(p->sweep_timer, on_sweep, SWEEP_EVERY_MS, 0);
}

static int send_sweep(struct process *p)
{
        int signal = clock_now_ns() < p->grace_ns ? SIGTERM : SIGKILL;

        return sandbox_send_kill(p->control, p->supervisor_pid, signal, INIT_KILL_TREE | INIT_KILL_BELOW, NULL, 0,
                                 on_swept, p, NULL);
}

static void on_sweep(uv_timer_t *timer)
{
        struct process *p = timer->data;

        if (send_sweep(p) < 0)
                sweep_done(p);
}

static int sweep(struct process *p)
{
        p->sweep_timer = sandbox_timer_new(p->sandbox, p);
        if (!p->sweep_timer || send_sweep(p) < 0)
                return -1;
        process_pin(p);
        return 0;
}

void process_ended(struct process *p, int exit_code, int signal)
{
        int is_swept = p->state == PROCESS_TERMINATING && p->supervisor_pid;

        if (process_is_ended(p))
                return;
        process_set_state(p, PROCESS_ENDED);
        p->ended_ms = clock_real_ms();
        p->ended_ns = clock_now_ns();
        p->denials = sandbox_denials(p->sandbox, p->denials_since);
        p->exit_code = exit_code;
        p->signal = signal;
        process_stop_timers(p);
        watch_close(p->status_watch);
        p->status_watch = NULL;
        fd_close(&p->status_fd);
        process_input_close(p);
        p->pins++;
        process_streams_drain(p, p->is_hidden);
        sandbox_waits_ended(p);
        process_followers_feed(p);
        if (is_swept && sweep(p) == 0)
                process_set_state(p, PROCESS_SWEEPING);
        else
                process_killings_ended(p);
        if (!p->is_hidden)
                sandbox_send_event(p->sandbox, "processEnded", process_json(p));
        if (p->on_end)
                p->on_end(p);
        p->on_end = NULL;
        if (p->auto_cleanup)
                p->is_removed = 1;
        process_unpin(p);
}

void process_ended_as(struct process *p, int wait_status)
{
        if (WIFSIGNALED(wait_status))
                process_ended(p, 128 + WTERMSIG(wait_status), WTERMSIG(wait_status));
        else /* a shell exits with 128 or more if its command was killed */
                process_ended(p, WEXITSTATUS(wait_status), 0);
}

static int is_live(const struct process *p)
{
        return p->state == PROCESS_RUNNING || p->state == PROCESS_TERMINATING;
}

void processes_exited(struct sandbox *s, struct control *control, const struct init_answer *exit)
{
        struct process *p;

        TAILQ_FOREACH (p, &s->processes, link)
                if (p->is_spawned && is_live(p) && p->control == control && p->pid == exit->pid) {
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
                process_killings_failed(data, e);
}

static int kill_tree(struct process *p, int signal, uint32_t flags, struct cloche_err *e)
{
        return sandbox_send_kill(p->control, p->pid, signal, flags, NULL, 0, on_killed, p, e);
}

static int make_timer(struct process *p, struct sandbox_timer **timer, struct cloche_err *e)
{
        if (!*timer)
                *timer = sandbox_timer_new(p->sandbox, p);
        return *timer ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a timer");
}

static int start_timer(struct process *p, struct sandbox_timer **timer, uv_timer_cb cb, uint64_t ms,
                       struct cloche_err *e)
{
        int r = make_timer(p, timer, e);

        if (r == 0)
                sandbox_timer_start(*timer, cb, ms, 0);
        return r;
}

/* The guest may have stopped the supervisor, which then never reports the end. Its death closes the
 * pipe, and that reports it. */
static void on_no_end(uv_timer_t *timer)
{
        struct process *p = timer->data;

        (void)sandbox_send_kill(p->control, p->supervisor_pid, SIGKILL, INIT_KILL_TREE, NULL, 0, NULL, NULL, NULL);
}

static int await_end(struct process *p, struct cloche_err *e)
{
        return p->supervisor_pid ? start_timer(p, &p->grace_timer, on_no_end, END_PATIENCE_MS, e) : 0;
}

void process_kill_hard(struct process *p)
{
        if (process_is_ended(p))
                return;
        if (p->has_shell_command && !p->shell.is_fork)
                session_kill(p->session, &p->shell);
        else if (p->pid && (kill_tree(p, SIGKILL, INIT_KILL_TREE, NULL) < 0 || await_end(p, NULL) < 0))
                return; /* the box has ended, or there is no memory for a timer */
        else if (!p->pid)
                process_set_state(p, PROCESS_CANCELLED);
}

static void on_timeout(uv_timer_t *timer)
{
        struct process *p = timer->data;

        p->timed_out = 1;
        process_streams_drain(p, 1); /* drop all later output: whether the shell still prints that the command was
                                killed depends on timing */
        process_kill_hard(p);
}

static void on_grace_end(uv_timer_t *timer)
{
        process_kill_hard(timer->data);
}

void process_arm_timeout(struct process *p)
{
        if (p->timeout_ms && start_timer(p, &p->timer, on_timeout, p->timeout_ms, NULL) < 0)
                process_kill_hard(p); /* without a timer it would run without end */
}

/* A process that gets SIGTERM gets SIGKILL too, so its timer is made before the signal is sent. */
static int terminate(struct process *p, uint32_t flags, uint64_t grace_ms, struct cloche_err *e)
{
        int r = make_timer(p, &p->grace_timer, e);

        if (r == 0)
                r = kill_tree(p, SIGTERM, flags, e);
        if (r < 0)
                return r;
        process_set_state(p, PROCESS_TERMINATING);
        sandbox_timer_start(p->grace_timer, on_grace_end, grace_ms, 0);
        return 0;
}

int process_kill(struct process *p, int signal, int tree, uint64_t grace_ms, struct cloche_err *e)
{
        uint32_t flags = tree ? INIT_KILL_TREE : 0;
        int r;

        if (process_is_ended(p))
                return 0;
        if (!p->pid || p->has_shell_command) {
                process_kill_hard(p);
                return 0;
        }
        p->grace_ns = clock_now_ns() + grace_ms * 1000000;
        if (!signal)
                return terminate(p, flags, grace_ms, e);
        r = kill_tree(p, signal, flags, e);
        return r == 0 && signal == SIGKILL && tree ? await_end(p, e) : r;
}

void process_detach(struct process *p)
{
        p->on_begin = NULL;
        p->on_end = NULL;
        p->auto_cleanup = 1;
        if (process_is_ended(p))
                process_remove(p);
        else
                process_kill_hard(p);
}

/* -- the rest ------------------------------------------------------------------------------------------------- */

int process_resize(struct process *p, uint32_t cols, uint32_t rows, struct cloche_err *e)
{
        struct winsize size = {.ws_col = (unsigned short)cols, .ws_row = (unsigned short)rows};

        if (!p->is_terminal)
                return err_set(e, CLOCHE_E_STATE, "the process %s has no terminal: start it with one (terminal)",
                               p->id);
        if (cols < 1 || cols > 1000 || rows < 1 || rows > 1000)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "a terminal of %u columns and %u rows, expected 1 to 1000 each", cols, rows);
        if (p->input_fd < 0 || ioctl(p->input_fd, TIOCSWINSZ, &size) < 0)
                return err_set(e, CLOCHE_E_STATE, "the terminal of the process %s is closed", p->id);
        p->cols = cols;
        p->rows = rows;
        return 0;
}

json_t *process_signal_json(int signal)
{
        return json_sprintf("SIG%s", sigabbrev_np(signal) ? sigabbrev_np(signal) : "KILL");
}

static const char *status_name(const struct process *p)
{
        if (!process_is_ended(p))
                return "running";
        return p->signal ? "killed" : p->exit_code ? "failed" : "completed";
}

json_t *process_json(const struct process *p)
{
        json_t *object = json_pack("{s:s, s:i, s:s, s:s, s:o, s:b}", "process", p->id, "pid", (int)p->pid, "status",
                                   status_name(p), "session", p->session->name, "startedAt",
                                   sandbox_time_json(p->started_ms), "timedOut", p->timed_out);
        json_t *command = json_stringn(p->command, p->command_size);

        if (!object) {
                json_decref(command);
                return NULL;
        }
        json_object_set_new(object, "command", command ? command : json_string("(not UTF-8)"));
        if (process_is_ended(p)) {
                json_object_set_new(object, "endedAt", sandbox_time_json(p->ended_ms));
                json_object_set_new(object, "exitCode", json_integer(p->exit_code));
        }
        if (p->denials)
                json_object_set(object, "denials", p->denials);
        if (p->signal)
                json_object_set_new(object, "signal", process_signal_json(p->signal));
        if (p->is_terminal)
                json_object_set_new(object, "terminal",
                                    json_pack("{s:i, s:i}", "cols", (int)p->cols, "rows", (int)p->rows));
        return object;
}

/* The box is dead, and all its processes with it. */
void processes_on_box_closed(struct sandbox *s)
{
        struct process *p;

        TAILQ_FOREACH (p, &s->processes, link)
                p->on_begin = NULL; /* the request has its outcome already */
        while ((p = TAILQ_FIRST(&s->processes))) {
                control_detach(p->control, p);
                if (p->has_shell_command)
                        session_detach(p->session, &p->shell);
                p->has_shell_command = 0;
                p->on_end = NULL;
                p->is_removed = 1;
                p->pins = 0;
                process_free(p);
        }
        process_drains_close(s);
}
