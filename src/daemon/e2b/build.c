/* The steps of a build, in its sandbox: one after the other, until one fails. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "build.h"

#include "base/clock.h"
#include "daemon/images/names.h"
#include "daemon/images/program.h"
#include "engine/box/image.h"
#include "wire/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_MOST 32           /* builds that ended, for their logs */
#define COMMAND_BYTES_MAX 4096 /* quoted twice it fits into those of the core */
#define LIFE_MS 3600000
#define UNSTARTED_NS UINT64_C(600000000000) /* a client uploads its layers, then begins the build at once */
#define READY_MS 600000
#define PIECE_BYTES (1u << 20)
#define LOG_BYTES (8u << 20)
#define ENTRY_BYTES 700 /* of an entry beside its message, in memory */
#define LINE_BYTES (64u << 10)
#define SETTINGS_BYTES_MAX (256u << 10) /* a label of the snapshot and of its sandboxes */
#define LAYER_FILE "/tmp/.e2b-layer.tar.gz"
#define LAYER_DIR "/tmp/.e2b-layer"

/* -- life -------------------------------------------------------------------------------------------------------- */

static const struct door_hooks hooks;

void e2b_layer_free(struct e2b_layer *layer)
{
        TAILQ_REMOVE(&layer->build->layers, layer, link);
        layer->build->door.daemon->e2b->layer_bytes -= layer->bytes.size;
        buf_done(&layer->bytes);
        free(layer->hash);
        free(layer);
}

static void drop_layers(struct e2b_build *b)
{
        while (!TAILQ_EMPTY(&b->layers))
                e2b_layer_free(TAILQ_FIRST(&b->layers));
}

static void build_free(struct e2b_build *b)
{
        TAILQ_REMOVE(&b->door.daemon->e2b->builds, b, link);
        drop_layers(b);
        door_done(&b->door);
        json_decref(b->request);
        json_decref(b->env);
        json_decref(b->log);
        json_decref(b->reason);
        json_decref(b->tags);
        json_decref(b->limits);
        buf_done(&b->line);
        free(b->name);
        free(b->cwd);
        free(b->user);
        free(b);
}

void e2b_builds_done(struct e2b *e2b)
{
        while (!TAILQ_EMPTY(&e2b->builds))
                build_free(TAILQ_FIRST(&e2b->builds));
}

void e2b_builds_sweep(struct e2b *e2b, uint64_t now_ns)
{
        struct e2b_build *next;

        for (struct e2b_build *b = TAILQ_FIRST(&e2b->builds); b; b = next) {
                next = TAILQ_NEXT(b, link);
                if (b->state == BUILD_WAITING && now_ns - b->touched_ns > UNSTARTED_NS)
                        build_free(b);
        }
}

int e2b_builds_wait(const struct e2b *e2b)
{
        const struct e2b_build *b;

        TAILQ_FOREACH (b, &e2b->builds, link)
                if (b->state == BUILD_WAITING)
                        return 1;
        return 0;
}

static void forget_old(struct e2b *e2b)
{
        struct e2b_build *b, *oldest = NULL;
        unsigned count = 0;

        TAILQ_FOREACH (b, &e2b->builds, link)
                if (b->state != BUILD_RUNNING && !b->door.open) {
                        oldest = oldest ? oldest : b;
                        count++;
                }
        if (count >= KEPT_MOST)
                build_free(oldest);
}

struct e2b_build *e2b_build_new(struct daemon *d, const char *name, json_t *tags, json_t *limits)
{
        struct e2b_build *b = calloc(1, sizeof(*b));

        if (!b)
                return NULL;
        forget_old(d->e2b);
        b->door = (struct door){.hooks = &hooks, .daemon = d, .principal = PRINCIPAL_TOKEN};
        e2b_random_id(b->id, sizeof(b->id));
        b->touched_ns = clock_now_ns();
        TAILQ_INIT(&b->layers);
        b->line = (struct buf)BUF_INIT(LINE_BYTES);
        b->log = json_array();
        b->env = json_object();
        b->name = strdup(name);
        b->tags = json_incref(tags);
        b->limits = json_incref(limits);
        b->cwd = strdup(E2B_HOME);
        TAILQ_INSERT_TAIL(&d->e2b->builds, b, link);
        if (b->log && b->env && b->name && b->cwd)
                return b;
        build_free(b);
        return NULL;
}

