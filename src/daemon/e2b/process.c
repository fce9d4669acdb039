/* Processes of envd (process.Process): started by argv, found by pid or tag. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "sandbox.h"

#include "base/clock.h"
#include "wire/base64.h"
#include "wire/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define KEPT_NS UINT64_C(30000000000) /* an ended process can be found for so long */
#define ID_SIZE 20
#define LEAST_MOST 16
#define ENDED_MOST 100 /* of a sandbox, however new: the core keeps 1000 processes */
#define LOOK_EVERY 64  /* so many of a sandbox that are not known to have ended */
#define TAG_SIZE 256

/* A process that a client of this API started. */
struct e2b_process {
        TAILQ_ENTRY(e2b_process) link;
        char *sandbox, *id;
        json_t *config, *tag; /* as the client sent them; config: NULL: it has ended; tag: NULL: none */
        json_int_t pid;
        int is_terminal;
        uint64_t ended_ns; /* 0: not known to have ended */
};

static void process_free(struct e2b *e2b, struct e2b_process *p)
{
        TAILQ_REMOVE(&e2b->processes, p, link);
        e2b->process_count--;
        free(p->sandbox);
        free(p->id);
        json_decref(p->config);
        json_decref(p->tag);
        free(p);
}

void e2b_processes_done(struct e2b *e2b)
{
        while (!TAILQ_EMPTY(&e2b->processes))
                process_free(e2b, TAILQ_FIRST(&e2b->processes));
}

/* A sandbox may also end without a request to this API. The bound grows with the processes that
 * are left, so that the search costs little for each start. */
static void forget_lost(const struct daemon *d)
{
        struct e2b *e2b = d->e2b;
        struct e2b_process *next;

        if (e2b->process_count < e2b->process_most)
                return;
        for (struct e2b_process *p = TAILQ_FIRST(&e2b->processes); p; p = next) {
                next = TAILQ_NEXT(p, link);
                if (!sandboxes_has(d->sandboxes, PRINCIPAL_TOKEN, p->sandbox))
                        process_free(e2b, p);
        }
        e2b->process_most = 2 * e2b->process_count + LEAST_MOST;
}

/* -- which process ----------------------------------------------------------------------------------------------- */

static int is_selected(const struct e2b_process *p, const json_t *selector)
{
        const json_t *pid = json_object_get(selector, "pid"), *tag = json_object_get(selector, "tag");

        return pid ? json_integer_value(pid) == p->pid : tag && p->tag && json_equal((json_t *)tag, p->tag);
}

/* The newest: a pid may be another process's later. */
static struct e2b_process *selected(const struct e2b_request *q)
{
        struct e2b_process *p;

        TAILQ_FOREACH_REVERSE (p, &q->door.daemon->e2b->processes, e2b_processes, link)
                if (strcmp(p->sandbox, q->door.sandbox) == 0 && is_selected(p, json_object_get(q->body, "process")))
                        return p;
        return NULL;
}

static const struct e2b_process *select_or_refuse(struct e2b_request *q)
{
        const struct e2b_process *p = selected(q);
        char *text;

        if (p)
                return p;
        text = json_dumps(json_object_get(q->body, "process"), JSON_COMPACT | JSON_ENCODE_ANY);
        e2b_refuse(q, 404, "not_found", "there is no process %.100s", text ? text : "without pid and tag");
        free(text);
        return NULL;
}

/* The clients take 404 as "it is over". */
static const struct e2b_process *select_running(struct e2b_request *q)
{
        const struct e2b_process *p = select_or_refuse(q);

        if (!p || !p->ended_ns)
                return p;
        e2b_refuse(q, 404, "not_found", "the process %lld has ended", (long long)p->pid);
        return NULL;
}

/* -- events ------------------------------------------------------------------------------------------------------ */

static void send_event(struct e2b_request *q, const char *name, json_t *about)
{
        e2b_stream_send(q, json_pack("{s:{s:o}}", "event", name, about));
}

static void on_output(struct e2b_request *q, const char *event, const json_t *about, const struct buf *attachments)
{
        const char *stream = e2b_text(about, "stream"), *bytes;
        size_t size;

        if (strcmp(event, "output") == 0 && stream &&
            door_bytes(json_object_get(about, "data"), attachments, &bytes, &size))
                send_event(q, "data",
                           json_pack("{s:o}", strcmp(stream, "terminal") == 0 ? "pty" : stream,
                                     door_base64(bytes, size)));
}

