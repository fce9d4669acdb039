/* Changes of a run in mounted directories, from the lists of cloche-fs. Runs in: the engine; saved
 * sets are read and written as the user who started it. */
#include "changeset.h"

#include "base/err.h"
#include "base/fd.h"
#include "engine/loop/engine.h"
#include "wire/base64.h"
#include "wire/json.h"
#include "wire/value.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define LIST_BYTES_MAX (256u << 20) /* of a saved list */
#define LIST_NAME "changes.json"
#define FORMAT 1

/* -- life ------------------------------------------------------------------------------------------------------- */

static struct cloche_changeset *changeset_new(void)
{
        struct cloche_changeset *set = calloc(1, sizeof(*set));

        for (size_t i = 0; set && i < KEEPER_MOUNTS_MAX; i++)
                set->rows[i].contents_fd = -EBADF;
        return set;
}

void cloche_changeset_free(cloche_changeset *set)
{
        if (!set)
                return;
        for (size_t i = 0; i < set->count; i++) {
                free(set->rows[i].target);
                free(set->rows[i].source);
                free(set->rows[i].file);
                free(set->rows[i].path);
                json_decref(set->rows[i].permissions);
                json_decref(set->rows[i].changes);
                json_decref(set->rows[i].values);
                fd_close(&set->rows[i].contents_fd);
        }
        free(set);
}

static int name_row(struct changeset_row *row, const struct mount_option *option)
{
        row->target = strdup(option->target);
        row->source = strdup(option->source);
        row->path = strdup(option->path);
        row->root = option->root;
        row->file = option->file ? strdup(option->file) : NULL;
        row->permissions = json_incref(option->permissions);
        return row->target && row->source && row->path && !row->file == !option->file ? 0 : -1;
}

static int take_options(struct cloche_changeset *set, const struct mount_options *options)
{
        int r = 0;

        set->on_error = options->sync.on_error;
        set->conflict = options->sync.conflict;
        set->abort_skips = options->abort_skips;
        set->links = options->sync.links;
        for (size_t i = 0; r == 0 && i < options->count; i++)
                r = name_row(&set->rows[set->count++], &options->rows[i]);
        return r;
}

int changeset_take(struct mounts *mounts, struct cloche_changeset **ret, struct cloche_err *e)
{
        struct cloche_changeset *set = changeset_new();

        if (!set || take_options(set, &mounts->options) < 0) {
                cloche_changeset_free(set);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "keep the changes");
        }
        for (size_t i = 0; i < set->count; i++) {
                set->rows[i].changes = mounts->rows[i].changes ? json_incref(mounts->rows[i].changes) : json_array();
                set->rows[i].values = json_incref(mounts->rows[i].values);
                set->rows[i].contents_fd = TAKE_FD(mounts->rows[i].contents_fd);
        }
        *ret = set;
        return 0;
}

/* -- contents --------------------------------------------------------------------------------------------------- */

/* The server runs beside the guest's bytes, so open only plain files of that directory. */
static int open_contents(int dir_fd, const char *name)
{
        struct open_how how = {
                .flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
        };
        int fd = (int)syscall(SYS_openat2, dir_fd, name, &how, sizeof(how));
        struct stat st;

        if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)))
                fd_close(&fd);
        return fd;
}

int changeset_open_contents(const struct changeset_row *row, const json_t *change)
{
        const char *name = json_string_value(json_object_get(change, "contents"));

        return name ? open_contents(row->contents_fd, name) : -EBADF;
}

/* Contents of a change: a file of their own, or a part of one. */
struct piece {
        int fd;
        off_t at;
        uint64_t size;
};

static void piece_done(struct piece *piece)
{
        fd_close(&piece->fd);
}

static int open_piece(const struct changeset_row *row, const json_t *change, struct piece *ret)
{
        const char *name = json_string_value(json_object_get(change, "contents"));
        struct stat st;

        if (!name || fstat(row->contents_fd, &st) < 0)
                return -1;
        if (S_ISREG(st.st_mode)) {
                ret->fd = fcntl(row->contents_fd, F_DUPFD_CLOEXEC, 0);
                ret->at = (off_t)strtoull(name, NULL, 16) - 1;
                ret->size = (uint64_t)json_integer_value(json_object_get(change, "size"));
                return ret->fd < 0 ? -1 : 0;
        }
        ret->fd = open_contents(row->contents_fd, name);
        if (ret->fd < 0 || fstat(ret->fd, &st) < 0)
                return -1;
        ret->at = 0;
        ret->size = (uint64_t)st.st_size;
        return 0;
}

