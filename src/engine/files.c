#include "files.h"

#include "base/err.h"
#include "base/fd.h"
#include "wire/base64.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* -- placing -------------------------------------------------------------------------------------------------- */

static int below(const char *path, const char *root)
{
        size_t size = strlen(root);

        return strncmp(path, root, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

static int is_normal(const char *path)
{
        for (const char *at = path; *at;) {
                size_t size = strcspn(++at, "/");

                if (size == 0 || (size == 1 && at[0] == '.') || (size == 2 && at[0] == '.' && at[1] == '.') || size > 255)
                        return 0;
                at += size;
        }
        return 1;
}

int files_resolve(const char *path, const char *workdir, char *ret, size_t size, struct cloche_err *e)
{
        int n = path[0] == '/' ? snprintf(ret, size, "%s", path) : snprintf(ret, size, "%s/%s", workdir, path);

        if (n < 0 || (size_t)n >= size)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the path %.60s… is too long", path);
        if (!path[0] || !is_normal(ret))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the path '%.100s' must be plain: no empty part, no '.', no '..'", path);
        if (!below(ret, FILES_ROOT) && !below(ret, "/tmp") && !below(ret, "/home/cloche"))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "the path '%.100s' must be below /workspace, /tmp or /home/cloche, or relative", path);
        return 0;
}

static int keep_one(const struct cloche_file *file, const char *workdir, struct kept_file *ret, struct cloche_err *e)
{
        char path[INIT_PATH_MAX];
        int r = files_resolve(file->path, workdir, path, sizeof(path), e);

        if (r < 0)
                return r;
        ret->fd = file->data ? fd_from_bytes("file", file->data, file->size) : fcntl(file->fd, F_DUPFD_CLOEXEC, 3);
        if (ret->fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, file->data ? -ret->fd : errno, "hold the file %s", path);
        ret->mode = file->mode ? file->mode : 0644;
        ret->path = strdup(path);
        return ret->path ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "hold the file %s", path);
}

int files_keep(const struct cloche_file *files, size_t count, const char *workdir, struct kept_files *ret, struct cloche_err *e)
{
        ret->rows = calloc(count ? count : 1, sizeof(*ret->rows));
        ret->count = 0;
        if (!ret->rows)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "hold the files");
        for (size_t i = 0; i < count; i++)
                ret->rows[i].fd = -EBADF;
        while (ret->count < count) {
                struct kept_file *row = &ret->rows[ret->count];
                int r = keep_one(&files[ret->count++], workdir ? workdir : FILES_ROOT, row, e);

                if (r < 0)
                        return r;
        }
        return 0;
}

int files_place(struct box *box, const struct kept_files *files, struct cloche_err *e)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < files->count; i++)
                r = box_put(box, files->rows[i].path, files->rows[i].fd, files->rows[i].mode, e);
        return r;
}

void kept_files_done(struct kept_files *files)
{
        for (size_t i = 0; i < files->count; i++) {
                free(files->rows[i].path);
                fd_close(&files->rows[i].fd);
        }
        free(files->rows);
        *files = (struct kept_files){0};
}

/* -- listing -------------------------------------------------------------------------------------------------- */

static int compare_paths(const struct files_entry *a, const struct files_entry *b)
{
        size_t shorter = a->about.path_size < b->about.path_size ? a->about.path_size : b->about.path_size;
        int order = memcmp(a->path, b->path, shorter);

        return order ? order : (a->about.path_size > b->about.path_size) - (a->about.path_size < b->about.path_size);
}

static int compare_entries(const void *a, const void *b)
{
        return compare_paths(a, b);
}

static int parse_entries(struct files *files, size_t size, struct cloche_err *e)
{
        size_t room = 0;

        for (size_t at = 0; at < size;) {
                struct init_entry about;

                if (size - at < sizeof(about))
                        return err_set(e, CLOCHE_E_PROTOCOL, "the list of files ends in the middle");
                memcpy(&about, files->bytes + at, sizeof(about));
                at += sizeof(about);
                if (about.path_size == 0 || about.path_size >= INIT_PATH_MAX || about.path_size > size - at)
                        return err_set(e, CLOCHE_E_PROTOCOL, "the list of files has a path of %u bytes", about.path_size);
                if (files->count == room) {
                        struct files_entry *grown;

                        room = room ? room * 2 : 64;
                        grown = realloc(files->entries, room * sizeof(*grown));
                        if (!grown)
                                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "hold the list of files");
                        files->entries = grown;
                }
                files->entries[files->count++] = (struct files_entry){.path = files->bytes + at, .about = about};
                at += about.path_size;
        }
        if (files->count > 1)
                qsort(files->entries, files->count, sizeof(files->entries[0]), compare_entries);
        return 0;
}

int files_parse(char *bytes, size_t size, struct files *ret, struct cloche_err *e)
{
        struct files files = {.bytes = bytes};
        int r = parse_entries(&files, size, e);

        if (r < 0)
                files_done(&files);
        else
                *ret = files;
        return r;
}

/* A whole regular file of at most max bytes, read from its beginning: NULL, or bytes owned by the caller. */
static char *read_file(int fd, size_t max, size_t *ret_size)
{
        struct stat st;
        char *bytes;
        size_t have = 0;

        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < 0 || (uint64_t)st.st_size > max)
                return NULL;
        bytes = malloc((size_t)st.st_size + 1);
        while (bytes && have < (size_t)st.st_size) {
                ssize_t n = pread(fd, bytes + have, (size_t)st.st_size - have, (off_t)have);

                if (n <= 0)
                        break;
                have += (size_t)n;
        }
        *ret_size = have;
        return bytes;
}

