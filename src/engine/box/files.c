/* Files of a run: read from its options, listed and compared after it. Lists and contents come from
 * the guest. Runs in: the engine; the comparison in a thread beside its loop. */
#include "files.h"

#include "base/array.h"
#include "base/err.h"
#include "base/fd.h"
#include "wire/base64.h"
#include "wire/value.h"

#include <cloche/cloche.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* -- keeping -------------------------------------------------------------------------------------------------- */

/* Remove empty parts and "." from an absolute path, in place. -EINVAL: a part is "..", or too
 * long. */
static int make_plain(char *path)
{
        char *to = path;

        for (const char *from = path; *from;) {
                size_t size = strcspn(++from, "/");

                if (size > 255 || (size == 2 && from[0] == '.' && from[1] == '.'))
                        return -EINVAL;
                if (size > 0 && !(size == 1 && from[0] == '.')) {
                        *to++ = '/';
                        memmove(to, from, size);
                        to += size;
                }
                from += size;
        }
        *to = '\0';
        return to > path ? 0 : -EINVAL;
}

int files_normalise(const char *path, const char *workdir, char *ret, size_t size, struct cloche_err *e)
{
        int n = path[0] == '/' ? snprintf(ret, size, "%s", path) : snprintf(ret, size, "%s/%s", workdir, path);

        if (n < 0 || (size_t)n >= size)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the path %.60s… is too long", path);
        if (!path[0] || make_plain(ret) < 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "the path '%.100s' must name a file or directory, without '..'", path);
        return 0;
}

int files_resolve(const char *path, const char *workdir, char *ret, size_t size, struct cloche_err *e)
{
        int r = files_normalise(path, workdir, ret, size, e);

        if (r < 0)
                return r;
        if (!mount_is_below_writable(ret))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "the path '%.100s' must be below /workspace, /tmp or /home/cloche, or relative", path);
        return 0;
}

/* Besides the writable places, files may be put into mounts. */
static int resolve(const char *path, const char *workdir, struct mounts *mounts, char *ret, size_t size,
                   struct cloche_err *e)
{
        const char *beneath;

        if (mounts && files_normalise(path, workdir, ret, size, NULL) == 0 && mounts_find(mounts, ret, &beneath))
                return 0;
        return files_resolve(path, workdir, ret, size, e);
}

static int keep_one(const struct cloche_file *file, const char *workdir, struct mounts *mounts, struct kept_file *ret,
                    struct cloche_err *e)
{
        static const mode_t types[] = {S_IFREG, S_IFDIR, S_IFLNK}, defaults[] = {0644, 0755, 0777};
        char path[INIT_PATH_MAX];
        int r = resolve(file->path, workdir, mounts, path, sizeof(path), e), is_open;

        if (r < 0)
                return r;
        is_open = file->kind == CLOCHE_FILE_PLAIN && !file->data;
        ret->fd = is_open ? fcntl(file->fd, F_DUPFD_CLOEXEC, 3)
                          : fd_from_bytes("file", file->data ? file->data : "", file->data ? file->size : 0);
        if (ret->fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, is_open ? errno : -ret->fd, "hold the file %s", path);
        ret->mode = types[file->kind] | (file->mode ? file->mode & 07777 : defaults[file->kind]);
        ret->path = strdup(path);
        return ret->path ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "hold the file %s", path);
}

int files_keep(const struct cloche_file *files, size_t count, const char *workdir, struct mounts *mounts,
               struct kept_files *ret, struct cloche_err *e)
{
        ret->rows = calloc(count ? count : 1, sizeof(*ret->rows));
        ret->count = 0;
        if (!ret->rows)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "hold the files");
        for (size_t i = 0; i < count; i++)
                ret->rows[i].fd = -EBADF;
        while (ret->count < count) {
                struct kept_file *row = &ret->rows[ret->count];
                int r = keep_one(&files[ret->count++], workdir ? workdir : FILES_ROOT, mounts, row, e);

                if (r < 0)
                        return r;
        }
        return 0;
}