static json_t *read_value(const struct changeset_row *row, const json_t *change, uint64_t max, size_t *ret_size)
{
        __attribute__((cleanup(piece_done))) struct piece piece = {.fd = -EBADF};
        json_t *value;
        char *bytes;

        if (open_piece(row, change, &piece) < 0 || piece.size > max)
                return NULL;
        bytes = files_read_at(piece.fd, piece.at, (size_t)piece.size, ret_size);
        value = bytes ? files_bytes_to_value(bytes, *ret_size) : NULL;
        free(bytes);
        return value;
}

/* -- the contract's form ---------------------------------------------------------------------------------------- */

/* Join base and a path of a list, text or tagged bytes, below it. NULL: the list is invalid. */
static json_t *join(const char *base, const json_t *path)
{
        _cleanup_buf_ struct buf whole = BUF_INIT(1u << 20);
        const char *text = json_string_value(path), *encoded = json_string_value(json_object_get(path, "b64"));
        int r = buf_append(&whole, base, strlen(base));

        if (r == 0 && whole.size > 1)
                r = buf_append(&whole, "/", 1);
        if (r == 0 && text)
                r = buf_append(&whole, text, json_string_length(path));
        else if (r == 0)
                r = encoded ? base64_decode(&whole, encoded, strlen(encoded)) : -1;
        return r < 0 ? NULL : files_bytes_to_json(whole.data, whole.size);
}

/* The path in the box and the path on the host. A mount of one file has only that path. */
static json_t *box_path(const struct changeset_row *row, const json_t *path)
{
        return row->file ? json_string(row->target) : join(row->target, path);
}

static json_t *host_path(const struct changeset_row *row, const json_t *path)
{
        return row->file ? files_bytes_to_json(row->source, strlen(row->source)) : join(row->source, path);
}

static const char *change_type(const json_t *change)
{
        const char *type = json_string_value(json_object_get(change, "type"));

        /* A rename appears twice: the old name as deleted, the new one as created, each naming the
         * other. */
        return !type || strcmp(type, "renamed") == 0 ? "created" : type;
}

static void copy(json_t *to, const json_t *from, const char *const *names, size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (json_object_get(from, names[i]))
                        json_object_set(to, names[i], json_object_get(from, names[i]));
}

json_t *changeset_describe_one(const struct changeset_row *row, const json_t *change)
{
        static const char *const passed[] = {"kind", "mode", "size", "target", "virtual", "over", "content"};
        const json_t *path = json_object_get(change, "path"), *from = json_object_get(change, "from"),
                     *link = json_object_get(change, "link");
        json_int_t mtime_ns = json_integer_value(json_object_get(change, "mtimeNs"));
        json_t *described = json_pack("{s:s, s:o, s:o, s:I}", "type", change_type(change), "path", box_path(row, path),
                                      "realPath", host_path(row, path), "timestamp", mtime_ns / 1000000);

        if (!described)
                return NULL;
        copy(described, change, passed, sizeof(passed) / sizeof(passed[0]));
        json_object_del(described, "content"); /* a flag in the list, the bytes in the result */
        if (json_is_false(json_object_get(change, "content")))
                json_object_set_new(described, "attributesOnly", json_true());
        if (from)
                json_object_set_new(described, "renamedFrom", box_path(row, from));
        if (link)
                json_object_set_new(described, "linkOf", box_path(row, link));
        return described;
}

/* A set with values has no other contents. */
static json_t *find_value(const struct changeset_row *row, const json_t *change, uint64_t max, size_t *ret_size)
{
        json_t *kept = json_object_get(row->values, json_string_value(json_object_get(change, "contents")));

        if (!row->values)
                return read_value(row, change, max, ret_size);
        *ret_size = (size_t)json_integer_value(json_array_get(kept, 0));
        return kept && *ret_size <= max ? json_incref(json_array_get(kept, 1)) : NULL;
}

