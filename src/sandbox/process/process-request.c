/* Requests about processes. */
#include "sandbox/core/internal.h"

#include "base/err.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define LOG_BYTES (1u << 20)
#define LOG_KEEP_BYTES (UINT64_C(64) << 20)
#define TERMINAL_KEEP_BYTES (256u << 10)
#define GRACE_MS 5000

static struct process *find(struct sandbox_ask *ask, struct cloche_err *e)
{
        const char *id = ask_text(ask, "process");

        if (id)
                return process_find(ask->sandbox, id, e);
        err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s needs the field \"process\": the id of one", ask->method->name);
        return NULL;
}

/* -- starting ------------------------------------------------------------------------------------------------- */

static void start_cancel(struct sandbox_ask *ask)
{
        process_abandon(ask->state);
}

static void on_begin(struct process *p, const struct cloche_err *e)
{
        struct sandbox_ask *ask = p->data;

        if (e)
                ask_fail(ask, e, NULL);
        else
                ask_result(ask, process_json(p), NULL);
}

static int read_terminal(const struct sandbox_ask *ask, struct process_options *opt, struct cloche_err *e)
{
        const json_t *terminal = json_object_get(ask->params, "terminal");
        json_int_t cols = 80, rows = 24;
        const char *name;
        json_t *value;

        if (!terminal)
                return 0;
        json_object_foreach ((json_t *)terminal, name, value) {
                json_int_t *size = strcmp(name, "cols") == 0 ? &cols : strcmp(name, "rows") == 0 ? &rows : NULL;

                if (!size || !json_is_integer(value) || json_integer_value(value) < 1 ||
                    json_integer_value(value) > 1000)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "terminal: %.40s is none of cols and rows, 1 to 1000 each", name);
                *size = json_integer_value(value);
        }
        opt->cols = (uint32_t)cols;
        opt->rows = (uint32_t)rows;
        opt->keep_bytes = TERMINAL_KEEP_BYTES;
        return 0;
}

int begin_PROCESS_START(struct sandbox_ask *ask, struct cloche_err *e)
{
        struct process_options opt = {
                .session = ask_text(ask, "session"),
                .id = ask_text(ask, "process"),
                .cwd = ask_text(ask, "cwd"),
                .env = json_object_get(ask->params, "env"),
                .timeout_ms = ask_count(ask, "timeoutMs", 0),
                .keeps_input = ask_flag(ask, "stdin", 0),
                .auto_cleanup = ask_flag(ask, "autoCleanup", 0),
                .keep = SPOOL_LAST,
                .keep_bytes = LOG_KEEP_BYTES,
                .on_begin = on_begin,
                .data = ask,
        };
        struct process *p = NULL;
        int r = read_terminal(ask, &opt, e);

        if (r < 0)
                return r;
        opt.command = ask_bytes(ask, "command", &opt.command_size);
        if (!opt.command)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "process.start needs the field \"command\": text");
        r = process_start(ask->sandbox, &opt, &p, e);
        if (r == 0 && !ask->is_over) {
                ask->state = p;
                ask->cancel = start_cancel;
        }
        return r;
}

/* -- looking -------------------------------------------------------------------------------------------------- */

static int is_asked_for(const struct process *p, const char *session)
{
        return !p->is_hidden && !p->is_forgotten && (p->pid || p->is_ended) &&
               (!session || strcmp(p->session->name, session) == 0);
}

int begin_PROCESS_LIST(struct sandbox_ask *ask, struct cloche_err *e)
{
        const char *session = ask_text(ask, "session");
        json_t *list = json_array();
        struct process *p;

        if (session && !session_find(ask->sandbox, session, e)) {
                json_decref(list);
                return -(int)e->code;
        }
        TAILQ_FOREACH (p, &ask->sandbox->processes, link)
                if (is_asked_for(p, session))
                        json_array_append_new(list, process_json(p));
        ask_result(ask, json_pack("{s:o}", "processes", list), NULL);
        return 0;
}

int begin_PROCESS_GET(struct sandbox_ask *ask, struct cloche_err *e)
{
        struct process *p = find(ask, e);

        if (p)
                ask_result(ask, process_json(p), NULL);
        return p ? 0 : -(int)e->code;
}

