/* The options of a run, as the frame that its agent gets. Runs in: the engine; pure. */
#include "base/err.h"
#include "engine/loop/engine.h"
#include "wire/rpc.h"
#include "wire/value.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CODE_BYTES_MAX (64u << 20)
#define FILES_MAX 10000
#define FILENAME_BYTES_MAX 200
#define BYTE_ORDER_MARK "\xef\xbb\xbf"

static const char *const base_environment[] = {
        "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TZ=UTC", "TMPDIR=/tmp", "CLOCHE=1",
};

struct source request_source(const char *code, size_t size)
{
        struct source source = {.text = code, .size = size ? size : strlen(code)};
        size_t mark = sizeof(BYTE_ORDER_MARK) - 1;

        if (source.size >= mark && memcmp(code, BYTE_ORDER_MARK, mark) == 0)
                source = (struct source){.text = code + mark, .size = source.size - mark};
        return source;
}

/* -- checking ------------------------------------------------------------------------------------------------- */

static int check_files(const struct cloche_run_options *opt, struct cloche_err *e)
{
        char path[INIT_PATH_MAX];
        int r = 0;

        for (size_t i = 0; r == 0 && i < opt->collect_count; i++)
                r = files_normalise(opt->collect[i], opt->workdir ? opt->workdir : FILES_ROOT, path, sizeof(path), e);
        if (r < 0)
                return err_wrap(e, "collect");
        if (opt->collect_count > FILES_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "%zu paths to collect, expected at most %d: collect directories", opt->collect_count,
                               FILES_MAX);
        if (opt->file_count > FILES_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "%zu files, expected at most %d: mount a directory instead", opt->file_count, FILES_MAX);
        for (size_t i = 0; i < opt->file_count; i++) {
                const struct cloche_file *file = &opt->files[i];
                struct stat st;

                /* Paths in mounts are checked once the mounts are known. */
                r = (opt->mount ? files_normalise : files_resolve)(file->path, opt->workdir ? opt->workdir : FILES_ROOT,
                                                                   path, sizeof(path), e);
                if (r < 0)
                        return r;
                if ((unsigned)file->kind > CLOCHE_FILE_SYMLINK)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the file %s has an unknown kind", path);
                if (file->kind == CLOCHE_FILE_SYMLINK &&
                    (!file->data || file->size == 0 || file->size >= INIT_PATH_MAX ||
                     memchr(file->data, '\0', file->size)))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "the symbolic link %s must have a target of 1 to %d bytes", path,
                                       INIT_PATH_MAX - 1);
                if (file->kind == CLOCHE_FILE_PLAIN && !file->data &&
                    (fstat(file->fd, &st) < 0 || !S_ISREG(st.st_mode)))
                        return err_set(e, CLOCHE_E_UNREADABLE_FILE, "the file for %s is not an open regular file",
                                       path);
        }
        return 0;
}

static int check_environment(const struct cloche_run_options *opt, struct cloche_err *e)
{
        for (size_t i = 0; i < opt->env_count; i++)
                if (!strchr(opt->env[i], '=') || opt->env[i][0] == '=')
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the environment entry '%.60s' must be NAME=value",
                                       opt->env[i]);
        return 0;
}

static int check_terminal(const struct cloche_run_options *opt, struct cloche_err *e)
{
        if (opt->cols == 0 && opt->rows == 0)
                return 0;
        if (opt->kind != CLOCHE_SCRIPT || !opt->stream_fds || opt->prefix || opt->warm)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "a terminal needs a script with streams of the caller's in a box of its own: leave out "
                               "prefix and warm");
        if (opt->cols < 1 || opt->cols > UINT16_MAX || opt->rows < 1 || opt->rows > UINT16_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "a terminal of %u columns and %u rows, expected 1 to %d each", opt->cols, opt->rows,
                               UINT16_MAX);
        return 0;
}

/* An evaluation shows it in stacks only ("file:///x.js"); of a call or script it names a file. */
static int check_filename(const struct cloche_run_options *opt, struct cloche_err *e)
{
        const char *name = opt->filename, *c = name;

        if (!name)
                return 0;
        while ((unsigned char)*c >= ' ' && *c != 0x7f)
                c++;
        if (opt->kind == CLOCHE_EVALUATE && (*c || c == name || c - name > FILENAME_BYTES_MAX))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "a file name must have 1 to %d bytes, and no control characters", FILENAME_BYTES_MAX);
        if (opt->kind != CLOCHE_EVALUATE && (strchr(name, '/') || !name[0] || strlen(name) > FILENAME_BYTES_MAX ||
                                             strcmp(name, ".") == 0 || strcmp(name, "..") == 0))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the file name '%.60s' must be a plain name without '/'",
                               name);
        return 0;
}

