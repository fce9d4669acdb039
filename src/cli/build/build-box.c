/* Steps that change files. Each runs in a sandbox of its own, of the image until then; its
 * changes are committed. Runs in: the CLI, as its user. */
#include "build.h"

#include "cli/output/print.h"
#include "cli/output/signals.h"
#include "cli/run/image-store.h"
#include "cli/sandbox/follow.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/hex.h"
#include "proto/image.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOX "build"
#define OTHER_BOX "from" /* of COPY --from */
#define ARCHIVE "/tmp/.cloche-build"
#define SECRETS "/run/secrets" /* a link in sandboxes with a writable root */
#define SECRET_BYTES_MAX (1u << 20)
#define DAEMON_WORDS_MAX 24
#define STORE_OWNER 0 /* for the steps of the store's owner (daemon/images/commit.c) */
#define SHOWN_BYTES 120

/* -- keys ------------------------------------------------------------------------------------------------------- */

static int no_memory(const struct build *b)
{
        return build_bad(b, "%s", strerror(ENOMEM));
}

static void finish_hash(struct sha256_ctx *hash, char ret[BUILD_KEY_SIZE])
{
        uint8_t bytes[SHA256_DIGEST_SIZE];

        sha256_digest(hash, sizeof(bytes), bytes);
        hex_write(ret, bytes, sizeof(bytes));
        ret[BUILD_KEY_SIZE - 1] = '\0';
}

/* All that a step's result depends on; the store adds the user. text: with its variables
 * replaced; files: hash of those that it copies, or of the key of another image. */