static void add_contents(const struct changeset_row *row, const json_t *change, int omit, uint64_t *left,
                         json_t *described)
{
        size_t size = 0;
        json_t *value;

        if (!json_object_get(change, "contents") || omit)
                return;
        value = find_value(row, change, *left < FILES_CONTENT_MAX ? *left : FILES_CONTENT_MAX, &size);
        if (!value) {
                json_object_set_new(described, "contentOmitted", json_true());
                return;
        }
        *left -= size < *left ? size : *left;
        json_object_set_new(described, "content", value);
}

static json_t *describe_old_name(const struct changeset_row *row, const json_t *change)
{
        const json_t *from = json_object_get(change, "from");

        return json_pack("{s:s, s:o, s:o, s:O, s:i, s:o, s:o}", "type", "deleted", "path", box_path(row, from),
                         "realPath", host_path(row, from), "kind", json_object_get(change, "kind"), "size", 0,
                         "timestamp", json_integer(json_integer_value(json_object_get(change, "mtimeNs")) / 1000000),
                         "renamedTo", box_path(row, json_object_get(change, "path")));
}

static int describe(const struct changeset_row *row, const json_t *change, int omit_contents, uint64_t *left,
                    json_t *created, json_t *modified, json_t *deleted)
{
        json_t *described = changeset_describe_one(row, change);
        const char *type = described ? json_string_value(json_object_get(described, "type")) : NULL;
        int r = 0;

        if (!type)
                return -CLOCHE_E_RESOURCE;
        add_contents(row, change, omit_contents, left, described);
        if (json_object_get(change, "from"))
                r = json_array_append_new(deleted, describe_old_name(row, change));
        r |= json_array_append_new(strcmp(type, "deleted") == 0    ? deleted
                                   : strcmp(type, "modified") == 0 ? modified
                                                                   : created,
                                   described);
        return r < 0 ? -CLOCHE_E_RESOURCE : 0;
}

int changeset_describe(const struct cloche_changeset *set, int omit_contents, uint64_t *contents_left, json_t *created,
                       json_t *modified, json_t *deleted)
{
        int r = 0;

        for (size_t i = 0; i < set->count; i++)
                for (size_t k = 0; r == 0 && k < json_array_size(set->rows[i].changes); k++)
                        r = describe(&set->rows[i], json_array_get(set->rows[i].changes, k), omit_contents,
                                     contents_left, created, modified, deleted);
        return r;
}

char *cloche_changeset_json(const cloche_changeset *set)
{
        json_t *created = json_array(), *modified = json_array(), *deleted = json_array(), *all;
        uint64_t left = FILES_CONTENTS_TOTAL_MAX;
        char *text = NULL;

        if (created && modified && deleted && changeset_describe(set, 0, &left, created, modified, deleted) == 0) {
                all = json_pack("{s:O, s:O, s:O}", "created", created, "modified", modified, "deleted", deleted);
                text = all ? value_dump(all, JSON_COMPACT) : NULL;
                json_decref(all);
        }
        json_decref(created);
        json_decref(modified);
        json_decref(deleted);
        return text;
}

/* -- remaining changes ------------------------------------------------------------------------------------------ */

size_t changeset_count(const struct cloche_changeset *set)
{
        size_t count = 0, k;
        json_t *change;

        for (size_t i = 0; i < set->count; i++)
                json_array_foreach (set->rows[i].changes, k, change)
                        count += !json_is_true(json_object_get(change, "virtual"));
        return count;
}

/* Make a key of one object from text or from tagged bytes. */
static char *key_of(const json_t *path)
{
        return path ? json_dumps(path, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS) : NULL;
}

static int is_among(const json_t *keys, const struct changeset_row *row, const json_t *change)
{
        json_t *path = box_path(row, json_object_get(change, "path"));
        char *key = key_of(path);
        int found = key && json_object_get(keys, key);

        json_decref(path);
        free(key);
        return found;
}

static json_t *without(const struct changeset_row *row, const json_t *keys)
{
        json_t *left = json_array(), *change;
        size_t k;

        json_array_foreach (row->changes, k, change)
                if (!is_among(keys, row, change))
                        json_array_append(left, change);
        return left;
}