struct e2b_build *e2b_build_find(const struct e2b *e2b, const char *name, const char *id)
{
        struct e2b_build *b;

        TAILQ_FOREACH_REVERSE (b, &e2b->builds, e2b_builds, link)
                if (strcmp(b->name, name) == 0 && (!id || strcmp(b->id, id) == 0))
                        return b;
        return NULL;
}

struct e2b_layer *e2b_layer_find(const struct e2b_build *b, const char *hash)
{
        struct e2b_layer *layer;

        TAILQ_FOREACH (layer, &b->layers, link)
                if (layer->is_whole && strcmp(layer->hash, hash) == 0)
                        return layer;
        return NULL;
}

/* -- the log ----------------------------------------------------------------------------------------------------- */

static void add_log(struct e2b_build *b, const char *level, const char *bytes, size_t size)
{
        char now[CLOCK_TEXT_SIZE];

        if (b->log_bytes > LOG_BYTES)
                return;
        b->log_bytes += size + ENTRY_BYTES;
        if (b->log_bytes > LOG_BYTES) {
                bytes = "the rest of the output is left out";
                size = strlen(bytes);
        }
        json_array_append_new(b->log, json_pack("{s:s, s:s, s:o}", "timestamp", clock_text_now(now), "level", level,
                                                "message", json_valid_text(bytes, size)));
}

static void end_line(struct e2b_build *b)
{
        if (b->line.size > 0)
                add_log(b, "info", b->line.data, b->line.size);
        b->line.size = 0;
}

static void on_event(struct door *door, const char *event, const json_t *about, const struct buf *attachments)
{
        struct e2b_build *b = (struct e2b_build *)door;
        const char *bytes;
        size_t size;

        if (strcmp(event, "output") != 0 || !door_bytes(json_object_get(about, "data"), attachments, &bytes, &size))
                return;
        while (size > 0) {
                const char *end = memchr(bytes, '\n', size);
                size_t part = end ? (size_t)(end - bytes) : size, room = LINE_BYTES - b->line.size;
                int is_cut = part > room;

                if (is_cut)
                        part = room;
                if (buf_append(&b->line, bytes, part) < 0 || is_cut || end)
                        end_line(b);
                bytes += part + (end && !is_cut);
                size -= part + (end && !is_cut);
        }
}

static void on_reply(struct door *door, const struct door_reply *reply)
{
        struct e2b_build *b = (struct e2b_build *)door;
        void (*then)(struct e2b_build * b, const struct door_reply *reply) = b->then;

        b->then = NULL;
        if (then)
                then(b, reply);
}

static const struct door_hooks hooks = {.reply = on_reply, .event = on_event};

static void call(struct e2b_build *b, const char *method, json_t *params, const struct buf *attachments,
                 void (*then)(struct e2b_build *b, const struct door_reply *reply))
{
        b->then = then;
        door_call(&b->door, method, params, attachments);
}

/* -- the end ----------------------------------------------------------------------------------------------------- */

static void end(struct e2b_build *b)
{
        drop_layers(b);
        json_decref(b->request); /* it may be large, and the build is kept for its log */
        b->request = NULL;
        if (b->door.sandbox)
                call(b, "sandbox.delete", json_object(), NULL, NULL);
}

/* step: 1 is the first one; "base" and "finalize" are around them. */
static void fail(struct e2b_build *b, const char *step, const char *message)
{
        char number[24];

        snprintf(number, sizeof(number), "%zu", b->step + 1);
        add_log(b, "error", message, strlen(message));
        b->reason = json_pack("{s:o, s:s}", "message", json_valid_text(message, strlen(message)), "step",
                              step ? step : number);
        b->state = BUILD_FAILED;
        end(b);
}

/* True if the step goes on. */
static int went_well(struct e2b_build *b, const struct door_reply *reply, const char *step)
{
        if (reply->e)
                fail(b, step, reply->e->msg);
        return !reply->e;
}