static int check_names(const struct cloche_run_options *opt, struct cloche_err *e)
{
        char path[INIT_PATH_MAX];
        int r;

        if (opt->function && (!opt->function[0] || strlen(opt->function) > 256))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a function's name must have 1 to 256 bytes");
        r = check_filename(opt, e);
        if (r < 0 || !opt->workdir)
                return r;
        /* The directory may be in a mount: run_start_cold checks it once they are read. */
        r = (opt->mount ? files_normalise : files_resolve)(opt->workdir, FILES_ROOT, path, sizeof(path), e);
        if (r == 0 && opt->workdir[0] != '/')
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "'%.60s' must be an absolute path", opt->workdir);
        return r < 0 ? err_wrap(e, "working directory") : 0;
}

int request_check(const struct cloche_run_options *opt, const struct values *values, const struct runtime *runtime,
                  struct cloche_err *e)
{
        int r;

        if (!opt->code)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the code is missing");
        if (request_source(opt->code, opt->code_size).size > CODE_BYTES_MAX)
                return err_set(e, CLOCHE_E_TOO_LARGE, "the code has more than %u bytes: place parts of it as files",
                               CODE_BYTES_MAX);
        if ((values->globals || values->imports) && runtime->has_no_host)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s does not support globals and imports of the host",
                               runtime->name);
        if (values->build && (!runtime->is_compiled || opt->kind != CLOCHE_CALL))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "build options are for calls and prefixes of compiled languages, not for %s",
                               runtime->is_compiled ? "this" : runtime->name);
        r = check_names(opt, e);
        if (r == 0)
                r = values_check(values, e);
        if (r == 0)
                r = check_environment(opt, e);
        if (r == 0)
                r = check_terminal(opt, e);
        return r < 0 ? r : check_files(opt, e);
}

/* -- building ------------------------------------------------------------------------------------------------- */

const char *request_filename(const struct cloche_run_options *opt, const struct runtime *runtime, char *ret,
                             size_t size)
{
        if (opt->filename)
                snprintf(ret, size, "%s", opt->filename);
        else
                snprintf(ret, size, "main%s", runtime->extension);
        return ret;
}

void request_script_path(const struct cloche_run_options *opt, const struct runtime *runtime, char *ret, size_t size)
{
        char name[256];

        snprintf(ret, size, "%s/%s", opt->workdir ? opt->workdir : FILES_ROOT,
                 request_filename(opt, runtime, name, sizeof(name)));
}

/* value: held; if NULL, other is used. other is stolen. */
static int add(json_t *params, const char *key, const json_t *value, json_t *other, struct buf *attachments,
               struct cloche_err *e)
{
        json_t *written;
        int r = value_write(value ? value : other, VALUE_FRAME, attachments, &written, e);

        json_decref(other);
        if (r < 0)
                return err_wrap(e, "%s", key);
        return json_object_set_new(params, key, written) < 0 ? err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "write the call")
                                                             : 0;
}

static int add_declarations(json_t *params, const struct values *values, struct buf *attachments, struct cloche_err *e)
{
        int r = add(params, "globals", values->globals, json_object(), attachments, e);

        return r < 0 ? r : add(params, "imports", values->imports, json_object(), attachments, e);
}

/* The request for a script in a template: its path is its name, as with the interpreter's own
 * command. */
static int fill_script(json_t *params, const struct cloche_run_options *opt, const struct values *values,
                       const struct runtime *runtime, struct buf *attachments, struct cloche_err *e)
{
        struct source source = request_source(opt->code, opt->code_size);
        json_t *code = json_stringn(source.text, source.size), *argv = json_array();
        char path[INIT_PATH_MAX];

        request_script_path(opt, runtime, path, sizeof(path));
        if (json_object_set_new(params, "code", code) < 0 ||
            json_object_set_new(params, "filename", json_string(path)) < 0 || json_object_set(params, "argv", argv) < 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the code or the file's name is not UTF-8 text");
        json_decref(argv);
        for (size_t i = 0; i < opt->argc; i++)
                if (json_array_append_new(argv, json_string(opt->argv[i])) < 0)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "argument %zu is not UTF-8 text", i + 1);
        return add_declarations(params, values, attachments, e);
}

static int add_arguments(json_t *params, const struct values *values, const struct arguments *arguments,
                         struct buf *attachments, struct cloche_err *e)
{
        int r = add(params, "args", arguments->args, NULL, attachments, e);

