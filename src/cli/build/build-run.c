/* RUN. Runs in: the CLI, as its user; the command runs in a sandbox. */
#include "box.h"

#include "cli/output/print.h"
#include "cli/output/signals.h"
#include "cli/sandbox/follow.h"

#include "base/err.h"
#include "base/fd.h"
#include "jail/root/accounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECRETS "/run/secrets" /* a link in sandboxes with a writable root */
#define SCRIPT "/tmp/.cloche-run"
#define ROOTLESS "; if it needs root, as apt-get and useradd do, build as root: steps of an ordinary user have no root"
#define OFFLINE "; steps have no network, unless --network permits hosts"
#define OFFLINE_ITSELF "; its --network=none has it without"
#define MOUNT "mount="
#define BECOME "exec /run/bin/sudo -u " /* of a sandbox with root (box/init/sudo.c) */

/* -- mounts ----------------------------------------------------------------------------------------------------- */

/* The value of a part NAME=VALUE of a flag with commas, or NULL. */
static char *part_of(const char *flag, const char *name)
{
        const size_t size = strlen(name);

        for (const char *at = flag; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
                if (strncmp(at, name, size) == 0 && at[size] == '=')
                        return strndup(at + size + 1, strcspn(at + size + 1, ","));
        return NULL;
}

static int is_mount(const char *flag)
{
        return strncmp(flag, MOUNT, strlen(MOUNT)) == 0;
}

static int is_kind(const char *flag, const char *kind)
{
        char *type = part_of(flag + strlen("mount="), "type");
        int is = type && strcmp(type, kind) == 0;

        free(type);
        return is;
}

static int has_other_parts(const char *flag, const char *const *known)
{
        for (const char *at = flag + strlen("mount="); at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
                size_t size = strcspn(at, "=,"), i = 0;

                while (known[i] && (strlen(known[i]) != size || strncmp(known[i], at, size) != 0))
                        i++;
                if (!known[i])
                        return 1;
        }
        return 0;
}

/* type=secret,id=ID[,required=…]. Return the id, or NULL after a line was printed. */
static char *read_secret(const struct build *b, const char *flag)
{
        static const char *const known[] = {"type", "id", "required", NULL};
        char *id = part_of(flag + strlen("mount="), "id");

        if (!id || has_other_parts(flag, known))
                build_bad(b,
                          "--%.100s is not supported: expected --mount=type=secret,id=ID, which is the file " SECRETS
                          "/ID",
                          flag);
        else if (json_object_get(b->request->build.secrets, id))
                return id;
        else
                build_bad(b, "there is no secret '%.60s': name its file by --secret id=%.60s,src=FILE", id, id);
        free(id);
        return NULL;
}

/* type=cache,target=DIRECTORY: a directory that the image has not, and that is removed after the
 * command. Return it, or NULL after a line was printed. */
static char *read_cache(const struct build *b, const char *flag)
{
        static const char *const known[] = {"type",    "target", "dst", "destination", "id",
                                            "sharing", "uid",    "gid", "mode",        NULL};
        char *target = part_of(flag + strlen("mount="), "target");

        if (!target)
                target = part_of(flag + strlen("mount="), "dst");
        if (!target)
                target = part_of(flag + strlen("mount="), "destination");
        if (target && *target == '/' && !has_other_parts(flag, known))
                return target;
        build_bad(b,
                  "--%.100s is not supported: expected --mount=type=cache,target=DIRECTORY, which is empty in each "
                  "step, and in no image",
                  flag);
        free(target);
        return NULL;
}

static int put_secret(struct build *b, const char *id)
{
        const char *source = json_string_value(json_object_get(b->request->build.secrets, id));
        _cleanup_fd_ int fd = open(source, O_RDONLY | O_NOCTTY | O_CLOEXEC);
        char path[256], *bytes = malloc(BUILD_SECRET_BYTES_MAX + 1);
        struct cloche_err e = {0};
        ssize_t size = fd >= 0 && bytes ? read(fd, bytes, BUILD_SECRET_BYTES_MAX + 1) : -1;
        int code = 0;

        if (size < 0 || size > BUILD_SECRET_BYTES_MAX) {
                code = build_bad(b, "the secret '%.60s' is no file of at most %u bytes that can be read: %.200s", id,
                                 BUILD_SECRET_BYTES_MAX, source);
        } else {
                snprintf(path, sizeof(path), SECRETS "/%.200s", id);
                if (copy_write_piece(&b->copy, path, bytes, (size_t)size, 0, 0400, &e) < 0)
                        code = build_fail(b, &e);
        }
        if (bytes)
                explicit_bzero(bytes, BUILD_SECRET_BYTES_MAX + 1);
        free(bytes);
        return code;
}

/* The files that a step adds to a directory of the image would be in the image. */
static int put_cache(struct build *b, const char *path)
{
        struct cloche_err e = {0};
        json_t *entry = NULL;
        int r = copy_stat(&b->copy, path, &entry, &e);

        if (r == 0 && entry)
                r = err_set(&e, CLOCHE_E_INVALID_ARGUMENT,
                            "--mount=type=cache: the image has %.200s, so its files would stay in the image: name a "
                            "directory that it has not",
                            path);
        json_decref(entry);
        return r < 0 ? build_fail(b, &e) : build_make_directory(b, path);
}

static int remove_caches(struct build *b, const struct docker_step *step)
{
        int code = 0;

        for (size_t i = 0; code == 0 && i < json_array_size(step->flags); i++) {
                const char *flag = json_string_value(json_array_get(step->flags, i));
                char *target = is_mount(flag) && is_kind(flag, "cache") ? read_cache(b, flag) : NULL;

                if (target)
                        code = build_call(b, "file.remove",
                                          json_pack("{s:s, s:s, s:b, s:b}", "sandbox", BUILD_BOX, "path", target,
                                                    "recursive", 1, "force", 1),
                                          NULL);
                free(target);
        }
        return code;
}

static int put_mount(struct build *b, const char *flag, int only_checks)
{
        const int is_secret = is_kind(flag, "secret");
        char *name = is_secret ? read_secret(b, flag) : is_kind(flag, "cache") ? read_cache(b, flag) : NULL;
        int code = name ? 0 : CLI_BAD_INPUT;

        if (!name && !is_secret && !is_kind(flag, "cache"))
                build_bad(b, "--%.100s is not supported: expected type=secret or type=cache", flag);
        if (name && !only_checks)
                code = is_secret ? put_secret(b, name) : put_cache(b, name);
        free(name);
        return code;
}

static int put_mounts(struct build *b, const struct docker_step *step, int only_checks)
{
        int code = 0;

        if (!only_checks && docker_flag(step, "mount"))
                code = build_make_directory(b, "/dev/shm/secrets");
        for (size_t i = 0; code == 0 && i < json_array_size(step->flags); i++) {
                const char *flag = json_string_value(json_array_get(step->flags, i));

                code = is_mount(flag) ? put_mount(b, flag, only_checks) : 0;
        }
        return code;
}

/* --network=none takes the network of --network from the step; the sandbox is not asked for
 * more. */
static int is_offline(const struct docker_step *step)
{
        const char *network = docker_flag(step, "network");

        return network && strcmp(network, "none") == 0;
}

static int check_network(const struct build *b, const struct docker_step *step)
{
        const char *network = docker_flag(step, "network");

        return !network || is_offline(step) || strcmp(network, "default") == 0
                       ? 0
                       : build_bad(b,
                                   "--network=%.40s is not supported: expected none or default; the network of steps "
                                   "is that of the build's option --network",
                                   network);
}

/* -- the command ------------------------------------------------------------------------------------------------ */

static int append_word(struct buf *text, const char *word)
{
        int r = buf_quote(text, word);

        return r < 0 ? r : buf_append(text, " ", 1);
}

static int is_root_name(const char *name, size_t size)
{
        return size == 0 || (size == 1 && *name == '0') || (size == 4 && strncmp(name, "root", 4) == 0);
}

/* A sandbox with root becomes the user of the image; any other has one user. */
static int append_user(const struct build *b, const struct stage *stage, struct buf *text)
{
        const char *user = json_string_value(json_object_get(stage->config, "user")), *group;
        size_t size = user ? strcspn(user, ":") : 0;
        char *name;
        int r;

        if (!user || !b->has_root)
                return 0;
        group = user[size] ? user + size + 1 : "";
        if (is_root_name(user, size) && is_root_name(group, strlen(group)))
                return 0;
        name = strndup(size ? user : "root", size ? size : strlen("root"));
        r = name ? buf_append(text, BECOME, strlen(BECOME)) : -ENOMEM;
        if (r == 0)
                r = append_word(text, name);
        if (r == 0 && *group)
                r = buf_append(text, "-g ", 3);
        if (r == 0 && *group)
                r = append_word(text, group);
        free(name);
        return r < 0 ? r : buf_append(text, "-- ", 3);
}

/* A command that is a here document alone: <<NAME. */
static int is_script(const struct docker_step *step)
{
        return json_array_size(step->documents) == 1 && docker_is_document(step->text);
}

static const char *script_of(const struct docker_step *step)
{
        return json_string_value(json_object_get(json_array_get(step->documents, 0), "text"));
}

/* The shell reads its own here documents. */
static int append_documents(const struct docker_step *step, struct buf *text)
{
        const json_t *document;
        size_t i;
        int r = buf_append(text, step->text, strlen(step->text));

        json_array_foreach (step->documents, i, document) {
                const char *rows = sandbox_text(document, "text"), *name = sandbox_text(document, "name");

                if (r == 0)
                        r = buf_append(text, "\n", 1);
                if (r == 0)
                        r = buf_append(text, rows, strlen(rows));
                if (r == 0)
                        r = buf_append(text, name, strlen(name));
        }
        return r < 0 ? r : buf_append(text, "\0", 1);
}

static int append_shell(const struct stage *stage, const struct docker_step *step, struct buf *text)
{
        const json_t *shell = json_object_get(stage->config, "shell");
        _cleanup_buf_ struct buf command = BUF_INIT(DOCKERFILE_BYTES_MAX * 2 + 100);
        int r = 0;

        if (is_script(step) && strncmp(script_of(step), "#!", 2) == 0)
                return append_word(text, SCRIPT);
        for (size_t i = 0; r == 0 && i < json_array_size(shell); i++)
                r = append_word(text, json_string_value(json_array_get(shell, i)));
        if (r == 0 && json_array_size(shell) == 0)
                r = buf_append(text, "/bin/sh -c ", strlen("/bin/sh -c "));
        if (r == 0 && is_script(step))
                return append_word(text, script_of(step));
        if (r == 0)
                r = append_documents(step, &command);
        return r < 0 ? r : append_word(text, command.data);
}

static json_t *command_of(const struct build *b, const struct stage *stage, const struct docker_step *step)
{
        _cleanup_buf_ struct buf text = BUF_INIT(8 * DOCKERFILE_BYTES_MAX);
        int r = append_user(b, stage, &text);

        if (r == 0 && !step->list)
                r = append_shell(stage, step, &text);
        for (size_t i = 0; r == 0 && i < json_array_size(step->list); i++)
                r = append_word(&text, json_string_value(json_array_get(step->list, i)));
        return r == 0 ? json_stringn(text.data, text.size) : NULL;
}

static int put_script(struct build *b, const struct docker_step *step)
{
        return !is_script(step) || strncmp(script_of(step), "#!", 2) != 0
                       ? 0
                       : build_call(b, "file.write",
                                    json_pack("{s:s, s:s, s:s, s:i}", "sandbox", BUILD_BOX, "path", SCRIPT, "content",
                                              script_of(step), "mode", 0755),
                                    NULL);
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
        params = json_pack("{s:s, s:o, s:s, s:o, s:b, s:b, s:i}", "sandbox", BUILD_BOX, "command",
                           command_of(b, stage, step), "cwd", build_directory(stage), "env", env, "fork", 1, "stream",
                           1, "outputBytes", 1);
        if (params && timeout_ms && timeout_ms != CLOCHE_UNLIMITED)
                json_object_set_new(params, "timeoutMs", json_integer((json_int_t)timeout_ms));
        return params;
}

/* The daemon's advice is for a sandbox, which is gone. */
static void advise(json_t *ended)
{
        json_t *denied, *rule;
        size_t i, k, count = 0;

        json_array_foreach (json_object_get(ended, "denials"), i, denied)
                json_object_del(denied, "remedy");
        print_denials(stderr, NULL, ended);
        json_array_foreach (json_object_get(ended, "denials"), i, denied) {
                json_array_foreach (json_object_get(denied, "allow"), k, rule) {
                        fputs(count++ == 0 ? "cloche: a build permits it by --network " : ",", stderr);
                        print_name(stderr, json_string_value(rule));
                }
        }
        if (count > 0)
                fputc('\n', stderr);
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
                code = (build_bad(b, "step %zu failed: its command ended with status %d, and nothing is kept of it%s%s",
                                  b->at + 1, status,
                                  is_offline(step) ? OFFLINE_ITSELF
                                  : b->network     ? ""
                                                   : OFFLINE,
                                  b->has_root ? "" : ROOTLESS),
                        1);
        if (code == 1)
                advise(ended);
        json_decref(ended);
        return code;
}

/* A box has one account more than its image, whose number a step may want for another one. */
static int cut_account(struct build *b, const char *path, const char *own, const char *row)
{
        const size_t size = strlen(row);
        json_t *read = NULL;
        char *text, *at;
        int code = build_call(b, "file.read", json_pack("{s:s, s:s}", "sandbox", BUILD_BOX, "path", path), &read);

        text = code == 0 ? strdup(sandbox_text(read, "content")) : NULL;
        json_decref(read);
        at = text && strlen(text) >= size ? text + strlen(text) - size : NULL;
        if (at && strcmp(at, row) == 0) {
                *at = '\0';
                if (strcmp(text, own) != 0) /* else the image has none */
                        code = build_call(b, "file.write",
                                          json_pack("{s:s, s:s, s:s}", "sandbox", BUILD_BOX, "path", path, "content",
                                                    text),
                                          NULL);
        }
        free(text);
        return code;
}

static int cut_accounts(struct build *b)
{
        int code = 0;

        for (size_t i = 0; b->has_root && code == 0 && i < JAIL_ACCOUNTS; i++) {
                char path[32];

                snprintf(path, sizeof(path), "/%s", jail_accounts[i].path);
                code = cut_account(b, path, jail_accounts[i].own, jail_accounts[i].row);
        }
        return code;
}

int build_run(struct build *b, const struct docker_step *step)
{
        char key[BUILD_KEY_SIZE];
        int code = check_network(b, step), found;

        if (code == 0)
                code = put_mounts(b, step, 1);
        if (code == 0)
                code = build_make_key(b, step, step->text, "", key);
        found = code == 0 ? build_take_result(b, key) : 0;
        if (code || found)
                return code ? code : found < 0 ? -found : 0;
        build_show(b, "");
        code = build_open_box(b, BUILD_BOX, build_stage(b)->id, build_stage(b)->tree, build_env(build_stage(b)),
                              is_offline(step) ? BUILD_WRITES : BUILD_ONLINE);
        b->copy.sandbox = BUILD_BOX;
        if (code == 0)
                code = build_make_directory(b, build_directory(build_stage(b)));
        if (code == 0)
                code = put_mounts(b, step, 0);
        if (code == 0)
                code = cut_accounts(b);
        if (code == 0)
                code = put_script(b, step);
        if (code == 0)
                code = execute(b, step);
        if (code == 0)
                code = remove_caches(b, step);
        return code ? code : build_commit(b, step, key);
}