int files_keep_more(struct kept_files *files, const char *path, const void *data, size_t size, struct cloche_err *e)
{
        struct kept_file *rows = reallocarray(files->rows, files->count + 1, sizeof(*rows)), *row;

        if (!rows)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "hold the file %s", path);
        files->rows = rows;
        row = &rows[files->count++];
        *row = (struct kept_file){.path = strdup(path),
                                  .fd = fd_from_bytes("file", data, size),
                                  .mode = S_IFREG | 0644};
        return row->path && row->fd >= 0
                       ? 0
                       : err_os(e, CLOCHE_E_RESOURCE, row->fd < 0 ? -row->fd : ENOMEM, "hold the file %s", path);
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
                        return err_set(e, CLOCHE_E_PROTOCOL,
                                       "the box's init sent an invalid list of files: it ends within an entry");
                memcpy(&about, files->bytes + at, sizeof(about));
                at += sizeof(about);
                if (about.path_size == 0 || about.path_size >= INIT_PATH_MAX || about.path_size > size - at)
                        return err_set(e, CLOCHE_E_PROTOCOL,
                                       "the box's init sent an invalid list of files: a path has %u bytes",
                                       about.path_size);
                if (ARRAY_GROW(files->entries, files->count, room) < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "hold the list of files");
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

char *files_read_at(int fd, off_t at, size_t size, size_t *ret_size)
{
        char *bytes = malloc(size + 1);
        size_t have = 0;

        while (bytes && have < size) {
                ssize_t n = pread(fd, bytes + have, size - have, at + (off_t)have);

                if (n <= 0)
                        break;
                have += (size_t)n;
        }
        *ret_size = have;
        return bytes;
}

char *files_read(int fd, size_t max, size_t *ret_size)
{
        struct stat st;

        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < 0 || (uint64_t)st.st_size > max)
                return NULL;
        return files_read_at(fd, 0, (size_t)st.st_size, ret_size);
}

int files_parse_fd(int fd, struct files *ret, struct cloche_err *e)
{
        size_t size = 0;
        char *bytes = files_read(fd, INIT_LIST_MAX, &size);

        return bytes ? files_parse(bytes, size, ret, e)
                     : err_set(e, CLOCHE_E_PROTOCOL, "the list of files cannot be read");
}

int files_list(struct box *box, struct files *ret, struct cloche_err *e)
{
        _cleanup_fd_ int fd = -EBADF;
        int r = box_list(box, FILES_ROOT, &fd, e);

        return r < 0 ? r : files_parse_fd(fd, ret, e);
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
        json_t *text = json_stringn(bytes, size); /* NULL for bytes that are not UTF-8 */
        _cleanup_buf_ struct buf encoded = BUF_INIT(SIZE_MAX / 2);

        if (text)
                return text;
        if (base64_encode(&encoded, bytes, size) < 0)
                return NULL;
        return json_pack("{s:s, s:s%}", "$", "bytes", "b64", encoded.data ? encoded.data : "", encoded.size);
}

json_t *files_bytes_to_value(const void *bytes, size_t size)
{
        json_t *text = json_stringn(bytes, size);

        return text ? text : json_pack("{s:s, s:o}", "$", "bytes", VALUE_HELD_BYTES, json_stringn_nocheck(bytes, size));
}

struct comparison {
        struct box *box;
        int omit_contents;
        uint64_t contents_left;
        json_t *lists[3];
};

enum { CREATED, MODIFIED, DELETED };
static const char *const change_types[] = {"created", "modified", "deleted"};

/* Add the bytes behind fd, or a flag that they are omitted. */
static void add_bytes(json_t *described, const char *member, int fd, uint64_t *left)
{
        size_t have = 0, max = *left < FILES_CONTENT_MAX ? (size_t)*left : FILES_CONTENT_MAX;
        char *bytes = fd < 0 ? NULL : files_read(fd, max, &have);

        if (!bytes) {
                json_object_set_new(described, "contentOmitted", json_true());
                return;
        }
        *left -= have;
        json_object_set_new(described, member, files_bytes_to_value(bytes, have));
        free(bytes);
}

static void add_content(struct comparison *c, json_t *change, const char *path, const struct init_entry *about)
{
        _cleanup_fd_ int fd = -EBADF;

        if (S_ISLNK(about->mode) && box_read_link(c->box, path, &fd, NULL) == 0)
                add_bytes(change, "target", fd, &c->contents_left);
        else if (S_ISREG(about->mode) && !c->omit_contents) {
                if (about->size <= c->contents_left && about->size <= FILES_CONTENT_MAX)
                        (void)box_get(c->box, path, &fd, NULL);
                add_bytes(change, "content", fd, &c->contents_left);
        }
}