static int make_key(struct build *b, const struct docker_step *step, const char *text, const char *files,
                    char ret[BUILD_KEY_SIZE])
{
        const struct stage *stage = build_stage(b);
        json_t *parts = json_pack("{s:i, s:s, s:s, s:s, s:O*, s:O, s:O, s:O, s:O*, s:s, s:I}", "version", 1, "before",
                                  stage->key, "word", docker_names[step->word], "text", text, "list", step->list,
                                  "flags", step->flags, "config", stage->config, "args", stage->args, "network",
                                  b->network, "files", files, "time", b->time);
        char *bytes = parts ? json_dumps(parts, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
        struct sha256_ctx hash;

        json_decref(parts);
        if (!bytes)
                return no_memory(b);
        sha256_init(&hash);
        sha256_update(&hash, strlen(bytes), (const uint8_t *)bytes);
        finish_hash(&hash, ret);
        free(bytes);
        return 0;
}

static void show(const struct build *b, const char *note)
{
        const struct docker_step *step = &b->file.steps[b->at];

        if (b->request->json)
                return;
        fprintf(stderr, "cloche: [%zu/%zu] %s ", b->at + 1, b->file.count, docker_names[step->word]);
        print_name(stderr, strlen(step->text) > SHOWN_BYTES ? "…" : step->text);
        fprintf(stderr, "%s\n", note);
}

/* Take the result of an earlier build. 1: it is there; negative: an exit code. */
static int take_result(struct build *b, const char *key)
{
        struct stage *stage = build_stage(b);
        struct cloche_err e = {0};
        json_t *image = NULL;
        int code;

        if (b->request->build.is_uncached)
                return 0;
        code = image_store_ask(b->request, &b->store, "step",
                               json_pack("{s:s, s:i}", "key", key, "principal", STORE_OWNER), &image, &e);
        if (code && e.code == CLOCHE_E_NOT_FOUND)
                return 0;
        if (code)
                return e.code ? -build_fail(b, &e) : -code;
        code = build_take_image(stage, image);
        json_decref(image);
        memcpy(stage->key, key, BUILD_KEY_SIZE);
        show(b, "  (as before)");
        return code ? -code : 1;
}

/* -- the sandbox ------------------------------------------------------------------------------------------------ */

static int add_services(const struct build *b, const char *words[DAEMON_WORDS_MAX], size_t count, json_t *texts)
{
        const char *name;
        json_t *port;

        json_object_foreach (b->request->sandbox.host_ports, name, port) {
                json_t *text = json_is_integer(port) ? json_sprintf("%s=%d", name, (int)json_integer_value(port))
                                                     : json_sprintf("%s=%s", name, json_string_value(port));

                if (count + 2 >= DAEMON_WORDS_MAX)
                        return cli_bad("--host-port: more than %d services", (DAEMON_WORDS_MAX - 8) / 2);
                json_array_append_new(texts, text);
                words[count++] = "--host-port";
                words[count++] = json_string_value(text);
        }
        words[count] = NULL;
        return 0;
}

static int start_daemon(struct build *b)
{
        char store[PATH_MAX];
        const char *words[DAEMON_WORDS_MAX] = {"--images", store, "--image-changes", "owner", "--profile", "user"};
        json_t *texts = json_array();
        struct cloche_err e = {0};
        int code;

        if (b->has_daemon) {
                json_decref(texts);
                return 0;
        }
        code = image_store_path(b->request, store, sizeof(store));
        if (code == 0)
                code = add_services(b, words, 6, texts);
        if (code == 0 && daemon_private_start(words, &b->daemon, &b->copy.client, &e) < 0)
                code = build_fail(b, &e);
        b->has_daemon = code == 0;
        json_decref(texts);
        return code;
}

/* params is stolen. ret: the answer in text form; may be NULL. */
static int call(struct build *b, const char *method, json_t *params, json_t **ret)
{
        struct daemon_message message = {0};
        struct cloche_err e = {0};
        int r = daemon_call(&b->copy.client, method, params, NULL, 0, &message, &e);

        if (r == 0 && ret)
                r = daemon_text_form(&message, ret, &e);
        daemon_message_done(&message);
        if (copy_is_cancelled())
                return SIGNALS_CANCELLED;
        return r < 0 ? build_fail(b, &e) : 0;
}

static int open_box(struct build *b, const char *name, const char *id, const char *tree, json_t *env, int is_writable)
{
        json_t *limits = sandbox_limits(b->request);
        char image[80];
        int code = start_daemon(b);

        json_object_del(limits, "wallMs"); /* of each RUN */
        snprintf(image, sizeof(image), "%.72s", tree);
        if (code) {
                json_decref(env);
                json_decref(limits);
                return code;
        }
        return call(b, "sandbox.create",
                    json_pack("{s:s, s:s, s:s, s:{s:o}, s:o*, s:O*, s:b, s:i}", "sandbox", name, "image", image,
                              "imageName", id, "imageSettings", "env", env ? env : json_object(), "limits", limits,
                              "network", is_writable ? b->network : NULL, "writableRoot", is_writable, "idleMs", 0),
                    NULL);
}

static int make_directory(struct build *b, const char *path)
{
        return strcmp(path, "/") == 0
                       ? 0
                       : call(b, "file.mkdir",
                              json_pack("{s:s, s:s, s:b}", "sandbox", BOX, "path", path, "recursive", 1), NULL);
}

/* A directory that no image keeps. */
static int check_place(const struct build *b, const char *path)
{
        const char *name = path + strspn(path, "/");

        return image_top_is_box(name, strcspn(name, "/")) ? build_bad(b,
                                                                      "%.200s is in a directory of which every box has "
                                                                      "its own: choose another one, such as /app",
                                                                      path)
                                                          : 0;
}

json_t *build_config(const struct stage *stage)
{
        static const char *const members[] = {"workingDir", "user", "entrypoint", "cmd"};
        json_t *config = json_pack("{s:o}", "env", json_object()), *ports = json_array();
        const json_t *env = json_object_get(stage->config, "env");
        const char *port;
        json_t *value;

        for (size_t i = 0; i < json_array_size(env); i++) {
                const char *row = json_string_value(json_array_get(env, i)), *equals = strchr(row, '=');

                if (equals)
                        json_object_setn_new(json_object_get(config, "env"), row, (size_t)(equals - row),
                                             json_string(equals + 1));
        }
        for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
                value = json_object_get(stage->config, members[i]);
                json_object_set_new(config, members[i], value ? json_incref(value) : json_null());
        }
        if (json_object_get(stage->config, "labels"))
                json_object_set(config, "labels", json_object_get(stage->config, "labels"));
        json_object_foreach (json_object_get(stage->config, "exposedPorts"), port, value)
                json_array_append_new(ports, json_string(port));
        json_object_set_new(config, "exposedPorts", ports);
        return config;
}

