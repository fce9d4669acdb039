/* Converts checked parameters to requests for the engine. Runs in: cloched-engine, on its loop,
 * with the rights of the daemon's user. */
#include "request.h"
#include "changes.h"

#include "base/err.h"
#include "base/fd.h"
#include "daemon/http/field.h"
#include "engine/box/limits.h"
#include "engine/loop/engine.h"
#include "wire/json.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX (1u << 30)

static int no_memory(struct cloche_err *e)
{
        return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read a request");
}

static const char *text_of(const json_t *params, const char *name)
{
        return json_string_value(json_object_get(params, name));
}

/* -- parameters ----------------------------------------------------------------------------------------------- */

/* Read the bytes of a text or of the tagged form. */
static int read_bytes(const json_t *value, struct buf *ret, struct cloche_err *e)
{
        size_t size = json_string_length(value);
        const char *bytes = json_is_string(value) ? json_string_value(value) : field_bytes(value, &size);

        *ret = BUF_INIT(BYTES_MAX);
        return buf_append(ret, bytes, size) < 0 ? no_memory(e) : 0;
}

static int read_code(const json_t *params, struct buf *ret, struct cloche_err *e)
{
        int r = read_bytes(json_object_get(params, "code"), ret, e);

        /* Terminate it: if the size is 0, the engine calls strlen(). */
        if (r == 0 && buf_append(ret, "", 1) < 0)
                r = no_memory(e);
        return r;
}

static uint32_t mode_of(const json_t *file)
{
        return (uint32_t)json_integer_value(json_object_get(file, "mode"));
}

static int read_file(const char *path, const json_t *file, struct cloche_file *ret, char **ret_content,
                     struct cloche_err *e)
{
        const json_t *content = json_object_get(file, "content"), *target = json_object_get(file, "symlink");
        struct buf bytes;
        int r;

        if (json_object_get(file, "directory")) {
                *ret = (struct cloche_file){.path = path,
                                            .kind = CLOCHE_FILE_DIRECTORY,
                                            .fd = -1,
                                            .mode = mode_of(file)};
                return 0;
        }
        if (target) {
                *ret = (struct cloche_file){
                        .path = path,
                        .kind = CLOCHE_FILE_SYMLINK,
                        .fd = -1,
                        .data = json_string_value(target),
                        .size = json_string_length(target),
                };
                return 0;
        }
        r = read_bytes(content ? content : file, &bytes, e);
        if (r == 0 && buf_append(&bytes, "", 1) < 0) /* data is never NULL */
                r = no_memory(e);
        if (r < 0) {
                buf_done(&bytes);
                return r;
        }
        *ret_content = bytes.data;
        *ret = (struct cloche_file){
                .path = path,
                .data = bytes.data,
                .size = bytes.size - 1,
                .fd = -1,
                .mode = content ? mode_of(file) : 0,
        };
        return 0;
}

static int read_files(struct request *request, const json_t *files, struct cloche_err *e)
{
        size_t count = json_object_size(files);
        const char *path;
        json_t *file;
        int r = 0;

        if (count == 0)
                return 0;
        request->files = calloc(count, sizeof(*request->files));
        request->contents = calloc(count + 1, sizeof(*request->contents));
        if (!request->files || !request->contents)
                return no_memory(e);
        json_object_foreach ((json_t *)files, path, file) {
                size_t i = request->run.file_count;

                r = read_file(path, file, &request->files[i], &request->contents[i], e);
                if (r < 0)
                        return r;
                request->run.file_count++;
        }
        request->run.files = request->files;
        return 0;
}

/* Get the texts of an array, borrowed from it. The caller owns *ret. */
static int read_texts(const json_t *list, const char ***ret, size_t *ret_count, struct cloche_err *e)
{
        size_t count = json_array_size(list);

        if (count == 0)
                return 0;
        *ret = calloc(count, sizeof(**ret));
        if (!*ret)
                return no_memory(e);
        for (size_t i = 0; i < count; i++)
                (*ret)[i] = json_string_value(json_array_get(list, i));
        *ret_count = count;
        return 0;
}

