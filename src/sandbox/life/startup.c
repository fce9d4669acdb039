/* The start and ready commands of an image:
 *
 *   BEGINS ── the start command runs ──▶ POLLS ── the ready command succeeds ──▶ DECIDED ── a turn ──▶ OVER
 *                                          └── it never does, or the start command fails ──▶ DECIDED
 *
 * A new sandbox whose commands fail is none; one that was saved runs all the same, for else its
 * files could not be reached, and its description has the reason. Runs in: cloched-engine, on its
 * loop, with the rights of the daemon's user; the commands run in the box. */
#include "startup.h"
#include "log.h"
#include "sandbox/process/process.h"
#include "timer.h"

#include "base/err.h"
#include "base/state.h"
#include "jail/root/plan.h"
#include "proto/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_RETRY_MS 20
#define LAST_RETRY_MS 2000
#define OUTPUT_KEEP_BYTES (UINT64_C(64) << 20) /* as of process.start */
#define SAID_BYTES 4000                        /* of the output that an error has */
#define SHOWN_BYTES 100                        /* of it in the message */

enum startup_state { STARTUP_BEGINS, STARTUP_POLLS, STARTUP_DECIDED, STARTUP_OVER, STARTUP_STATES };

struct startup {
        struct sandbox *sandbox;
        enum startup_state state;
        struct process *service, *attempt; /* until they end; NULL: none */
        struct sandbox_timer *deadline, *retry;
        uint64_t retry_ms;
        int status, has_status; /* of the last attempt that ended */
        struct cloche_err error;
        json_t *output; /* the end of that of a command that failed; NULL: none */
};

static const unsigned transitions[STARTUP_STATES] = {
        [STARTUP_BEGINS] = STATE_TO(STARTUP_POLLS) | STATE_TO(STARTUP_DECIDED),
        [STARTUP_POLLS] = STATE_TO(STARTUP_DECIDED),
        [STARTUP_DECIDED] = STATE_TO(STARTUP_OVER),
};

static void set_state(struct startup *u, enum startup_state state)
{
        STATE_CHECK(transitions, u->state, state);
        u->state = state;
}

/* The decision takes effect in a turn: here a process that the end of the box frees is on the
 * stack. */
static void decide(struct startup *u, const struct cloche_err *e)
{
        if (u->state >= STARTUP_DECIDED)
                return;
        if (e)
                u->error = *e;
        set_state(u, STARTUP_DECIDED);
        sandbox_schedule_turn(u->sandbox);
}

/* -- output ----------------------------------------------------------------------------------------------------- */

/* Keep the end of the output of the process, if it has any that is text. */
static void keep_output(struct startup *u, const struct process *p)
{
        for (int i = STREAMS, is_found = 0; i > 0 && !is_found; i--) {
                const struct spool *spool = &p->streams[i - 1].spool;
                uint64_t end = spool_end(spool), from = end > SAID_BYTES ? end - SAID_BYTES : 0;
                size_t size = 0;
                char *text, *line;

                from = from < spool_begin(spool) ? spool_begin(spool) : from;
                text = end > from ? spool_copy(spool, from, (size_t)(end - from), &size) : NULL;
                line = text && from > 0 ? strchr(text, '\n') : text; /* a part of a line may begin within a character */
                if (line && *line) {
                        json_decref(u->output);
                        u->output = json_string(line + (line != text));
                        is_found = u->output != NULL;
                }
                free(text);
        }
}

/* Return the end of the output that fits into a message, from the beginning of a line. */
static const char *shown(const struct startup *u)
{
        const char *text = json_string_value(u->output);
        const size_t size = text ? strlen(text) : 0;
        const char *line = size > SHOWN_BYTES ? strchr(text + size - SHOWN_BYTES, '\n') : text;

        return line && line[*line == '\n'] ? line + (*line == '\n') : "";
}

/* Add the output to the message, without the line's end. */
static void add_output(const struct startup *u, struct cloche_err *e)
{
        const char *text = shown(u);
        size_t size;

        if (*text)
                snprintf(e->msg + strlen(e->msg), sizeof(e->msg) - strlen(e->msg), ": %s", text);
        for (size = strlen(e->msg); size > 0 && e->msg[size - 1] == '\n';)
                e->msg[--size] = '\0';
}

