/* Volumes, by name, with the daemon's operations. Contents are read and written in a sandbox
 * that has the volume alone: cloched itself looks into no file system of a guest. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "daemon/e2b/template/build.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/path.h"

#include <nettle/memops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ROOT "/volume" /* in that sandbox */
#define UNUSED_MS 600000
#define RATE_LEAST 16384 /* bytes of a transfer in a second; a slower one may break off */
#define OWNER 1000
#define SIZE_BYTES (1ll << 30) /* the clients state no size */

static void token_of(const struct daemon *d, const char *volume, char ret[TOKEN_SECRET_SIZE])
{
        token_derive(d->options.token, "e2b volume", volume, ret);
}

/* The contents are read and written in a sandbox of this name. A caller cannot guess it, so that no
 * other sandbox has it. */
static char *name_of_box(const struct daemon *d, const char *volume)
{
        char name[TOKEN_SECRET_SIZE];

        token_derive(d->options.token, "e2b volume sandbox", volume, name);
        name[0] = 'v';
        return strdup(name);
}

static json_t *volume_of(const struct e2b_request *q, const json_t *volume)
{
        json_t *name = json_object_get(volume, "volume");
        char token[TOKEN_SECRET_SIZE];

        token_of(q->door.daemon, json_string_value(name), token);
        return json_pack("{s:O, s:O, s:s}", "volumeID", name, "name", name, "token", token);
}

static void on_made(struct e2b_request *q, const struct door_reply *reply)
{
        e2b_answer(q, 201, volume_of(q, reply->result));
}

void e2b_on_volume_create(struct e2b_request *q)
{
        const char *name = e2b_text(q->body, "name");

        if (name)
                e2b_call(q, "volume.create", json_pack("{s:s, s:I}", "volume", name, "sizeBytes", SIZE_BYTES), NULL,
                         on_made);
        else
                e2b_refuse(q, 400, "invalid_argument", "'name' is missing, expected the name of a volume");
}

static void on_all(struct e2b_request *q, const struct door_reply *reply)
{
        const json_t *volumes = json_object_get(reply->result, "volumes");
        json_t *all = json_array();

        for (size_t i = 0; i < json_array_size(volumes); i++)
                json_array_append_new(all, volume_of(q, json_array_get(volumes, i)));
        e2b_answer(q, 200, all);
}

void e2b_on_volume_list(struct e2b_request *q)
{
        e2b_call(q, "volume.list", json_object(), NULL, on_all);
}

static void on_found(struct e2b_request *q, const struct door_reply *reply)
{
        e2b_answer(q, 200, volume_of(q, reply->result));
}

void e2b_on_volume_get(struct e2b_request *q)
{
        e2b_call(q, "volume.get", json_pack("{s:s}", "volume", q->parts[0]), NULL, on_found);
}

static void on_deleted(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        e2b_answer_empty(q);
}

static void on_unused(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply; /* there was none, or the core says that the volume is in use */
        free(q->door.sandbox);
        q->door.sandbox = NULL;
        e2b_call(q, "volume.delete", json_pack("{s:s}", "volume", q->parts[0]), NULL, on_deleted);
}

void e2b_on_volume_delete(struct e2b_request *q)
{
        q->door.sandbox = name_of_box(q->door.daemon, q->parts[0]);
        q->fail = on_unused;
        e2b_call(q, "sandbox.delete", json_object(), NULL, on_unused);
}

/* -- contents ---------------------------------------------------------------------------------------------------- */

/* The clients send the token of the volume there, and no key. */
int e2b_is_volume_request(const struct daemon *d, const struct http_request *request)
{
        static const char scheme[] = "Bearer ";
        const char *given = http_request_header(request, "Authorization");
        struct door_part parts[DOOR_PARTS];
        char token[TOKEN_SECRET_SIZE], *volume;

        if (!given || strncasecmp(given, scheme, sizeof(scheme) - 1) != 0 ||
            !door_matches(E2B_VOLUME_PATH "{rest}", http_request_path(request), parts) ||
            !(volume = strndup(parts[0].at, parts[0].size)))
                return 0;
        token_of(d, volume, token);
        free(volume);
        given += sizeof(scheme) - 1;
        return strlen(given) == strlen(token) && memeql_sec(given, token, strlen(token));
}

int e2b_is_of_volume(const struct e2b_request *q)
{
        return strncmp(q->route->path, E2B_VOLUME_PATH, sizeof(E2B_VOLUME_PATH) - 1) == 0;
}

json_t *e2b_volume_path(const char *path)
{
        while (path && *path == '/')
                path++;
        return json_sprintf(ROOT "%s%s", path && *path ? "/" : "", path ? path : "");
}

static json_t *path_of(const struct e2b_request *q)
{
        char *path = e2b_query(q, "path");
        json_t *absolute = e2b_volume_path(path);

        free(path);
        return absolute;
}