int begin_PROCESS_LOGS(struct sandbox_ask *ask, struct cloche_err *e)
{
        static const struct {
                const char *name, *next, *total, *dropped;
        } rows[STREAMS] = {{"stdout", "stdoutNext", "stdoutTotal", "stdoutDropped"},
                           {"stderr", "stderrNext", "stderrTotal", "stderrDropped"}};
        struct process *p = find(ask, e);
        struct buf attachments = BUF_INIT(FRAME_BYTES_MAX);
        json_t *answer = p ? json_object() : NULL;

        if (!p)
                return -(int)e->code;
        for (int i = 0; answer && i < STREAMS; i++) {
                const struct spool *spool = &p->streams[i].spool;
                uint64_t next;

                if (put_page(answer, rows[i].name, spool, ask_count(ask, "offset", 0),
                             ask_count(ask, "limit", LOG_BYTES), &attachments, &next) < 0) {
                        json_decref(answer);
                        answer = NULL;
                        break;
                }
                json_object_set_new(answer, rows[i].next, json_integer((json_int_t)next));
                json_object_set_new(answer, rows[i].total, json_integer((json_int_t)spool->total));
                json_object_set_new(answer, rows[i].dropped, json_integer((json_int_t)spool_begin(spool)));
        }
        ask_result(ask, answer, &attachments);
        buf_done(&attachments);
        return 0;
}

/* -- following ------------------------------------------------------------------------------------------------ */

struct following {
        struct follower follower;
        struct process *process;
        struct sandbox_ask *ask;
};

static void following_free(struct following *f)
{
        unfollow(&f->follower);
        process_unpin(f->process);
        free(f);
}

static void follow_cancel(struct sandbox_ask *ask)
{
        following_free(ask->state);
}

static void follow_complete(struct follower *follower)
{
        struct following *f = (struct following *)follower;
        struct sandbox_ask *ask = f->ask;
        json_t *answer = process_json(f->process);

        following_free(f);
        ask_result(ask, answer, NULL);
}

static void follow_release(struct sandbox_ask *ask)
{
        follower_feed(&((struct following *)ask->state)->follower);
}

int begin_PROCESS_FOLLOW(struct sandbox_ask *ask, struct cloche_err *e)
{
        struct process *p = find(ask, e);
        struct following *f = p ? calloc(1, sizeof(*f)) : NULL;

        if (!p)
                return -(int)e->code;
        if (!f)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "follow a process");
        f->ask = ask;
        f->process = p;
        process_pin(p);
        ask->state = f;
        ask->cancel = follow_cancel;
        ask->release = follow_release;
        follow(&f->follower, p, ask, ask_flag(ask, "replay", 1) ? 0 : UINT64_MAX, follow_complete);
        ask_release_soon(ask);
        return 0;
}

/* -- killing, forgetting -------------------------------------------------------------------------------------- */

static int signal_of(const char *name, struct cloche_err *e)
{
        const char *bare = strncmp(name, "SIG", 3) == 0 ? name + 3 : name;
        char *end;
        long number = strtol(bare, &end, 10);

        if (*bare && *end == '\0' && number >= 1 && number < NSIG)
                return (int)number;
        for (int i = 1; i < NSIG; i++)
                if (sigabbrev_np(i) && strcmp(sigabbrev_np(i), bare) == 0)
                        return i;
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "\"%.30s\" is no signal: expected SIGTERM, TERM, 15 and the like",
                       name);
}

/* A request that waits for the end of processes. */
struct killing_row {
        TAILQ_ENTRY(killing_row) link; /* in the list of the process, while it waits */
        struct process *process;
        struct killing *killing;
        int is_waiting;
};

struct killing {
        struct sandbox_ask *ask;
        size_t count, left;
        struct killing_row rows[];
};

static void killing_free(struct killing *k)
{
        for (size_t i = 0; i < k->count; i++) {
                struct killing_row *row = &k->rows[i];

                if (row->is_waiting)
                        TAILQ_REMOVE(&row->process->killings, row, link);
                process_unpin(row->process);
        }
        free(k);
}

static void kill_cancel(struct sandbox_ask *ask)
{
        killing_free(ask->state);
}

static void killing_done(struct killing *k)
{
        struct sandbox_ask *ask = k->ask;
        json_t *answer = ask->method->begin == begin_PROCESS_KILL ? process_json(k->rows[0].process)
                                                                  : json_pack("{s:i}", "count", (int)k->count);

        killing_free(k);
        ask_result(ask, answer, NULL);
}

void killings_ended(struct process *p)
{
        struct killing_row *row;

        while ((row = TAILQ_FIRST(&p->killings))) {
                TAILQ_REMOVE(&p->killings, row, link);
                row->is_waiting = 0;
                if (--row->killing->left == 0)
                        killing_done(row->killing);
        }
}

void killings_failed(struct process *p, const struct cloche_err *e)
{
        struct cloche_err copy = *e;
        struct killing_row *row;

        process_pin(p);
        while ((row = TAILQ_FIRST(&p->killings))) {
                struct sandbox_ask *ask = row->killing->ask;

                killing_free(row->killing);
                ask_fail(ask, &copy, NULL);
        }
        process_unpin(p);
}

static struct killing *killing_new(struct sandbox_ask *ask, size_t room)
{
        struct killing *k = calloc(1, sizeof(*k) + room * sizeof(k->rows[0]));

        if (!k)
                return NULL;
        k->ask = ask;
        ask->state = k;
        ask->cancel = kill_cancel;
        return k;
}

