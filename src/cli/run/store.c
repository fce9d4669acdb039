/* Read and write set-ups of prefixes in the user's data directory.
 * Runs in: the CLI, as its user; a run that root started drops to a user of its own first. */
#include "store.h"

#include "base/fd.h"
#include "wire/json.h"
#include "xdg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_BYTES_MAX 64
#define NAME_BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
#define VERSION 2 /* 1: no kinds of files, all are regular */
#define PATH_BYTES XDG_PATH_BYTES

/* -- names ---------------------------------------------------------------------------------------------------- */

static int is_name(const char *name)
{
        size_t size = strlen(name);

        return size > 0 && size <= NAME_BYTES_MAX && name[0] != '.' && strspn(name, NAME_BYTES) == size;
}

int store_check_name(const char *name)
{
        if (is_name(name))
                return 0;
        return cli_bad("'%.*s' is not a name of a prefix: expected 1 to %d letters, digits, '.', '_' and '-', not '.' "
                       "first",
                       (int)strcspn(name, "\n\r\033"), name, NAME_BYTES_MAX);
}

static int find_directory(char *ret, size_t size)
{
        return cli_xdg_find("XDG_DATA_HOME", ".local/share", "cloche/prefixes", "prefixes", ret, size);
}

static int find_file(const char *name, char *ret, size_t size)
{
        char directory[PATH_BYTES];
        int bad = store_check_name(name);

        if (bad == 0)
                bad = find_directory(directory, sizeof(directory));
        if (bad)
                return bad;
        return snprintf(ret, size, "%s/%s", directory, name) < (int)size
                       ? 0
                       : cli_bad("the path of the prefixes is too long: set XDG_DATA_HOME to a shorter one");
}

int store_has(const char *name)
{
        char path[PATH_BYTES];

        return find_file(name, path, sizeof(path)) == 0 && access(path, F_OK) == 0;
}

int store_names(char ***ret, size_t *ret_count)
{
        char directory[PATH_BYTES];
        int bad = find_directory(directory, sizeof(directory));

        *ret = NULL;
        *ret_count = 0;
        return bad ? bad : cli_xdg_list(directory, is_name, ret, ret_count);
}

int store_drop(const char *name)
{
        char path[PATH_BYTES];
        int bad = find_file(name, path, sizeof(path));

        if (bad || unlink(path) == 0)
                return bad;
        return errno == ENOENT ? cli_bad("there is no prefix '%s' (cloche prefix list shows them)", name)
                               : cli_bad("cannot remove '%s': %s", path, strerror(errno));
}

/* -- reading -------------------------------------------------------------------------------------------------- */

static int map_file(const char *name, struct stored *ret)
{
        char path[PATH_BYTES];
        struct stat st;
        _cleanup_fd_ int fd = -EBADF;
        int bad = find_file(name, path, sizeof(path));

        if (bad)
                return bad;
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0 && errno == ENOENT)
                return cli_bad("there is no prefix '%s' (cloche prefix list shows them)", name);
        if (fd < 0 || fstat(fd, &st) < 0)
                return cli_bad("cannot read '%s': %s", path, strerror(errno));
        if (!S_ISREG(st.st_mode) || st.st_size == 0)
                return -1;
        ret->size = (size_t)st.st_size;
        ret->made = st.st_mtime;
        ret->map = mmap(NULL, ret->size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (ret->map != MAP_FAILED)
                return 0;
        ret->map = NULL;
        return cli_bad("cannot read '%s': %s", path, strerror(errno));
}

/* Take the next part of the file, of the size in the head. */
static const char *take(const char **at, size_t *left, const json_t *bytes)
{
        const char *part = *at;
        json_int_t size = json_integer_value(bytes);

        if (!json_is_integer(bytes) || size < 0 || (size_t)size > *left)
                return NULL;
        *at += size;
        *left -= (size_t)size;
        return part;
}