/* Words of Go's os.ProcessState, which the clients show. */
static const struct {
        const char *signal, *words;
} signals[] = {
        {"SIGKILL", "killed"},      {"SIGTERM", "terminated"},
        {"SIGINT", "interrupt"},    {"SIGHUP", "hangup"},
        {"SIGQUIT", "quit"},        {"SIGSEGV", "segmentation fault"},
        {"SIGABRT", "aborted"},     {"SIGPIPE", "broken pipe"},
        {"SIGALRM", "alarm clock"}, {"SIGFPE", "floating point exception"},
        {"SIGBUS", "bus error"},
};

static const char *words_of(const char *signal)
{
        for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
                if (strcmp(signals[i].signal, signal) == 0)
                        return signals[i].words;
        return signal;
}

static void send_end(struct e2b_request *q, const json_t *process)
{
        const char *signal = e2b_text(process, "signal");
        json_int_t code = signal ? -1 : json_integer_value(json_object_get(process, "exitCode"));
        json_t *status = signal ? json_sprintf("signal: %s", words_of(signal))
                                : json_sprintf("exit status %lld", (long long)code),
               *end = json_pack("{s:I, s:b, s:O}", "exitCode", code, "exited", signal == NULL, "status", status);

        send_event(q, "end", door_put(end, "error", code == 0 ? NULL : json_incref(status)));
        json_decref(status);
}

static int is_running(const json_t *processes, const char *id)
{
        for (size_t i = 0; i < json_array_size(processes); i++) {
                const json_t *one = json_array_get(processes, i);

                if (strcmp(e2b_text(one, "process"), id) == 0)
                        return strcmp(e2b_text(one, "status"), "running") == 0;
        }
        return 0;
}

static void set_ended(struct e2b_process *p)
{
        p->ended_ns = clock_now_ns();
        json_decref(p->config); /* no list shows it again */
        p->config = NULL;
}

static void on_ended(struct e2b_request *q, const struct door_reply *reply)
{
        const char *id = e2b_text(reply->result, "process");
        struct e2b_process *p;

        TAILQ_FOREACH (p, &q->door.daemon->e2b->processes, link)
                if (strcmp(p->sandbox, q->door.sandbox) == 0 && id && strcmp(p->id, id) == 0)
                        set_ended(p);
        if (json_is_true(json_object_get(reply->result, "timedOut"))) {
                e2b_stream_end(q, "deadline_exceeded", "the process was killed at the timeout of its start");
                return;
        }
        send_end(q, reply->result);
        e2b_stream_end(q, NULL, NULL);
}

/* A sandbox that ends cuts the stream: its client asks for the health then, and learns of it. */
static void on_not_followed(struct e2b_request *q, const struct door_reply *reply)
{
        if (reply->e->code == CLOCHE_E_SANDBOX_ENDED || q->is_broken)
                http_stream_break(q->request);
        else
                e2b_fail(q, reply);
}

static void send_alive(struct e2b_request *q)
{
        send_event(q, "keepalive", json_object());
}

/* The timeout of a start kills the process, in the core; that of Connect ends the stream alone. */
static void follow(struct e2b_request *q, const char *id, json_int_t pid, int has_replay)
{
        e2b_stream_begin_alive(q, send_alive, !has_replay);
        send_event(q, "start", json_pack("{s:I}", "pid", pid));
        q->on_event = on_output;
        q->fail = on_not_followed;
        e2b_call(q, "process.follow", json_pack("{s:s, s:b}", "process", id, "replay", has_replay), NULL, on_ended);
}

/* -- start ------------------------------------------------------------------------------------------------------- */

/* argv as one command of the shell, which becomes the program. Owned by the caller;
 * NULL: a NUL, or no memory. */
static char *command_of(const struct e2b_request *q, int is_root)
{
        const json_t *config = json_object_get(q->body, "process"), *args = json_object_get(config, "args");
        const char *begin = e2b_has_root(q->described) && !is_root ? "exec " E2B_AS_USER : "exec";
        _cleanup_buf_ struct buf text = BUF_INIT(16u << 20);
        int r = buf_append(&text, begin, strlen(begin));

        for (size_t i = 0; r == 0 && i <= json_array_size(args); i++) {
                const json_t *arg = i == 0 ? json_object_get(config, "cmd") : json_array_get(args, i - 1);
                const char *at = json_string_value(arg);

                if (!at || strlen(at) != json_string_length(arg))
                        return NULL;
                r = buf_append(&text, " ", 1);
                if (r == 0)
                        r = buf_quote(&text, at);
        }
        if (r == 0)
                r = buf_append(&text, "", 1);
        return r == 0 ? strdup(text.data) : NULL;
}

