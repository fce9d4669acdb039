/* Resources: files, output and variables by URI. Runs in: cloched-engine, on its loop, with the
 * rights of the daemon's user. */
#include "internal.h"

#include "base/hex.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEME "cloche://"
#define READ_BYTES_MAX (8u << 20)
#define LIST_ENTRIES 5000 /* of which the newest are listed */
#define LISTED 100

struct kind {
        const char *template, *name, *title, *mime;
        const char *before, *after; /* of the part, in the path after the sandbox */
        void (*read)(struct mcp_exchange *x);
};
static const struct kind kinds[5];

struct reading {
        char *part; /* of the URI, decoded */
};

static void reading_done(void *state)
{
        struct reading *reading = state;

        free(reading->part);
        free(reading);
}

static int begin(struct mcp_exchange *x)
{
        x->state = calloc(1, sizeof(struct reading));
        x->state_done = x->state ? reading_done : NULL;
        if (!x->state)
                mcp_refuse(x, MCP_INTERNAL, "out of memory");
        return x->state != NULL;
}

/* -- URIs -------------------------------------------------------------------------------------------------------- */

/* RFC 3986, 2.1. NULL: malformed, or no memory; a NUL is malformed, and bytes that are no UTF-8. */
static char *decoded(const char *text, size_t size)
{
        char *ret = malloc(size + 1), *to = ret;

        for (size_t i = 0; ret && i < size; i++) {
                int high = text[i] == '%' && i + 2 < size ? hex_digit(text[i + 1]) : -1,
                    low = high >= 0 ? hex_digit(text[i + 2]) : -1;

                if (text[i] != '%') {
                        *to++ = text[i];
                } else if (low < 0 || (high == 0 && low == 0)) {
                        free(ret);
                        return NULL;
                } else {
                        *to++ = (char)(high << 4 | low);
                        i += 2;
                }
        }
        if (!ret)
                return NULL;
        *to = '\0';
        if (utf8_is_valid(ret, (size_t)(to - ret)))
                return ret;
        free(ret);
        return NULL;
}

json_t *mcp_file_uri(const char *sandbox, const char *path)
{
        static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
        _cleanup_buf_ struct buf uri = BUF_INIT(64u << 10);
        char code[4] = "%";
        int r = buf_append(&uri, SCHEME, strlen(SCHEME));

        if (r == 0)
                r = buf_append(&uri, sandbox, strlen(sandbox));
        if (r == 0)
                r = buf_append(&uri, "/files", 6);
        for (; r == 0 && *path; path++) {
                hex_write(code + 1, path, 1);
                r = strchr(plain, *path) ? buf_append(&uri, path, 1) : buf_append(&uri, code, 3);
        }
        return r < 0 ? NULL : json_stringn(uri.data, uri.size);
}

static const struct kind *kind_of(const char *path, char **ret_part)
{
        size_t size = strlen(path);

        for (const struct kind *k = kinds; k->template && k->read; k++) {
                size_t before = strlen(k->before), after = strlen(k->after);

                if (size > before + after && strncmp(path, k->before, before) == 0 &&
                    strcmp(path + size - after, k->after) == 0) {
                        *ret_part = decoded(path + before, size - before - after);
                        return *ret_part ? k : NULL;
                }
        }
        return NULL;
}

int mcp_file_of(const char *uri, char **ret_sandbox, char **ret_path)
{
        const char *name = strncmp(uri, SCHEME, strlen(SCHEME)) == 0 ? uri + strlen(SCHEME) : "",
                   *slash = strchr(name, '/');
        char *part = NULL;

        if (!slash || kind_of(slash + 1, &part) != &kinds[0]) {
                free(part);
                return 0;
        }
        *ret_sandbox = strndup(name, (size_t)(slash - name));
        *ret_path = malloc(strlen(part) + 2);
        if (*ret_path)
                sprintf(*ret_path, "/%s", part);
        free(part);
        return *ret_sandbox && *ret_path;
}

/* -- reading ----------------------------------------------------------------------------------------------------- */

static void no_such_resource(struct mcp_exchange *x, const char *why)
{
        mcp_refuse_with(x, 200, x->is_modern ? MCP_BAD_PARAMS : MCP_NO_RESOURCE,
                        json_pack("{s:O}", "uri", json_object_get(x->params, "uri")), "%s", why);
}

static void on_unread(struct mcp_exchange *x, const struct door_reply *reply)
{
        no_such_resource(x, reply->e->msg);
}