static int kill_one(struct killing *k, struct process *p, uint64_t grace_ms, struct cloche_err *e)
{
        struct killing_row *row = &k->rows[k->count];
        int r = process_kill(p, 0, 1, grace_ms, e);

        if (r < 0)
                return r;
        k->count++;
        *row = (struct killing_row){.process = p, .killing = k, .is_waiting = !p->is_ended || p->is_sweeping};
        process_pin(p);
        if (row->is_waiting) {
                TAILQ_INSERT_TAIL(&p->killings, row, link);
                k->left++;
        }
        return 0;
}

int begin_PROCESS_KILL(struct sandbox_ask *ask, struct cloche_err *e)
{
        struct process *p = find(ask, e);
        const char *name = ask_text(ask, "signal");
        int signal = 0, r;
        struct killing *k;

        if (!p)
                return -(int)e->code;
        if (name && (signal = signal_of(name, e)) < 0)
                return signal;
        if (signal || p->is_ended) {
                r = process_kill(p, signal, ask_flag(ask, "tree", 1), 0, e);
                if (r == 0)
                        ask_result(ask, process_json(p), NULL);
                return r;
        }
        k = killing_new(ask, 1);
        r = k ? kill_one(k, p, ask_count(ask, "graceMs", GRACE_MS), e)
              : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "kill a process");
        if (r < 0 && k) {
                ask->cancel = NULL;
                killing_free(k);
        } else if (r == 0 && k->left == 0) {
                killing_done(k);
        }
        return r;
}

int begin_PROCESS_KILL_ALL(struct sandbox_ask *ask, struct cloche_err *e)
{
        struct sandbox *s = ask->sandbox;
        struct killing *k = killing_new(ask, s->process_count);
        struct process *p;

        if (!k)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "kill processes");
        TAILQ_FOREACH (p, &s->processes, link)
                if (is_asked_for(p, ask_text(ask, "session")) && !p->is_ended)
                        (void)kill_one(k, p, ask_count(ask, "graceMs", GRACE_MS), NULL);
        if (k->left == 0)
                killing_done(k);
        return 0;
}

int begin_PROCESS_CLEANUP(struct sandbox_ask *ask, struct cloche_err *e)
{
        const char *id = ask_text(ask, "process");
        struct process *p = id ? find(ask, e) : NULL, *next;
        int count = 0;

        if (id && !p)
                return -(int)e->code;
        if (p && !p->is_ended)
                return err_set(e, CLOCHE_E_STATE, "the process %.64s has not ended", id);
        for (p = TAILQ_FIRST(&ask->sandbox->processes); p; p = next) {
                next = TAILQ_NEXT(p, link);
                if (!is_asked_for(p, NULL) || !p->is_ended || (id && strcmp(p->id, id) != 0))
                        continue;
                process_forget(p);
                count++;
        }
        ask_result(ask, json_pack("{s:i}", "count", count), NULL);
        return 0;
}

/* -- input, size ---------------------------------------------------------------------------------------------- */

static void input_cancel(struct sandbox_ask *ask)
{
        struct process *p = ask->state;

        process_unwrite(p, ask);
        process_unpin(p);
}

static void on_written(void *data, int code)
{
        struct sandbox_ask *ask = data;
        struct process *p = ask->state;
        struct cloche_err e;

        if (code < 0) {
                err_set(&e, CLOCHE_E_PROCESS_ENDED, "the process %.64s reads no more", p->id);
                process_unpin(p);
                ask_fail(ask, &e, NULL);
                return;
        }
        process_unpin(p);
        ask_result(ask, json_object(), NULL);
}

int begin_PROCESS_INPUT(struct sandbox_ask *ask, struct cloche_err *e)
{
        struct process *p = find(ask, e);
        size_t size = 0;
        const char *data = ask_bytes(ask, "data", &size);
        int is_end = ask_flag(ask, "end", 0), r;

        if (!p)
                return -(int)e->code;
        ask->state = p;
        ask->cancel = input_cancel;
        process_pin(p);
        r = process_write(p, data, size, is_end && !p->is_terminal, on_written, ask, e);
        if (r == 0 && is_end && p->is_terminal)
                r = process_write(p, "\x04", 1, 0, NULL, NULL, e); /* the end-of-file character of terminals */
        if (r < 0) {
                process_unwrite(p, ask);
                ask->cancel = NULL;
                process_unpin(p);
        }
        return r;
}

int begin_PROCESS_RESIZE(struct sandbox_ask *ask, struct cloche_err *e)
{
        struct process *p = find(ask, e);
        int r = p ? process_resize(p, (uint32_t)ask_count(ask, "cols", 0), (uint32_t)ask_count(ask, "rows", 0), e)
                  : -(int)e->code;

        if (r == 0)
                ask_result(ask, json_object(), NULL);
        return r;
}