static struct e2b_process *remember(struct e2b_request *q, const json_t *started)
{
        struct e2b_process *p = calloc(1, sizeof(*p));

        if (!p)
                return NULL;
        forget_lost(q->door.daemon);
        p->sandbox = strdup(q->door.sandbox);
        p->id = strdup(e2b_text(started, "process"));
        p->pid = json_integer_value(json_object_get(started, "pid"));
        p->config = json_incref(json_object_get(q->body, "process"));
        p->tag = json_incref(json_object_get(q->body, "tag"));
        p->is_terminal = json_is_object(json_object_get(q->body, "pty"));
        TAILQ_INSERT_TAIL(&q->door.daemon->e2b->processes, p, link);
        q->door.daemon->e2b->process_count++;
        if (p->sandbox && p->id)
                return p;
        process_free(q->door.daemon->e2b, p);
        return NULL;
}

static void on_started(struct e2b_request *q, const struct door_reply *reply)
{
        const struct e2b_process *p = remember(q, reply->result);

        if (p)
                follow(q, p->id, p->pid, 1);
        else
                e2b_refuse(q, 500, "internal", "out of memory");
}

static json_t *terminal_of(const json_t *pty)
{
        const json_t *size = json_object_get(pty, "size");
        json_int_t cols = json_integer_value(json_object_get(size, "cols")),
                   rows = json_integer_value(json_object_get(size, "rows"));

        return json_is_object(pty) ? json_pack("{s:I, s:I}", "cols", cols ? cols : 80, "rows", rows ? rows : 24) : NULL;
}

/* True if the last USER of its template is root. */
static int is_of_root(const json_t *described)
{
        json_t *settings = e2b_settings(described);
        const char *user = e2b_text(settings, "user");
        int is_root = user && strcmp(user, "root") == 0;

        json_decref(settings);
        return is_root;
}

/* Authorization: Basic names the user of a call; its password is empty. True, or the request is
 * refused. */
static int check_user(struct e2b_request *q, int *ret_is_root)
{
        static const char scheme[] = "Basic ";
        const char *header = http_request_header(q->request, "Authorization");
        _cleanup_buf_ struct buf name = BUF_INIT(256);
        size_t size;

        *ret_is_root = 0;
        if (!header || strncasecmp(header, scheme, sizeof(scheme) - 1) != 0) {
                *ret_is_root = e2b_has_root(q->described) && is_of_root(q->described);
                return 1;
        }
        header += sizeof(scheme) - 1;
        size = base64_decode(&name, header, strlen(header)) == 0 && buf_append(&name, "", 1) == 0
                       ? strcspn(name.data, ":")
                       : 0;
        if (size == strlen(E2B_USER) && strncmp(name.data, E2B_USER, size) == 0)
                return 1;
        if (size == 4 && strncmp(name.data, "root", size) == 0 && e2b_has_root(q->described)) {
                *ret_is_root = 1;
                return 1;
        }
        e2b_refuse(q, 401, "unauthenticated", "invalid username: '%.*s'", (int)size, name.data ? name.data : "");
        return 0;
}

static json_t *env_of(const json_t *config, int is_root)
{
        json_t *given = json_object_get(config, "envs"),
               *env = is_root ? json_pack("{s:s, s:s, s:s}", "HOME", "/root", "USER", "root", "LOGNAME", "root") : NULL;

        if (!env)
                return json_incref(given);
        json_object_update(env, given);
        return env;
}

