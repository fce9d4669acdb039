/* The key of a step, and the sandbox in which it runs: of the image until then; its changes are
 * committed. Runs in: the CLI, as its user. */
#include "box.h"

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

#define DAEMON_WORDS_MAX 24
#define STORE_OWNER 0 /* for the steps of the store's owner (daemon/images/commit.c) */
#define SHOWN_BYTES 120

/* -- keys ------------------------------------------------------------------------------------------------------- */

int build_no_memory(const struct build *b)
{
        return build_bad(b, "%s", strerror(ENOMEM));
}

void build_finish_hash(struct sha256_ctx *hash, char ret[BUILD_KEY_SIZE])
{
        uint8_t bytes[SHA256_DIGEST_SIZE];

        sha256_digest(hash, sizeof(bytes), bytes);
        hex_write(ret, bytes, sizeof(bytes));
        ret[BUILD_KEY_SIZE - 1] = '\0';
}

/* All that a step's result depends on; the store adds the user. text: with its variables
 * replaced; files: hash of those that it copies, or of the key of another image. */
int build_make_key(struct build *b, const struct docker_step *step, const char *text, const char *files,
                   char ret[BUILD_KEY_SIZE])
{
        const struct stage *stage = build_stage(b);
        json_t *parts =
                json_pack("{s:i, s:b, s:O*, s:s, s:s, s:s, s:O*, s:O, s:O, s:O, s:O*, s:s, s:I}", "version", 2, "root",
                          b->has_root, "documents", step->documents, "before", stage->key, "word",
                          docker_names[step->word], "text", text, "list", step->list, "flags", step->flags, "config",
                          stage->config, "args", stage->args, "network", b->network, "files", files, "time", b->time);
        char *bytes = parts ? json_dumps(parts, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
        struct sha256_ctx hash;

        json_decref(parts);
        if (!bytes)
                return build_no_memory(b);
        sha256_init(&hash);
        sha256_update(&hash, strlen(bytes), (const uint8_t *)bytes);
        build_finish_hash(&hash, ret);
        free(bytes);
        return 0;
}

void build_show(const struct build *b, const char *note)
{
        const struct docker_step *step = &b->file.steps[b->at];

        if (b->request->json)
                return;
        fprintf(stderr, "cloche: [%zu/%zu] %s ", b->at + 1, b->file.count, docker_names[step->word]);
        print_name(stderr, strlen(step->text) > SHOWN_BYTES ? "…" : step->text);
        fprintf(stderr, "%s\n", note);
}

/* Take the result of an earlier build. 1: it is there; negative: an exit code. */
int build_take_result(struct build *b, const char *key)
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
        build_show(b, "  (as before)");
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
int build_call(struct build *b, const char *method, json_t *params, json_t **ret)
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

int build_open_box(struct build *b, const char *name, const char *id, const char *tree, json_t *env,
                   enum build_box_kind kind)
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
        return build_call(b, "sandbox.create",
                          json_pack("{s:s, s:s, s:s, s:{s:o}, s:o*, s:O*, s:b, s:b, s:i}", "sandbox", name, "image",
                                    image, "imageName", id, "imageSettings", "env", env ? env : json_object(), "limits",
                                    limits, "network", kind == BUILD_ONLINE ? b->network : NULL, "writableRoot",
                                    kind != BUILD_READS || b->has_root, "root", b->has_root, "idleMs", 0),
                          NULL);
}

int build_make_directory(struct build *b, const char *path)
{
        return strcmp(path, "/") == 0
                       ? 0
                       : build_call(b, "file.mkdir",
                                    json_pack("{s:s, s:s, s:b}", "sandbox", BUILD_BOX, "path", path, "recursive", 1),
                                    NULL);
}

/* A directory that no image keeps. */
int build_check_place(const struct build *b, const char *path)
{
        const char *name = path + strspn(path, "/");
        const size_t size = strcspn(name, "/");

        return image_top_is_box(name, size) && !(b->has_root && image_top_is_roots(name, size))
                       ? build_bad(b,
                                   "%.200s is in a directory of which every box has "
                                   "its own: choose another one, such as /app",
                                   path)
                       : 0;
}

json_t *build_config(const struct stage *stage)
{
        static const char *const members[] = {"workingDir",  "user",       "entrypoint", "cmd",
                                              "healthcheck", "stopSignal", "shell",      "onBuild"},
                                 *const named[] = {"exposedPorts", "volumes"};
        json_t *config = json_pack("{s:o}", "env", json_object());
        const json_t *env = json_object_get(stage->config, "env");
        const char *name;
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
        for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
                json_t *names = json_object_size(json_object_get(stage->config, named[i])) ? json_array() : NULL;

                json_object_foreach (json_object_get(stage->config, named[i]), name, value)
                        json_array_append_new(names, json_string(name));
                if (names)
                        json_object_set_new(config, named[i], names);
        }
        return config;
}

/* Make the image of the step, and end the sandbox. */
int build_commit(struct build *b, const struct docker_step *step, const char *key)
{
        struct stage *stage = build_stage(b);
        json_t *params = json_pack("{s:s, s:o, s:s}", "sandbox", BUILD_BOX, "config", build_config(stage), "key", key),
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
        code = build_call(b, "sandbox.commit", params, &image);
        if (code == 0)
                code = build_take_image(stage, image);
        json_decref(image);
        memcpy(stage->key, key, BUILD_KEY_SIZE);
        return code ? code : build_call(b, "sandbox.delete", json_pack("{s:s}", "sandbox", BUILD_BOX), NULL);
}
