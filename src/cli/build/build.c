/* cloche image build: the instructions that only change the configuration, and the whole.
 * Runs in: the CLI, as its user; steps run in sandboxes of a private daemon, and
 * cloche-image writes the store. */
#include "build.h"

#include "cli/build/command.h"
#include "cli/options/quantity.h"
#include "cli/output/print.h"
#include "cli/output/signals.h"
#include "cli/run/image-store.h"

#include "base/array.h"
#include "base/env.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/privilege.h"
#include "proto/image.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_FILE "Dockerfile"
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" /* of an image without one */
#define DEFAULT_TIME_S 315532800 /* 1980: the first that a zip file can have */

/* -- errors ----------------------------------------------------------------------------------------------------- */

#define ADVICE_OF_DAEMON ": expected the daemon's option" /* engine/box/network-names.c */

/* The daemon is the build's own: the user has the build's options alone. */
static void advise(struct cloche_err *e)
{
        char *at = strstr(e->msg, ADVICE_OF_DAEMON);

        if (at)
                snprintf(at, sizeof(e->msg) - (size_t)(at - e->msg),
                         ": name them instead of the preset, by --network HOST or HOST:PORT");
}

int build_fail(const struct build *b, const struct cloche_err *e)
{
        struct cloche_err copy = *e;

        advise(&copy);

        (void)err_wrap(&copy, "%s:%u: %s", b->path, b->file.steps[b->at].line, docker_names[b->file.steps[b->at].word]);
        return sandbox_fail(&copy);
}

int build_bad(const struct build *b, const char *format, ...)
{
        struct cloche_err e = {0};
        char text[800];
        va_list list;

        va_start(list, format);
        vsnprintf(text, sizeof(text), format, list);
        va_end(list);
        (void)err_set(&e, CLOCHE_E_INVALID_ARGUMENT, "%s", text);
        return build_fail(b, &e);
}

static int no_memory(void)
{
        return cli_bad("%s", strerror(ENOMEM));
}

/* -- variables -------------------------------------------------------------------------------------------------- */

/* ENV comes before ARG. */
static const char *look_up(void *data, const char *name)
{
        struct build *b = data;
        const struct stage *stage = b->stage_count ? build_stage(b) : NULL;
        const json_t *env = stage ? json_object_get(stage->config, "env") : NULL;
        const size_t size = strlen(name);

        for (size_t i = json_array_size(env); i > 0; i--) {
                const char *row = json_string_value(json_array_get(env, i - 1));

                if (strncmp(row, name, size) == 0 && row[size] == '=')
                        return row + size + 1;
        }
        env = json_object_get(stage ? stage->args : b->args, name);
        return env ? json_string_value(env) : strcmp(name, "PATH") == 0 ? DEFAULT_PATH : NULL;
}

int build_expand(struct build *b, const char *text, char **ret)
{
        struct cloche_err e = {0};

        return docker_expand(text, look_up, b, ret, &e) < 0 ? build_fail(b, &e) : 0;
}

json_t *build_env(const struct stage *stage)
{
        const json_t *list = json_object_get(stage->config, "env");
        json_t *env = json_object();

        for (size_t i = 0; i < json_array_size(list); i++) {
                const char *row = json_string_value(json_array_get(list, i));
                size_t size = row ? env_name_size(row) : 0;

                if (size > 0 && row[size] == '=' && !image_variable_is_box(row, size))
                        json_object_setn_new(env, row, size, json_string(row + size + 1));
        }
        return env;
}

/* -- configuration ---------------------------------------------------------------------------------------------- */

const char *build_directory(const struct stage *stage)
{
        const char *directory = json_string_value(json_object_get(stage->config, "workingDir"));

        return directory && *directory ? directory : "/";
}

static json_t *member(struct stage *stage, const char *name, json_t *(*make)(void))
{
        json_t *value = json_object_get(stage->config, name);

        if (value)
                return value;
        json_object_set_new(stage->config, name, make());
        return json_object_get(stage->config, name);
}

