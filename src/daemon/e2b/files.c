/* Files of envd (filesystem.Filesystem). Runs in: cloched-engine, on its loop, with the
 * rights of the daemon's user. */
#include "sandbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64

/* -- entries ----------------------------------------------------------------------------------------------------- */

/* As Go writes modes. */
static json_t *permissions_of(const char *type, json_int_t mode)
{
        static const char letters[] = "rwxrwxrwx";
        char text[11] = "----------";

        text[0] = strcmp(type, "directory") == 0 ? 'd' : strcmp(type, "symlink") == 0 ? 'L' : '-';
        for (int i = 0; i < 9; i++)
                if (mode >> (8 - i) & 1)
                        text[i + 1] = letters[i];
        return json_string(text);
}

static const char *type_of(const char *type)
{
        return strcmp(type, "directory") == 0 ? "FILE_TYPE_DIRECTORY"
               : strcmp(type, "symlink") == 0 ? "FILE_TYPE_SYMLINK"
               : strcmp(type, "file") == 0    ? "FILE_TYPE_FILE"
                                              : "FILE_TYPE_UNSPECIFIED";
}

/* All files belong to the one user of a sandbox, or look as if. */
json_t *e2b_entry_of(const json_t *file, const struct buf *attachments, const json_t *metadata)
{
        const char *type = e2b_text(file, "type");
        json_int_t mode = json_integer_value(json_object_get(file, "mode"));
        json_t *entry = json_pack("{s:o, s:s, s:o, s:o, s:I, s:o, s:s, s:s, s:O?}", "name",
                                  door_string(json_object_get(file, "name"), attachments), "type", type_of(type),
                                  "path", door_string(json_object_get(file, "path"), attachments), "size",
                                  json_sprintf("%lld", (long long)json_integer_value(json_object_get(file, "size"))),
                                  "mode", mode, "permissions", permissions_of(type, mode), "owner", E2B_USER, "group",
                                  E2B_USER, "modifiedTime", json_object_get(file, "modifiedAt"));

        door_put(entry, "metadata", json_incref(json_object_get(metadata, e2b_text(entry, "path"))));
        return door_put(entry, "symlinkTarget",
                        json_object_get(file, "target") ? door_string(json_object_get(file, "target"), attachments)
                                                        : NULL);
}

/* -- one file ---------------------------------------------------------------------------------------------------- */

static json_t *path_param(const struct e2b_request *q, const char *name)
{
        return e2b_path(e2b_text(q->body, name));
}

static void on_entry(struct e2b_request *q, const struct door_reply *reply)
{
        json_t *metadata = e2b_metadata(q->described);

        e2b_answer(q, 200, json_pack("{s:o}", "entry", e2b_entry_of(reply->result, reply->attachments, metadata)));
        json_decref(metadata);
}

static void stat_of(struct e2b_request *q, const char *name)
{
        e2b_call(q, "file.stat", json_pack("{s:o}", "path", path_param(q, name)), NULL, on_entry);
}

static void stat_path(struct e2b_request *q)
{
        stat_of(q, "path");
}

void e2b_on_stat(struct e2b_request *q)
{
        e2b_with_sandbox(q, stat_path);
}

/* -- directories ------------------------------------------------------------------------------------------------- */

static void on_made(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        stat_of(q, "path");
}

static void on_absent(struct e2b_request *q, const struct door_reply *reply)
{
        if (reply->e->code != CLOCHE_E_FILE_NOT_FOUND)
                e2b_fail(q, reply);
        else
                e2b_call(q, "file.mkdir", json_pack("{s:o, s:b}", "path", path_param(q, "path"), "recursive", 1), NULL,
                         on_made);
}

static void on_present(struct e2b_request *q, const struct door_reply *reply)
{
        const char *path = e2b_text(q->body, "path");

        if (strcmp(e2b_text(reply->result, "type"), "directory") == 0)
                e2b_refuse(q, 409, "already_exists", "directory already exists: %.500s", path ? path : "");
        else
                e2b_refuse(q, 400, "invalid_argument", "path already exists but it is not a directory: %.500s",
                           path ? path : "");
}

static void make_dir(struct e2b_request *q)
{
        q->fail = on_absent;
        e2b_call(q, "file.stat", json_pack("{s:o}", "path", path_param(q, "path")), NULL, on_present);
}

void e2b_on_make_dir(struct e2b_request *q)
{
        e2b_with_sandbox(q, make_dir);
}

/* Depth 1 is the directory itself, whose entries have no slash in their relative path. */
size_t e2b_depth_of(const char *relative)
{
        size_t depth = 1;

        for (; relative && *relative; relative++)
                depth += *relative == '/';
        return depth;
}