static void on_renewed(struct e2b_request *q, const struct door_reply *reply)
{
        void (*then)(struct e2b_request * q) = q->go_on;

        (void)reply;
        then(q);
}

void e2b_volume_renew(struct e2b_request *q, json_int_t size_bytes, e2b_then then)
{
        json_int_t needed_ms = UNUSED_MS + size_bytes * 1000 / RATE_LEAST;

        e2b_call(q, "sandbox.update", json_pack("{s:I}", "lifetimeMs", needed_ms), NULL, then);
}

/* Only a new one has the lifetime of the request. A transfer of another one may need a later
 * end. */
static void on_box(struct e2b_request *q, const struct door_reply *reply)
{
        if (json_is_true(json_object_get(reply->result, "created")) ||
            e2b_time_ms(e2b_text(reply->result, "endsAt")) > clock_real_ms() + UNUSED_MS)
                on_renewed(q, reply);
        else
                e2b_volume_renew(q, 0, on_renewed);
}

/* The volume is all that its clients shall reach. */
static int leads_out(const struct e2b_request *q)
{
        char *path = e2b_query(q, "path");
        int leads_out = path && path_has_parent(path);

        free(path);
        return leads_out;
}

/* It is made on the first use, and goes when it is not used for a while. */
void e2b_with_volume(struct e2b_request *q, void (*then)(struct e2b_request *q))
{
        json_t *volumes = json_pack("[{s:s, s:s}]", "name", q->parts[0], "path", ROOT);

        if (!e2b_is_volume_request(q->door.daemon, q->request)) {
                json_decref(volumes);
                e2b_refuse(q, 401, "unauthenticated", "the token of the volume is missing or wrong");
                return;
        }
        if (leads_out(q)) {
                json_decref(volumes);
                e2b_refuse(q, 400, "invalid_argument", "'path' must have no part that is '..'");
                return;
        }
        q->go_on = then;
        q->door.sandbox = name_of_box(q->door.daemon, q->parts[0]);
        e2b_call(q, "sandbox.create",
                 json_pack("{s:o, s:i, s:s, s:{s:[]}, s:{s:s}}", "volumes", volumes, "lifetimeMs", UNUSED_MS,
                           "endAction", "delete", "network", "allow", "labels", E2B_LABEL_BUILD, "volume"),
                 NULL, on_box);
}

static json_t *entry_of(const json_t *file, const struct buf *attachments)
{
        json_t *path = door_string(json_object_get(file, "path"), attachments);
        const char *type = e2b_text(file, "type"), *below = json_string_value(path), *name;
        json_t *at = json_object_get(file, "modifiedAt"), *entry;
        int is_known = strcmp(type, "file") == 0 || strcmp(type, "directory") == 0 || strcmp(type, "symlink") == 0;

        if (strncmp(below, ROOT, sizeof(ROOT) - 1) == 0)
                below += sizeof(ROOT) - 1;
        name = strrchr(below, '/');
        entry = json_pack("{s:s, s:s, s:s, s:O, s:O, s:i, s:i, s:O, s:O, s:O}", "name", name ? name + 1 : "/", "path",
                          *below ? below : "/", "type", is_known ? type : "unknown", "size",
                          json_object_get(file, "size"), "mode", json_object_get(file, "mode"), "uid", OWNER, "gid",
                          OWNER, "atime", at, "mtime", at, "ctime", at);
        json_decref(path);
        return door_put(entry, "target",
                        json_object_get(file, "target") ? door_string(json_object_get(file, "target"), attachments)
                                                        : NULL);
}

static void on_entry(struct e2b_request *q, const struct door_reply *reply)
{
        e2b_answer(q, strcmp(q->route->verb, "GET") == 0 || strcmp(q->route->verb, "PATCH") == 0 ? 200 : 201,
                   entry_of(reply->result, reply->attachments));
}

void e2b_volume_entry(struct e2b_request *q)
{
        e2b_call(q, "file.stat", json_pack("{s:o}", "path", path_of(q)), NULL, on_entry);
}

void e2b_on_content_get(struct e2b_request *q)
{
        e2b_with_volume(q, e2b_volume_entry);
}

static void on_listed(struct e2b_request *q, const struct door_reply *reply)
{
        const json_t *files = json_object_get(reply->result, "entries");
        char *text = e2b_query(q, "depth");
        size_t depth = text ? strtoul(text, NULL, 10) : 1;
        json_t *entries = json_array();

        free(text);
        for (size_t i = 0; i < json_array_size(files); i++) {
                const json_t *file = json_array_get(files, i);
                json_t *relative = door_string(json_object_get(file, "relativePath"), reply->attachments);

                if (e2b_depth_of(json_string_value(relative)) <= depth)
                        json_array_append_new(entries, entry_of(file, reply->attachments));
                json_decref(relative);
        }
        e2b_answer(q, 200, entries);
}