/* Text where the bytes are text, else base64. mime: NULL: of the two. */
static void answer_bytes(struct mcp_exchange *x, const char *bytes, size_t size, const char *mime)
{
        int is_text = !memchr(bytes, '\0', size) && utf8_is_valid(bytes, size);

        mcp_answer(x,
                   mcp_cached(x,
                              json_pack("{s:[{s:O, s:s, s:o}]}", "contents", "uri", json_object_get(x->params, "uri"),
                                        "mimeType", mime, is_text ? "text" : "blob",
                                        is_text ? json_stringn(bytes, size) : door_base64(bytes, size)),
                              0));
}

static void on_file(struct mcp_exchange *x, const struct door_reply *reply)
{
        const char *bytes = "", *mime = mcp_text(reply->result, "mimeType");
        size_t size = 0;

        (void)door_bytes(json_object_get(reply->result, "content"), reply->attachments, &bytes, &size);
        if (json_integer_value(json_object_get(reply->result, "total")) > READ_BYTES_MAX)
                no_such_resource(x, "the file has more than 8 MiB: read it with read_file");
        else
                answer_bytes(x, bytes, size, mime);
}

static void read_file(struct mcp_exchange *x)
{
        const struct reading *reading = x->state;

        mcp_call(x, "file.read",
                 json_pack("{s:o, s:i}", "path", json_sprintf("/%s", reading->part), "limit", (int)READ_BYTES_MAX + 1),
                 NULL, on_file);
}

static void on_logs(struct mcp_exchange *x, const struct door_reply *reply)
{
        const char *bytes = "";
        size_t size = 0;

        (void)door_bytes(json_object_get(reply->result, "stdout"), reply->attachments, &bytes, &size);
        answer_bytes(x, bytes, size, "text/plain");
}

static void read_stdout(struct mcp_exchange *x)
{
        const struct reading *reading = x->state;

        mcp_call(x, "process.logs", json_pack("{s:s, s:i}", "process", reading->part, "limit", (int)READ_BYTES_MAX),
                 NULL, on_logs);
}

static void on_variables(struct mcp_exchange *x, const struct door_reply *reply)
{
        char *text = json_dump_text(reply->result, JSON_COMPACT);

        answer_bytes(x, text ? text : "{}", text ? strlen(text) : 2, "application/json");
        free(text);
}

static void read_variables(struct mcp_exchange *x)
{
        const struct reading *reading = x->state;

        mcp_call(x, "context.describe", json_pack("{s:s}", "context", reading->part), NULL, on_variables);
}

static const struct kind kinds[5] = {
        {"cloche://{sandbox}/files/{+path}", "file", "A file of a sandbox, of at most 8 MiB", NULL, "files/", "",
         read_file},
        {"cloche://{sandbox}/processes/{process}/stdout", "process-stdout", "The output of a process in the background",
         "text/plain", "processes/", "/stdout", read_stdout},
        {"cloche://{sandbox}/contexts/{context}/variables", "context-variables", "The variables of an interpreter",
         "application/json", "contexts/", "/variables", read_variables},
        {"cloche://runs/{run}/changes.diff", "run-changes", "The files that a call of call_function changed",
         "text/x-diff", NULL, NULL, NULL},
        {0},
};

/* It is of no sandbox. 0: the URI is another one. */
static int read_changes(struct mcp_exchange *x, const char *uri)
{
        static const char before[] = SCHEME "runs/", after[] = "/changes.diff";
        size_t size = strlen(uri), id_size = MCP_SESSION_SIZE - 1;
        char id[MCP_SESSION_SIZE];
        const json_t *diff;

        if (size != strlen(before) + id_size + strlen(after) || strncmp(uri, before, strlen(before)) != 0 ||
            strcmp(uri + strlen(before) + id_size, after) != 0)
                return 0;
        snprintf(id, sizeof(id), "%s", uri + strlen(before));
        diff = mcp_run_diff(x, id);
        if (diff)
                answer_bytes(x, json_string_value(diff), json_string_length(diff), "text/x-diff");
        else
                no_such_resource(x, "the differences of the last calls only are kept");
        return 1;
}