void changeset_drop(struct cloche_changeset *set, const json_t *paths)
{
        json_t *keys = json_object(), *path;
        size_t k;

        json_array_foreach (paths, k, path) {
                char *key = key_of(path);

                if (key)
                        json_object_set_new(keys, key, json_true());
                free(key);
        }
        for (size_t i = 0; i < set->count; i++) {
                json_t *left = without(&set->rows[i], keys);

                json_decref(set->rows[i].changes);
                set->rows[i].changes = left;
        }
        json_decref(keys);
}

/* -- saving and loading ----------------------------------------------------------------------------------------- */

static int copy_file(const struct changeset_row *row, const json_t *change, int to_dir_fd, const char *name,
                     struct cloche_err *e)
{
        __attribute__((cleanup(piece_done))) struct piece piece = {.fd = -EBADF};
        int r = open_piece(row, change, &piece);
        _cleanup_fd_ int to_fd = openat(to_dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

        /* The sync may run as another user, so the umask must not apply. */
        if (r < 0 || to_fd < 0 || fchmod(to_fd, 0644) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "keep the contents %.40s", name);
        while (piece.size > 0) {
                ssize_t n = sendfile(to_fd, piece.fd, &piece.at, (size_t)piece.size);

                if (n <= 0)
                        return err_os(e, CLOCHE_E_RESOURCE, n < 0 ? errno : EIO, "keep the contents %.40s", name);
                piece.size -= (uint64_t)n;
        }
        return 0;
}

static int save_contents(const struct changeset_row *row, int dir_fd, size_t index, struct cloche_err *e)
{
        _cleanup_fd_ int to_fd = -EBADF;
        char name[24];
        int r = 0;

        snprintf(name, sizeof(name), "%zu", index);
        if (mkdirat(dir_fd, name, 0755) < 0 ||
            (to_fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0 ||
            fchmod(to_fd, 0755) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a directory for the contents");
        for (size_t k = 0; r == 0 && k < json_array_size(row->changes); k++) {
                const json_t *change = json_array_get(row->changes, k);
                const char *contents = json_string_value(json_object_get(change, "contents"));

                if (contents &&
                    faccessat(to_fd, contents, F_OK, AT_SYMLINK_NOFOLLOW) < 0) /* several names may share one */
                        r = copy_file(row, change, to_fd, contents, e);
        }
        return r;
}

static json_t *to_list(const struct cloche_changeset *set)
{
        json_t *rows = json_array();

        for (size_t i = 0; i < set->count; i++)
                json_array_append_new(rows, json_pack("{s:s, s:s, s:s, s:O, s:O*}", "target", set->rows[i].target,
                                                      "source", set->rows[i].source, "kind",
                                                      set->rows[i].file ? "file" : "directory", "changes",
                                                      set->rows[i].changes, "permissions", set->rows[i].permissions));
        return json_pack("{s:i, s:o, s:s, s:s, s:s, s:b}", "format", FORMAT, "mounts", rows, "onError", set->on_error,
                         "conflict", set->conflict, "links", set->links, "allowAbort", !set->abort_skips);
}

static int save_list(const struct cloche_changeset *set, int dir_fd, const char *name, struct cloche_err *e)
{
        _cleanup_fd_ int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        json_t *list = to_list(set);
        char *text = list ? json_dumps(list, JSON_COMPACT) : NULL;
        int r = fd < 0 ? -errno : text ? fd_write_full(fd, text, strlen(text)) : -ENOMEM;

        json_decref(list);
        free(text);
        return r < 0 ? err_os(e, CLOCHE_E_RESOURCE, -r, "keep the changes") : 0;
}

int cloche_changeset_save(const cloche_changeset *set, int dir_fd, struct cloche_err *e)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < set->count; i++)
                r = save_contents(&set->rows[i], dir_fd, i, e);
        /* The list is written last: a set with a list is complete. */
        return r < 0 ? r : save_list(set, dir_fd, LIST_NAME, e);
}

int changeset_resave(const struct cloche_changeset *set, int dir_fd, struct cloche_err *e)
{
        int r;

        unlinkat(dir_fd, LIST_NAME ".new", 0);
        r = save_list(set, dir_fd, LIST_NAME ".new", e);
        if (r == 0 && renameat(dir_fd, LIST_NAME ".new", dir_fd, LIST_NAME) < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, errno, "save the remaining changes");
        return r;
}

static int load_row(const cloche_engine *engine, const json_t *saved, int dir_fd, size_t index,
                    struct cloche_changeset *set, struct cloche_err *e)
{
        const char *target = json_string_value(json_object_get(saved, "target"));
        json_t *source = json_object_get(saved, "source"), *changes = json_object_get(saved, "changes");
        char *slash[] = {(char *)"/"};
        const struct mount_roots anywhere = {slash, 1}; /* only to parse it */
        struct changeset_row *row = &set->rows[set->count];
        struct mount_options options;
        json_t *mount;
        char name[24];
        int r;