static int read_env(struct request *request, const json_t *env, struct cloche_err *e)
{
        size_t count = json_object_size(env);
        const char *name;
        json_t *value;

        if (count == 0)
                return 0;
        request->env = calloc(count + 1, sizeof(*request->env));
        if (!request->env)
                return no_memory(e);
        json_object_foreach ((json_t *)env, name, value)
                if (asprintf(&request->env[request->run.env_count], "%s=%s", name, json_string_value(value)) < 0) {
                        request->env[request->run.env_count] = NULL;
                        return no_memory(e);
                } else {
                        request->run.env_count++;
                }
        request->run.env = (const char *const *)request->env;
        return 0;
}

static int read_stdin(struct request *request, const json_t *value, struct cloche_err *e)
{
        _cleanup_buf_ struct buf bytes = {0};
        int r = value ? read_bytes(value, &bytes, e) : 0;

        if (r < 0 || !value)
                return r;
        request->stdin_fd = fd_from_bytes("stdin", bytes.data, bytes.size);
        if (request->stdin_fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -request->stdin_fd, "hold stdin");
        request->run.stream_fds = 1;
        request->run.stdin_fd = request->stdin_fd;
        request->run.stdout_fd = request->run.stderr_fd = -1;
        return 0;
}

static int is_wanted(const json_t *options, const char *name)
{
        return !json_is_false(json_object_get(options, name));
}

static void read_result_options(const json_t *options, struct cloche_run_options *ret)
{
        ret->omit_changes = !is_wanted(options, "includeChanges");
        ret->omit_contents = !is_wanted(options, "includeContents");
        ret->omit_denied = !is_wanted(options, "includeDenied");
}

/* Mounts are passed to the engine only here. */
static int read_mount(const struct daemon *d, struct request *request, const json_t *mount, struct cloche_err *e)
{
        json_t *plain = NULL;
        int r = mount ? changes_read_mount(d, mount, &plain, &request->run.file_events, e) : 0;

        if (r < 0 || !mount)
                return r;
        request->mount = value_dump(plain, JSON_COMPACT);
        request->run.mount = request->mount;
        json_decref(plain);
        return request->mount ? 0 : no_memory(e);
}

static int read_network(struct request *request, const json_t *network, struct cloche_err *e)
{
        if (!network)
                return 0;
        request->network = value_dump(network, JSON_COMPACT);
        request->run.network = request->network;
        return request->network ? 0 : no_memory(e);
}

int request_hold_params(const json_t *params, enum value_form form, const void *attachments, size_t attachments_size,
                        json_t **ret, struct cloche_err *e)
{
        json_t *all = json_object(), *value, *held;
        const char *key;
        int r = all ? 0 : no_memory(e);

        json_object_foreach ((json_t *)params, key, value) {
                if (r == 0 && (r = value_read(value, form, attachments, attachments_size, &held, e)) < 0)
                        err_wrap(e, "%.60s", key);
                else if (r == 0 && json_object_set_new(all, key, held) < 0)
                        r = no_memory(e);
        }
        if (r == -CLOCHE_E_PROTOCOL ||
            r == -CLOCHE_E_INVALID_JSON) { /* in a parameter these are errors of the caller */
                e->code = CLOCHE_E_INVALID_ARGUMENT;
                r = -CLOCHE_E_INVALID_ARGUMENT;
        }
        if (r == 0)
                *ret = all;
        else
                json_decref(all);
        return r;
}

/* -- requests ------------------------------------------------------------------------------------------------- */

/* Absent: warm if possible. Environment and working directory belong to templates, not to runs. */
static int is_warm(const struct daemon *d, enum cloche_run_kind kind, const json_t *params, const char *language,
                   int has_prefix)
{
        const json_t *warm = json_object_get(params, "warm"), *known = languages_find(&d->languages, language);

        if (warm)
                return json_is_true(warm);
        return !has_prefix && json_is_true(json_object_get(known, "warm")) && !json_object_get(params, "workdir") &&
               !json_object_get(params, "network") && !(kind == CLOCHE_CALL && json_object_get(params, "stdin")) &&
               json_object_size(json_object_get(params, "env")) == 0;
}

