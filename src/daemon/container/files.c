/* Files: write, read, list, move, delete. Runs in: cloched-engine, on its loop, with the rights of
 * the daemon's user. */
#include "internal.h"

#include "base/err.h"
#include "wire/base64.h"
#include "wire/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* -- client versions ------------------------------------------------------------------------------------------- */

/* For 0.3 a missing file is a result (success: false), for later clients an error. All clients send
 * the same fields; only the order of the fields differs. If even that is equal, the client is
 * treated as 0.3. */
static int is_old(const struct container_request *q)
{
        static const struct {
                const char *path, *first, *second;
        } new_orders[] = {
                {"/api/mkdir", "sessionId", "recursive"},
                {"/api/rename", "oldPath", "newPath"},
                {"/api/move", "sourcePath", "destinationPath"},
                {"/api/list-files", "sessionId", "options"},
                {"/api/read", "path", "encoding"},
                {"/api/write", "path", "encoding"},
        };

        if (q->is_new)
                return 0;
        for (size_t i = 0; i < sizeof(new_orders) / sizeof(new_orders[0]); i++)
                if (strcmp(q->route->path, new_orders[i].path) == 0 &&
                    container_has_in_order(q, new_orders[i].first, new_orders[i].second))
                        return 0;
        /* 0.3 always sends an encoding. */
        return (strcmp(q->route->path, "/api/read") != 0 && strcmp(q->route->path, "/api/write") != 0) ||
               container_field(q, "encoding");
}

/* -- answers --------------------------------------------------------------------------------------------------- */

static json_t *outcome(const struct container_request *q, int success)
{
        static const char *const echoed[] = {"path", "oldPath", "newPath", "sourcePath", "destinationPath"};
        json_t *answer = json_pack("{s:b, s:i}", "success", success, "exitCode", success ? 0 : 1);

        for (size_t i = 0; i < sizeof(echoed) / sizeof(echoed[0]); i++)
                door_put(answer, echoed[i], container_copy(q, echoed[i]));
        return answer;
}

static int is_of_file(enum cloche_code code)
{
        return code == CLOCHE_E_FILE_NOT_FOUND || code == CLOCHE_E_FILE_EXISTS || code == CLOCHE_E_FILE_KIND ||
               code == CLOCHE_E_FILE_DENIED || code == CLOCHE_E_DISK_FULL;
}

/* The result that a command-line tool would give for the file. */
static void failed(struct container_request *q, const struct door_reply *reply)
{
        json_t *answer;

        if (!is_old(q) || !is_of_file(reply->e->code)) {
                container_fail(q, reply);
                return;
        }
        answer = outcome(q, 0);
        door_put(answer, "error", container_words(reply->e->msg));
        door_put(answer, "code", json_string(cloche_code_name(reply->e->code)));
        if (q->route->handle == container_read)
                door_put(answer, "content", json_string(""));
        if (q->route->handle == container_list)
                door_put(answer, "files", json_array());
        if (q->route->handle == container_mkdir) {
                door_put(answer, "recursive", json_boolean(container_flag(q, "recursive")));
                door_put(answer, "stdout", json_string(""));
                door_put(answer, "stderr", container_words(reply->e->msg));
        }
        container_answer(q, answer);
}

static void call(struct container_request *q, const char *method, json_t *params, const struct buf *attachments,
                 container_then then)
{
        q->fail = failed;
        container_call(q, method, params, attachments, then);
}

static void done(struct container_request *q, const struct door_reply *reply)
{
        (void)reply;
        container_answer(q, outcome(q, 1));
}

/* -- small operations ------------------------------------------------------------------------------------------ */

static void made(struct container_request *q, const struct door_reply *reply)
{
        json_t *answer = outcome(q, 1);

        (void)reply;
        door_put(answer, "recursive", json_boolean(container_flag(q, "recursive")));
        door_put(answer, "stdout", json_string(""));
        container_answer(q, door_put(answer, "stderr", json_string("")));
}

void container_mkdir(struct container_request *q)
{
        call(q, "file.mkdir",
             json_pack("{s:o, s:b}", "path", container_path(q, "path"), "recursive", container_flag(q, "recursive")),
             NULL, made);
}

static void not_deleted(struct container_request *q, const struct door_reply *reply)
{
        struct cloche_err e;

        if (reply->e->code != CLOCHE_E_FILE_KIND) {
                failed(q, reply);
                return;
        }
        err_set(&e, CLOCHE_E_FILE_KIND,
                "Cannot delete directory with deleteFile() at '%.300s'. Use exec('rm -rf <path>') instead.",
                container_text(q, "path"));
        failed(q, &(struct door_reply){.e = &e});
}

