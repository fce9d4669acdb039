/* The caller's prefixes, and the templates of compiled programs. Runs in: the engine. */
#include "prefix.h"

#include "base/err.h"
#include "wire/value.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The key of a set-up, as text: the request, the files with their contents, the limits. */
static int add_text(struct buf *key, const void *data, size_t size)
{
        char length[24];
        int n = snprintf(length, sizeof(length), "%zu:", size);
        int r = buf_append(key, length, (size_t)n);

        return r < 0 ? r : buf_append(key, data, size);
}

/* The key is compared as a C string, so bytes are added as pairs of letters. */
static int add_bytes(struct buf *key, const char *data, size_t size)
{
        char pair[2];
        int r = 0;

        for (size_t i = 0; r == 0 && i < size; i++) {
                pair[0] = (char)('a' + ((unsigned char)data[i] >> 4));
                pair[1] = (char)('a' + (data[i] & 15));
                r = buf_append(key, pair, 2);
        }
        return r;
}

static int add_file(struct buf *key, const struct kept_file *file)
{
        char part[16384];
        off_t at = 0;
        ssize_t n;
        int r = add_text(key, file->path, strlen(file->path));

        while (r == 0 && (n = pread(file->fd, part, sizeof(part), at)) != 0) {
                r = n < 0 ? -errno : add_bytes(key, part, (size_t)n);
                at += n;
        }
        snprintf(part, sizeof(part), " %o;", file->mode);
        return r < 0 ? r : buf_append(key, part, strlen(part));
}

static int make_key(struct setup *setup, struct cloche_err *e)
{
        struct buf key = BUF_INIT(FRAME_BYTES_MAX);
        int r = buf_append(&key, setup->is_code ? "code " : "", setup->is_code ? 5 : 0);

        if (r == 0)
                r = add_bytes(&key, setup->prepare.data, setup->prepare.size);
        for (size_t i = 0; r == 0 && i < setup->files.count; i++)
                r = add_file(&key, &setup->files.rows[i]);
        if (r == 0)
                r = add_bytes(&key, (const char *)&setup->limits, sizeof(setup->limits));
        if (r == 0)
                r = buf_append(&key, "", 1);
        if (r < 0) {
                buf_done(&key);
                return err_os(e, CLOCHE_E_RESOURCE, -r, "remember the set-up");
        }
        setup->key = key.data;
        return 0;
}

static struct cloche_run_options as_run(const struct cloche_prefix_options *opt, const char *function)
{
        return (struct cloche_run_options){
                .code = opt->code,
                .code_size = opt->code_size,
                .filename = opt->filename,
                .function = function,
                .files = opt->files,
                .file_count = opt->file_count,
                .build = opt->build,
                .globals = opt->globals,
                .imports = opt->imports,
                .image = opt->image,
                .image_settings = opt->image_settings,
                .tenant = opt->tenant,
        };
}

/* is_code: the set-up is the program of its runs, which call the function. */
static int setup_new(struct cloche_engine *engine, const struct cloche_prefix_options *opt, const struct values *values,
                     int is_code, const char *function, const struct runtime *runtime, struct setup **ret,
                     struct cloche_err *e)
{
        const struct cloche_run_options program = as_run(opt, function);
        struct setup *setup = calloc(1, sizeof(*setup));
        int r;

        if (!setup)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "keep the set-up");
        setup->refs = 1;
        setup->is_code = is_code;
        r = limits_resolve(&opt->limits, &setup->limits, e);
        if (r == 0)
                r = request_prepare(opt, values, function, runtime, &setup->prepare, e);
        if (r == 0 && runtime->is_compiled)
                r = build_describe(engine, runtime, &program, values->build, &setup->build, e);
        if (r == 0)
                r = files_keep(opt->files, opt->file_count, NULL, NULL, &setup->files, e);
        if (r == 0)
                r = make_key(setup, e);
        if (r < 0) {
                setup_free(setup);
                return r;
        }
        *ret = setup;
        return 0;
}

int cloche_prefix_state(cloche_prefix *prefix, char **failure, struct cloche_err *e)
{
        struct template *t = prefix->template;

        if (failure)
                *failure = NULL;
        if (t->state == TEMPLATE_IDLE)
                template_start(t); /* it may have crashed meanwhile */
        if (t->state == TEMPLATE_STARTING || t->state == TEMPLATE_IDLE)
                return 1;
        if (t->state == TEMPLATE_READY)
                return 0;
        if (e)
                *e = t->error;
        if (failure && t->failure)
                *failure = value_dump(t->failure, JSON_COMPACT);
        return -(int)t->error.code;
}