static void set_variable(json_t *list, const char *name, const char *value)
{
        const size_t size = strlen(name);
        json_t *row = json_sprintf("%s=%s", name, value);

        for (size_t i = 0; i < json_array_size(list); i++) {
                const char *text = json_string_value(json_array_get(list, i));

                if (strncmp(text, name, size) == 0 && text[size] == '=') {
                        json_array_set_new(list, i, row);
                        return;
                }
        }
        json_array_append_new(list, row);
}

static int keep_pair(struct build *b, const struct docker_step *step, const char *name, const char *value)
{
        struct stage *stage = build_stage(b);

        if (step->word == DOCKER_LABEL) {
                json_object_set_new(member(stage, "labels", json_object), name, json_string(value));
                return 0;
        }
        if (!*name || env_name_size(name) != strlen(name))
                return build_bad(b, "'%.60s' is no name of a variable", name);
        set_variable(member(stage, "env", json_array), name, value);
        return 0;
}

/* NAME=VALUE, both with variables and quotes. */
static int read_pair(struct build *b, const char *word, json_t *pairs)
{
        const char *equals = strchr(word, '=');
        char *name = NULL, *value = NULL, *raw = equals ? strndup(word, (size_t)(equals - word)) : NULL;
        int code;

        if (!equals)
                return build_bad(b, "'%.60s' has no '=': expected NAME=VALUE", word);
        code = raw ? build_expand(b, raw, &name) : no_memory();
        if (code == 0)
                code = build_expand(b, equals + 1, &value);
        if (code == 0 && json_array_append_new(pairs, json_pack("[s, s]", name, value)) < 0)
                code = no_memory();
        free(raw);
        free(name);
        free(value);
        return code;
}

/* The old form, NAME VALUE: the rest of the line is the value. */
static int take_old_pair(struct build *b, const struct docker_step *step)
{
        size_t size = strcspn(step->text, " \t");
        const char *rest = step->text + size + strspn(step->text + size, " \t");
        char *name = NULL, *value = NULL, *raw = strndup(step->text, size);
        int code = !*rest ? build_bad(b, "'%.60s' has no value: expected NAME=VALUE", step->text)
                   : raw  ? build_expand(b, raw, &name)
                          : no_memory();

        if (code == 0)
                code = build_expand(b, rest, &value);
        if (code == 0)
                code = keep_pair(b, step, name, value);
        free(raw);
        free(name);
        free(value);
        return code;
}

static int split(const struct build *b, const char *text, json_t **ret)
{
        struct cloche_err e = {0};

        return docker_split(text, ret, &e) < 0 ? build_fail(b, &e) : 0;
}

/* Pairs of one instruction do not see each other. */
static int take_pairs(struct build *b, const struct docker_step *step)
{
        json_t *words = NULL, *pairs, *pair;
        size_t i;
        int code;

        if (!memchr(step->text, '=', strcspn(step->text, " \t")))
                return take_old_pair(b, step);
        code = split(b, step->text, &words);
        pairs = json_array();
        for (i = 0; code == 0 && i < json_array_size(words); i++)
                code = read_pair(b, json_string_value(json_array_get(words, i)), pairs);
        json_array_foreach (pairs, i, pair)
                code = code ? code
                            : keep_pair(b, step, json_string_value(json_array_get(pair, 0)),
                                        json_string_value(json_array_get(pair, 1)));
        json_decref(pairs);
        json_decref(words);
        return code;
}

static int take_directory(struct build *b, const struct docker_step *step)
{
        struct stage *stage = build_stage(b);
        const char *now = build_directory(stage);
        char *path = NULL;
        json_t *joined;
        int code = build_expand(b, step->text, &path);

        if (code)
                return code;
        joined = *path == '/' ? json_string(path) : json_sprintf("%s%s%s", now, strcmp(now, "/") == 0 ? "" : "/", path);
        free(path);
        return json_object_set_new(stage->config, "workingDir", joined) < 0 ? no_memory() : 0;
}

static int take_user(struct build *b, const struct docker_step *step)
{
        char *user = NULL;
        int code = build_expand(b, step->text, &user);

        if (code == 0 && json_object_set_new(build_stage(b)->config, "user", json_string(user)) < 0)
                code = no_memory();
        free(user);
        return code;
}

