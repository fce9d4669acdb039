/* Send a saved set-up to the daemon, as a prefix of this connection.
 * Runs in: the CLI, as its user. */
#include "prefix.h"

#include "base/buf.h"
#include "cli/output/progress.h"
#include "cli/run/store.h"
#include "wire/frame.h"
#include "wire/json.h"

#include <errno.h>
#include <unistd.h>

json_t *prefix_bytes(const char *data, size_t size, struct buf *attachments)
{
        size_t at = attachments->size;

        return buf_append(attachments, data, size) < 0 ? NULL : json_attachment(at, size);
}

/* A file of the host is open and not yet read. */
static json_t *content_of(const struct cloche_file *file, struct buf *attachments)
{
        size_t at = attachments->size;
        char piece[65536];
        ssize_t n;

        if (file->data)
                return prefix_bytes(file->data, file->size, attachments);
        while ((n = pread(file->fd, piece, sizeof(piece), (off_t)(attachments->size - at))) != 0)
                if (n < 0 ? errno != EINTR : buf_append(attachments, piece, (size_t)n) < 0)
                        return NULL;
        return json_attachment(at, attachments->size - at);
}

static json_t *mode_of(const struct cloche_file *file)
{
        return file->mode ? json_integer(file->mode) : NULL;
}

static json_t *file_of(const struct cloche_file *file, struct buf *attachments)
{
        switch (file->kind) {
        case CLOCHE_FILE_DIRECTORY:
                return json_pack("{s:b, s:o*}", "directory", 1, "mode", mode_of(file));
        case CLOCHE_FILE_SYMLINK:
                return json_pack("{s:s%}", "symlink", file->data, file->size);
        case CLOCHE_FILE_PLAIN:
        default:
                return json_pack("{s:o, s:o*}", "content", content_of(file, attachments), "mode", mode_of(file));
        }
}

json_t *prefix_files(const struct cloche_file *rows, size_t count, struct buf *attachments)
{
        json_t *files = json_object();

        for (size_t i = 0; files && i < count; i++)
                if (json_object_set_new(files, rows[i].path, file_of(&rows[i], attachments)) < 0) {
                        json_decref(files);
                        files = NULL;
                }
        return files;
}

static json_t *params_of(const char *name, const struct stored *stored, const json_t *sandbox, struct buf *attachments)
{
        const struct cloche_prefix_options *prefix = &stored->prefix;

        return json_pack("{s:s, s:s, s:o, s:s*, s:O*, s:O*, s:o}", "title", name, "language", prefix->language, "code",
                         prefix_bytes(prefix->code, prefix->code_size, attachments), "filename", prefix->filename,
                         "limits", json_object_get(stored->head, "limits"), "image", json_object_get(sandbox, "image"),
                         "files", prefix_files(prefix->files, prefix->file_count, attachments));
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

/* The set-up runs in the image of the sandbox, which is made for it. */
static int send_for_sandbox(struct daemon_client *c, const struct cli_request *request, const struct stored *stored,
                            json_t **ret)
{
        json_t *sandbox = NULL;
        int code = sandbox_request(c, "sandbox.create", sandbox_params(request), &sandbox);

        if (code == 0)
                code = send_prefix(c, request->prefix, stored, sandbox, ret);
        json_decref(sandbox);
        return code;
}

static int send_for_call(struct daemon_client *c, const struct cli_request *request, const struct stored *stored,
                         json_t **ret)
{
        json_t *place = json_pack("{s:s*}", "image", request->sandbox.image);
        int code = send_prefix(c, request->prefix, stored, place, ret);

        json_decref(place);
        return code;
}

static int find(struct daemon_client *c, const struct cli_request *request, json_t **ret,
                int (*send)(struct daemon_client *c, const struct cli_request *request, const struct stored *stored,
                            json_t **ret))
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
        code = send(c, request, &stored, ret);
        store_done(&stored);
        return code;
}

int sandbox_prefix(struct daemon_client *c, const struct cli_request *request, json_t **ret)
{
        return find(c, request, ret, send_for_sandbox);
}

int sandbox_prefix_of_call(struct daemon_client *c, const struct cli_request *request, json_t **ret)
{
        return find(c, request, ret, send_for_call);
}