static char *settings_of(const struct e2b_build *b)
{
        json_t *settings = json_pack("{s:O, s:O*, s:s, s:s*, s:O*, s:O*}", "env", b->env, "limits", b->limits, "cwd",
                                     b->cwd, "user", b->user, "start", json_object_get(b->request, "startCmd"), "ready",
                                     json_object_get(b->request, "readyCmd"));
        char *text = json_dump_text(settings, JSON_COMPACT);

        json_decref(settings);
        return text;
}

/* The snapshot of one of its tags. */
static void reference_of(const struct e2b_build *b, size_t tag, struct e2b_reference *ret)
{
        json_t *text = json_sprintf("%s:%s", b->name, json_string_value(json_array_get(b->tags, tag)));

        (void)e2b_reference_read(json_string_value(text), ret); /* they were checked */
        json_decref(text);
}

static void on_kept(struct e2b_build *b, const struct door_reply *reply)
{
        struct e2b_reference first, to;

        if (!went_well(b, reply, "finalize"))
                return;
        if (++b->tagged < json_array_size(b->tags)) {
                reference_of(b, 0, &first);
                reference_of(b, b->tagged, &to);
                call(b, "snapshot.copy",
                     e2b_tag_params(first.snapshot, &to, json_deep_copy(json_object_get(reply->result, "labels"))),
                     NULL, on_kept);
                return;
        }
        b->state = BUILD_READY;
        end(b);
}

/* An earlier template of the name stays until this one is whole. */
static void keep(struct e2b_build *b)
{
        char *text = settings_of(b), message[120];
        struct e2b_reference first;

        reference_of(b, 0, &first);
        snprintf(message, sizeof(message), "the variables and commands of a template have at most %u bytes as JSON",
                 SETTINGS_BYTES_MAX);
        if (text && strlen(text) <= SETTINGS_BYTES_MAX)
                call(b, "sandbox.snapshot",
                     json_pack("{s:s, s:b, s:{s:s, s:s, s:s, s:s}}", "snapshot", first.snapshot, "replace", 1, "labels",
                               E2B_LABEL_BUILD, b->id, E2B_LABEL_SETTINGS, text, E2B_LABEL_NAME, first.name,
                               E2B_LABEL_TAG, first.tag),
                     NULL, on_kept);
        else
                fail(b, "finalize", text ? message : "out of memory");
        free(text);
}

/* -- commands ---------------------------------------------------------------------------------------------------- */

json_t *e2b_login_command(int has_root, const char *user, const char *text)
{
        _cleanup_buf_ struct buf out = BUF_INIT(4u << 20);
        static const char begin[] = "set -- ", middle[] = "\nif [ -x /bin/bash ]; then set -- /bin/bash -l -c \"$1\"; "
                                                          "else set -- /bin/sh -l -c \"$1\"; fi\n";
        const char *run = has_root && strcmp(user, E2B_USER) == 0 ? E2B_AS_USER " \"$@\"" : "\"$@\"";

        if (buf_append(&out, begin, strlen(begin)) < 0 || buf_quote(&out, text) < 0 ||
            buf_append(&out, middle, strlen(middle)) < 0 || buf_append(&out, run, strlen(run)) < 0)
                return NULL;
        return json_stringn(out.data, out.size);
}

/* A command of the template, in its directory and as its user. */
static json_t *startup_command(const json_t *settings, int has_root, const char *name)
{
        const char *text = e2b_text(settings, name), *user = e2b_text(settings, "user"),
                   *directory = e2b_text(settings, "cwd");
        _cleanup_buf_ struct buf out = BUF_INIT(4u << 20);
        json_t *login = text ? e2b_login_command(has_root, user ? user : E2B_USER, text) : NULL, *command = NULL;

        if (login && buf_append(&out, "cd ", 3) == 0 && buf_quote(&out, directory ? directory : E2B_HOME) == 0 &&
            buf_append(&out, " || exit\n", 9) == 0 &&
            buf_append(&out, json_string_value(login), json_string_length(login)) == 0)
                command = json_stringn(out.data, out.size);
        json_decref(login);
        return command;
}

json_t *e2b_startup(const json_t *settings, int has_root, json_int_t ready_ms)
{
        json_t *start = startup_command(settings, has_root, "start"),
               *ready = startup_command(settings, has_root, "ready"),
               *startup = start || ready ? json_pack("{s:I}", "readyMs", ready_ms) : NULL;

        if (!startup)
                return NULL;
        door_put(startup, "start", start);
        return door_put(startup, "ready", ready);
}