void container_delete(struct container_request *q)
{
        q->fail = not_deleted;
        container_call(q, "file.remove", json_pack("{s:o}", "path", container_path(q, "path")), NULL, done);
}

static void moved(struct container_request *q, const struct door_reply *reply)
{
        json_t *answer = outcome(q, 1);

        (void)reply;
        /* Later clients have path and newPath for both. */
        door_put(answer, "path", container_copy(q, q->route->handle == container_move ? "sourcePath" : "oldPath"));
        container_answer(q, door_put(answer, "newPath",
                                     container_copy(q, q->route->handle == container_move ? "destinationPath"
                                                                                          : "newPath")));
}

void container_rename(struct container_request *q)
{
        call(q, "file.move",
             json_pack("{s:o, s:o}", "from", container_path(q, "oldPath"), "to", container_path(q, "newPath")), NULL,
             moved);
}

void container_move(struct container_request *q)
{
        call(q, "file.move",
             json_pack("{s:o, s:o}", "from", container_path(q, "sourcePath"), "to",
                       container_path(q, "destinationPath")),
             NULL, moved);
}

static void looked(struct container_request *q, const struct door_reply *reply)
{
        container_answer(q, json_pack("{s:b, s:O, s:b}", "success", 1, "path", container_field(q, "path"), "exists",
                                      json_is_true(json_object_get(reply->result, "exists"))));
}

void container_exists(struct container_request *q)
{
        container_call(q, "file.exists", json_pack("{s:o}", "path", container_path(q, "path")), NULL, looked);
}

/* -- write ----------------------------------------------------------------------------------------------------- */

/* True if the encoding is one of these; else the request is refused. */
static int check_encoding(struct container_request *q)
{
        const char *encoding = container_text(q, "encoding");

        if (!encoding || strcmp(encoding, "utf-8") == 0 || strcmp(encoding, "utf8") == 0 ||
            strcmp(encoding, "base64") == 0)
                return 1;
        container_refuse(q, CONTAINER_VALIDATION_FAILED, NULL, NULL,
                         "'encoding' must be utf-8, utf8 or base64, not \"%.40s\"", encoding);
        return 0;
}

static int is_base64(const struct container_request *q)
{
        const char *encoding = container_text(q, "encoding");

        return encoding && strcmp(encoding, "base64") == 0;
}

/* The content is sent beside the JSON of the request: reading a MiB of JSON text takes the
 * sandbox's program 10 to 20 ms. */
static void write_bytes(struct container_request *q, const struct buf *bytes)
{
        json_t *tag = json_attachment(0, bytes->size);

        call(q, "file.write", json_pack("{s:o, s:o}", "path", container_path(q, "path"), "content", tag), bytes, done);
}

static void write_base64(struct container_request *q)
{
        _cleanup_buf_ struct buf bytes = BUF_INIT(SIZE_MAX / 2);
        const json_t *content = container_field(q, "content");
        int r = base64_decode(&bytes, json_string_value(content), json_string_length(content));

        if (r == -EINVAL) {
                container_refuse(q, CONTAINER_VALIDATION_FAILED, NULL, NULL,
                                 "'content' is no base64, as 'encoding' says it is");
                return;
        }
        if (r < 0) {
                container_refuse(q, CONTAINER_INTERNAL_ERROR, q->route->failed, NULL, "out of memory");
                return;
        }
        write_bytes(q, &bytes);
}

static void write_text(struct container_request *q)
{
        const json_t *content = container_field(q, "content");

        write_bytes(q, &(struct buf){.data = (char *)json_string_value(content), .size = json_string_length(content)});
}

void container_write(struct container_request *q)
{
        if (!check_encoding(q))
                return;
        if (is_base64(q))
                write_base64(q);
        else
                write_text(q);
}

/* -- read ------------------------------------------------------------------------------------------------------ */

/* Text is sent as text, other bytes as base64. An encoding in the request decides, except from 0.3,
 * which always sends utf-8. */
static int goes_as_base64(const struct container_request *q, const char *bytes, size_t size)
{
        if (is_base64(q))
                return 1;
        return (is_old(q) || !container_field(q, "encoding")) && !container_is_utf8(bytes, size, 0);
}