/* Make the image of the step, and end the sandbox. */
static int commit(struct build *b, const struct docker_step *step, const char *key)
{
        struct stage *stage = build_stage(b);
        json_t *params = json_pack("{s:s, s:o, s:s}", "sandbox", BOX, "config", build_config(stage), "key", key),
               *image = NULL;
        char text[512];
        int code;

        /* A long text would be cut, perhaps within a character. */
        if (snprintf(text, sizeof(text), "%s %s", docker_names[step->word], step->text) >= (int)sizeof(text))
                snprintf(text, sizeof(text), "%s", docker_names[step->word]);
        if (params)
                json_object_set_new(params, "comment", json_string(text));
        if (params && b->time >= 0)
                json_object_set_new(params, "fileTime", json_integer(b->time));
        code = call(b, "sandbox.commit", params, &image);
        if (code == 0)
                code = build_take_image(stage, image);
        json_decref(image);
        memcpy(stage->key, key, BUILD_KEY_SIZE);
        return code ? code : call(b, "sandbox.delete", json_pack("{s:s}", "sandbox", BOX), NULL);
}

/* -- RUN -------------------------------------------------------------------------------------------------------- */

/* type=secret,id=ID[,required=…]. Return the id, or NULL after a line was printed. */
static char *read_secret(const struct build *b, const char *flag)
{
        char *copy = strdup(flag), *rest, *id = NULL;
        int is_secret = 0, is_bad = 0;

        for (char *part = strtok_r(copy, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
                is_secret |= strcmp(part, "mount=type=secret") == 0;
                if (strncmp(part, "id=", 3) == 0 && !id)
                        id = strdup(part + 3);
                else if (strcmp(part, "mount=type=secret") != 0 && strncmp(part, "required", 8) != 0)
                        is_bad = 1;
        }
        free(copy);
        if (is_secret && id && !is_bad && json_object_get(b->request->build.secrets, id))
                return id;
        if (is_secret && id && !is_bad)
                build_bad(b, "there is no secret '%.60s': name its file by --secret id=%.60s,src=FILE", id, id);
        else
                build_bad(b,
                          "--%.100s is not supported: expected --mount=type=secret,id=ID, which is the file " SECRETS
                          "/ID",
                          flag);
        free(id);
        return NULL;
}

static int put_secret(struct build *b, const char *id)
{
        const char *source = json_string_value(json_object_get(b->request->build.secrets, id));
        _cleanup_fd_ int fd = open(source, O_RDONLY | O_NOCTTY | O_CLOEXEC);
        json_t *content = json_pack("{s:s, s:i, s:I}", "$", "bytes", "at", 0, "n", 0);
        char path[256], *bytes = malloc(SECRET_BYTES_MAX + 1);
        struct daemon_message message = {0};
        struct cloche_err e = {0};
        ssize_t size = fd >= 0 && bytes ? read(fd, bytes, SECRET_BYTES_MAX + 1) : -1;
        int code = 0;

        if (size < 0 || size > SECRET_BYTES_MAX) {
                code = build_bad(b, "the secret '%.60s' is no file of at most %u bytes that can be read: %.200s", id,
                                 SECRET_BYTES_MAX, source);
                json_decref(content);
        } else {
                snprintf(path, sizeof(path), SECRETS "/%.200s", id);
                json_object_set_new(content, "n", json_integer((json_int_t)size));
                if (daemon_call(&b->copy.client, "file.write",
                                json_pack("{s:s, s:s, s:o, s:i}", "sandbox", BOX, "path", path, "content", content,
                                          "mode", 0400),
                                bytes, (size_t)size, &message, &e) < 0)
                        code = build_fail(b, &e);
                daemon_message_done(&message);
        }
        if (bytes)
                explicit_bzero(bytes, SECRET_BYTES_MAX + 1);
        free(bytes);
        return code;
}

static int put_secrets(struct build *b, const struct docker_step *step, int only_checks)
{
        int code = 0;

        if (!only_checks && json_array_size(step->flags) > 0)
                code = call(b, "file.mkdir",
                            json_pack("{s:s, s:s, s:b}", "sandbox", BOX, "path", "/dev/shm/secrets", "recursive", 1),
                            NULL);
        for (size_t i = 0; code == 0 && i < json_array_size(step->flags); i++) {
                char *id = read_secret(b, json_string_value(json_array_get(step->flags, i)));

                code = !id ? CLI_BAD_INPUT : only_checks ? 0 : put_secret(b, id);
                free(id);
        }
        return code;
}

/* The shell form is a command of /bin/sh. */
static json_t *command_of(const struct docker_step *step)
{
        _cleanup_buf_ struct buf text = BUF_INIT(2 * DOCKERFILE_BYTES_MAX + 100);
        int r = step->list ? 0 : buf_append(&text, "/bin/sh -c ", strlen("/bin/sh -c "));

        if (!step->list && r == 0)
                r = sandbox_quote(&text, step->text);
        for (size_t i = 0; r == 0 && i < json_array_size(step->list); i++) {
                r = sandbox_quote(&text, json_string_value(json_array_get(step->list, i)));
                if (r == 0)
                        r = buf_append(&text, " ", 1);
        }
        return r == 0 ? json_stringn(text.data, text.size) : NULL;
}

static json_t *run_params(struct build *b, const struct docker_step *step)
{
        const struct stage *stage = build_stage(b);
        uint64_t timeout_ms = b->request->run.limits.wall_ms;
        json_t *env = json_deep_copy(stage->args), *own = build_env(stage);
        json_t *params;

        json_object_update(env, own); /* ENV comes before ARG */
        json_decref(own);
        if (b->time >= 0)
                json_object_set_new(env, "SOURCE_DATE_EPOCH", json_sprintf("%lld", (long long)b->time));
        params = json_pack("{s:s, s:o, s:s, s:o, s:b, s:b, s:i}", "sandbox", BOX, "command", command_of(step), "cwd",
                           build_directory(stage), "env", env, "fork", 1, "stream", 1, "outputBytes", 1);
        if (params && timeout_ms && timeout_ms != CLOCHE_UNLIMITED)
                json_object_set_new(params, "timeoutMs", json_integer((json_int_t)timeout_ms));
        return params;
}

static int execute(struct build *b, const struct docker_step *step)
{
        struct follow f = {.client = &b->copy.client, .all_is_error = 1};
        json_t *ended = NULL;
        int code = follow_request(&f, "exec", run_params(b, step), &ended), status;

        status = (int)json_integer_value(json_object_get(ended, "exitCode"));
        if (code == 0 && json_is_true(json_object_get(ended, "timedOut")))
                code = (build_bad(b, "step %zu was stopped: its time limit is %llu ms", b->at + 1,
                                  (unsigned long long)b->request->run.limits.wall_ms),
                        124);
        else if (code == 0 && status != 0)
                code = (build_bad(b, "step %zu failed: its command ended with status %d, and nothing is kept of it",
                                  b->at + 1, status),
                        1);
        if (code == 1)
                print_denials(stderr, NULL, ended);
        json_decref(ended);
        return code;
}

int build_run(struct build *b, const struct docker_step *step)
{
        char key[BUILD_KEY_SIZE];
        int code = put_secrets(b, step, 1), found;

        if (code == 0)
                code = make_key(b, step, step->text, "", key);
        found = code == 0 ? take_result(b, key) : 0;
        if (code || found)
                return code ? code : found < 0 ? -found : 0;
        show(b, "");
        code = open_box(b, BOX, build_stage(b)->id, build_stage(b)->tree, build_env(build_stage(b)), 1);
        if (code == 0)
                code = make_directory(b, build_directory(build_stage(b)));
        if (code == 0)
                code = put_secrets(b, step, 0);
        if (code == 0)
                code = execute(b, step);
        return code ? code : commit(b, step, key);
}

/* -- COPY and ADD ----------------------------------------------------------------------------------------------- */

struct copying {
        json_t *words;            /* sources, with their variables replaced */
        char *target;             /* absolute; a slash at the end: a directory */
        const struct stage *from; /* NULL: the context */
        struct stage other;       /* of an image that is no stage */
        json_t *paths;            /* entries of the context */
};

static int take_words(struct build *b, const struct docker_step *step, struct copying *c)
{
        struct cloche_err e = {0};
        json_t *raw = step->list ? json_incref(step->list) : NULL;
        size_t count;
        int code = 0;

        if (!raw && docker_split(step->text, &raw, &e) < 0)
                return build_fail(b, &e);
        count = json_array_size(raw);
        c->words = json_array();
        if (count < 2)
                code = build_bad(b, "expected at least one source and a target");
        for (size_t i = 0; code == 0 && i < count; i++) {
                char *word = NULL;

                code = build_expand(b, json_string_value(json_array_get(raw, i)), &word);
                if (code == 0 && i + 1 < count)
                        json_array_append_new(c->words, json_string(word));
                else if (code == 0 &&
                         asprintf(&c->target, "%s%s%s", *word == '/' ? "" : build_directory(build_stage(b)),
                                  *word == '/' ? "" : "/", word) < 0)
                        code = no_memory(b);
                free(word);
        }
        json_decref(raw);
        return code ? code : check_place(b, c->target);
}

static int find_from(struct build *b, const struct docker_step *step, struct copying *c)
{
        const char *flag = json_string_value(json_array_get(step->flags, 0)),
                   *name = flag ? strchr(flag, '=') + 1 : NULL;
        struct cloche_err e = {0};
        json_t *image = NULL;
        char *end = NULL;
        unsigned long number = name ? strtoul(name, &end, 10) : 0;
        int code;

        if (!name)
                return 0;
        for (size_t i = 0; i + 1 < b->stage_count; i++)
                if ((b->stages[i].name && strcasecmp(b->stages[i].name, name) == 0) || (*name && !*end && number == i))
                        c->from = &b->stages[i];
        if (c->from)
                return 0;
        code = image_store_ask(b->request, &b->store, "inspect", json_pack("{s:s}", "name", name), &image, &e);
        if (code)
                return e.code ? build_fail(b, &e) : code;
        code = build_take_image(&c->other, image);
        snprintf(c->other.key, sizeof(c->other.key), "%.64s", code ? "" : c->other.id + strcspn(c->other.id, ":") + 1);
        c->from = &c->other;
        json_decref(image);
        return code;
}

static int is_url(const char *word)
{
        return strncmp(word, "http://", 7) == 0 || strncmp(word, "https://", 8) == 0 || strncmp(word, "git@", 4) == 0;
}

/* Find the sources in the context, and hash them. */
static int find_sources(struct build *b, struct copying *c, char ret[BUILD_KEY_SIZE])
{
        struct sha256_ctx hash;
        struct cloche_err e = {0};
        int r = 0;

        sha256_init(&hash);
        c->paths = json_array();
        for (size_t i = 0; r == 0 && i < json_array_size(c->words); i++) {
                const char *word = json_string_value(json_array_get(c->words, i));
                json_t *found = NULL;

                if (is_url(word))
                        return build_bad(b, "a URL is not supported: download '%.100s' by RUN", word);
                r = build_context_find(&b->context, word, &found, &e);
                if (r == 0)
                        json_array_extend(c->paths, found);
                json_decref(found);
        }
        for (size_t i = 0; r == 0 && i < json_array_size(c->paths); i++)
                r = build_context_hash(&b->context, json_string_value(json_array_get(c->paths, i)), &hash, &e);
        finish_hash(&hash, ret);
        return r < 0 ? build_fail(b, &e) : 0;
}

static int stays(void *data, const char *name, int is_directory)
{
        return build_context_ignores(data, name, is_directory);
}

/* The target of one source: in the target if that is a directory. */
static int place(struct build *b, const struct copying *c, const char *source, int is_directory, int is_one,
                 char ret[COPY_PATH_BYTES])
{
        const char *slash = strrchr(source, '/'), *name = slash ? slash + 1 : source;
        struct cloche_err e = {0};
        json_t *entry = NULL;
        int is_into = c->target[strlen(c->target) - 1] == '/', r = 0;

        if (!is_directory && !is_into) {
                r = copy_stat(&b->copy, c->target, &entry, &e);
                is_into = entry && strcmp(sandbox_text(entry, "type"), "directory") == 0;
                json_decref(entry);
        }
        if (r == 0 && !is_directory && !is_into && !is_one)
                return build_bad(b, "'%.100s' must end in '/': there are several sources", c->target);
        if (r == 0)
                r = copy_join(ret, is_directory || !is_into ? "" : c->target,
                              is_directory || !is_into ? c->target : name, &e);
        return r < 0 ? build_fail(b, &e) : 0;
}

/* The forms that archive.extract reads. */
static int is_archive_name(const char *name)
{
        static const char *const endings[] = {".tar",     ".tar.gz", ".tgz",     ".tar.xz", ".txz",
                                              ".tar.bz2", ".tbz2",   ".tar.zst", ".tzst"};
        size_t size = strlen(name);

        for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
                if (size >= strlen(endings[i]) && strcmp(name + size - strlen(endings[i]), endings[i]) == 0)
                        return 1;
        return 0;
}

static int send_path(struct build *b, const struct docker_step *step, struct copying *c, const char *path)
{
        char target[COPY_PATH_BYTES];
        struct cloche_err e = {0};
        const char *name;
        _cleanup_fd_ int fd = build_context_open_parent(&b->context, path, &name, &e);
        struct stat status;
        int code, is_archive;

        if (fd < 0)
                return build_fail(b, &e);
        if (fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                return build_bad(b, "cannot read '%.200s': %s", path, strerror(errno));
        is_archive = step->word == DOCKER_ADD && S_ISREG(status.st_mode) && is_archive_name(name);
        code = is_archive ? 0 : place(b, c, path, S_ISDIR(status.st_mode), json_array_size(c->paths) == 1, target);
        if (code == 0)
                code = cli_copy_entry(&b->copy, fd, name, *path ? path : ".", is_archive ? ARCHIVE : target);
        if (code == 0 && is_archive)
                code = call(b, "archive.extract",
                            json_pack("{s:s, s:s, s:s}", "sandbox", BOX, "path", ARCHIVE, "to", c->target), NULL);
        return code;
}

static int copy_context(struct build *b, const struct docker_step *step, struct copying *c)
{
        int code = 0;

        for (size_t i = 0; code == 0 && i < json_array_size(c->paths); i++)
                code = send_path(b, step, c, json_string_value(json_array_get(c->paths, i)));
        return code;
}

/* Copy the bytes of a file from one sandbox to the other, in pieces. */
static int relay(struct build *b, const char *from, const char *to, unsigned mode)
{
        struct daemon_message read = {0}, written = {0};
        struct cloche_err e = {0};
        uint64_t at = 0, total = 1;
        int r = 0;

        while (r == 0 && at < total) {
                const void *data;
                size_t size = 0;
                json_t *params;

                r = daemon_call(&b->copy.client, "file.read",
                                json_pack("{s:s, s:s, s:I, s:i}", "sandbox", OTHER_BOX, "path", from, "offset",
                                          (json_int_t)at, "limit", COPY_PIECE_BYTES),
                                NULL, 0, &read, &e);
                if (r < 0)
                        break;
                r = daemon_bytes(&read, json_object_get(read.body, "content"), "content", &data, &size, &e);
                total = (uint64_t)json_integer_value(json_object_get(read.body, "total"));
                params = json_pack("{s:s, s:s, s:{s:s, s:i, s:I}}", "sandbox", BOX, "path", to, "content", "$", "bytes",
                                   "at", 0, "n", (json_int_t)size);
                json_object_set_new(params, at ? "offset" : "mode",
                                    json_integer(at ? (json_int_t)at : (json_int_t)mode));
                if (r == 0)
                        r = daemon_call(&b->copy.client, "file.write", params, data, size, &written, &e);
                else
                        json_decref(params);
                daemon_message_done(&written);
                daemon_message_done(&read);
                if (r == 0 && size == 0 && at < total)
                        r = err_set(&e, CLOCHE_E_PROTOCOL, "%.200s became shorter", from);
                at += size;
        }
        return r < 0 ? build_fail(b, &e) : copy_is_cancelled() ? SIGNALS_CANCELLED : 0;
}

static int relay_directory(struct build *b, const char *from, const char *to)
{
        int code = call(b, "archive.create",
                        json_pack("{s:s, s:s, s:s, s:s}", "sandbox", OTHER_BOX, "path", from, "to", ARCHIVE, "format",
                                  "tar.zst"),
                        NULL);

        if (code == 0)
                code = relay(b, ARCHIVE, ARCHIVE, 0600);
        if (code == 0)
                code = make_directory(b, to);
        return code ? code
                    : call(b, "archive.extract",
                           json_pack("{s:s, s:s, s:s}", "sandbox", BOX, "path", ARCHIVE, "to", to), NULL);
}

static int copy_other(struct build *b, struct copying *c)
{
        const char *sandbox = b->copy.sandbox;
        int code = open_box(b, OTHER_BOX, c->from->id, c->from->tree, NULL, 0);

        for (size_t i = 0; code == 0 && i < json_array_size(c->words); i++) {
                const char *word = json_string_value(json_array_get(c->words, i));
                char from[COPY_PATH_BYTES], target[COPY_PATH_BYTES];
                struct cloche_err e = {0};
                json_t *entry = NULL;
                int is_directory;

                snprintf(from, sizeof(from), "/%.4000s", word + strspn(word, "/"));
                b->copy.sandbox = OTHER_BOX;
                if (strpbrk(word, "*?["))
                        code = build_bad(b, "'%.100s': patterns are not supported with --from", word);
                else if (copy_stat(&b->copy, from, &entry, &e) < 0)
                        code = build_fail(b, &e);
                else if (!entry)
                        code = build_bad(b, "the other image has no '%.200s'", from);
                b->copy.sandbox = sandbox;
                is_directory = strcmp(sandbox_text(entry, "type"), "directory") == 0;
                if (code == 0)
                        code = place(b, c, from, is_directory, json_array_size(c->words) == 1, target);
                if (code == 0 && is_directory)
                        code = relay_directory(b, from, target);
                else if (code == 0)
                        code = relay(b, from, target,
                                     (unsigned)json_integer_value(json_object_get(entry, "mode")) & 0777);
                json_decref(entry);
        }
        return code ? code : call(b, "sandbox.delete", json_pack("{s:s}", "sandbox", OTHER_BOX), NULL);
}

static int copy_into_box(struct build *b, const struct docker_step *step, struct copying *c)
{
        const struct stage *stage = build_stage(b);
        int code = open_box(b, BOX, stage->id, stage->tree, build_env(stage), 1);

        b->copy.sandbox = BOX;
        b->copy.code = 0;
        b->copy.stays = stays;
        b->copy.stays_data = &b->context;
        if (code)
                return code;
        code = c->from ? copy_other(b, c) : copy_context(b, step, c);
        if (copy_is_cancelled())
                code = SIGNALS_CANCELLED;
        return code;
}

int build_copy(struct build *b, const struct docker_step *step)
{
        struct copying c = {0};
        char key[BUILD_KEY_SIZE], files[BUILD_KEY_SIZE] = "";
        char *sources;
        int code = take_words(b, step, &c), found;

        if (code == 0)
                code = find_from(b, step, &c);
        if (code == 0 && c.from)
                memcpy(files, c.from->key, sizeof(files));
        else if (code == 0)
                code = find_sources(b, &c, files);
        sources = code == 0 ? json_dumps(c.words, JSON_COMPACT) : NULL;
        if (code == 0) {
                json_t *text = json_sprintf("%s %s", sources ? sources : "", c.target);

                code = make_key(b, step, json_string_value(text), files, key);
                json_decref(text);
        }
        found = code == 0 ? take_result(b, key) : 0;
        if (found < 0)
                code = -found;
        if (code == 0 && !found) {
                show(b, "");
                code = copy_into_box(b, step, &c);
                if (code == 0)
                        code = commit(b, step, key);
        }
        free(sources);
        free(c.target);
        free(c.other.id);
        free(c.other.tree);
        json_decref(c.words);
        json_decref(c.paths);
        return code;
}