static void start(struct e2b_request *q)
{
        const json_t *config = json_object_get(q->body, "process"), *stdin_flag = json_object_get(q->body, "stdin"),
                     *tag = json_object_get(q->body, "tag");
        uint64_t timeout_ms = e2b_timeout_ms(q);
        int is_root, is_known = check_user(q, &is_root);
        char *command = is_known ? command_of(q, is_root) : NULL, id[ID_SIZE];
        json_t *params, *terminal = terminal_of(json_object_get(q->body, "pty")), *settings;
        const char *cwd = e2b_text(config, "cwd");

        if (!is_known) {
                json_decref(terminal);
                return;
        }
        if (!command) {
                json_decref(terminal);
                e2b_refuse(q, 400, "invalid_argument", "'process.cmd' and 'process.args' must be texts without NUL");
                return;
        }
        if (tag && !json_is_null(tag) && (!json_is_string(tag) || json_string_length(tag) > TAG_SIZE)) {
                free(command);
                json_decref(terminal);
                e2b_refuse(q, 400, "invalid_argument", "'tag' must be a text of at most %d bytes", TAG_SIZE);
                return;
        }
        e2b_random_id(id, sizeof(id));
        settings = e2b_settings(q->described);
        params = json_pack("{s:s, s:s, s:o, s:b}", "process", id, "command", command, "cwd",
                           e2b_path(cwd ? cwd : e2b_text(settings, "cwd")), "stdin",
                           !terminal && !json_is_false(stdin_flag));
        door_put(params, "env", env_of(config, is_root));
        door_put(params, "terminal", terminal);
        door_put(params, "timeoutMs", timeout_ms ? json_integer((json_int_t)timeout_ms) : NULL);
        free(command);
        json_decref(settings);
        e2b_call(q, "process.start", params, NULL, on_started);
}

static void on_directory(struct e2b_request *q, const struct door_reply *reply)
{
        if (!reply->e && strcmp(e2b_text(reply->result, "type"), "directory") == 0)
                start(q);
        else
                e2b_refuse(q, 400, "invalid_argument", "cwd '%.300s' does not exist",
                           e2b_text(json_object_get(q->body, "process"), "cwd"));
}

/* The shell would only print that there is no such directory. */
static void check_directory(struct e2b_request *q)
{
        const char *cwd = e2b_text(json_object_get(q->body, "process"), "cwd");

        if (!cwd) {
                start(q);
                return;
        }
        q->fail = on_directory;
        e2b_call(q, "file.stat", json_pack("{s:o}", "path", e2b_path(cwd)), NULL, on_directory);
}

static void on_cleaned(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        check_directory(q);
}

/* The core keeps the output of ended processes. The oldest that can be found no more, or is one of
 * too many, makes room. */
static void make_room(struct e2b_request *q)
{
        struct e2b *e2b = q->door.daemon->e2b;
        struct e2b_process *p, *oldest = NULL;
        unsigned ended = 0;
        json_t *params;

        TAILQ_FOREACH (p, &e2b->processes, link)
                if (p->ended_ns && strcmp(p->sandbox, q->door.sandbox) == 0) {
                        oldest = oldest ? oldest : p;
                        ended++;
                }
        if (!oldest || (ended < ENDED_MOST && clock_now_ns() - oldest->ended_ns <= KEPT_NS)) {
                check_directory(q);
                return;
        }
        params = json_pack("{s:s}", "process", oldest->id);
        process_free(e2b, oldest);
        q->fail = on_cleaned; /* it is gone already */
        e2b_call(q, "process.cleanup", params, NULL, on_cleaned);
}

static void on_looked(struct e2b_request *q, const struct door_reply *reply)
{
        struct e2b_process *p;

        TAILQ_FOREACH (p, &q->door.daemon->e2b->processes, link)
                if (strcmp(p->sandbox, q->door.sandbox) == 0 && !p->ended_ns &&
                    !is_running(json_object_get(reply->result, "processes"), p->id))
                        set_ended(p);
        make_room(q);
}

/* The end of a process is told to the client that follows it. One whose client has gone is looked
 * for. */
static void look_for_ends(struct e2b_request *q)
{
        const struct e2b_process *p;
        unsigned open = 0;

        int is_root;

        if (!check_user(q, &is_root))
                return;
        TAILQ_FOREACH (p, &q->door.daemon->e2b->processes, link)
                open += !p->ended_ns && strcmp(p->sandbox, q->door.sandbox) == 0;
        if (open > 0 && open % LOOK_EVERY == 0)
                e2b_call(q, "process.list", json_object(), NULL, on_looked);
        else
                make_room(q);
}

void e2b_on_start(struct e2b_request *q)
{
        e2b_with_sandbox(q, look_for_ends);
}

/* -- attach ------------------------------------------------------------------------------------------------------ */

static void attach(struct e2b_request *q)
{
        const struct e2b_process *p = select_or_refuse(q);

        if (p)
                follow(q, p->id, p->pid, 0);
}

void e2b_on_attach(struct e2b_request *q)
{
        e2b_with_sandbox(q, attach);
}

/* -- list -------------------------------------------------------------------------------------------------------- */