static void was_read(struct container_request *q, const struct door_reply *reply)
{
        const json_t *content = json_object_get(reply->result, "content");
        json_t *answer = outcome(q, 1), *text;
        const char *bytes = "";
        size_t size = 0;
        int as_base64;

        (void)door_bytes(content, reply->attachments, &bytes, &size);
        as_base64 = goes_as_base64(q, bytes, size);
        text = as_base64 ? door_base64(bytes, size) : door_string(content, reply->attachments);
        door_put(answer, "content", text ? text : json_string(""));
        door_put(answer, "encoding", json_string(as_base64 ? "base64" : "utf-8"));
        door_put(answer, "isBinary", json_boolean(!container_is_utf8(bytes, size, 0)));
        door_put(answer, "mimeType", json_incref(json_object_get(reply->result, "mimeType")));
        container_answer(q, door_put(answer, "size", json_integer((json_int_t)size)));
}

void container_read(struct container_request *q)
{
        if (check_encoding(q))
                call(q, "file.read", json_pack("{s:o}", "path", container_path(q, "path")), NULL, was_read);
}

/* -- list ------------------------------------------------------------------------------------------------------ */

struct list {
        json_t *files;
        int is_recursive, has_hidden;
};

static void list_done(void *state)
{
        struct list *list = state;

        json_decref(list->files);
        free(list);
}

/* The format of ls; for later clients without the letter of the type. */
static json_t *mode_text(json_int_t mode, const char *type, int has_letter)
{
        char text[11];

        text[0] = strcmp(type, "directory") == 0 ? 'd' : strcmp(type, "symlink") == 0 ? 'l' : '-';
        for (int i = 0; i < 9; i++)
                text[1 + i] = mode & (0400 >> i) ? "rwx"[i % 3] : '-';
        text[10] = '\0';
        return json_string(has_letter ? text : text + 1);
}

static json_t *entry_of(const struct container_request *q, const json_t *entry, const struct buf *attachments)
{
        const char *type = json_string_value(json_object_get(entry, "type"));
        json_int_t mode = json_integer_value(json_object_get(entry, "mode"));
        json_t *e = json_object();

        door_put(e, "name", door_string(json_object_get(entry, "name"), attachments));
        door_put(e, "absolutePath", door_string(json_object_get(entry, "path"), attachments));
        door_put(e, "relativePath", door_string(json_object_get(entry, "relativePath"), attachments));
        door_put(e, "type", json_incref(json_object_get(entry, "type")));
        door_put(e, "size", json_incref(json_object_get(entry, "size")));
        door_put(e, "modifiedAt", json_incref(json_object_get(entry, "modifiedAt")));
        door_put(e, "mode", mode_text(mode, type ? type : "file", is_old(q)));
        return door_put(e, "permissions",
                        json_pack("{s:b, s:b, s:b}", "readable", (int)(mode & 0400), "writable", (int)(mode & 0200),
                                  "executable", (int)(mode & 0100)));
}

static void list_page(struct container_request *q, json_t *after);

static void listed(struct container_request *q, const struct door_reply *reply)
{
        const json_t *entries = json_object_get(reply->result, "entries");
        json_t *next = json_object_get(reply->result, "next"), *answer;
        struct list *list = q->state;

        for (size_t i = 0; i < json_array_size(entries); i++)
                json_array_append_new(list->files, entry_of(q, json_array_get(entries, i), reply->attachments));
        if (json_is_string(next)) {
                list_page(q, json_incref(next));
                return;
        }
        answer = outcome(q, 1);
        door_put(answer, "count", json_integer((json_int_t)json_array_size(list->files)));
        container_answer(q, door_put(answer, "files", json_incref(list->files)));
}

static void list_page(struct container_request *q, json_t *after)
{
        const struct list *list = q->state;
        json_t *params = json_pack("{s:o, s:b, s:b}", "path", container_path(q, "path"), "recursive",
                                   list->is_recursive, "hidden", list->has_hidden);

        call(q, "file.list", door_put(params, "after", after), NULL, listed);
}

void container_list(struct container_request *q)
{
        const json_t *options = container_field(q, "options");
        struct list *list = calloc(1, sizeof(*list));

        if (!list) {
                container_refuse(q, CONTAINER_INTERNAL_ERROR, q->route->failed, NULL, "out of memory");
                return;
        }
        list->files = json_array();
        list->is_recursive = json_is_true(json_object_get(options, "recursive"));
        list->has_hidden = json_is_true(json_object_get(options, "includeHidden"));
        q->state = list;
        q->state_done = list_done;
        list_page(q, NULL);
}