        if (r == 0)
                r = add(params, "kwargs", arguments->kwargs, NULL, attachments, e);
        if (r == 0 && (json_object_set(params, "holes", arguments->holes) < 0 ||
                       json_object_set(params, "order", arguments->order) < 0))
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "write the call");
        return r < 0 ? r : add(params, "build", values->build, json_null(), attachments, e);
}

static int fill_params(json_t *params, const struct cloche_run_options *opt, const struct values *values,
                       const struct runtime *runtime, const struct cloche_limits *limits,
                       const struct arguments *arguments, struct buf *attachments, struct cloche_err *e)
{
        struct source source = request_source(opt->code, opt->code_size);
        json_t *code = json_stringn(source.text, source.size);
        uint64_t result_bytes = limits->result_bytes == CLOCHE_UNLIMITED ? FRAME_BYTES_MAX : limits->result_bytes;
        char name[256];
        int r;

        if (!code)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the code is not UTF-8 text");
        if (json_object_set_new(params, "code", code) < 0 ||
            json_object_set_new(params, "language", json_string(runtime->name)) < 0 ||
            json_object_set_new(params, "filename", json_string(request_filename(opt, runtime, name, sizeof(name)))) <
                    0 ||
            json_object_set_new(params, "function", opt->function ? json_string(opt->function) : json_null()) < 0 ||
            json_object_set_new(params, "resultBytes", json_integer((json_int_t)result_bytes)) < 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the file's or function's name is not UTF-8 text");
        if (opt->kind == CLOCHE_EVALUATE && !opt->on_output && json_object_set_new(params, "lines", json_true()) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "write the call");
        if (values->has_bodies && json_object_set_new(params, "bodies", json_true()) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "write the call");
        r = opt->kind == CLOCHE_CALL ? add_arguments(params, values, arguments, attachments, e) : 0;
        return r < 0 ? r : add_declarations(params, values, attachments, e);
}

int request_bind(const struct values *values, struct arguments *ret, struct schema_error *m, struct cloche_err *e)
{
        int r = signature_bind(values->args, values->kwargs, values->schema, ret, m);

        return r < 0 ? err_os(e, CLOCHE_E_RESOURCE, -r, "bind the arguments") : r;
}

const char *request_method(const struct cloche_run_options *opt)
{
        return opt->kind == CLOCHE_SCRIPT ? "run" : opt->kind == CLOCHE_EVALUATE ? "evaluate" : "call";
}

int request_build(const struct cloche_run_options *opt, const struct values *values, const struct runtime *runtime,
                  const struct cloche_limits *limits, const struct arguments *arguments, const json_t *translation,
                  struct buf *ret, struct cloche_err *e)
{
        _cleanup_buf_ struct buf attachments = BUF_INIT(FRAME_BYTES_MAX);
        json_t *params = json_object();
        int r = translation ? add(params, "translation", translation, NULL, &attachments, e) : 0;

        if (r == 0)
                r = opt->kind == CLOCHE_SCRIPT
                            ? fill_script(params, opt, values, runtime, &attachments, e)
                            : fill_params(params, opt, values, runtime, limits, arguments, &attachments, e);
        if (r < 0) {
                json_decref(params);
                return r;
        }
        return rpc_request(json_integer(REQUEST_CALL_ID), request_method(opt), params, attachments.data,
                           attachments.size, ret, e);
}

int request_prepare(const struct cloche_prefix_options *opt, const struct values *values, const char *function,
                    const struct runtime *runtime, struct buf *ret, struct cloche_err *e)
{
        _cleanup_buf_ struct buf attachments = BUF_INIT(FRAME_BYTES_MAX);
        struct source source = request_source(opt->code, opt->code_size);
        char name[64];
        json_t *params;
        int r;

        snprintf(name, sizeof(name), "prefix%.32s", runtime->extension);
        params = json_pack("{s:s#, s:s}", "code", source.text, (int)source.size, "filename",
                           opt->filename ? opt->filename : name);
        if (!params)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the code or the file's name is not UTF-8 text");
        *ret = BUF_INIT(FRAME_BYTES_MAX);
        r = add_declarations(params, values, &attachments, e);
        if (r == 0 && function && json_object_set_new(params, "function", json_string(function)) < 0)
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the function's name is not UTF-8 text");
        if (r == 0 && values->build)
                r = add(params, "build", values->build, NULL, &attachments, e);
        if (r == 0 && opt->bare && json_object_set_new(params, "realm", json_string("bare")) < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "write the set-up");
        if (r < 0) {
                json_decref(params);
                return r;
        }
        return rpc_request(json_integer(1), "prepare", params, attachments.data, attachments.size, ret, e);
}

static int add_string(struct buf *ret, const char *text, uint32_t *count)
{
        (*count)++;
        return buf_append(ret, text, strlen(text) + 1);
}

static int add_words(struct buf *ret, const json_t *words, const char *script, uint32_t *count)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < json_array_size(words); i++) {
                const char *word = json_string_value(json_array_get(words, i));

                r = add_string(ret, strcmp(word, "{script}") == 0 ? script : word, count);
        }
        return r;
}