/* Return the words of the shell and the text. */
static json_t *with_shell(const json_t *config, const char *text)
{
        const json_t *shell = json_object_get(config, "shell");
        json_t *list = json_array_size(shell) ? json_copy((json_t *)shell) : json_pack("[s, s]", "/bin/sh", "-c");

        json_array_append_new(list, json_string(text));
        return list;
}

/* The shell form is a command of the shell. ENTRYPOINT drops the arguments of the image below. */
static int take_command(struct build *b, const struct docker_step *step)
{
        json_t *config = build_stage(b)->config,
               *list = step->list ? json_incref(step->list) : with_shell(config, step->text);

        if (step->word == DOCKER_ENTRYPOINT)
                json_object_del(config, "cmd");
        return json_object_set_new(config, step->word == DOCKER_CMD ? "cmd" : "entrypoint", list) < 0 ? no_memory() : 0;
}

static int take_port(struct build *b, const char *port)
{
        size_t digits = strspn(port, "0123456789");
        const char *protocol = port[digits] == '/' ? port + digits + 1 : "tcp";
        char row[32];

        if (digits == 0 || digits > 5 || (port[digits] && port[digits] != '/') ||
            (strcmp(protocol, "tcp") != 0 && strcmp(protocol, "udp") != 0))
                return build_bad(b, "'%.40s' is no port: expected NUMBER, NUMBER/tcp or NUMBER/udp", port);
        snprintf(row, sizeof(row), "%.*s/%s", (int)digits, port, protocol);
        json_object_set_new(member(build_stage(b), "exposedPorts", json_object), row, json_object());
        return 0;
}

/* Boxes have no volumes of images: the directory is one of the image's. */
static int take_volume(struct build *b, const char *path)
{
        if (*path != '/')
                return build_bad(b, "'%.100s' is no absolute path", path);
        json_object_set_new(member(build_stage(b), "volumes", json_object), path, json_object());
        return 0;
}

/* EXPOSE and VOLUME. */
static int take_names(struct build *b, const struct docker_step *step)
{
        json_t *words = step->list ? json_incref(step->list) : NULL;
        int code = words ? 0 : split(b, step->text, &words);

        for (size_t i = 0; code == 0 && i < json_array_size(words); i++) {
                char *name = NULL;

                code = build_expand(b, json_string_value(json_array_get(words, i)), &name);
                if (code == 0)
                        code = step->word == DOCKER_VOLUME ? take_volume(b, name) : take_port(b, name);
                free(name);
        }
        json_decref(words);
        return code;
}

static int take_shell(struct build *b, const struct docker_step *step)
{
        return json_object_set(build_stage(b)->config, "shell", step->list) < 0 ? no_memory() : 0;
}

