/* Requests about processes. Runs in: cloched-engine, on its loop, with the rights of the daemon's
 * user. */
#include "process-end.h"
#include "sandbox/session/exec.h"

#include "base/err.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define LOG_BYTES (1u << 20)
#define LOG_KEEP_BYTES (UINT64_C(64) << 20)
#define TERMINAL_KEEP_BYTES (256u << 10)
#define GRACE_MS 5000

static struct process *find(struct sandbox_request *request, struct cloche_err *e)
{
        const char *id = sandbox_request_text(request, "process");

        if (id)
                return process_find(request->sandbox, id, e);
        err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s needs the field \"process\": the id of one", request->method->name);
        return NULL;
}

/* -- starting ------------------------------------------------------------------------------------------------- */

static void start_cancel(struct sandbox_request *request)
{
        process_detach(request->state);
}

static void on_begin(struct process *p, const struct cloche_err *e)
{
        struct sandbox_request *request = p->data;

        if (e)
                sandbox_request_fail(request, e, NULL);
        else
                sandbox_request_result(request, process_json(p), NULL);
}

static int read_terminal(const struct sandbox_request *request, struct process_options *opt, struct cloche_err *e)
{
        const json_t *terminal = json_object_get(request->params, "terminal");
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
                                       "terminal: %.40s is invalid, expected cols and rows from 1 to 1000", name);
                *size = json_integer_value(value);
        }
        opt->cols = (uint32_t)cols;
        opt->rows = (uint32_t)rows;
        opt->keep_bytes = TERMINAL_KEEP_BYTES;
        return 0;
}

int handle_PROCESS_START(struct sandbox_request *request, struct cloche_err *e)
{
        struct process_options opt = {
                .session = sandbox_request_text(request, "session"),
                .id = sandbox_request_text(request, "process"),
                .cwd = sandbox_request_text(request, "cwd"),
                .env = json_object_get(request->params, "env"),
                .timeout_ms = sandbox_request_count(request, "timeoutMs", 0),
                .keeps_input = sandbox_request_flag(request, "stdin", 0),
                .auto_cleanup = sandbox_request_flag(request, "autoCleanup", 0),
                .is_paced = sandbox_request_flag(request, "paced", 0),
                .keep = SPOOL_LAST,
                .keep_bytes = LOG_KEEP_BYTES,
                .on_begin = on_begin,
                .data = request,
        };
        struct process *p = NULL;
        int r = read_terminal(request, &opt, e);

        if (r < 0)
                return r;
        opt.command = sandbox_request_bytes(request, "command", &opt.command_size);
        if (!opt.command)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "process.start needs the field \"command\": text");
        r = process_start(request->sandbox, &opt, &p, e);
        if (r == 0 && request->phase != REQUEST_ENDED) {
                request->state = p;
                request->cancel = start_cancel;
        }
        return r;
}

/* -- looking -------------------------------------------------------------------------------------------------- */

static int is_selected(const struct process *p, const char *session)
{
        return !p->is_hidden && !p->is_removed && (p->pid || process_is_ended(p)) &&
               (!session || strcmp(p->session->name, session) == 0);
}

int handle_PROCESS_LIST(struct sandbox_request *request, struct cloche_err *e)
{
        const char *session = sandbox_request_text(request, "session");
        json_t *list = json_array();
        struct process *p;

        if (session && !session_find(request->sandbox, session, e)) {
                json_decref(list);
                return -(int)e->code;
        }
        TAILQ_FOREACH (p, &request->sandbox->processes, link)
                if (is_selected(p, session))
                        json_array_append_new(list, process_json(p));
        sandbox_request_result(request, json_pack("{s:o}", "processes", list), NULL);
        return 0;
}

int handle_PROCESS_GET(struct sandbox_request *request, struct cloche_err *e)
{
        struct process *p = find(request, e);

        if (p)
                sandbox_request_result(request, process_json(p), NULL);
        return p ? 0 : -(int)e->code;
}