static void read_limits(const json_t *from, struct cloche_limits *ret)
{
        const json_t *value;

#define CLOCHE_LIMIT(field, json, ...)       \
        value = json_object_get(from, json); \
        if (json_is_integer(value))          \
                ret->field = json_integer_value(value) == 0 ? CLOCHE_UNLIMITED : (uint64_t)json_integer_value(value);
#include <cloche/limits.def>
#undef CLOCHE_LIMIT
}

static int read_files(struct stored *stored, const char **at, size_t *left)
{
        const json_t *rows = json_object_get(stored->head, "files"), *row;
        size_t i;

        stored->files = calloc(json_array_size(rows) + 1, sizeof(*stored->files));
        if (!stored->files)
                return -1;
        json_array_foreach (rows, i, row) {
                const json_t *bytes = json_object_get(row, "bytes");

                stored->files[i] = (struct cloche_file){
                        .path = json_string_value(json_object_get(row, "path")),
                        .size = (size_t)json_integer_value(bytes),
                        .data = take(at, left, bytes),
                        .fd = -1,
                        .mode = (uint32_t)json_integer_value(json_object_get(row, "mode")),
                        .kind = (enum cloche_file_kind)json_integer_value(json_object_get(row, "kind")),
                };
                if (!stored->files[i].path || !stored->files[i].data ||
                    (unsigned)stored->files[i].kind > CLOCHE_FILE_SYMLINK)
                        return -1;
        }
        stored->prefix.files = stored->files;
        stored->prefix.file_count = json_array_size(rows);
        return 0;
}

static int read_parts(struct stored *stored)
{
        struct cloche_prefix_options *prefix = &stored->prefix;
        const char *end = memchr(stored->map, '\n', stored->size), *at = end ? end + 1 : NULL;
        const json_t *bytes;
        json_int_t version;
        size_t left;

        if (!end || json_load_text(stored->map, (size_t)(end - (const char *)stored->map), &stored->head, NULL) < 0)
                return -1;
        version = json_integer_value(json_object_get(stored->head, "version"));
        if (version < 1 || version > VERSION)
                return -1;
        left = stored->size - (size_t)(at - (const char *)stored->map);
        bytes = json_object_get(stored->head, "codeBytes");
        prefix->language = json_string_value(json_object_get(stored->head, "language"));
        prefix->filename = json_string_value(json_object_get(stored->head, "filename"));
        prefix->build = json_string_value(json_object_get(stored->head, "build"));
        prefix->code = take(&at, &left, bytes);
        prefix->code_size = (size_t)json_integer_value(bytes);
        read_limits(json_object_get(stored->head, "limits"), &prefix->limits);
        if (!prefix->language || !prefix->code)
                return -1;
        if (prefix->code_size == 0)
                prefix->code = ""; /* a size of 0 means strlen */
        return read_files(stored, &at, &left) < 0 || left > 0 ? -1 : 0;
}

int cli_store_load(const char *name, struct stored *ret)
{
        struct stored stored = {0};
        int bad = map_file(name, &stored);

        if (bad == 0)
                bad = read_parts(&stored);
        if (bad) {
                store_done(&stored);
                return bad > 0 ? bad : cli_bad("the prefix '%s' is damaged: create it again, with --force", name);
        }
        *ret = stored;
        return 0;
}

void store_done(struct stored *stored)
{
        if (stored->map)
                munmap(stored->map, stored->size);
        json_decref(stored->head);
        free(stored->files);
        *stored = (struct stored){0};
}

/* -- writing -------------------------------------------------------------------------------------------------- */

static json_t *limits_given(const struct cloche_limits *limits)
{
        json_t *object = json_object();

#define CLOCHE_LIMIT(field, json, ...)            \
        if (limits->field)                        \
                json_object_set_new(object, json, \
                                    json_integer(limits->field == CLOCHE_UNLIMITED ? 0 : (json_int_t)limits->field));
#include <cloche/limits.def>
#undef CLOCHE_LIMIT
        return object;
}