/* With the variables, the directory and the user of the steps so far. */
static json_t *command(const struct e2b_build *b, const char *text, const char *user)
{
        return e2b_login_command(b->has_root, user, text);
}

static void run(struct e2b_build *b, json_t *text, uint64_t timeout_ms,
                void (*then)(struct e2b_build *b, const struct door_reply *reply))
{
        call(b, "exec",
             json_pack("{s:o, s:s, s:O, s:b, s:I, s:b}", "command", text, "cwd", b->cwd, "env", b->env, "stream", 1,
                       "timeoutMs", (json_int_t)timeout_ms, "fork", 1),
             NULL, then);
}

/* True if it ended with 0. */
static int is_done(struct e2b_build *b, const struct door_reply *reply, const char *step)
{
        json_int_t code = json_integer_value(json_object_get(reply->result, "exitCode"));
        char message[200];

        end_line(b);
        if (!went_well(b, reply, step))
                return 0;
        if (code == 0 && !json_is_true(json_object_get(reply->result, "timedOut")))
                return 1;
        snprintf(message, sizeof(message), "the command ended with exit code %lld", (long long)code);
        fail(b, step, message);
        return 0;
}

static void on_ready(struct e2b_build *b, const struct door_reply *reply)
{
        const json_t *last;
        char message[400];

        end_line(b);
        if (!went_well(b, reply, "finalize"))
                return;
        last = json_array_get(b->log, json_array_size(b->log) - 1);
        if (json_is_true(json_object_get(reply->result, "timedOut")))
                snprintf(message, sizeof(message), "the ready command did not succeed within %d s", READY_MS / 1000);
        else /* the script says so at its end */
                snprintf(message, sizeof(message), "%.390s", e2b_text(last, "message"));
        if (json_integer_value(json_object_get(reply->result, "exitCode")) == 0 &&
            !json_is_true(json_object_get(reply->result, "timedOut")))
                keep(b);
        else
                fail(b, "finalize", message);
}

static int add_job(struct buf *out, const struct e2b_build *b, const char *text)
{
        json_t *login = command(b, text, b->user ? b->user : E2B_USER);
        int r = !login ? -1 : buf_append(out, "(\n", 2);

        if (r == 0)
                r = buf_append(out, json_string_value(login), json_string_length(login));
        json_decref(login);
        return r < 0 ? r : buf_append(out, "\n) &\n", 5);
}

/* A start command that ends with 0 has left a daemon. A ready command that is tried again would
 * fail as before if there is no such program. */
static json_t *script_of(const struct e2b_build *b, const char *start, const char *ready)
{
        static const char begin[] = "start=\n", started[] = "start=$!\n", loop[] = "while :; do\n",
                          end[] = "ready=$!\n"
                                  "wait -n $start $ready\n"
                                  "if [ \"$start\" ] && ! kill -0 $start 2> /dev/null; then\n"
                                  "wait $start || { code=$?; echo; echo \"the start command ended with exit code "
                                  "$code before the ready command succeeded\"; exit 1; }\n"
                                  "start=; fi\n"
                                  "wait $ready; code=$?\n"
                                  "case $code in 0) exit;; 126|127) echo; echo \"the ready command cannot be run: "
                                  "exit code $code\"; exit 1;; esac\n"
                                  "sleep 2; done";
        _cleanup_buf_ struct buf out = BUF_INIT(8u << 20);
        int r = buf_append(&out, begin, strlen(begin));

        if (r == 0 && start)
                r = add_job(&out, b, start);
        if (r == 0 && start)
                r = buf_append(&out, started, strlen(started));
        if (r == 0)
                r = buf_append(&out, loop, strlen(loop));
        if (r == 0)
                r = add_job(&out, b, ready);
        if (r == 0)
                r = buf_append(&out, end, strlen(end));
        return r < 0 ? NULL : json_stringn(out.data, out.size);
}

/* The command is started to see that it works: the snapshot has files alone, and each sandbox of
 * the template starts it again. */