int request_run(const struct daemon *d, enum cloche_run_kind kind, const json_t *params, const char *language,
                int has_prefix, struct request *ret, struct cloche_err *e)
{
        int r;

        *ret = (struct request){.stdin_fd = -EBADF};
        r = read_code(params, &ret->code, e);
        if (r < 0)
                return r;
        if (json_object_get(params, "imageSettings") &&
            !(ret->image_settings =
                      json_dump_text(json_object_get(params, "imageSettings"), JSON_COMPACT | JSON_SORT_KEYS)))
                return no_memory(e);
        ret->run = (struct cloche_run_options){
                .kind = kind,
                .language = language,
                .code = ret->code.data,
                .code_size = ret->code.size - 1,
                .filename = text_of(params, "filename"),
                .function = text_of(params, "function"),
                .image = text_of(params, "image"),
                .image_settings = ret->image_settings,
                .workdir = text_of(params, "workdir"),
                .warm = is_warm(d, kind, params, language, has_prefix),
        };
        ret->values = (struct values){
                .args = json_object_get(params, "args"),
                .kwargs = json_object_get(params, "kwargs"),
                .schema = json_object_get(params, "schema"),
                .build = json_object_get(params, "build"),
                .globals = json_object_get(params, "globals"),
                .imports = json_object_get(params, "imports"),
                .has_bodies = kind == CLOCHE_EVALUATE && json_is_true(json_object_get(params, "bodies")),
        };
        limits_read(json_object_get(params, "limits"), &ret->run.limits);
        read_result_options(json_object_get(params, "resultOptions"), &ret->run);
        r = read_files(ret, json_object_get(params, "files"), e);
        if (r == 0)
                r = read_texts(json_object_get(params, "argv"), &ret->argv, &ret->run.argc, e);
        if (r == 0)
                r = read_texts(json_object_get(params, "collect"), &ret->collect, &ret->run.collect_count, e);
        if (r == 0)
                r = read_env(ret, json_object_get(params, "env"), e);
        if (r == 0)
                r = read_mount(d, ret, json_object_get(params, "mount"), e);
        if (r == 0)
                r = read_network(ret, json_object_get(params, "network"), e);
        ret->run.argv = ret->argv;
        ret->run.collect = ret->collect;
        return r < 0 ? r : read_stdin(ret, json_object_get(params, "stdin"), e);
}

void request_done(struct request *request)
{
        free(request->mount);
        free(request->network);
        free(request->image_settings);
        for (size_t i = 0; i < request->run.file_count; i++)
                free(request->contents[i]);
        for (size_t i = 0; i < request->run.env_count; i++)
                free(request->env[i]);
        buf_done(&request->code);
        free(request->files);
        free(request->contents);
        free(request->argv);
        free(request->collect);
        free(request->env);
        fd_close(&request->stdin_fd);
}

int request_prefix(const struct daemon *d, int64_t principal, const json_t *params, cloche_prefix **ret,
                   struct cloche_err *e)
{
        struct request request = {.stdin_fd = -EBADF};
        struct cloche_prefix_options opt;
        int r = request_run(d, CLOCHE_CALL, params, text_of(params, "language"), 0, &request, e);

        opt = (struct cloche_prefix_options){
                .tenant = principal,
                .language = request.run.language,
                .code = request.run.code,
                .code_size = request.run.code_size,
                .filename = request.run.filename,
                .image = request.run.image,
                .image_settings = request.run.image_settings,
                .files = request.run.files,
                .file_count = request.run.file_count,
                .bare = json_is_true(json_object_get(params, "bare")),
                .limits = request.run.limits,
        };
        if (r == 0)
                r = engine_prefix_start(d->engine, &opt, &request.values, ret, e);
        request_done(&request);
        return r;
}
