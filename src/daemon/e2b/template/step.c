/* The steps of a build, in its sandbox: one after the other, until one fails. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "step.h"

#include "wire/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READY_MS 600000
#define PIECE_BYTES (1u << 20)
#define COMMAND_BYTES_MAX 4096 /* quoted twice it fits into those of the core */
#define LAYER_FILE "/tmp/.e2b-layer.tar.gz"
#define LAYER_DIR "/tmp/.e2b-layer"

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
        e2b_build_call(b, "exec",
                       json_pack("{s:o, s:s, s:O, s:b, s:I, s:b}", "command", text, "cwd", b->cwd, "env", b->env,
                                 "stream", 1, "timeoutMs", (json_int_t)timeout_ms, "fork", 1),
                       NULL, then);
}

/* True if it ended with 0. */
static int is_done(struct e2b_build *b, const struct door_reply *reply, const char *step)
{
        json_int_t code = json_integer_value(json_object_get(reply->result, "exitCode"));
        char message[200];

        e2b_build_end_line(b);
        if (!e2b_build_went_well(b, reply, step))
                return 0;
        if (code == 0 && !json_is_true(json_object_get(reply->result, "timedOut")))
                return 1;
        snprintf(message, sizeof(message), "the command ended with exit code %lld", (long long)code);
        e2b_build_fail(b, step, message);
        return 0;
}

static void on_ready(struct e2b_build *b, const struct door_reply *reply)
{
        const json_t *last;
        char message[400];

        e2b_build_end_line(b);
        if (!e2b_build_went_well(b, reply, "finalize"))
                return;
        last = json_array_get(b->log, json_array_size(b->log) - 1);
        if (json_is_true(json_object_get(reply->result, "timedOut")))
                snprintf(message, sizeof(message), "the ready command did not succeed within %d s", READY_MS / 1000);
        else /* the script says so at its end */
                snprintf(message, sizeof(message), "%.390s", e2b_text(last, "message"));
        if (json_integer_value(json_object_get(reply->result, "exitCode")) == 0 &&
            !json_is_true(json_object_get(reply->result, "timedOut")))
                e2b_build_finish(b);
        else
                e2b_build_fail(b, "finalize", message);
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
                e2b_build_fail(b, "finalize", "the start and the ready command have at most 4096 bytes each");
        else if (start || ready) {
                b->kept = NULL;
                run(b, script_of(b, start, ready ? ready : "sleep 20"), READY_MS, on_ready);
        } else
                e2b_build_finish(b);
}

/* -- steps ------------------------------------------------------------------------------------------------------- */

static const char *argument(const struct e2b_build *b, size_t n)
{
        const json_t *step = json_array_get(json_object_get(b->request, "steps"), b->step);
        const char *text = json_string_value(json_array_get(json_object_get(step, "args"), n));

        return text ? text : "";
}

static void next(struct e2b_build *b)
{
        b->step++;
        e2b_build_go_on(b);
}

/* True if programs may run as that user; else the build fails. */
static int check_user(struct e2b_build *b, const char *user)
{
        char message[200];

        if (strcmp(user, E2B_USER) == 0 || strcmp(user, "root") == 0)
                return 1;
        snprintf(message, sizeof(message), "there is no user '%.80s' here, expected " E2B_USER " or root", user);
        e2b_build_fail(b, NULL, message);
        return 0;
}

static void on_run(struct e2b_build *b, const struct door_reply *reply)
{
        if (is_done(b, reply, NULL))
                e2b_cache_keep(b);
}

static void step_run(struct e2b_build *b)
{
        const char *user = *argument(b, 1) ? argument(b, 1) : b->user ? b->user : E2B_USER;

        if (check_user(b, user))
                run(b, command(b, argument(b, 0), user), 0, on_run);
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
        if (e2b_build_went_well(b, reply, NULL))
                next(b);
}

static void step_workdir(struct e2b_build *b)
{
        e2b_step_repeat(b);
        e2b_build_call(b, "file.mkdir", json_pack("{s:s, s:b}", "path", b->cwd, "recursive", 1), NULL, on_directory);
}

static void step_env(struct e2b_build *b)
{
        e2b_step_repeat(b);
        next(b);
}

static void step_user(struct e2b_build *b)
{
        if (!check_user(b, argument(b, 0)))
                return;
        e2b_step_repeat(b);
        next(b);
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
                e2b_build_fail(b, NULL, "out of memory");
        else if (e2b_build_went_well(b, reply, NULL))
                run(b, json_stringn(out.data, out.size), 0, on_run);
}