static int is_callers(const struct cloche_run_options *opt, const char *name, size_t size)
{
        for (size_t i = 0; i < opt->env_count; i++)
                if (strncmp(opt->env[i], name, size) == 0 && opt->env[i][size] == '=')
                        return 1;
        return 0;
}

/* Add variables that neither the caller nor over, an object or NULL, has. */
static int add_variables(struct buf *ret, const json_t *variables, const json_t *over,
                         const struct cloche_run_options *opt, uint32_t *count)
{
        const char *name;
        json_t *value;
        int r = 0;

        json_object_foreach ((json_t *)variables, name, value) {
                if (r < 0 || is_callers(opt, name, strlen(name)) || json_object_get(over, name))
                        continue;
                r = buf_append(ret, name, strlen(name));
                if (r == 0)
                        r = buf_append(ret, "=", 1);
                if (r == 0)
                        r = add_string(ret, json_is_string(value) ? json_string_value(value) : "", count);
        }
        return r;
}

static int add_user(struct buf *ret, const struct cloche_run_options *opt, const struct image *image, uint32_t *count)
{
        const struct jail_user user = image_runs_as(image);
        char home[sizeof("HOME=") + sizeof(user.home)], name[sizeof("USER=") + sizeof(user.name)];
        int r = 0;

        snprintf(home, sizeof(home), "HOME=%s", user.home);
        snprintf(name, sizeof(name), "USER=%s", user.name);
        if (!is_callers(opt, home, strlen("HOME")))
                r = add_string(ret, home, count);
        return r < 0 || is_callers(opt, name, strlen("USER")) ? r : add_string(ret, name, count);
}

/* The caller's values come before the operator's for networks, then the image's, those
 * of the language, and ours. */
static int add_environment(struct buf *ret, const struct cloche_run_options *opt, const struct image *image,
                           const json_t *network_env, const struct runtime *runtime, uint32_t *count)
{
        const json_t *stated = image->settings ? image->settings->env : NULL;
        int r = add_user(ret, opt, image, count);

        for (size_t i = 0; r == 0 && i < sizeof(base_environment) / sizeof(base_environment[0]); i++) {
                const char *entry = base_environment[i];
                size_t size = strcspn(entry, "=");

                if (!is_callers(opt, entry, size) && !json_object_getn(stated, entry, size))
                        r = add_string(ret, entry, count);
        }
        if (r == 0)
                r = add_variables(ret, runtime->env, stated, opt, count);
        if (r == 0)
                r = add_variables(ret, stated, network_env, opt, count);
        if (r == 0)
                r = add_variables(ret, network_env, NULL, opt, count);
        for (size_t i = 0; r == 0 && i < opt->env_count; i++)
                r = add_string(ret, opt->env[i], count);
        return r;
}

static const char *directory_of(const struct cloche_run_options *opt, const struct image *image)
{
        const char *stated = image->settings ? image->settings->directory : NULL;

        return opt->workdir ? opt->workdir : stated ? stated : FILES_ROOT;
}

int request_strings(const struct cloche_run_options *opt, const struct image *image, const json_t *network_env,
                    const struct runtime *runtime, struct buf *ret, uint32_t *ret_argc, uint32_t *ret_envc,
                    struct cloche_err *e)
{
        char script[INIT_PATH_MAX];
        uint32_t none = 0;
        int r;

        *ret = BUF_INIT(INIT_STRINGS_MAX);
        *ret_argc = *ret_envc = 0;
        request_script_path(opt, runtime, script, sizeof(script));
        r = add_string(ret, directory_of(opt, image), &none);
        if (r == 0)
                r = add_words(ret, opt->kind == CLOCHE_CALL ? runtime->agent : runtime->script, script, ret_argc);
        for (size_t i = 0; r == 0 && opt->kind == CLOCHE_SCRIPT && i < opt->argc; i++)
                r = add_string(ret, opt->argv[i], ret_argc);
        if (r == 0)
                r = add_environment(ret, opt, image, network_env, runtime, ret_envc);
        if (r < 0)
                return err_set(e, CLOCHE_E_TOO_LARGE,
                               "arguments and environment have more than %u bytes: pass what is large as a file",
                               INIT_STRINGS_MAX);
        return 0;
}