/* A resource of a sandbox that does not exist makes none. */
void mcp_on_resources_read(struct mcp_exchange *x)
{
        const char *uri = mcp_text(x->params, "uri"), *name, *slash;
        const struct kind *kind = NULL;
        struct reading *reading;

        if (!uri) {
                mcp_refuse(x, MCP_BAD_PARAMS, "params.uri is missing, expected the URI of a resource");
                return;
        }
        if (mcp_fixture_resource(x) || read_changes(x, uri) || !begin(x))
                return;
        reading = x->state;
        name = strncmp(uri, SCHEME, strlen(SCHEME)) == 0 ? uri + strlen(SCHEME) : "";
        slash = strchr(name, '/');
        x->door.sandbox = slash ? strndup(name, (size_t)(slash - name)) : NULL;
        if (x->door.sandbox && sandboxes_has(x->door.daemon->sandboxes, x->door.principal, x->door.sandbox))
                kind = kind_of(slash + 1, &reading->part);
        if (!kind) {
                no_such_resource(x, "there is no such resource (resources/templates/list has their forms)");
                return;
        }
        x->fail = on_unread;
        kind->read(x);
}

/* -- lists ------------------------------------------------------------------------------------------------------- */

void mcp_on_resource_templates(struct mcp_exchange *x)
{
        json_t *templates = json_array();

        for (const struct kind *k = kinds; k->template; k++)
                json_array_append_new(templates, json_pack("{s:s, s:s, s:s, s:s*}", "uriTemplate", k->template, "name",
                                                           k->name, "title", k->title, "mimeType", k->mime));
        mcp_fixtures_list(x, "resourceTemplates", templates);
        mcp_answer(x, mcp_cached(x, json_pack("{s:o}", "resourceTemplates", templates), 1));
}

static int newer(const void *a, const void *b)
{
        const char *one = mcp_text(*(json_t *const *)a, "modifiedAt"),
                   *other = mcp_text(*(json_t *const *)b, "modifiedAt");

        /* RFC 3339 of one length. A guest's time may be one that has no such text. */
        return strcmp(other ? other : "", one ? one : "");
}

static json_t *resource_of(const struct mcp_exchange *x, const json_t *entry)
{
        const char *path = mcp_text(entry, "path"), *name = mcp_text(entry, "relativePath");

        return json_pack("{s:o, s:s, s:O, s:{s:s*}}", "uri", mcp_file_uri(x->door.sandbox, path), "name", name, "size",
                         json_object_get(entry, "size"), "annotations", "lastModified", mcp_text(entry, "modifiedAt"));
}

/* Names that are not UTF-8 have no URI here: they come as bytes. */
static int is_listed(const json_t *entry)
{
        const char *type = mcp_text(entry, "type");

        return type && strcmp(type, "file") == 0 && mcp_text(entry, "path") && mcp_text(entry, "relativePath");
}

static void on_listing(struct mcp_exchange *x, const struct door_reply *reply)
{
        const json_t *entries = json_object_get(reply->result, "entries");
        size_t size = json_array_size(entries), count = 0;
        json_t **files = calloc(size + 1, sizeof(*files)), *resources = json_array();

        for (size_t i = 0; files && i < size; i++)
                if (is_listed(json_array_get(entries, i)))
                        files[count++] = json_array_get(entries, i);
        if (files)
                qsort(files, count, sizeof(*files), newer);
        for (size_t i = 0; i < count && i < LISTED; i++)
                json_array_append_new(resources, resource_of(x, files[i]));
        free(files);
        mcp_fixtures_list(x, "resources", resources);
        mcp_answer(x, mcp_cached(x, json_pack("{s:o}", "resources", resources), 0));
}

static void on_unlisted(struct mcp_exchange *x, const struct door_reply *reply)
{
        mcp_refuse(x, MCP_INTERNAL, "%s", reply->e->msg);
}

/* The files of the sandbox that tools use by default, the newest first. */
void mcp_on_resources_list(struct mcp_exchange *x)
{
        json_t *none;

        if (mcp_refuse_cursor(x))
                return;
        if (!sandboxes_has(x->door.daemon->sandboxes, x->door.principal, x->sandbox)) {
                none = json_array();
                mcp_fixtures_list(x, "resources", none);
                mcp_answer(x, mcp_cached(x, json_pack("{s:o}", "resources", none), 0));
                return;
        }
        x->door.sandbox = strdup(x->sandbox);
        x->fail = on_unlisted;
        if (x->door.sandbox)
                mcp_call(x, "file.list",
                         json_pack("{s:s, s:b, s:i}", "path", MCP_HOME, "recursive", 1, "limit", LIST_ENTRIES), NULL,
                         on_listing);
        else
                mcp_refuse(x, MCP_INTERNAL, "out of memory");
}