/* -- the commands ----------------------------------------------------------------------------------------------- */

/* A sandbox with root becomes the user of the image; any other has that one alone. */
static int write_command(const struct sandbox *s, const char *command, struct buf *ret)
{
        const struct jail_user user = image_runs_as(&s->image);
        int has_user = s->has_root && json_object_get(s->image.settings->json, "runsAs");
        char become[120];
        int r = 0;

        snprintf(become, sizeof(become), "exec /" JAIL_BIN "/sudo -u %u -g %u -- /bin/bash -c ", user.uid, user.gid);
        if (!has_user)
                return buf_append(ret, command, strlen(command));
        r = buf_append(ret, become, strlen(become));
        return r < 0 ? r : buf_quote(ret, command);
}

static int start_process(struct startup *u, const char *command, struct process_options *opt, struct process **ret,
                         struct cloche_err *e)
{
        _cleanup_buf_ struct buf text = BUF_INIT(8 * IMAGE_COMMAND_BYTES_MAX);

        if (write_command(u->sandbox, command, &text) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start a command of the image");
        opt->command = text.data;
        opt->command_size = text.size;
        opt->data = u;
        return process_start(u->sandbox, opt, ret, e);
}

static void try_ready(struct startup *u);

static void on_retry(uv_timer_t *timer)
{
        try_ready(timer->data);
}

static void on_attempt_begin(struct process *p, const struct cloche_err *e)
{
        struct startup *u = p->data;

        if (!e)
                return;
        u->attempt = NULL;
        decide(u, e);
}

static void on_attempt_end(struct process *p)
{
        struct startup *u = p->data;

        u->attempt = NULL;
        u->status = p->exit_code;
        u->has_status = 1;
        if (u->state != STARTUP_POLLS)
                return;
        if (p->exit_code == 0) {
                decide(u, NULL);
                return;
        }
        keep_output(u, p);
        sandbox_timer_start(u->retry, on_retry, u->retry_ms, 0);
        u->retry_ms = u->retry_ms < LAST_RETRY_MS / 2 ? u->retry_ms * 2 : LAST_RETRY_MS;
}

static void try_ready(struct startup *u)
{
        struct process_options opt = {.is_hidden = 1,
                                      .auto_cleanup = 1,
                                      .keep = SPOOL_LAST,
                                      .keep_bytes = SAID_BYTES,
                                      .on_begin = on_attempt_begin,
                                      .on_end = on_attempt_end};
        struct cloche_err e = {0};

        if (u->state == STARTUP_POLLS &&
            start_process(u, u->sandbox->image.settings->ready, &opt, &u->attempt, &e) < 0) {
                u->attempt = NULL;
                decide(u, &e);
        }
}

static void on_deadline(uv_timer_t *timer)
{
        struct startup *u = timer->data;
        struct cloche_err e;

        if (u->service)
                keep_output(u, u->service);
        err_set(&e, CLOCHE_E_TIMEOUT, "the image's ready command did not succeed within %llu ms",
                (unsigned long long)u->sandbox->image.settings->ready_ms);
        if (u->has_status)
                snprintf(e.msg + strlen(e.msg), sizeof(e.msg) - strlen(e.msg), " (status %d)", u->status);
        add_output(u, &e);
        decide(u, &e);
}

/* The time counts from here, as the start of the box is none of the image's. */
static void poll_ready(struct startup *u)
{
        const struct image_settings *settings = u->sandbox->image.settings;

        if (!settings->ready) {
                decide(u, NULL);
                return;
        }
        set_state(u, STARTUP_POLLS);
        sandbox_timer_start(u->deadline, on_deadline, settings->ready_ms, 0);
        try_ready(u);
}

static void on_service_begin(struct process *p, const struct cloche_err *e)
{
        struct startup *u = p->data;

        if (!e) {
                poll_ready(u);
                return;
        }
        u->service = NULL;
        decide(u, e);
}

/* A command that started a daemon ends with status 0. */
static void on_service_end(struct process *p)
{
        struct startup *u = p->data;
        struct sandbox *s = u->sandbox;
        struct cloche_err e;

        u->service = NULL;
        if (p->exit_code == 0 || (u->state == STARTUP_DECIDED && u->error.code))
                return;
        err_set(&e, CLOCHE_E_PROCESS_ENDED, "the image's start command ended with status %d%s", p->exit_code,
                u->state == STARTUP_OVER ? "" : " before its ready command succeeded");
        json_decref(u->output); /* that of a ready command tells nothing of this one */
        u->output = NULL;
        keep_output(u, p);
        add_output(u, &e);
        if (u->state == STARTUP_DECIDED)
                u->error = e; /* the turn that would have let it run comes yet */
        else if (u->state != STARTUP_OVER)
                decide(u, &e);
        else if (s->is_pooled)
                sandbox_stop(s, 0);
        else
                sandbox_log(s, "failed", e.msg);
}

static void start_service(struct startup *u)
{
        const char *command = u->sandbox->image.settings->start;
        struct process_options opt = {.id = STARTUP_PROCESS,
                                      .keep = SPOOL_LAST,
                                      .keep_bytes = OUTPUT_KEEP_BYTES,
                                      .on_begin = on_service_begin,
                                      .on_end = on_service_end};
        struct cloche_err e = {0};

        if (!command) {
                poll_ready(u);
        } else if (start_process(u, command, &opt, &u->service, &e) < 0) {
                u->service = NULL;
                decide(u, &e);
        }
}

/* -- whole ------------------------------------------------------------------------------------------------------ */

static void startup_free(struct startup *u)
{
        sandbox_timer_close(u->deadline);
        sandbox_timer_close(u->retry);
        json_decref(u->output);
        free(u);
}

static struct startup *startup_new(struct sandbox *s)
{
        struct startup *u = calloc(1, sizeof(*u));