        if (!target || !json_is_string(source) || !json_is_array(changes))
                return err_set(e, CLOCHE_E_INVALID_JSON,
                               LIST_NAME ": mounts[%zu] must have a target, a source and changes", index);
        mount = json_pack("{s:{s:{s:O, s:O*}}, s:O*}", "dirs", target, "path", source, "kind",
                          json_object_get(saved, "kind"), "permissions", json_object_get(saved, "permissions"));
        r = mount_options_load(engine ? &engine->mount_roots : &anywhere, mount, &options, e);
        json_decref(mount);
        set->count++;
        if (r == 0 && name_row(row, &options.rows[0]) < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the changes");
        mount_options_done(&options);
        row->changes = json_incref(changes);
        snprintf(name, sizeof(name), "%zu", index);
        if (r == 0 && (row->contents_fd = openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
                r = err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "open the contents of %.80s", target);
        return r;
}

static int load_list(const cloche_engine *engine, const json_t *list, int dir_fd, struct cloche_changeset *set,
                     struct cloche_err *e)
{
        const json_t *rows = json_object_get(list, "mounts");
        int r = 0;

        if (json_integer_value(json_object_get(list, "format")) != FORMAT || !json_is_array(rows) ||
            json_array_size(rows) > KEEPER_MOUNTS_MAX)
                return err_set(e, CLOCHE_E_INVALID_JSON, LIST_NAME ": not a list of changes of format %d", FORMAT);
        set->on_error = mount_on_error(json_string_value(json_object_get(list, "onError")));
        set->conflict = mount_conflict(json_string_value(json_object_get(list, "conflict")));
        set->abort_skips = json_is_false(json_object_get(list, "allowAbort"));
        set->links = mount_links(json_string_value(json_object_get(list, "links")));
        if (!set->on_error || !set->conflict || !set->links)
                return err_set(e, CLOCHE_E_INVALID_JSON, LIST_NAME ": onError, conflict or links has an unknown value");
        for (size_t i = 0; r == 0 && i < json_array_size(rows); i++)
                r = load_row(engine, json_array_get(rows, i), dir_fd, i, set, e);
        return r;
}

int cloche_changeset_load(cloche_engine *engine, int dir_fd, cloche_changeset **ret, struct cloche_err *e)
{
        _cleanup_fd_ int fd = open_contents(dir_fd, LIST_NAME);
        struct cloche_changeset *set = changeset_new();
        json_t *list = NULL;
        size_t size = 0;
        char *text = fd < 0 ? NULL : files_read(fd, LIST_BYTES_MAX, &size);
        int r = !set   ? err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the changes")
                : text ? json_load_text(text, size, &list, e)
                       : err_set(e, CLOCHE_E_UNREADABLE_FILE, "there is no readable " LIST_NAME);

        if (r == 0)
                r = load_list(engine, list, dir_fd, set, e);
        json_decref(list);
        free(text);
        if (r < 0)
                cloche_changeset_free(set);
        else
                *ret = set;
        return r;
}

/* -- from the caller's own list --------------------------------------------------------------------------------- */

/* Append text, or tagged bytes in base64. */
static int write_given(const struct changeset_row *row, const json_t *content, off_t *ret_at, size_t *ret_size,
                       struct cloche_err *e)
{
        const char *text = json_string_value(content), *encoded = json_string_value(json_object_get(content, "b64"));
        _cleanup_buf_ struct buf bytes = BUF_INIT(LIST_BYTES_MAX);
        int r = text      ? buf_append(&bytes, text, json_string_length(content))
                : encoded ? base64_decode(&bytes, encoded, strlen(encoded))
                          : -1;

        if (r < 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "content must be text or bytes");
        *ret_at = lseek(row->contents_fd, 0, SEEK_CUR);
        *ret_size = bytes.size;
        /* Write at least one byte: the position is the name. */
        r = *ret_at < 0 ? -errno
                        : fd_write_full(row->contents_fd, bytes.size ? bytes.data : "", bytes.size ? bytes.size : 1);
        return r < 0 ? err_os(e, CLOCHE_E_RESOURCE, -r, "keep the contents") : 0;
}

/* Find the deepest mount that holds path. */
static struct changeset_row *find_row(struct cloche_changeset *set, const char *path, const char **ret_below)
{
        struct changeset_row *best = NULL;

        for (struct changeset_row *row = set->rows; row < set->rows + set->count; row++) {
                size_t size = strlen(row->target);

                if (strncmp(path, row->target, size) != 0 || (best && strlen(best->target) > size))
                        continue;
                if (row->file ? path[size] : path[size] != '/' || !path[size + 1])
                        continue;
                best = row;
                *ret_below = row->file ? row->file : path + size + 1;
        }
        return best;
}

static int is_change_type(const char *type)
{
        return type && (strcmp(type, "created") == 0 || strcmp(type, "modified") == 0 || strcmp(type, "deleted") == 0);
}

static int take_content(const struct changeset_row *row, json_t *change, const char *type, const json_t *content,
                        json_t *taken, struct cloche_err *e)
{
        size_t size = 0;
        off_t at = 0;
        char name[24];
        int r;

        if (strcmp(type, "deleted") == 0 || json_object_get(change, "attributesOnly"))
                return 0;
        if (!content && json_object_get(change, "kind") &&
            strcmp(json_string_value(json_object_get(taken, "kind")), "file") != 0)
                return 0;
        if (!content)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "there is no content (was it omitted as too large? sync the change set instead)");
        r = write_given(row, content, &at, &size, e);
        if (r < 0)
                return r;
        snprintf(name, sizeof(name), "%llx", (unsigned long long)at + 1);
        json_object_set_new(taken, "contents", json_string(name));
        json_object_set_new(taken, "size", json_integer((json_int_t)size));
        return 0;
}

/* Take the new name of a rename; without content the host's own file is moved. 1: it is no such
 * rename. */
static int take_rename(struct changeset_row *row, struct cloche_changeset *set, const json_t *change, json_t *taken,
                       struct cloche_err *e)
{
        const char *from = json_string_value(json_object_get(change, "renamedFrom")), *below;