static int take_signal(struct build *b, const struct docker_step *step)
{
        char *name = NULL;
        int code = build_expand(b, step->text, &name);

        if (code == 0 && (!*name || strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-") != strlen(name)))
                code = build_bad(b, "'%.40s' is no signal: expected a name or number", name);
        if (code == 0)
                json_object_set_new(build_stage(b)->config, "stopSignal", json_string(name));
        free(name);
        return code;
}

static int take_author(struct build *b, const struct docker_step *step)
{
        json_object_set_new(member(build_stage(b), "labels", json_object), "maintainer", json_string(step->text));
        return 0;
}

/* -- HEALTHCHECK ------------------------------------------------------------------------------------------------ */

static const struct {
        const char *flag, *member;
} durations[] = {{"interval", "Interval"},
                 {"timeout", "Timeout"},
                 {"start-period", "StartPeriod"},
                 {"start-interval", "StartInterval"}};

/* In nanoseconds, as container engines write it. */
static int take_durations(struct build *b, const struct docker_step *step, json_t *check)
{
        const char *retries = docker_flag(step, "retries");

        for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++) {
                const char *given = docker_flag(step, durations[i].flag);
                double ms = 0;

                if (given && quantity_ms(given, &ms) < 0)
                        return build_bad(b, "--%s=%.40s is no duration: expected one such as 30s", durations[i].flag,
                                         given);
                if (given)
                        json_object_set_new(check, durations[i].member, json_integer((json_int_t)(ms * 1e6)));
        }
        if (retries && (!*retries || strlen(retries) > 6 || strspn(retries, "0123456789") != strlen(retries)))
                return build_bad(b, "--retries=%.40s is no number", retries);
        if (retries)
                json_object_set_new(check, "Retries", json_integer(atoi(retries)));
        return 0;
}

/* It is recorded for engines that run such checks; ours does not. */
static int take_check(struct build *b, const struct docker_step *step)
{
        const size_t size = strcspn(step->text, " \t");
        const char *rest = step->text + size + strspn(step->text + size, " \t");
        const int is_command = size == 3 && strncasecmp(step->text, "CMD", size) == 0 && *rest;
        json_t *check = json_object(), *test = is_command ? docker_list(rest) : NULL;
        int code;

        if (test)
                json_array_insert_new(test, 0, json_string("CMD"));
        else if (is_command)
                test = json_pack("[s, s]", "CMD-SHELL", rest);
        else if (strcasecmp(step->text, "NONE") == 0)
                test = json_pack("[s]", "NONE");
        code = test && (!is_command || json_array_size(test) > 1) ? take_durations(b, step, check)
                                                                  : build_bad(b, "expected CMD and a command, or NONE");
        if (code == 0)
                json_object_set(check, "Test", test);
        if (code == 0)
                json_object_set(build_stage(b)->config, "healthcheck", check);
        json_decref(check);
        json_decref(test);
        return code;
}

/* -- ARG ----------------------------------------------------------------------------------------------- */

/* ARGs that have a value without --build-arg: the platform is that of this machine. */
static json_t *platform_value(const char *name)
{
        static const char *const ends[] = {"PLATFORM", "OS", "ARCH", "VARIANT"};
        const char *machine = BUILD_ARCHITECTURE;
        const char *end = strncmp(name, "TARGET", 6) == 0 ? name + 6 : strncmp(name, "BUILD", 5) == 0 ? name + 5 : "";
        size_t i = 0;

        while (i < sizeof(ends) / sizeof(ends[0]) && strcmp(end, ends[i]) != 0)
                i++;
        return i == 0   ? json_sprintf("linux/%s", machine)
               : i == 1 ? json_string("linux")
               : i == 2 ? json_string(machine)
               : i == 3 ? json_string("")
                        : NULL;
}

/* The command line comes before the value of the Dockerfile, and for one without a value
 * that of an ARG before FROM. */
static int take_arg(struct build *b, const char *word)
{
        json_t *args = b->stage_count ? build_stage(b)->args : b->args;
        const char *equals = strchr(word, '=');
        json_t *given;
        char *value = NULL, *name = equals ? strndup(word, (size_t)(equals - word)) : strdup(word);
        int code = !name ? no_memory() : 0;

        if (code == 0 && (!*name || env_name_size(name) != strlen(name)))
                code = build_bad(b, "'%.60s' is no name of a variable", name);
        given = code == 0 ? json_incref(json_object_get(b->request->build.args, name)) : NULL;
        if (code == 0)
                json_object_set_new(b->declared, name, json_null());
        if (code == 0 && !given && equals)
                code = build_expand(b, equals + 1, &value);
        if (code == 0 && !given && !equals && b->stage_count)
                given = json_incref(json_object_get(b->args, name));
        if (code == 0 && !given && !equals)
                given = platform_value(name);
        if (code == 0 && (given || value))
                json_object_set_new(args, name, given ? json_incref(given) : json_string(value));
        json_decref(given);
        free(name);
        free(value);
        return code;
}

static int take_args(struct build *b, const struct docker_step *step)
{
        json_t *words = NULL;
        int code = split(b, step->text, &words);

        for (size_t i = 0; code == 0 && i < json_array_size(words); i++)
                code = take_arg(b, json_string_value(json_array_get(words, i)));
        json_decref(words);
        return code;
}

static int take_trigger(struct build *b, const struct docker_step *step)
{
        return json_array_append_new(member(build_stage(b), "onBuild", json_array), json_string(step->text)) < 0
                       ? no_memory()
                       : 0;
}

/* -- whole ------------------------------------------------------------------------------------------------------ */

static int (*const handlers[DOCKER_WORDS])(struct build *b, const struct docker_step *step) = {
        [DOCKER_FROM] = build_from,         [DOCKER_RUN] = build_run,          [DOCKER_COPY] = build_copy,
        [DOCKER_ADD] = build_copy,          [DOCKER_ENV] = take_pairs,         [DOCKER_ARG] = take_args,
        [DOCKER_WORKDIR] = take_directory,  [DOCKER_USER] = take_user,         [DOCKER_CMD] = take_command,
        [DOCKER_ENTRYPOINT] = take_command, [DOCKER_LABEL] = take_pairs,       [DOCKER_EXPOSE] = take_names,
        [DOCKER_SHELL] = take_shell,        [DOCKER_VOLUME] = take_names,      [DOCKER_STOPSIGNAL] = take_signal,
        [DOCKER_HEALTHCHECK] = take_check,  [DOCKER_MAINTAINER] = take_author, [DOCKER_ONBUILD] = take_trigger,
};

static int read_file(struct build *b, const char *path)
{
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
        struct cloche_err e = {0};
        struct stat status;
        char *text;
        int code = 0;

        if (fd < 0 || fstat(fd, &status) < 0)
                return cli_bad("cannot open '%s': %s", path, strerror(errno));
        if (!S_ISREG(status.st_mode) || status.st_size > DOCKERFILE_BYTES_MAX)
                return cli_bad("'%s' is no file of at most %u bytes", path, DOCKERFILE_BYTES_MAX);
        text = malloc((size_t)status.st_size + 1);
        if (!text || fd_read_full(fd, text, (size_t)status.st_size) < 0)
                code = cli_bad("cannot read '%s'", path);
        else if (dockerfile_read(text, (size_t)status.st_size, b->path, &b->file, &e) < 0)
                code = sandbox_fail(&e);
        free(text);
        return code;
}

static int finish(struct build *b)
{
        struct stage *stage = build_stage(b);
        struct cloche_err e = {0};
        json_t *answer = NULL, *config = build_config(stage), *startup = sandbox_startup(&b->request->sandbox);
        int code;

        if (config && startup)
                json_object_set(config, "startup", startup);
        json_decref(startup);
        code = image_store_ask(b->request, &b->store, "commit",
                               json_pack("{s:s, s:o, s:s*}", "base", stage->id, "config", config, "name",
                                         b->request->build.tag),
                               &answer, &e);

        if (e.code)
                code = sandbox_fail(&e);
        if (code == 0 && b->request->json)
                sandbox_print_json(answer);
        if (code == 0 && !b->request->json) {
                image_print_notes(json_object_get(answer, "notes"));
                printf("%s\n", sandbox_text(answer, b->request->build.tag ? "name" : "id"));
        }
        json_decref(answer);
        return code;
}

/* An image of Debian that the store has is not made. */
static void warn_of_sources(const struct build *b)
{
        if (b->request->debian.sources && json_object_size(b->pulled) == 0)
                fprintf(stderr,
                        "cloche: --sources has no effect: no image was made of Debian's packages (FROM debian:SUITE, "
                        "and --pull where the store has it)\n");
}

/* A misspelt name would have no effect. Those of proxies are declared in each Dockerfile. */
static void warn_of_arguments(const struct build *b)
{
        static const char *const known[] = {"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY"};
        const char *name;
        json_t *value;

        json_object_foreach (b->request->build.args, name, value) {
                size_t i = 0;

                while (i < sizeof(known) / sizeof(known[0]) && strcasecmp(known[i], name) != 0)
                        i++;
                if (i < sizeof(known) / sizeof(known[0]) || json_object_get(b->declared, name))
                        continue;
                fprintf(stderr, "cloche: --build-arg ");
                print_name(stderr, name);
                fprintf(stderr, ": %s has no ARG of this name, so the value has no effect\n", b->path);
        }
}

/* A name that the store refuses, it shall refuse before the work. */
static int check_tag(struct build *b)
{
        const char *tag = b->request->build.tag;
        struct cloche_err e = {0};
        json_t *answer = NULL;
        int code =
                tag ? image_store_ask(b->request, &b->store, "list", json_pack("{s:s}", "name", tag), &answer, &e) : 0;

        json_decref(answer);
        return e.code ? sandbox_fail(&e) : code;
}

/* A step may come after an hour. */
static int check_secrets(const struct build *b)
{
        const char *id;
        json_t *source;

        json_object_foreach (b->request->build.secrets, id, source) {
                const char *path = json_string_value(source);
                _cleanup_fd_ int fd = open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
                struct stat status;

                if (fd < 0 || fstat(fd, &status) < 0)
                        return cli_bad("--secret id=%.60s: cannot open '%.200s': %s", id, path, strerror(errno));
                if (S_ISREG(status.st_mode) && status.st_size > BUILD_SECRET_BYTES_MAX)
                        return cli_bad("--secret id=%.60s: '%.200s' has more than %u bytes", id, path,
                                       BUILD_SECRET_BYTES_MAX);
                if (S_ISDIR(status.st_mode))
                        return cli_bad("--secret id=%.60s: '%.200s' is a directory, expected a file", id, path);
        }
        return 0;
}

static int carry_out(struct build *b)
{
        int code = check_secrets(b);

        if (code == 0)
                code = check_tag(b);

        for (b->at = 0; code == 0 && b->at < b->file.count; b->at++) {
                code = copy_is_cancelled() ? SIGNALS_CANCELLED
                                           : handlers[b->file.steps[b->at].word](b, &b->file.steps[b->at]);
                if (code == 0 && b->triggers)
                        code = build_insert_triggers(b);
                if (code)
                        break;
        }
        if (code == 0)
                warn_of_arguments(b);
        warn_of_sources(b);
        return code ? code : finish(b);
}

static void build_done(struct build *b)
{
        for (size_t i = 0; i < b->stage_count; i++) {
                free(b->stages[i].name);
                free(b->stages[i].id);
                free(b->stages[i].tree);
                json_decref(b->stages[i].config);
                json_decref(b->stages[i].args);
        }
        free(b->stages);
        json_decref(b->args);
        json_decref(b->declared);
        json_decref(b->pulled);
        json_decref(b->triggers);
        json_decref(b->network);
        if (b->has_daemon)
                daemon_private_stop(&b->daemon, &b->copy.client);
        if (b->store.is_open)
                image_store_end(&b->store);
        dockerfile_done(&b->file);
        build_context_done(&b->context);
}

static json_int_t time_of_build(const struct cli_request *request)
{
        const char *given = getenv("SOURCE_DATE_EPOCH");
        char *end = NULL;
        long long seconds = given && *given ? strtoll(given, &end, 10) : DEFAULT_TIME_S;

        if (!request->build.is_reproducible)
                return -1;
        return (end && *end) || seconds < 0 || seconds > INT32_MAX ? DEFAULT_TIME_S : seconds;
}

int build_image(struct cli_request *request)
{
        const char *directory = request->positional[0];
        struct build b = {.request = request,
                          .context = {.fd = -EBADF},
                          .args = json_object(),
                          .declared = json_object(),
                          .pulled = json_object(),
                          .has_root = privilege_is_root(),
                          .network = sandbox_network(request),
                          .time = time_of_build(request)};
        char path[PATH_MAX];
        struct cloche_err e = {0};
        int code = sandbox_check_network(request);

        snprintf(path, sizeof(path), "%s/" DEFAULT_FILE, directory);
        b.path = request->build.file ? request->build.file : DEFAULT_FILE;
        if (code == 0)
                code = copy_catch_signals();
        if (code == 0 && build_context_open(directory, &b.context, &e) < 0)
                code = sandbox_fail(&e);
        if (code == 0)
                code = read_file(&b, request->build.file ? request->build.file : path);
        if (code == 0)
                code = carry_out(&b);
        build_done(&b);
        return code;
}