static void finalize(struct e2b_build *b)
{
        const char *start = e2b_text(b->request, "startCmd"), *ready = e2b_text(b->request, "readyCmd");

        if ((start && strlen(start) > COMMAND_BYTES_MAX) || (ready && strlen(ready) > COMMAND_BYTES_MAX))
                fail(b, "finalize", "the start and the ready command have at most 4096 bytes each");
        else if (start || ready)
                run(b, script_of(b, start, ready ? ready : "sleep 20"), READY_MS, on_ready);
        else
                keep(b);
}

/* -- steps ------------------------------------------------------------------------------------------------------- */

static void go_on(struct e2b_build *b);

static const char *argument(const struct e2b_build *b, size_t n)
{
        const json_t *step = json_array_get(json_object_get(b->request, "steps"), b->step);
        const char *text = json_string_value(json_array_get(json_object_get(step, "args"), n));

        return text ? text : "";
}

static void next(struct e2b_build *b)
{
        b->step++;
        go_on(b);
}

/* True if programs may run as that user; else the build fails. */
static int check_user(struct e2b_build *b, const char *user)
{
        char message[200];

        if (strcmp(user, E2B_USER) == 0 || strcmp(user, "root") == 0)
                return 1;
        snprintf(message, sizeof(message), "there is no user '%.80s' here, expected " E2B_USER " or root", user);
        fail(b, NULL, message);
        return 0;
}

static void on_run(struct e2b_build *b, const struct door_reply *reply)
{
        if (is_done(b, reply, NULL))
                next(b);
}

static void step_run(struct e2b_build *b)
{
        const char *user = *argument(b, 1) ? argument(b, 1) : b->user ? b->user : E2B_USER;

        if (check_user(b, user))
                run(b, command(b, argument(b, 0), user), 0, on_run);
}

static void step_env(struct e2b_build *b)
{
        for (size_t n = 0; *argument(b, n); n += 2)
                json_object_set_new(b->env, argument(b, n), json_string(argument(b, n + 1)));
        next(b);
}

/* path: below the working directory if it is relative. */
static char *absolute(const struct e2b_build *b, const char *path)
{
        json_t *text = path[0] == '/' ? json_string(path) : json_sprintf("%s/%s", b->cwd, path);
        char *copy = text ? strdup(json_string_value(text)) : NULL;

        json_decref(text);
        return copy;
}

static void on_directory(struct e2b_build *b, const struct door_reply *reply)
{
        if (went_well(b, reply, NULL))
                next(b);
}

static void step_workdir(struct e2b_build *b)
{
        char *path = absolute(b, argument(b, 0));

        if (!path) {
                fail(b, NULL, "out of memory");
                return;
        }
        free(b->cwd);
        b->cwd = path;
        call(b, "file.mkdir", json_pack("{s:s, s:b}", "path", path, "recursive", 1), NULL, on_directory);
}

static void step_user(struct e2b_build *b)
{
        if (!check_user(b, argument(b, 0)))
                return;
        free(b->user);
        b->user = strdup(argument(b, 0));
        if (b->user)
                next(b);
        else
                fail(b, NULL, "out of memory");
}

/* Files go to the destination, directories are merged into it, as Docker does. */
static void on_extracted(struct e2b_build *b, const struct door_reply *reply)
{
        static const char script[] =
                "\nIFS=\nfor f in $1; do\n"
                "if [ ! -e \"$f\" ] && [ ! -L \"$f\" ]; then echo \"COPY: there is no $f\"; exit 1; fi\n"
                "if [ -n \"$4\" ]; then chmod -R \"$4\" \"$f\" || exit; fi\n"
                "if [ -n \"$3\" ]; then chown -R \"$3\" \"$f\" || exit; fi\n"
                "if [ -d \"$f\" ] && [ ! -L \"$f\" ]; then mkdir -p \"$2\" && cp -a \"$f/.\" \"$2/\" || exit\n"
                "else case $2 in */) mkdir -p \"$2\";; *) mkdir -p \"$(dirname \"$2\")\";; esac\n"
                "cp -a \"$f\" \"$2\" || exit; fi\ndone\nrm -rf " LAYER_FILE " " LAYER_DIR;
        static const char begin[] = "cd " LAYER_DIR " || exit\nset --";
        _cleanup_buf_ struct buf out = BUF_INIT(4u << 20);
        char *to = absolute(b, argument(b, 1));
        const char *owner = b->has_root ? argument(b, 2) : "", *words[] = {argument(b, 0), to, owner, argument(b, 3)};
        int r = to ? buf_append(&out, begin, strlen(begin)) : -1;

        for (size_t i = 0; r == 0 && i < sizeof(words) / sizeof(words[0]); i++) {
                r = buf_append(&out, " ", 1);
                if (r == 0)
                        r = buf_quote(&out, words[i]);
        }
        if (r == 0)
                r = buf_append(&out, script, strlen(script));
        free(to);
        if (r < 0)
                fail(b, NULL, "out of memory");
        else if (went_well(b, reply, NULL))
                run(b, json_stringn(out.data, out.size), 0, on_run);
}