        if (!from || strcmp(json_string_value(json_object_get(taken, "type")), "created") != 0 ||
            json_object_get(change, "content"))
                return 1;
        if (find_row(set, from, &below) != row)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "renamedFrom must lie in the same one of mount.dirs, not '%.100s'", from);
        json_object_set_new(taken, "type", json_string("renamed"));
        json_object_set_new(taken, "from", json_string(below));
        return 0;
}

static int take_change(struct cloche_changeset *set, json_t *change, struct cloche_err *e)
{
        static const char *const passed[] = {"mode", "target", "virtual"};
        const char *type = json_string_value(json_object_get(change, "type")),
                   *path = json_string_value(json_object_get(change, "path")), *below;
        const json_t *kind = json_object_get(change, "kind");
        struct changeset_row *row;
        json_t *taken;
        int r;

        if (!is_change_type(type))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "type must be created, modified or deleted");
        row = path ? find_row(set, path, &below) : NULL;
        if (!row)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "path must lie in one of mount.dirs, not '%.100s'",
                               path ? path : "");
        if (kind && !json_is_string(kind))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "kind must be file, directory or symlink");
        taken = json_pack("{s:s, s:s, s:s}", "type", type, "path", below, "kind",
                          kind ? json_string_value(kind) : "file");
        if (!taken)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read a change");
        copy(taken, change, passed, sizeof(passed) / sizeof(passed[0]));
        r = take_rename(row, set, change, taken, e);
        if (r > 0)
                r = take_content(row, change, type, json_object_get(change, "content"), taken, e);
        if (json_array_append_new(row->changes, taken) < 0 && r == 0)
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read a change");
        return r;
}