        if (!u)
                return NULL;
        *u = (struct startup){.sandbox = s,
                              .retry_ms = FIRST_RETRY_MS,
                              .deadline = sandbox_timer_new(s, u),
                              .retry = sandbox_timer_new(s, u)};
        if (u->deadline && u->retry)
                return u;
        startup_free(u);
        return NULL;
}

void sandbox_startup_begin(struct sandbox *s)
{
        struct cloche_err e;

        s->startup_error[0] = '\0';
        if (!image_has_commands(&s->image)) {
                sandbox_started(s);
                return;
        }
        s->startup = startup_new(s);
        if (!s->startup) {
                err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "start the commands of an image");
                sandbox_start_failed(s, &e, NULL);
                return;
        }
        start_service(s->startup);
}

int sandbox_startup_is_over(const struct sandbox *s)
{
        return !s->startup || s->startup->state == STARTUP_OVER;
}

unsigned sandbox_startup_processes(const struct sandbox *s)
{
        return s->startup && s->startup->service && !process_is_ended(s->startup->service);
}

int sandbox_startup_has(const struct sandbox *s, const struct process *p)
{
        return s->startup && s->startup->service == p;
}

void sandbox_startup_turn(struct sandbox *s)
{
        struct startup *u = s->startup;

        if (!u || u->state != STARTUP_DECIDED || s->state != SANDBOX_RUNNING || s->plan != SANDBOX_STAYS)
                return; /* a paused one decides when it goes on, and a stopped one at its next start */
        set_state(u, STARTUP_OVER);
        sandbox_timer_stop(u->deadline);
        sandbox_timer_stop(u->retry);
        if (u->attempt)
                process_detach(u->attempt);
        u->attempt = NULL;
        if (u->error.code && (s->is_untried || s->is_pooled)) {
                struct cloche_err e = u->error;
                json_t *output = json_incref(u->output);

                sandbox_start_failed(s, &e, output);
                json_decref(output);
                return;
        }
        if (u->error.code) {
                snprintf(s->startup_error, sizeof(s->startup_error), "%s", u->error.msg);
                sandbox_log(s, "failed", u->error.msg);
        }
        sandbox_started(s);
}

void sandbox_startup_on_box_closed(struct sandbox *s)
{
        if (s->startup)
                startup_free(s->startup);
        s->startup = NULL;
}