static void write_layer(struct e2b_build *b, const struct door_reply *reply)
{
        const json_t *step = json_array_get(json_object_get(b->request, "steps"), b->step);
        const struct e2b_layer *layer = e2b_layer_find(b, e2b_text(step, "filesHash"));
        size_t size = layer->bytes.size - b->layer_at;
        struct buf piece = {.data = layer->bytes.data + b->layer_at};
        json_t *params;

        if (!went_well(b, reply, NULL))
                return;
        if (size == 0) {
                call(b, "archive.extract", json_pack("{s:s, s:s}", "path", LAYER_FILE, "to", LAYER_DIR), NULL,
                     on_extracted);
                return;
        }
        piece.size = piece.max = size < PIECE_BYTES ? size : PIECE_BYTES;
        params = json_pack("{s:s, s:o}", "path", LAYER_FILE, "content", json_attachment(0, piece.size));
        if (b->layer_at > 0)
                json_object_set_new(params, "append", json_true());
        b->layer_at += piece.size;
        call(b, "file.write", params, &piece, write_layer);
}

static void step_copy(struct e2b_build *b)
{
        const json_t *step = json_array_get(json_object_get(b->request, "steps"), b->step);
        const char *hash = e2b_text(step, "filesHash");
        const struct e2b_layer *layer = hash ? e2b_layer_find(b, hash) : NULL;

        b->layer_at = 0;
        if (layer)
                write_layer(b, &(struct door_reply){0});
        else
                fail(b, NULL, "COPY: its files were not uploaded");
}

static const struct {
        const char *type;
        void (*run)(struct e2b_build *b);
} types[] = {
        {"RUN", step_run}, {"ENV", step_env}, {"WORKDIR", step_workdir}, {"USER", step_user}, {"COPY", step_copy},
};

static void go_on(struct e2b_build *b)
{
        const json_t *steps = json_object_get(b->request, "steps"), *step = json_array_get(steps, b->step);
        const char *type = e2b_text(step, "type");
        char head[300];

        if (!step) {
                finalize(b);
                return;
        }
        snprintf(head, sizeof(head), "[%zu/%zu] %.20s %.200s", b->step + 1, json_array_size(steps), type ? type : "",
                 argument(b, 0));
        add_log(b, "info", head, strlen(head));
        for (size_t i = 0; type && i < sizeof(types) / sizeof(types[0]); i++)
                if (strcmp(types[i].type, type) == 0) {
                        types[i].run(b);
                        return;
                }
        fail(b, NULL, "this kind of step is not supported, expected RUN, COPY, ENV, WORKDIR or USER");
}

/* -- the beginning ----------------------------------------------------------------------------------------------- */

/* The base of a client that states none, and its own images, are the daemon's. */
static const char *base_of(const json_t *request)
{
        static const char own[] = "e2bdev/";
        const char *image = e2b_text(request, "fromImage"), *template = e2b_text(request, "fromTemplate");

        if (image && strncmp(image, own, sizeof(own) - 1) != 0)
                return image;
        return !image && template ? template : "base";
}