int files_list(struct box *box, struct files *ret, struct cloche_err *e)
{
        _cleanup_fd_ int fd = -EBADF;
        size_t size = 0;
        char *bytes;
        int r = box_list(box, FILES_ROOT, &fd, e);

        if (r < 0)
                return r;
        bytes = read_file(fd, INIT_LIST_MAX, &size);
        return bytes ? files_parse(bytes, size, ret, e) : err_set(e, CLOCHE_E_PROTOCOL, "the list of files cannot be read");
}

void files_done(struct files *files)
{
        free(files->entries);
        free(files->bytes);
        *files = (struct files){0};
}

/* -- comparing ------------------------------------------------------------------------------------------------ */

json_t *files_bytes_to_json(const void *bytes, size_t size)
{
        json_t *text = json_stringn(bytes, size); /* NULL for what is not UTF-8 */
        _cleanup_buf_ struct buf encoded = BUF_INIT(SIZE_MAX / 2);

        if (text)
                return text;
        if (base64_encode(&encoded, bytes, size) < 0)
                return NULL;
        return json_pack("{s:s, s:s%}", "$", "bytes", "b64", encoded.data ? encoded.data : "", encoded.size);
}

struct comparison {
        struct box *box;
        int omit_contents;
        uint64_t contents_left;
        json_t *lists[3];
};

enum { CREATED, MODIFIED, DELETED };
static const char *const change_types[] = {"created", "modified", "deleted"};

static void add_content(struct comparison *c, json_t *change, const char *path, uint64_t size)
{
        _cleanup_fd_ int fd = -EBADF;
        size_t have = 0;
        char *bytes = NULL;

        if (size <= FILES_CONTENT_MAX && size <= c->contents_left && box_get(c->box, path, &fd, NULL) == 0)
                bytes = read_file(fd, FILES_CONTENT_MAX, &have);
        if (!bytes) {
                json_object_set_new(change, "contentOmitted", json_true());
                return;
        }
        c->contents_left -= have < c->contents_left ? have : c->contents_left;
        json_object_set_new(change, "content", files_bytes_to_json(bytes, have));
        free(bytes);
}

static int add_change(struct comparison *c, int type, const struct files_entry *entry)
{
        char path[INIT_PATH_MAX + sizeof(FILES_ROOT) + 1];
        int n = snprintf(path, sizeof(path), FILES_ROOT "/%.*s", (int)entry->about.path_size, entry->path);
        const char *kind = S_ISDIR(entry->about.mode)   ? "directory"
                           : S_ISLNK(entry->about.mode) ? "symlink"
                           : S_ISREG(entry->about.mode) ? "file"
                                                        : "special";
        json_t *change = json_pack("{s:s, s:o, s:s, s:I, s:I}", "type", change_types[type], "path", files_bytes_to_json(path, (size_t)n),
                                   "kind", kind, "size", (json_int_t)(S_ISDIR(entry->about.mode) ? 0 : entry->about.size),
                                   "timestamp", (json_int_t)(entry->about.mtime_ns / 1000000));

        if (!change)
                return -CLOCHE_E_RESOURCE;
        if (type != DELETED && S_ISREG(entry->about.mode) && !c->omit_contents)
                add_content(c, change, path, entry->about.size);
        return json_array_append_new(c->lists[type], change) < 0 ? -CLOCHE_E_RESOURCE : 0;
}

static int differs(const struct files_entry *a, const struct files_entry *b)
{
        if (a->about.mode != b->about.mode || a->about.inode != b->about.inode)
                return 1;
        if (S_ISDIR(a->about.mode)) /* its entries speak for it */
                return 0;
        return a->about.size != b->about.size || a->about.mtime_ns != b->about.mtime_ns || a->about.ctime_ns != b->about.ctime_ns;
}

static int compare(struct comparison *c, const struct files *before, const struct files *after)
{
        size_t i = 0, j = 0;
        int r = 0;

        while (r == 0 && (i < before->count || j < after->count)) {
                int order = i == before->count  ? 1
                            : j == after->count ? -1
                                                : compare_paths(&before->entries[i], &after->entries[j]);

                if (order < 0)
                        r = add_change(c, DELETED, &before->entries[i++]);
                else if (order > 0)
                        r = add_change(c, CREATED, &after->entries[j++]);
                else {
                        if (differs(&before->entries[i], &after->entries[j]))
                                r = add_change(c, MODIFIED, &after->entries[j]);
                        i++;
                        j++;
                }
        }
        return r;
}

int files_compare(struct box *box, const struct files *before, const struct files *after, int omit_contents, json_t **ret,
                  struct cloche_err *e)
{
        struct comparison c = {
                .box = box,
                .omit_contents = omit_contents,
                .contents_left = FILES_CONTENTS_TOTAL_MAX,
                .lists = {json_array(), json_array(), json_array()},
        };
        int r = c.lists[0] && c.lists[1] && c.lists[2] ? compare(&c, before, after) : -CLOCHE_E_RESOURCE;
        json_t *all = json_pack("{s:o, s:o, s:o, s:[]}", "created", c.lists[CREATED], "modified", c.lists[MODIFIED], "deleted",
                                c.lists[DELETED], "denied");

        if (r < 0 || !all) {
                json_decref(all);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "compare the files");
        }
        *ret = all;
        return 0;
}