static int make(cloche_engine *engine, const struct cloche_prefix_options *opt, const struct values *values,
                cloche_prefix **ret, struct cloche_err *e)
{
        const struct cloche_run_options same = as_run(opt, NULL);
        const struct runtime *runtime;
        struct setup *setup;
        struct image image;
        cloche_prefix *prefix;
        int r = runtimes_find(&engine->runtimes, opt->language, &runtime, e);

        if (r == 0)
                r = image_take(engine, opt->image, opt->image_settings, &image, e);
        if (r == 0)
                r = request_check(&same, values, runtime, e);
        if (r == 0 && runtime->is_cold_only)
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                            "%s cannot be forked from a template: run it without a prefix", runtime->name);
        if (r == 0 && opt->bare && !runtime->has_realm)
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "bare prefixes are for JavaScript, not for %s",
                            runtime->name);
        if (r == 0)
                r = engine_check_guards(engine, e);
        if (r == 0)
                r = setup_new(engine, opt, values, 0, NULL, runtime, &setup, e);
        if (r < 0)
                return r;
        prefix = calloc(1, sizeof(*prefix));
        if (!prefix) {
                setup_free(setup);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a prefix");
        }
        prefix->bare = opt->bare;
        prefix->on_bridge = opt->on_bridge;
        prefix->bridge_data = opt->bridge_data;
        r = template_prefix(engine, runtime, &image, opt->tenant, setup, &prefix->template, e);
        if (r < 0) {
                free(prefix);
                return r;
        }
        prefix->template->users++;
        *ret = prefix;
        return 0;
}

int prefix_make(struct cloche_engine *engine, const struct cloche_prefix_options *opt, cloche_prefix **ret,
                struct cloche_err *e)
{
        const struct cloche_run_options texts = as_run(opt, NULL);
        struct values values;
        int r = values_read(&texts, &values, e);

        if (r == 0)
                r = make(engine, opt, &values, ret, e);
        values_done(&values);
        return r;
}

static int started(int r, cloche_prefix *const *prefix)
{
        if (r == 0) {
                template_reset((*prefix)->template);
                template_start((*prefix)->template);
        }
        return r;
}

int cloche_prefix_start(cloche_engine *engine, const struct cloche_prefix_options *opt, cloche_prefix **ret,
                        struct cloche_err *e)
{
        return started(prefix_make(engine, opt, ret, e), ret);
}

int engine_prefix_start(cloche_engine *engine, const struct cloche_prefix_options *opt, const struct values *values,
                        cloche_prefix **ret, struct cloche_err *e)
{
        return started(make(engine, opt, values, ret, e), ret);
}

int cloche_prefix_new(cloche_engine *engine, const struct cloche_prefix_options *opt, cloche_prefix **ret,
                      char **failure, struct cloche_err *e)
{
        cloche_prefix *prefix;
        int r = cloche_prefix_start(engine, opt, &prefix, e);

        if (failure)
                *failure = NULL;
        if (r < 0)
                return r;
        while ((r = cloche_prefix_state(prefix, failure, e)) > 0)
                uv_run(&engine->loop, UV_RUN_ONCE);
        if (r < 0) {
                cloche_prefix_free(prefix);
                return r;
        }
        *ret = prefix;
        return 0;
}

void cloche_prefix_free(cloche_prefix *prefix)
{
        if (!prefix)
                return;
        prefix->template->users--;
        free(prefix);
}

int prefix_of_code(struct cloche_engine *engine, const struct runtime *runtime, const struct cloche_run_options *opt,
                   const struct values *values, struct template **ret, struct cloche_err *e)
{
        char name[256];
        const struct cloche_prefix_options program = {
                .code = opt->code,
                .code_size = opt->code_size,
                .filename = request_filename(opt, runtime, name, sizeof(name)),
                .image = opt->image,
                .image_settings = opt->image_settings,
                .tenant = opt->tenant,
        };
        struct setup *setup;
        struct image image;
        int r = image_take(engine, opt->image, opt->image_settings, &image, e);

        if (r == 0)
                r = setup_new(engine, &program, values, 1, opt->function, runtime, &setup, e);

        return r < 0 ? r : template_prefix(engine, runtime, &image, opt->tenant, setup, ret, e);
}
