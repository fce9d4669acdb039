/* Build requests to an agent, and the cached answers. Runs in: the engine, on its loop; the
 * compiler runs in a box. */
#include "build.h"

#include "base/err.h"
#include "engine/loop/engine.h"
#include "wire/json.h"
#include "wire/value.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int make_key(const struct cloche_engine *engine, const struct runtime *runtime, int64_t tenant,
                    const struct image *image, struct build *build)
{
        const char *root = image->name[0] ? image->name : engine->image,
                   *settings = image->settings ? image->settings->text : "";
        char *text = json_dumps(build->params, JSON_COMPACT | JSON_SORT_KEYS);
        const struct artifact_part parts[] = {
                {CLOCHE_VERSION, strlen(CLOCHE_VERSION)},
                {runtime->name, strlen(runtime->name)},
                {root, strlen(root)},
                {settings, strlen(settings)},
                {&tenant, sizeof(tenant)},
                {text, text ? strlen(text) : 0},
        };

        if (!text)
                return -ENOMEM;
        artifact_key(parts, sizeof(parts) / sizeof(parts[0]), build->key);
        free(text);
        return 0;
}

int build_describe(struct cloche_engine *engine, const struct runtime *runtime, const struct cloche_run_options *opt,
                   const json_t *options, struct build *ret, struct cloche_err *e)
{
        struct source source = request_source(opt->code, opt->code_size);
        struct build build = {0};
        json_t *text = options ? NULL : json_null(); /* part of the key; of no use with bytes in it */
        struct image image;
        char name[256];

        if (image_take(engine, opt->image, opt->image_settings, &image, e) < 0)
                return -(int)e->code;
        if (options && value_write(options, VALUE_TEXT, NULL, &text, e) < 0)
                return err_wrap(e, "build");
        build.params = json_pack("{s:o, s:s, s:o, s:o}", "code", json_stringn(source.text, source.size), "filename",
                                 request_filename(opt, runtime, name, sizeof(name)), "function",
                                 opt->function ? json_string(opt->function) : json_null(), "build", text);
        if (!build.params)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "the code, or the file's or function's name is not UTF-8 text");
        if (make_key(engine, runtime, opt->tenant, &image, &build) < 0) {
                build_done(&build);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make the key of the build");
        }
        *ret = build;
        return 0;
}

void build_done(struct build *build)
{
        json_decref(build->params);
        build->params = NULL;
}

int build_request(const struct cloche_engine *engine, struct build *build, struct buf *out, struct cloche_err *e)
{
        _cleanup_buf_ struct buf artifact = BUF_INIT(ARTIFACT_BYTES_MAX);
        json_t *params = json_copy(build->params), *kept = json_null();

        if (artifact_load(engine->artifacts_fd, build->key, &artifact))
                kept = json_attachment(0, artifact.size);
        if (!params || json_object_set_new(params, "artifact", kept) < 0) {
                json_decref(params);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "request the build");
        }
        build->is_requested = 1;
        return rpc_request(json_integer(BUILD_ID), "build", params, artifact.data, artifact.size, out, e);
}

int build_on_answer(const struct cloche_engine *engine, struct build *build, const struct rpc_message *m,
                    const struct frame *f, struct cloche_err *e)
{
        const json_t *artifact = json_object_get(m->result, "artifact");
        json_int_t at = json_integer_value(json_object_get(artifact, "at")),
                   size = json_integer_value(json_object_get(artifact, "n"));
        int r;

        build->is_requested = 0;
        if (!json_is_object(artifact))
                return 0;
        r = value_check(artifact, f->attachments_size, e);
        if (r == 0 && (!json_is_string(json_object_get(artifact, "$")) || at < 0 || size < 0 ||
                       strcmp(json_string_value(json_object_get(artifact, "$")), "bytes") != 0))
                r = err_set(e, CLOCHE_E_PROTOCOL, "the agent sent an invalid build: it is not bytes");
        if (r == 0) /* a full disk only makes the next build slower */
                (void)artifact_save(engine->artifacts_fd, build->key, f->attachments + at, (size_t)size);
        return r;
}