static void write_layer(struct e2b_build *b, const struct door_reply *reply)
{
        const json_t *step = json_array_get(json_object_get(b->request, "steps"), b->step);
        const struct e2b_layer *layer = e2b_layer_find(b, e2b_text(step, "filesHash"));
        uint64_t size = layer->bytes.total - b->layer_at;
        struct buf piece = {0};
        json_t *params;

        if (!e2b_build_went_well(b, reply, NULL))
                return;
        if (size == 0) {
                e2b_build_call(b, "archive.extract", json_pack("{s:s, s:s}", "path", LAYER_FILE, "to", LAYER_DIR), NULL,
                               on_extracted);
                return;
        }
        size = size < PIECE_BYTES ? size : PIECE_BYTES;
        piece.data = spool_copy(&layer->bytes, b->layer_at, (size_t)size, &piece.size);
        piece.max = piece.size;
        if (!piece.data || piece.size < size) {
                free(piece.data);
                e2b_build_fail(b, NULL, "the files of COPY cannot be read back");
                return;
        }
        params = json_pack("{s:s, s:o}", "path", LAYER_FILE, "content", json_attachment(0, piece.size));
        if (b->layer_at > 0)
                json_object_set_new(params, "append", json_true());
        b->layer_at += piece.size;
        e2b_build_call(b, "file.write", params, &piece, write_layer);
        free(piece.data);
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
                e2b_build_fail(b, NULL, "COPY: its files were not uploaded");
}

static void set_env(struct e2b_build *b)
{
        for (size_t n = 0; *argument(b, n); n += 2)
                json_object_set_new(b->env, argument(b, n), json_string(argument(b, n + 1)));
}

static void set_directory(struct e2b_build *b)
{
        char *path = absolute(b, argument(b, 0));

        if (!path)
                return;
        free(b->cwd);
        b->cwd = path;
}

static void set_user(struct e2b_build *b)
{
        free(b->user);
        b->user = strdup(argument(b, 0));
}

static const struct type {
        const char *name;
        void (*run)(struct e2b_build *b);
        void (*repeat)(struct e2b_build *b); /* NULL: only files change */
        int changes_files;
} types[] = {
        {"RUN", step_run, NULL, 1},       {"ENV", step_env, set_env, 0}, {"WORKDIR", step_workdir, set_directory, 1},
        {"USER", step_user, set_user, 0}, {"COPY", step_copy, NULL, 1},
};

/* NULL: there is no such type. */
static const struct type *type_of(const json_t *step)
{
        const char *name = e2b_text(step, "type");

        for (size_t i = 0; name && i < sizeof(types) / sizeof(types[0]); i++)
                if (strcmp(types[i].name, name) == 0)
                        return &types[i];
        return NULL;
}

void e2b_step_repeat(struct e2b_build *b)
{
        const struct type *type = type_of(json_array_get(json_object_get(b->request, "steps"), b->step));

        if (type && type->repeat)
                type->repeat(b);
}

int e2b_step_is_over(const struct e2b_build *b)
{
        const json_t *steps = json_object_get(b->request, "steps");

        for (size_t i = b->step; i < json_array_size(steps); i++) {
                const struct type *type = type_of(json_array_get(steps, i));

                if (!type || type->repeat != set_env)
                        return 0;
        }
        return !e2b_text(b->request, "startCmd") && !e2b_text(b->request, "readyCmd");
}

void e2b_step_log(struct e2b_build *b, const char *note)
{
        const json_t *steps = json_object_get(b->request, "steps");
        const char *type = e2b_text(json_array_get(steps, b->step), "type");
        char head[300];

        snprintf(head, sizeof(head), "%s[%zu/%zu] %.20s %.200s", note, b->step + 1, json_array_size(steps),
                 type ? type : "", argument(b, 0));
        e2b_build_log(b, "info", head, strlen(head));
}

void e2b_build_go_on(struct e2b_build *b)
{
        const json_t *step = json_array_get(json_object_get(b->request, "steps"), b->step);
        const struct type *type = type_of(step);

        if (!step) {
                finalize(b);
                return;
        }
        e2b_step_log(b, "");
        if (!type) {
                e2b_build_fail(b, NULL, "this kind of step is not supported, expected RUN, COPY, ENV, WORKDIR or USER");
                return;
        }
        if (type->changes_files)
                b->kept = NULL;
        type->run(b);
}