static const char *kind_of(uint32_t mode)
{
        return S_ISDIR(mode) ? "directory" : S_ISLNK(mode) ? "symlink" : S_ISREG(mode) ? "file" : "special";
}

static int path_of(const struct files_entry *entry, char *ret, size_t size)
{
        return snprintf(ret, size, FILES_ROOT "/%.*s", (int)entry->about.path_size, entry->path);
}

/* other: the other name of a rename, or NULL. */
static int add_change(struct comparison *c, int type, const struct files_entry *entry, const struct files_entry *other)
{
        char path[INIT_PATH_MAX + sizeof(FILES_ROOT) + 1];
        int n = path_of(entry, path, sizeof(path));
        json_t *change = json_pack("{s:s, s:o, s:s, s:i, s:I, s:I}", "type", change_types[type], "path",
                                   files_bytes_to_json(path, (size_t)n), "kind", kind_of(entry->about.mode), "mode",
                                   (int)(entry->about.mode & 07777), "size",
                                   (json_int_t)(S_ISDIR(entry->about.mode) ? 0 : entry->about.size), "timestamp",
                                   (json_int_t)(entry->about.mtime_ns / 1000000));

        if (!change)
                return -CLOCHE_E_RESOURCE;
        if (type != DELETED)
                add_content(c, change, path, &entry->about);
        if (other) {
                n = path_of(other, path, sizeof(path));
                json_object_set_new(change, type == DELETED ? "renamedTo" : "renamedFrom",
                                    files_bytes_to_json(path, (size_t)n));
        }
        return json_array_append_new(c->lists[type], change) < 0 ? -CLOCHE_E_RESOURCE : 0;
}

static int differs(const struct files_entry *a, const struct files_entry *b)
{
        if (a->about.mode != b->about.mode || a->about.inode != b->about.inode)
                return 1;
        if (S_ISDIR(a->about.mode)) /* its entries are compared one by one */
                return 0;
        return a->about.size != b->about.size || a->about.mtime_ns != b->about.mtime_ns ||
               a->about.ctime_ns != b->about.ctime_ns;
}

/* Removed and added entries, until renames are matched. */
struct names {
        struct name {
                const struct files_entry *entry, *other;
        } * rows;
        size_t count;
};

static int compare_inodes(const void *a, const void *b)
{
        const struct files_entry *x = ((const struct name *)a)->entry, *y = ((const struct name *)b)->entry;

        return (x->about.inode > y->about.inode) - (x->about.inode < y->about.inode);
}

static int compare_names(const void *a, const void *b)
{
        return compare_paths(((const struct name *)a)->entry, ((const struct name *)b)->entry);
}

/* A rename is the same inode under another name. tmpfs only counts inode numbers up, so none comes
 * twice (get_next_ino). If a file has several names, the first two are matched. */
static void match_renames(struct names *removed, struct names *made)
{
        if (removed->count == 0 || made->count == 0)
                return;
        qsort(removed->rows, removed->count, sizeof(removed->rows[0]), compare_inodes);
        for (size_t i = 0; i < made->count; i++) {
                struct name *found = bsearch(&made->rows[i], removed->rows, removed->count, sizeof(removed->rows[0]),
                                             compare_inodes);

                if (found && !found->other &&
                    (found->entry->about.mode & S_IFMT) == (made->rows[i].entry->about.mode & S_IFMT)) {
                        found->other = made->rows[i].entry;
                        made->rows[i].other = found->entry;
                }
        }
        qsort(removed->rows, removed->count, sizeof(removed->rows[0]), compare_names);
}

static int compare(struct comparison *c, const struct files *before, const struct files *after, struct names *removed,
                   struct names *made)
{
        size_t i = 0, j = 0;
        int r = 0;

        while (r == 0 && (i < before->count || j < after->count)) {
                int order = i == before->count  ? 1
                            : j == after->count ? -1
                                                : compare_paths(&before->entries[i], &after->entries[j]);

                if (order < 0)
                        removed->rows[removed->count++] = (struct name){&before->entries[i++], NULL};
                else if (order > 0)
                        made->rows[made->count++] = (struct name){&after->entries[j++], NULL};
                else {
                        if (differs(&before->entries[i], &after->entries[j]))
                                r = add_change(c, MODIFIED, &after->entries[j], NULL);
                        i++;
                        j++;
                }
        }
        match_renames(removed, made);
        for (i = 0; r == 0 && i < removed->count; i++)
                r = add_change(c, DELETED, removed->rows[i].entry, removed->rows[i].other);
        for (i = 0; r == 0 && i < made->count; i++)
                r = add_change(c, CREATED, made->rows[i].entry, made->rows[i].other);
        return r;
}

