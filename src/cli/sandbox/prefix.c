/* Send a saved set-up to the daemon, as a prefix of this connection.
 * Runs in: the CLI, as its user. */
#include "prefix.h"

#include "base/buf.h"
#include "cli/output/progress.h"
#include "cli/run/store.h"
#include "wire/frame.h"
#include "wire/json.h"

/* Append to the attachments. NULL: no room. */
static json_t *bytes_of(const char *data, size_t size, struct buf *attachments)
{
        size_t at = attachments->size;

        return buf_append(attachments, data, size) < 0 ? NULL : json_attachment(at, size);
}

static json_t *file_of(const struct cloche_file *file, struct buf *attachments)
{
        switch (file->kind) {
        case CLOCHE_FILE_DIRECTORY:
                return json_pack("{s:b, s:i}", "directory", 1, "mode", (int)file->mode);
        case CLOCHE_FILE_SYMLINK:
                return json_pack("{s:s%}", "symlink", file->data, file->size);
        case CLOCHE_FILE_PLAIN:
        default:
                return json_pack("{s:o, s:i}", "content", bytes_of(file->data, file->size, attachments), "mode",
                                 (int)file->mode);
        }
}

static json_t *files_of(const struct cloche_prefix_options *prefix, struct buf *attachments)
{
        json_t *files = json_object();

        for (size_t i = 0; files && i < prefix->file_count; i++)
                if (json_object_set_new(files, prefix->files[i].path, file_of(&prefix->files[i], attachments)) < 0) {
                        json_decref(files);
                        files = NULL;
                }
        return files;
}

static json_t *params_of(const char *name, const struct stored *stored, const json_t *sandbox, struct buf *attachments)
{
        const struct cloche_prefix_options *prefix = &stored->prefix;

        return json_pack("{s:s, s:s, s:o, s:s*, s:O*, s:O*, s:o}", "title", name, "language", prefix->language, "code",
                         bytes_of(prefix->code, prefix->code_size, attachments), "filename", prefix->filename, "limits",
                         json_object_get(stored->head, "limits"), "image", json_object_get(sandbox, "image"), "files",
                         files_of(prefix, attachments));
}

static int send_prefix(struct daemon_client *c, const char *name, const struct stored *stored, const json_t *sandbox,
                       json_t **ret)
{
        _cleanup_buf_ struct buf attachments = BUF_INIT(FRAME_BYTES_MAX);
        json_t *params = params_of(name, stored, sandbox, &attachments);
        struct daemon_message message = {0};
        struct cloche_err e = {0};
        int r;

        if (!params)
                return cli_bad("the set-up '%s' cannot be sent to the daemon: its code and files are larger than a "
                               "message "
                               "of %u bytes",
                               name, FRAME_BYTES_MAX);
        progress_start("running the set-up");
        r = daemon_call(c, "prefix.create", params, attachments.data, attachments.size, &message, &e);
        progress_end();
        if (r == 0)
                *ret = json_incref(json_object_get(message.body, "prefix"));
        daemon_message_done(&message);
        return r < 0 ? sandbox_fail(&e) : 0;
}

/* The set-up runs in the sandbox's image. */
static int send_stored(struct daemon_client *c, const struct cli_request *request, const struct stored *stored,
                       json_t **ret)
{
        json_t *sandbox = NULL;
        int code = sandbox_request(c, "sandbox.create", sandbox_params(request), &sandbox);

        if (code == 0)
                code = send_prefix(c, request->prefix, stored, sandbox, ret);
        json_decref(sandbox);
        return code;
}

int sandbox_prefix(struct daemon_client *c, const struct cli_request *request, json_t **ret)
{
        struct stored stored = {0};
        int code;

        if (!store_has(request->prefix)) {
                *ret = json_string(request->prefix);
                return 0;
        }
        code = cli_store_load(request->prefix, &stored);
        if (code)
                return code;
        code = send_stored(c, request, &stored, ret);
        store_done(&stored);
        return code;
}