static void on_listed(struct e2b_request *q, const struct door_reply *reply)
{
        json_t *all = json_array();
        struct e2b_process *p;

        TAILQ_FOREACH (p, &q->door.daemon->e2b->processes, link)
                if (strcmp(p->sandbox, q->door.sandbox) == 0 && p->config &&
                    is_running(json_object_get(reply->result, "processes"), p->id))
                        json_array_append_new(all, door_put(json_pack("{s:O, s:I}", "config", p->config, "pid", p->pid),
                                                            "tag", json_incref(p->tag)));
        e2b_answer(q, 200, json_pack("{s:o}", "processes", all));
}

static void list(struct e2b_request *q)
{
        e2b_call(q, "process.list", json_object(), NULL, on_listed);
}

void e2b_on_processes(struct e2b_request *q)
{
        e2b_with_sandbox(q, list);
}

/* -- input, signals, size ---------------------------------------------------------------------------------------- */

static void on_done(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        e2b_answer(q, 200, json_object());
}

/* The core says the same of a process that has ended and of input that is closed. */
static void on_state(struct e2b_request *q, const struct door_reply *reply)
{
        if (strcmp(e2b_text(reply->result, "status"), "running") == 0)
                e2b_refuse(q, 500, "internal", "the process takes no input: it is closed, or it began without");
        else
                e2b_refuse(q, 404, "not_found", "the process has ended");
}

static void on_no_input(struct e2b_request *q, const struct door_reply *reply)
{
        const struct e2b_process *p = reply->e->code == CLOCHE_E_STATE ? select_or_refuse(q) : NULL;

        if (p)
                e2b_call(q, "process.get", json_pack("{s:s}", "process", p->id), NULL, on_state);
        else if (reply->e->code != CLOCHE_E_STATE)
                e2b_fail(q, reply);
}

static void input(struct e2b_request *q)
{
        const json_t *given = json_object_get(q->body, "input");
        const char *name = json_object_get(given, "pty") ? "pty" : "stdin", *text = e2b_text(given, name);
        const struct e2b_process *p = select_running(q);
        _cleanup_buf_ struct buf bytes = BUF_INIT(64u << 20);

        if (!p)
                return;
        q->fail = on_no_input;
        if (base64_decode(&bytes, text ? text : "", text ? strlen(text) : 0) < 0)
                e2b_refuse(q, 400, "invalid_argument", "'input.%s' is no base64", name);
        else
                e2b_call(q, "process.input",
                         json_pack("{s:s, s:o}", "process", p->id, "data", json_attachment(0, bytes.size)), &bytes,
                         on_done);
}

void e2b_on_input(struct e2b_request *q)
{
        e2b_with_sandbox(q, input);
}

static void close_input(struct e2b_request *q)
{
        const struct e2b_process *p = select_running(q);

        q->fail = on_no_input;
        if (p && p->is_terminal)
                e2b_refuse(q, 500, "unknown", "a terminal has no input that could be closed: send a Ctrl-D to it");
        else if (p)
                e2b_call(q, "process.input", json_pack("{s:s, s:b}", "process", p->id, "end", 1), NULL, on_done);
}

void e2b_on_close_input(struct e2b_request *q)
{
        e2b_with_sandbox(q, close_input);
}

static void send_signal(struct e2b_request *q)
{
        static const char prefix[] = "SIGNAL_";
        const char *name = e2b_text(q->body, "signal");
        const struct e2b_process *p = select_running(q);

        if (!p)
                return;
        if (!name || (strcmp(name, "SIGNAL_SIGTERM") != 0 && strcmp(name, "SIGNAL_SIGKILL") != 0))
                e2b_refuse(q, 400, "invalid_argument", "'signal' must be SIGNAL_SIGTERM or SIGNAL_SIGKILL");
        else
                e2b_call(q, "process.kill",
                         json_pack("{s:s, s:s}", "process", p->id, "signal", name + sizeof(prefix) - 1), NULL, on_done);
}

void e2b_on_signal(struct e2b_request *q)
{
        e2b_with_sandbox(q, send_signal);
}

static void update(struct e2b_request *q)
{
        const struct e2b_process *p = select_or_refuse(q);
        json_t *params = p ? terminal_of(json_object_get(q->body, "pty")) : NULL;

        if (p && !params)
                e2b_refuse(q, 400, "invalid_argument", "'pty.size' is missing, expected {cols, rows}");
        else if (p)
                e2b_call(q, "process.resize", door_put(params, "process", json_string(p->id)), NULL, on_done);
}

void e2b_on_update(struct e2b_request *q)
{
        e2b_with_sandbox(q, update);
}