static void on_listed(struct e2b_request *q, const struct door_reply *reply)
{
        const json_t *files = json_object_get(reply->result, "entries");
        json_int_t depth = json_integer_value(json_object_get(q->body, "depth"));
        json_t *entries = json_array(), *metadata = e2b_metadata(q->described);

        for (size_t i = 0; i < json_array_size(files); i++) {
                const json_t *file = json_array_get(files, i);
                json_t *relative = door_string(json_object_get(file, "relativePath"), reply->attachments);

                if (e2b_depth_of(json_string_value(relative)) <= (size_t)(depth ? depth : 1))
                        json_array_append_new(entries, e2b_entry_of(file, reply->attachments, metadata));
                json_decref(relative);
        }
        json_decref(metadata);
        e2b_answer(q, 200, json_pack("{s:o}", "entries", entries));
}

static void list_dir(struct e2b_request *q)
{
        json_int_t depth = json_integer_value(json_object_get(q->body, "depth"));

        if (depth < 0 || depth > DEPTH_MAX) {
                e2b_refuse(q, 400, "invalid_argument", "'depth' must be 0 to %d", DEPTH_MAX);
                return;
        }
        e2b_call(q, "file.list",
                 json_pack("{s:o, s:b, s:b, s:i}", "path", path_param(q, "path"), "recursive", depth > 1, "hidden", 1,
                           "limit", E2B_ENTRIES_MAX),
                 NULL, on_listed);
}

void e2b_on_list_dir(struct e2b_request *q)
{
        e2b_with_sandbox(q, list_dir);
}

/* -- move and remove --------------------------------------------------------------------------------------------- */

static json_t *change_metadata(struct e2b_request *q, const json_t *described)
{
        const char *name = e2b_text(q->body, "source") ? "source" : "path";
        json_t *from = path_param(q, name), *to = e2b_text(q->body, "source") ? path_param(q, "destination") : NULL,
               *all = e2b_metadata_move(described, json_string_value(from), json_string_value(to));

        json_decref(from);
        json_decref(to);
        return e2b_metadata_put(q, described, all);
}

/* Metadata go with their file, if there are any. */
static void take_metadata(struct e2b_request *q, const char *name, e2b_then then)
{
        json_t *from = path_param(q, name), *to = path_param(q, "destination");

        if (e2b_has_metadata(q->described, json_string_value(from)) ||
            (e2b_text(q->body, "source") && e2b_has_metadata(q->described, json_string_value(to))))
                e2b_labels_change(q, change_metadata, then);
        else
                then(q, NULL);
        json_decref(from);
        json_decref(to);
}

static void on_taken(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        stat_of(q, "destination");
}

static void on_moved(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        take_metadata(q, "source", on_taken);
}

static void on_parent(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        e2b_call(q, "file.move",
                 json_pack("{s:o, s:o}", "from", path_param(q, "source"), "to", path_param(q, "destination")), NULL,
                 on_moved);
}

/* Missing directories above the destination are made, once the source is known to exist. */
static void on_source(struct e2b_request *q, const struct door_reply *reply)
{
        json_t *to = path_param(q, "destination");
        const char *path = json_string_value(to), *slash = path ? strrchr(path, '/') : NULL;

        if (slash && slash != path)
                e2b_call(q, "file.mkdir",
                         json_pack("{s:s%, s:b}", "path", path, (size_t)(slash - path), "recursive", 1), NULL,
                         on_parent);
        else
                on_parent(q, reply);
        json_decref(to);
}

static void move(struct e2b_request *q)
{
        e2b_call(q, "file.stat", json_pack("{s:o}", "path", path_param(q, "source")), NULL, on_source);
}

void e2b_on_move(struct e2b_request *q)
{
        e2b_with_sandbox(q, move);
}

static void on_forgotten(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        e2b_answer(q, 200, json_object());
}

static void on_removed(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        take_metadata(q, "path", on_forgotten);
}

static void remove_path(struct e2b_request *q)
{
        e2b_call(q, "file.remove",
                 json_pack("{s:o, s:b, s:b}", "path", path_param(q, "path"), "recursive", 1, "force", 1), NULL,
                 on_removed);
}

void e2b_on_remove(struct e2b_request *q)
{
        e2b_with_sandbox(q, remove_path);
}

/* -- compose ----------------------------------------------------------------------------------------------------- */

#define NO_SOURCE 44 /* exit code: the output is the path */
#define SOURCES_MAX 1000

static json_t *sources_of(const struct e2b_request *q)
{
        return json_object_get(q->body, "source_paths");
}