static int wants_root(const json_t *request)
{
        const json_t *steps = json_object_get(request, "steps");

        for (size_t i = 0; i < json_array_size(steps); i++) {
                const json_t *step = json_array_get(steps, i), *args = json_object_get(step, "args");
                const char *type = e2b_text(step, "type"), *one = json_string_value(json_array_get(args, 0)),
                           *two = json_string_value(json_array_get(args, 1));

                if (type && ((strcmp(type, "USER") == 0 && one && strcmp(one, "root") == 0) ||
                             (strcmp(type, "RUN") == 0 && two && strcmp(two, "root") == 0)))
                        return 1;
        }
        return 0;
}

static void on_home(struct e2b_build *b, const struct door_reply *reply)
{
        if (went_well(b, reply, "base"))
                go_on(b);
}

static void on_created(struct e2b_build *b, const struct door_reply *reply)
{
        if (!went_well(b, reply, "base"))
                return;
        b->has_root = e2b_has_root(reply->result);
        if (wants_root(b->request) && !b->has_root)
                fail(b, "base",
                     "a step runs as root, which this base does not have: begin with an image of the daemon's store "
                     "(fromImage)");
        else
                call(b, "file.mkdir", json_pack("{s:s, s:b}", "path", E2B_HOME, "recursive", 1), NULL, on_home);
}

/* params: stolen. */
static void create(struct e2b_build *b, json_t *params)
{
        char id[E2B_ID_SIZE];

        e2b_random_id(id, sizeof(id));
        b->door.sandbox = strdup(id);
        door_put(params, "env", e2b_user_env());
        door_put(params, "labels", json_pack("{s:s}", E2B_LABEL_BUILD, b->id));
        door_put(params, "lifetimeMs", json_integer(LIFE_MS));
        door_put(params, "endAction", json_string("delete"));
        door_put(params, "network", e2b_network(b->door.daemon));
        door_put(params, "startup", json_object()); /* of the base: they are none of the template's */
        door_put(params, "limits", json_incref(b->limits));
        call(b, "sandbox.create", params, NULL, on_created);
}

static void on_image(void *data, const json_t *result, const struct cloche_err *e)
{
        struct e2b_build *b = data;
        const char *name = base_of(b->request);
        json_t *params, *settings;
        char message[400];

        b->door.image = NULL;
        if (e) {
                snprintf(message, sizeof(message), "this machine's store: %.370s", e->msg);
                fail(b, "base", message);
                return;
        }
        settings = image_settings_pick(result);
        if (wants_root(b->request)) /* the user is that of the template */
                (void)json_object_del(settings, "runsAs");
        params = json_pack("{s:s, s:b, s:o}", "image", name, wants_root(b->request) ? "root" : "writableRoot", 1,
                           "imageSettings", settings);
        if (image_name_put(params, result, 1) == 0) {
                create(b, params);
                return;
        }
        json_decref(params);
        fail(b, "base", "the program of the image store sent an invalid message");
}

/* A template that begins with another one has its variables and directory. */
static void take_settings(struct e2b_build *b, const json_t *snapshot)
{
        json_t *settings = e2b_settings(snapshot);
        const char *cwd = e2b_text(settings, "cwd"), *user = e2b_text(settings, "user");
        char *copy = cwd ? strdup(cwd) : NULL;

        json_object_update(b->env, json_object_get(settings, "env"));
        if (copy) {
                free(b->cwd);
                b->cwd = copy;
        }
        b->user = user ? strdup(user) : NULL;
        json_decref(settings);
}

static void on_snapshot(struct e2b_build *b, const struct door_reply *reply)
{
        const char *name = base_of(b->request);
        struct cloche_err e = {0};

        if (!reply->e) {
                take_settings(b, reply->result);
                create(b, json_pack("{s:O}", "snapshot", json_object_get(reply->result, "snapshot")));
        } else if (images_read(b->door.daemon, "resolve", json_pack("{s:s}", "name", name), on_image, b, &b->door.image,
                               &e) < 0) {
                on_image(b, NULL, &e);
        }
}

void e2b_build_begin(struct e2b_build *b, json_t *request)
{
        const char *name = base_of(request);
        struct e2b_reference of;

        b->request = json_incref(request);
        b->state = BUILD_RUNNING;
        if (e2b_is_own_image(name))
                create(b, json_object());
        else
                call(b, "snapshot.get",
                     json_pack("{s:s}", "snapshot", e2b_reference_read(name, &of) ? of.snapshot : name), NULL,
                     on_snapshot);
}