static size_t size_of(const struct cloche_file *file)
{
        struct stat st;

        if (file->kind == CLOCHE_FILE_DIRECTORY)
                return 0;
        return file->data ? file->size : fstat(file->fd, &st) < 0 ? 0 : (size_t)st.st_size;
}

static char *head_of(const struct cloche_prefix_options *prefix)
{
        json_t *files = json_array(), *head;
        char *text;

        for (size_t i = 0; i < prefix->file_count; i++)
                json_array_append_new(files, json_pack("{s:s, s:i, s:i, s:I}", "path", prefix->files[i].path, "kind",
                                                       (int)prefix->files[i].kind, "mode", (int)prefix->files[i].mode,
                                                       "bytes", (json_int_t)size_of(&prefix->files[i])));
        head = json_pack("{s:i, s:s, s:s?, s:s?, s:I, s:o, s:o}", "version", VERSION, "language", prefix->language,
                         "filename", prefix->filename, "build", prefix->build, "codeBytes",
                         (json_int_t)prefix->code_size, "limits", limits_given(&prefix->limits), "files", files);
        text = head && json_array_size(files) == prefix->file_count ? json_dumps(head, JSON_COMPACT) : NULL;
        json_decref(head);
        return text;
}

static int copy_file(const struct cloche_file *file, int to)
{
        char part[65536];
        size_t size = size_of(file);
        off_t at = 0;

        if (file->data)
                return fd_write_full(to, file->data, file->size);
        while ((size_t)at < size) {
                size_t wanted = size - (size_t)at < sizeof(part) ? size - (size_t)at : sizeof(part);
                ssize_t n = pread(file->fd, part, wanted, at);
                int r = n > 0 ? fd_write_full(to, part, (size_t)n) : n < 0 ? -errno : -ESTALE; /* it became shorter */

                if (r < 0)
                        return r;
                at += n;
        }
        return 0;
}

static int write_parts(int fd, const struct cloche_prefix_options *prefix)
{
        char *head = head_of(prefix);
        int r = head ? fd_write_full(fd, head, strlen(head)) : -EILSEQ;

        free(head);
        if (r == 0)
                r = fd_write_full(fd, "\n", 1);
        if (r == 0)
                r = fd_write_full(fd, prefix->code, prefix->code_size);
        for (size_t i = 0; r == 0 && i < prefix->file_count; i++)
                r = copy_file(&prefix->files[i], fd);
        return r < 0 ? r : fsync(fd) < 0 ? -errno : 0;
}

/* 0 or -errno. Some file systems cannot refuse replacement in one call. */
static int rename_to(const char *from, const char *to, int force)
{
        if (!force && renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
                return 0;
        if (!force && errno != EINVAL)
                return -errno;
        if (!force && access(to, F_OK) == 0)
                return -EEXIST;
        return rename(from, to) < 0 ? -errno : 0;
}

int cli_store_save(const char *name, const struct cloche_prefix_options *prefix, int force)
{
        char directory[PATH_BYTES], path[PATH_BYTES], beside[PATH_BYTES + 32];
        int bad = find_file(name, path, sizeof(path)), fd, r;

        if (bad == 0)
                bad = find_directory(directory, sizeof(directory));
        if (bad == 0)
                bad = cli_xdg_make_directories(directory);
        if (bad)
                return bad;
        snprintf(beside, sizeof(beside), "%s/.new-%d", directory, (int)getpid());
        fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return cli_bad("cannot write '%s': %s", beside, strerror(errno));
        r = write_parts(fd, prefix);
        if (close(fd) < 0 && r == 0)
                r = -errno;
        if (r == 0)
                r = rename_to(beside, path, force);
        if (r == 0)
                return 0;
        unlink(beside);
        return r == -EEXIST ? cli_bad("there is a prefix '%s' already (--force replaces it)", name)
                            : cli_bad("cannot write '%s': %s", path, strerror(-r));
}