static json_t *change_composed(struct e2b_request *q, const json_t *described)
{
        json_t *all = e2b_metadata(described);

        for (size_t i = 0; i <= json_array_size(sources_of(q)); i++) {
                const char *source = json_string_value(json_array_get(sources_of(q), i));
                json_t *path = e2b_path(source ? source : e2b_text(q->body, "destination"));

                (void)json_object_del(all, json_string_value(path));
                json_decref(path);
        }
        return e2b_metadata_put(q, described, all);
}

static void answer_composed(struct e2b_request *q, const struct door_reply *reply)
{
        json_t *path = path_param(q, "destination");
        const char *slash = strrchr(json_string_value(path), '/');

        (void)reply;
        e2b_answer(q, 200, json_pack("{s:O, s:s, s:s}", "path", path, "name", slash ? slash + 1 : "", "type", "file"));
        json_decref(path);
}

static void on_composed(struct e2b_request *q, const struct door_reply *reply)
{
        json_t *out = door_string(json_object_get(reply->result, "stdout"), reply->attachments),
               *errors = door_string(json_object_get(reply->result, "stderr"), reply->attachments);
        json_int_t code = json_integer_value(json_object_get(reply->result, "exitCode"));

        if (code == NO_SOURCE)
                e2b_refuse(q, 404, "not_found", "path '%.500s' does not exist or is no file", json_string_value(out));
        else if (code != 0 && strstr(json_string_value(errors), "No space left"))
                e2b_refuse(q, 507, "resource_exhausted", "%.500s", json_string_value(errors));
        else if (code != 0)
                e2b_refuse(q, 500, "internal", "%.500s", json_string_value(errors));
        else if (e2b_has_metadata(q->described, "/"))
                e2b_labels_change(q, change_composed, answer_composed);
        else
                answer_composed(q, reply);
        json_decref(out);
        json_decref(errors);
}

/* The destination first, then the sources. NULL: one is no path. */
static json_t *compose_command(const struct e2b_request *q)
{
        static const char script[] = "\nto=$1; shift\n"
                                     "for f; do [ -f \"$f\" ] || { printf %s \"$f\"; exit 44; }; done\n"
                                     "case $to in /*/*) mkdir -p -- \"${to%/*}\" || exit;; esac\n"
                                     "if [ -d \"$to\" ]; then echo \"$to is a directory\" >&2; exit 1; fi\n"
                                     "cat -- \"$@\" > \"$to.e2b-part\" && mv -- \"$to.e2b-part\" \"$to\" || { rm -f -- "
                                     "\"$to.e2b-part\"; exit 1; }\n"
                                     "for f; do [ \"$f\" -ef \"$to\" ] || rm -f -- \"$f\" || exit; done";
        static const char begin[] = "set --";
        _cleanup_buf_ struct buf out = BUF_INIT(8u << 20);
        int r = buf_append(&out, begin, strlen(begin));

        for (size_t i = 0; r == 0 && i <= json_array_size(sources_of(q)); i++) {
                const json_t *one =
                        i == 0 ? json_object_get(q->body, "destination") : json_array_get(sources_of(q), i - 1);
                const char *text = json_string_value(one);
                json_t *path = text && *text && strlen(text) == json_string_length(one) ? e2b_path(text) : NULL;

                r = path ? buf_append(&out, " ", 1) : -1;
                if (r == 0)
                        r = buf_quote(&out, json_string_value(path));
                json_decref(path);
        }
        if (r == 0)
                r = buf_append(&out, script, strlen(script));
        return r == 0 ? json_stringn(out.data, out.size) : NULL;
}

static void compose(struct e2b_request *q)
{
        const struct buf *bytes = http_request_body(q->request);
        const char *user;
        struct cloche_err e = {0};
        json_t *command;

        if (json_load_text(bytes->data ? bytes->data : "", bytes->size, &q->body, &e) < 0) {
                e2b_refuse(q, 400, "invalid_argument", "the body: %s", e.msg);
                return;
        }
        user = e2b_text(q->body, "username");
        command = json_array_size(sources_of(q)) > 0 && json_array_size(sources_of(q)) <= SOURCES_MAX
                          ? compose_command(q)
                          : NULL;
        if (user && *user && strcmp(user, E2B_USER) != 0 &&
            !(strcmp(user, "root") == 0 && e2b_has_root(q->described))) {
                json_decref(command);
                e2b_refuse(q, 401, "unauthenticated", "invalid username: '%.80s'", user);
        } else if (!command) {
                e2b_refuse(q, 400, "invalid_argument",
                           "'source_paths' must be 1 to %d paths, and 'destination' one more", SOURCES_MAX);
        } else {
                e2b_call(q, "exec", json_pack("{s:o, s:b}", "command", command, "fork", 1), NULL, on_composed);
        }
}

/* Several files become one, and go. */
void e2b_on_compose(struct e2b_request *q)
{
        e2b_with_sandbox(q, compose);
}