/* Drop the old name of a rename, which is also listed as deleted: the rename removes it. */
static int drop_old_names(struct changeset_row *row)
{
        json_t *old_names = json_object(), *left = json_array(), *change;
        size_t i;
        int r = old_names && left ? 0 : -1;

        json_array_foreach (row->changes, i, change)
                if (r == 0 && json_object_get(change, "from"))
                        r = json_object_set_new(old_names, json_string_value(json_object_get(change, "from")),
                                                json_true());
        json_array_foreach (row->changes, i, change) {
                int is_deleted = strcmp(json_string_value(json_object_get(change, "type")), "deleted") == 0;

                if (r == 0 &&
                    !(is_deleted && json_object_get(old_names, json_string_value(json_object_get(change, "path")))))
                        r = json_array_append(left, change);
        }
        json_decref(old_names);
        json_decref(r == 0 ? row->changes : left);
        if (r == 0)
                row->changes = left;
        return r;
}

/* changes: an array, or an object with the lists of a result. */
static int take_changes(struct cloche_changeset *set, json_t *changes, struct cloche_err *e)
{
        static const char *const lists[] = {"deleted", "created", "modified"};
        int r = 0;

        if (json_is_object(changes)) {
                for (size_t i = 0; r == 0 && i < sizeof(lists) / sizeof(lists[0]); i++)
                        if (json_object_get(changes, lists[i]))
                                r = take_changes(set, json_object_get(changes, lists[i]), e);
                return r;
        }
        if (!json_is_array(changes))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "changes must be an array, or an object of created, modified and deleted");
        for (size_t i = 0; r == 0 && i < json_array_size(changes); i++) {
                r = take_change(set, json_array_get(changes, i), e);
                if (r < 0)
                        err_wrap(e, "changes[%zu]", i);
        }
        return r;
}

/* Contents are in a memory file: cloche-sync gets its descriptor, and no file is left on a disk. */
static int prepare_rows(struct cloche_changeset *set, struct cloche_err *e)
{
        for (size_t i = 0; i < set->count; i++) {
                set->rows[i].changes = json_array();
                set->rows[i].contents_fd = memfd_create("contents", MFD_CLOEXEC | MFD_ALLOW_SEALING);
                if (set->rows[i].contents_fd < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, errno, "make a file for the contents");
        }
        return 0;
}

/* Seal the contents: the program that syncs them may run as another user, and holds our
 * descriptor. */
static int seal_rows(const struct cloche_changeset *set, struct cloche_err *e)
{
        for (size_t i = 0; i < set->count; i++)
                if (fcntl(set->rows[i].contents_fd, F_ADD_SEALS,
                          F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, errno, "seal the contents");
        return 0;
}

int cloche_changeset_from_json(cloche_engine *engine, const char *changes, const char *mount, cloche_changeset **ret,
                               struct cloche_err *e)
{
        struct cloche_changeset *set = changeset_new();
        struct mount_options options = {0};
        json_t *list = NULL, *object = NULL;
        int r = set ? json_load_human(mount, strlen(mount), &object, e)
                    : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the changes");

        if (r == 0)
                r = json_load_text(changes, strlen(changes), &list, e);
        if (r == 0)
                r = mount_options_load(&engine->mount_roots, object, &options, e);
        if (r == 0 && take_options(set, &options) < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the changes");
        if (r == 0)
                r = prepare_rows(set, e);
        if (r == 0)
                r = take_changes(set, list, e);
        for (size_t i = 0; r == 0 && i < set->count; i++)
                if (drop_old_names(&set->rows[i]) < 0)
                        r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the changes");
        if (r == 0)
                r = seal_rows(set, e);
        mount_options_done(&options);
        json_decref(object);
        json_decref(list);
        if (r < 0)
                cloche_changeset_free(set);
        else
                *ret = set;
        return r;
}