static int compare_all(struct comparison *c, const struct files *before, const struct files *after)
{
        struct names removed = {.rows = calloc(before->count + 1, sizeof(*removed.rows))},
                     made = {.rows = calloc(after->count + 1, sizeof(*made.rows))};
        int r = removed.rows && made.rows ? compare(c, before, after, &removed, &made) : -CLOCHE_E_RESOURCE;

        free(removed.rows);
        free(made.rows);
        return r;
}

int files_compare(struct box *box, const struct files *before, const struct files *after, int omit_contents,
                  json_t **ret, struct cloche_err *e)
{
        struct comparison c = {
                .box = box,
                .omit_contents = omit_contents,
                .contents_left = FILES_CONTENTS_TOTAL_MAX,
                .lists = {json_array(), json_array(), json_array()},
        };
        int r = c.lists[0] && c.lists[1] && c.lists[2] ? compare_all(&c, before, after) : -CLOCHE_E_RESOURCE;
        json_t *all = json_pack("{s:o, s:o, s:o, s:[]}", "created", c.lists[CREATED], "modified", c.lists[MODIFIED],
                                "deleted", c.lists[DELETED], "denied");

        if (r < 0 || !all) {
                json_decref(all);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "compare the files");
        }
        *ret = all;
        return 0;
}

/* -- reading back --------------------------------------------------------------------------------------------- */

static json_t *describe_entries(struct box *box, const char *path)
{
        _cleanup_fd_ int fd = -EBADF;
        struct files list = {0};
        json_t *entries = NULL;
        size_t size = 0;
        char *bytes = box_list(box, path, &fd, NULL) == 0 ? files_read(fd, INIT_LIST_MAX, &size) : NULL;

        if (!bytes || files_parse(bytes, size, &list, NULL) < 0)
                return NULL;
        entries = json_array();
        for (size_t i = 0; i < list.count; i++) {
                const struct init_entry *about = &list.entries[i].about;

                json_array_append_new(entries,
                                      json_pack("{s:o, s:s, s:i, s:I}", "path",
                                                files_bytes_to_json(list.entries[i].path, about->path_size), "kind",
                                                kind_of(about->mode), "mode", (int)(about->mode & 07777), "size",
                                                (json_int_t)(S_ISDIR(about->mode) ? 0 : about->size)));
        }
        files_done(&list);
        return entries;
}

/* Read back a file, a symbolic link or a directory: try each until init accepts one. */
static void read_back(struct box *box, const char *path, json_t *described, uint64_t *left)
{
        _cleanup_fd_ int fd = -EBADF;
        struct cloche_err e = {0};
        json_t *entries;
        struct stat st;

        if (box_get(box, path, &fd, &e) == 0 && fstat(fd, &st) == 0) {
                json_object_update_new(described, json_pack("{s:s, s:i, s:I}", "kind", "file", "mode",
                                                            (int)(st.st_mode & 07777), "size", (json_int_t)st.st_size));
                add_bytes(described, "content", fd, left);
        } else if (box_read_link(box, path, &fd, NULL) == 0) {
                json_object_set_new(described, "kind", json_string("symlink"));
                add_bytes(described, "target", fd, left);
        } else if ((entries = describe_entries(box, path))) {
                json_object_set_new(described, "kind", json_string("directory"));
                json_object_set_new(described, "entries", entries);
        } else {
                json_object_set_new(described, "error", json_string(e.msg));
        }
}

json_t *files_collect(struct box *box, char *const *paths, size_t count)
{
        uint64_t left = FILES_CONTENTS_TOTAL_MAX;
        json_t *all = json_array();

        for (size_t i = 0; all && i < count; i++) {
                json_t *described = json_pack("{s:o}", "path", files_bytes_to_json(paths[i], strlen(paths[i])));

                read_back(box, paths[i], described, &left);
                json_array_append_new(all, described);
        }
        return all;
}