static void list(struct e2b_request *q)
{
        char *depth = e2b_query(q, "depth");

        e2b_call(q, "file.list",
                 json_pack("{s:o, s:b, s:b, s:i}", "path", path_of(q), "recursive",
                           depth && strtoul(depth, NULL, 10) > 1, "hidden", 1, "limit", E2B_ENTRIES_MAX),
                 NULL, on_listed);
        free(depth);
}

void e2b_on_content_list(struct e2b_request *q)
{
        e2b_with_volume(q, list);
}

int e2b_volume_flag(const struct e2b_request *q, const char *name)
{
        char *text = e2b_query(q, name);
        int is_set = text && strcmp(text, "true") == 0;

        free(text);
        return is_set;
}

/* Permission bits; -1: not stated. -2: the request was refused, because it states an owner, or no
 * number. */
json_int_t e2b_volume_mode(struct e2b_request *q)
{
        char *uid = e2b_query(q, "uid"), *gid = e2b_query(q, "gid"), *text = e2b_query(q, "mode"), *end = text;
        json_int_t mode = text ? strtoll(text, &end, 10) & 07777 : -1;

        if (uid || gid) {
                e2b_refuse(q, 400, "invalid_argument",
                           "'uid' and 'gid' are not supported here (docs/e2b.md): files belong to the user of "
                           "sandboxes");
                mode = -2;
        } else if (text && (end == text || *end)) {
                e2b_refuse(q, 400, "invalid_argument", "'mode' must be a decimal number, not '%.40s'", text);
                mode = -2;
        }
        free(uid);
        free(gid);
        free(text);
        return mode;
}

static void on_made_directory(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        e2b_volume_entry(q);
}

static void make_directory(struct e2b_request *q)
{
        json_int_t mode = e2b_volume_mode(q);
        json_t *params;

        if (mode == -2)
                return;
        params = json_pack("{s:o, s:b}", "path", path_of(q), "recursive", e2b_volume_flag(q, "force"));
        e2b_call(q, "file.mkdir", door_put(params, "mode", mode >= 0 ? json_integer(mode) : NULL), NULL,
                 on_made_directory);
}

void e2b_on_content_make(struct e2b_request *q)
{
        e2b_with_volume(q, make_directory);
}

static void remove_path(struct e2b_request *q)
{
        e2b_call(q, "file.remove", json_pack("{s:o, s:b}", "path", path_of(q), "recursive", 1), NULL, on_deleted);
}

void e2b_on_content_remove(struct e2b_request *q)
{
        e2b_with_volume(q, remove_path);
}

static void on_changed(struct e2b_request *q, const struct door_reply *reply)
{
        if (json_integer_value(json_object_get(reply->result, "exitCode")) == 0)
                e2b_volume_entry(q);
        else
                e2b_refuse(q, 500, "internal", "the mode could not be changed");
}

static void change_mode(struct e2b_request *q, const struct door_reply *reply)
{
        json_int_t mode = json_integer_value(json_object_get(q->body, "mode")) & 07777;
        json_t *path = path_of(q);
        _cleanup_buf_ struct buf command = BUF_INIT(1u << 20);
        char begin[40];

        (void)reply;
        snprintf(begin, sizeof(begin), "chmod %llo -- ", (unsigned long long)mode);
        if (buf_append(&command, begin, strlen(begin)) < 0 || buf_quote(&command, json_string_value(path)) < 0)
                e2b_refuse(q, 500, "internal", "out of memory");
        else
                e2b_call(q, "exec",
                         json_pack("{s:o, s:b}", "command", json_stringn(command.data, command.size), "fork", 1), NULL,
                         on_changed);
        json_decref(path);
}

static void change(struct e2b_request *q)
{
        const struct buf *bytes = http_request_body(q->request);
        struct cloche_err e = {0};
        json_t *uid, *gid;

        if (json_load_text(bytes->data ? bytes->data : "", bytes->size, &q->body, &e) < 0) {
                e2b_refuse(q, 400, "invalid_argument", "the body: %s", e.msg);
                return;
        }
        uid = json_object_get(q->body, "uid");
        gid = json_object_get(q->body, "gid");
        if (uid || gid || !json_is_integer(json_object_get(q->body, "mode")))
                e2b_refuse(q, 400, "invalid_argument",
                           "expected 'mode' alone (docs/e2b.md): files belong to the user of sandboxes");
        else
                e2b_call(q, "file.stat", json_pack("{s:o}", "path", path_of(q)), NULL, change_mode);
}

void e2b_on_content_change(struct e2b_request *q)
{
        e2b_with_volume(q, change);
}