int handle_PROCESS_LOGS(struct sandbox_request *request, struct cloche_err *e)
{
        static const struct {
                const char *name, *next, *total, *dropped;
        } rows[STREAMS] = {{"stdout", "stdoutNext", "stdoutTotal", "stdoutDropped"},
                           {"stderr", "stderrNext", "stderrTotal", "stderrDropped"}};
        struct process *p = find(request, e);
        struct buf attachments = BUF_INIT(FRAME_BYTES_MAX);
        json_t *answer = p ? json_object() : NULL;

        if (!p)
                return -(int)e->code;
        for (int i = 0; answer && i < STREAMS; i++) {
                const struct spool *spool = &p->streams[i].spool;
                uint64_t next;

                if (session_put_page(answer, rows[i].name, spool, sandbox_request_count(request, "offset", 0),
                                     sandbox_request_count(request, "limit", LOG_BYTES), &attachments, &next) < 0) {
                        json_decref(answer);
                        answer = NULL;
                        break;
                }
                json_object_set_new(answer, rows[i].next, json_integer((json_int_t)next));
                json_object_set_new(answer, rows[i].total, json_integer((json_int_t)spool->total));
                json_object_set_new(answer, rows[i].dropped, json_integer((json_int_t)spool_begin(spool)));
        }
        sandbox_request_result(request, answer, &attachments);
        buf_done(&attachments);
        return 0;
}

/* -- following ------------------------------------------------------------------------------------------------ */

struct following {
        struct follower follower;
        struct process *process;
        struct sandbox_request *request;
};

static void following_free(struct following *f)
{
        process_unfollow(&f->follower);
        process_unpin(f->process);
        free(f);
}

static void follow_cancel(struct sandbox_request *request)
{
        following_free(request->state);
}

static void follow_complete(struct follower *follower)
{
        struct following *f = (struct following *)follower;
        struct sandbox_request *request = f->request;
        json_t *answer = process_json(f->process);

        following_free(f);
        sandbox_request_result(request, answer, NULL);
}

static void follow_release(struct sandbox_request *request)
{
        process_follower_feed(&((struct following *)request->state)->follower);
}

int handle_PROCESS_FOLLOW(struct sandbox_request *request, struct cloche_err *e)
{
        struct process *p = find(request, e);
        struct following *f = p ? calloc(1, sizeof(*f)) : NULL;

        if (!p)
                return -(int)e->code;
        if (!f)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "follow a process");
        f->request = request;
        f->process = p;
        process_pin(p);
        request->state = f;
        request->cancel = follow_cancel;
        request->release = follow_release;
        process_follow(&f->follower, p, request, sandbox_request_flag(request, "replay", 1) ? 0 : UINT64_MAX,
                       follow_complete);
        sandbox_request_schedule_release(request);
        return 0;
}

/* -- killing, removing ---------------------------------------------------------------------------------------- */

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
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                       "\"%.30s\" is not a signal: expected a name or number, such as TERM, SIGTERM or 15", name);
}

/* A request that waits for the end of processes. */
struct killing_row {
        TAILQ_ENTRY(killing_row) link; /* in the list of the process, while it waits */
        struct process *process;
        struct killing *killing;
        int is_waiting;
};

struct killing {
        struct sandbox_request *request;
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

static void kill_cancel(struct sandbox_request *request)
{
        killing_free(request->state);
}

static void killing_done(struct killing *k)
{
        struct sandbox_request *request = k->request;
        json_t *answer = request->method->handle == handle_PROCESS_KILL ? process_json(k->rows[0].process)
                                                                        : json_pack("{s:i}", "count", (int)k->count);

        killing_free(k);
        sandbox_request_result(request, answer, NULL);
}

void process_killings_ended(struct process *p)
{
        struct killing_row *row;

        while ((row = TAILQ_FIRST(&p->killings))) {
                TAILQ_REMOVE(&p->killings, row, link);
                row->is_waiting = 0;
                if (--row->killing->left == 0)
                        killing_done(row->killing);
        }
}

void process_killings_failed(struct process *p, const struct cloche_err *e)
{
        struct cloche_err copy = *e;
        struct killing_row *row;

        process_pin(p);
        while ((row = TAILQ_FIRST(&p->killings))) {
                struct sandbox_request *request = row->killing->request;

                killing_free(row->killing);
                sandbox_request_fail(request, &copy, NULL);
        }
        process_unpin(p);
}

static struct killing *killing_new(struct sandbox_request *request, size_t room)
{
        struct killing *k = calloc(1, sizeof(*k) + room * sizeof(k->rows[0]));

        if (!k)
                return NULL;
        k->request = request;
        request->state = k;
        request->cancel = kill_cancel;
        return k;
}

static int kill_one(struct killing *k, struct process *p, uint64_t grace_ms, struct cloche_err *e)
{
        struct killing_row *row = &k->rows[k->count];
        int r = process_kill(p, 0, 1, grace_ms, e);

        if (r < 0)
                return r;
        k->count++;
        *row = (struct killing_row){.process = p,
                                    .killing = k,
                                    .is_waiting = !process_is_ended(p) || p->state == PROCESS_SWEEPING};
        process_pin(p);
        if (row->is_waiting) {
                TAILQ_INSERT_TAIL(&p->killings, row, link);
                k->left++;
        }
        return 0;
}

int handle_PROCESS_KILL(struct sandbox_request *request, struct cloche_err *e)
{
        struct process *p = find(request, e);
        const char *name = sandbox_request_text(request, "signal");
        int signal = 0, r;
        struct killing *k;

        if (!p)
                return -(int)e->code;
        if (name && (signal = signal_of(name, e)) < 0)
                return signal;
        if (signal || process_is_ended(p)) {
                r = process_kill(p, signal, sandbox_request_flag(request, "tree", 1), 0, e);
                if (r == 0)
                        sandbox_request_result(request, process_json(p), NULL);
                return r;
        }
        k = killing_new(request, 1);
        r = k ? kill_one(k, p, sandbox_request_count(request, "graceMs", GRACE_MS), e)
              : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "kill a process");
        if (r < 0 && k) {
                request->cancel = NULL;
                killing_free(k);
        } else if (r == 0 && k->left == 0) {
                killing_done(k);
        }
        return r;
}

int handle_PROCESS_KILL_ALL(struct sandbox_request *request, struct cloche_err *e)
{
        struct sandbox *s = request->sandbox;
        struct killing *k = killing_new(request, s->process_count);
        struct process *p;

        if (!k)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "kill processes");
        TAILQ_FOREACH (p, &s->processes, link)
                if (is_selected(p, sandbox_request_text(request, "session")) && !process_is_ended(p))
                        (void)kill_one(k, p, sandbox_request_count(request, "graceMs", GRACE_MS), NULL);
        if (k->left == 0)
                killing_done(k);
        return 0;
}

int handle_PROCESS_CLEANUP(struct sandbox_request *request, struct cloche_err *e)
{
        const char *id = sandbox_request_text(request, "process");
        struct process *p = id ? find(request, e) : NULL, *next;
        int count = 0;

        if (id && !p)
                return -(int)e->code;
        if (p && !process_is_ended(p))
                return err_set(e, CLOCHE_E_STATE, "the process %.64s has not ended: end it first (process.kill)", id);
        for (p = TAILQ_FIRST(&request->sandbox->processes); p; p = next) {
                next = TAILQ_NEXT(p, link);
                if (!is_selected(p, NULL) || !process_is_ended(p) || (id && strcmp(p->id, id) != 0))
                        continue;
                process_remove(p);
                count++;
        }
        sandbox_request_result(request, json_pack("{s:i}", "count", count), NULL);
        return 0;
}

/* -- input, size ---------------------------------------------------------------------------------------------- */

static void input_cancel(struct sandbox_request *request)
{
        struct process *p = request->state;

        process_unwrite(p, request);
        process_unpin(p);
}

static void on_written(void *data, int code)
{
        struct sandbox_request *request = data;
        struct process *p = request->state;
        struct cloche_err e;

        if (code < 0) {
                err_set(&e, CLOCHE_E_PROCESS_ENDED, "the process %.64s no longer reads its input", p->id);
                process_unpin(p);
                sandbox_request_fail(request, &e, NULL);
                return;
        }
        process_unpin(p);
        sandbox_request_result(request, json_object(), NULL);
}

int handle_PROCESS_INPUT(struct sandbox_request *request, struct cloche_err *e)
{
        struct process *p = find(request, e);
        size_t size = 0;
        const char *data = sandbox_request_bytes(request, "data", &size);
        int is_end = sandbox_request_flag(request, "end", 0), r;

        if (!p)
                return -(int)e->code;
        request->state = p;
        request->cancel = input_cancel;
        process_pin(p);
        r = process_write(p, data, size, is_end && !p->is_terminal, on_written, request, e);
        if (r == 0 && is_end && p->is_terminal)
                r = process_write(p, "\x04", 1, 0, NULL, NULL, e); /* the end-of-file character of terminals */
        if (r < 0) {
                process_unwrite(p, request);
                request->cancel = NULL;
                process_unpin(p);
        }
        return r;
}

int handle_PROCESS_RESIZE(struct sandbox_request *request, struct cloche_err *e)
{
        struct process *p = find(request, e);
        int r = p ? process_resize(p, (uint32_t)sandbox_request_count(request, "cols", 0),
                                   (uint32_t)sandbox_request_count(request, "rows", 0), e)
                  : -(int)e->code;

        if (r == 0)
                sandbox_request_result(request, json_object(), NULL);
        return r;
}
