/* Entries of the context: which a pattern means, and their hash. Runs in: the CLI, as its user. */
#include "context.h"

#include "base/array.h"
#include "base/err.h"
#include "base/fd.h"
#include "helpers/fs/rules/glob.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define IGNORE_FILE ".dockerignore"
#define IGNORE_BYTES_MAX (1u << 20)
#define PIECE_BYTES (256u << 10)
#define DEPTH_MAX 500

struct ignore_row {
        struct glob *glob;
        char *plain; /* the pattern until its first sign */
        int is_exception;
};

static int no_memory(struct cloche_err *e)
{
        return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the context");
}

static int unreadable(const char *path, struct cloche_err *e)
{
        return errno == ELOOP || errno == EXDEV
                       ? err_set(e, CLOCHE_E_UNREADABLE_FILE,
                                 "'%.200s' leads through a link or out of the context: copy the file itself", path)
                       : err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "cannot read '%.200s' of the context", path);
}

/* Without "./", "//" and slashes at the ends. -1: it has "..", or is too long. */
static int clean(const char *path, char ret[PATH_MAX])
{
        size_t used = 0;

        for (size_t size; *path; path += size + (path[size] == '/')) {
                size = strcspn(path, "/");
                if (size == 0 || (size == 1 && *path == '.'))
                        continue;
                if ((size == 2 && memcmp(path, "..", 2) == 0) || used + size + 2 > PATH_MAX)
                        return -1;
                if (used > 0)
                        ret[used++] = '/';
                memcpy(ret + used, path, size);
                used += size;
        }
        ret[used] = '\0';
        return 0;
}

/* -- .dockerignore ---------------------------------------------------------------------------------------------- */

static int add_row(struct context *c, char *line, struct cloche_err *e)
{
        struct ignore_row row = {.is_exception = *line == '!'};
        char pattern[PATH_MAX];
        int r;

        line += row.is_exception;
        line += strspn(line, " \t");
        if (clean(line, pattern) < 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, IGNORE_FILE ": '%.200s' leads out of the context", line);
        if (!*pattern)
                return 0;
        if (ARRAY_GROW(c->rows, c->count, c->room) < 0)
                return no_memory(e);
        r = glob_compile(pattern, &row.glob, e);
        if (r < 0)
                return err_wrap(e, IGNORE_FILE ": '%.200s'", line);
        row.plain = strndup(pattern, strcspn(pattern, "*?[{@+!\\"));
        c->rows[c->count++] = row;
        return row.plain ? 0 : no_memory(e);
}

static int read_rows(struct context *c, int fd, struct cloche_err *e)
{
        struct stat status;
        char *text, *rest;
        int r;

        if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_size > IGNORE_BYTES_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, IGNORE_FILE " is no file of at most %u bytes",
                               IGNORE_BYTES_MAX);
        text = calloc(1, (size_t)status.st_size + 1);
        r = !text ? no_memory(e) : fd_read_full(fd, text, (size_t)status.st_size) < 0 ? unreadable(IGNORE_FILE, e) : 0;
        for (char *line = r == 0 ? strtok_r(text, "\n", &rest) : NULL; r == 0 && line;
             line = strtok_r(NULL, "\n", &rest)) {
                size_t size = strlen(line);

                while (size > 0 && strchr("\r \t", line[size - 1]))
                        line[--size] = '\0';
                line += strspn(line, " \t");
                if (*line && *line != '#')
                        r = add_row(c, line, e);
        }
        free(text);
        return r;
}

/* A row also means all that is below: each directory on the way is compared. */
static int row_matches(const struct ignore_row *row, const char *path)
{
        char part[PATH_MAX];
        size_t size = strlen(path);

        if (size >= sizeof(part))
                return 0;
        memcpy(part, path, size + 1);
        for (;;) {
                char *slash;

                if (glob_matches(row->glob, part))
                        return 1;
                slash = strrchr(part, '/');
                if (!slash)
                        return 0;
                *slash = '\0';
        }
}

/* True if an entry below the directory may match a row that begins with '!'. */
static int may_have_exceptions(const struct context *c, const char *path)
{
        size_t size = strlen(path);

        for (size_t i = 0; i < c->count; i++) {
                const char *plain = c->rows[i].plain;
                size_t common = strlen(plain) < size ? strlen(plain) : size;

                if (c->rows[i].is_exception && strncmp(plain, path, common) == 0 &&
                    (strlen(plain) <= size || plain[size] == '/'))
                        return 1;
        }
        return 0;
}

int build_context_ignores(const struct context *c, const char *path, int is_directory)
{
        int is_ignored = 0;

        while (strncmp(path, "./", 2) == 0)
                path += 2;
        if (!*path || strcmp(path, ".") == 0)
                return 0;
        for (size_t i = 0; i < c->count; i++)
                if (is_ignored == c->rows[i].is_exception && row_matches(&c->rows[i], path))
                        is_ignored = !c->rows[i].is_exception;
        return is_ignored && !(is_directory && may_have_exceptions(c, path));
}

int build_context_open(const char *path, struct context *ret, struct cloche_err *e)
{
        _cleanup_fd_ int fd = -EBADF;

        *ret = (struct context){.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
        if (ret->fd < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "cannot open the context '%.200s'", path);
        fd = openat(ret->fd, IGNORE_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT ? 0 : unreadable(IGNORE_FILE, e);
        return read_rows(ret, fd, e);
}

void build_context_done(struct context *c)
{
        for (size_t i = 0; i < c->count; i++) {
                glob_free(c->rows[i].glob);
                free(c->rows[i].plain);
        }
        free(c->rows);
        fd_close(&c->fd);
        *c = (struct context){.fd = -EBADF};
}

/* -- sources ---------------------------------------------------------------------------------------------------- */

static int open_below(int dir_fd, const char *path, int flags)
{
        struct open_how how = {.flags = (unsigned)flags | O_CLOEXEC,
                               .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};

        return (int)syscall(SYS_openat2, dir_fd, *path ? path : ".", &how, sizeof(how));
}

int build_context_open_parent(const struct context *c, const char *path, const char **ret_name, struct cloche_err *e)
{
        const char *slash = strrchr(path, '/');
        char parent[PATH_MAX];
        int fd;

        snprintf(parent, sizeof(parent), "%.*s", slash ? (int)(slash - path) : 0, path);
        *ret_name = slash ? slash + 1 : *path ? path : ".";
        fd = open_below(c->fd, parent, O_RDONLY | O_DIRECTORY);
        return fd < 0 ? unreadable(path, e) : fd;
}

static int by_name(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The sorted names of an open directory; the list ends with NULL. Takes fd. */
static int list_names(int fd, const char *path, char ***ret, struct cloche_err *e)
{
        DIR *dir = fdopendir(fd);
        size_t count = 0, room = 0;
        struct dirent *entry;
        char **names = NULL;
        int r = dir ? 0 : unreadable(path, e);

        if (!dir)
                close(fd);
        while (r == 0 && dir && (errno = 0, entry = readdir(dir))) {
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                if (array_grow((void **)&names, count, &room, sizeof(*names)) < 0 ||
                    !(names[count] = strdup(entry->d_name)))
                        r = no_memory(e);
                else
                        count++;
        }
        if (r == 0 && dir && errno)
                r = unreadable(path, e);
        if (dir)
                closedir(dir);
        if (r == 0 && array_grow((void **)&names, count, &room, sizeof(*names)) < 0)
                r = no_memory(e);
        if (r == 0) {
                names[count] = NULL;
                qsort(names, count, sizeof(*names), by_name);
                *ret = names;
                return 0;
        }
        while (count > 0)
                free(names[--count]);
        free(names);
        return r;
}

static void free_names(char **names)
{
        for (size_t i = 0; names && names[i]; i++)
                free(names[i]);
        free(names);
}

int build_context_names(int fd, const char *path, json_t **ret, struct cloche_err *e)
{
        int own_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
        char **names = NULL;

        *ret = json_array();
        r = own_fd < 0 ? unreadable(path, e) : list_names(own_fd, path, &names, e);
        for (size_t i = 0; r == 0 && names[i]; i++)
                if (json_array_append_new(*ret, json_string(names[i])) < 0)
                        r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a name of the context is not UTF-8: '%.200s'",
                                    names[i]);
        free_names(names);
        return r;
}

static int add_source(const struct context *c, const char *path, json_t *list, struct cloche_err *e)
{
        const char *name;
        _cleanup_fd_ int fd = build_context_open_parent(c, path, &name, e);
        struct stat status;

        if (fd < 0)
                return fd;
        if (fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
            build_context_ignores(c, path, S_ISDIR(status.st_mode)))
                return 0;
        return json_array_append_new(list, json_string(path)) < 0
                       ? err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a name of the context is not UTF-8: '%.200s'", path)
                       : 0;
}

/* Match the pattern's segments from `at` on with the names of the directory at prefix. */
static int find_below(const struct context *c, const char *prefix, const char *at, json_t *list, struct cloche_err *e)
{
        size_t size = strcspn(at, "/");
        char pattern[PATH_MAX], path[PATH_MAX];
        struct glob *glob = NULL;
        char **names = NULL;
        int fd, r;

        snprintf(pattern, sizeof(pattern), "%.*s", (int)size, at);
        fd = open_below(c->fd, prefix, O_RDONLY | O_DIRECTORY);
        if (fd < 0) /* a name that matched may be no directory */
                return errno == ENOTDIR || errno == ELOOP || errno == ENOENT ? 0 : unreadable(prefix, e);
        r = list_names(fd, prefix, &names, e);
        if (r == 0)
                r = glob_compile(pattern, &glob, e);
        for (size_t i = 0; r == 0 && names[i]; i++) {
                if (!glob_matches(glob, names[i]))
                        continue;
                if (snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "/" : "", names[i]) >= PATH_MAX)
                        r = err_set(e, CLOCHE_E_TOO_LARGE, "a path below '%.200s' is too long", prefix);
                else
                        r = at[size] ? find_below(c, path, at + size + 1, list, e) : add_source(c, path, list, e);
        }
        glob_free(glob);
        free_names(names);
        return r;
}

int build_context_find(const struct context *c, const char *source, json_t **ret, struct cloche_err *e)
{
        char path[PATH_MAX];
        int r;

        if (clean(source, path) < 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "'%.200s' leads out of the context", source);
        *ret = json_array();
        if (!*ret)
                return no_memory(e);
        r = strpbrk(path, "*?[") ? find_below(c, "", path, *ret, e) : add_source(c, path, *ret, e);
        if (r == 0 && json_array_size(*ret) == 0)
                r = err_set(e, CLOCHE_E_FILE_NOT_FOUND, "the context has no '%.200s', or " IGNORE_FILE " leaves it out",
                            source);
        if (r < 0) {
                json_decref(*ret);
                *ret = NULL;
        }
        return r;
}

/* -- hashes ----------------------------------------------------------------------------------------------------- */

struct hashing {
        const struct context *context;
        struct sha256_ctx *hash;
        size_t entries;
        unsigned depth;
        char piece[PIECE_BYTES];
};

static int hash_entry(struct hashing *h, int dir_fd, const char *name, const char *path, struct cloche_err *e);

static int hash_file(struct hashing *h, int fd, const char *path, struct cloche_err *e)
{
        ssize_t n;

        while ((n = read(fd, h->piece, sizeof(h->piece))) != 0) {
                if (n < 0 && errno != EINTR)
                        return unreadable(path, e);
                if (n > 0)
                        sha256_update(h->hash, (size_t)n, (const uint8_t *)h->piece);
        }
        return 0;
}

/* Takes fd. */
static int hash_directory(struct hashing *h, int fd, const char *path, struct cloche_err *e)
{
        int own_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3), r;
        char **names = NULL, *below = NULL;

        r = own_fd < 0 ? unreadable(path, e) : list_names(own_fd, path, &names, e);
        if (r == 0 && ++h->depth > DEPTH_MAX)
                r = err_set(e, CLOCHE_E_TOO_LARGE, "the context has more than %d directories in each other", DEPTH_MAX);
        for (size_t i = 0; r == 0 && names[i]; i++) {
                r = asprintf(&below, "%s%s%s", path, *path ? "/" : "", names[i]) < 0 ? no_memory(e) : 0;
                if (r == 0)
                        r = hash_entry(h, fd, names[i], below, e);
                free(below);
                below = NULL;
        }
        h->depth--;
        free_names(names);
        close(fd);
        return r;
}

static int hash_open(struct hashing *h, int dir_fd, const char *name, const char *path, const struct stat *status,
                     struct cloche_err *e)
{
        char target[PATH_MAX];
        ssize_t size;
        int fd, r;

        if (S_ISLNK(status->st_mode)) {
                size = readlinkat(dir_fd, name, target, sizeof(target));
                if (size < 0)
                        return unreadable(path, e);
                sha256_update(h->hash, (size_t)size, (const uint8_t *)target);
                return 0;
        }
        fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0)
                return unreadable(path, e);
        if (S_ISDIR(status->st_mode))
                return hash_directory(h, fd, path, e);
        r = hash_file(h, fd, path, e);
        close(fd);
        return r;
}

/* Facts with their length before them: no two trees have one sequence of bytes. */
static int hash_entry(struct hashing *h, int dir_fd, const char *name, const char *path, struct cloche_err *e)
{
        struct stat status;
        char facts[64];
        int size;

        if (fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                return unreadable(path, e);
        if (build_context_ignores(h->context, path, S_ISDIR(status.st_mode)))
                return 0;
        if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode) && !S_ISLNK(status.st_mode))
                return err_set(e, CLOCHE_E_FILE_KIND, "'%.200s' of the context is no file, directory or link", path);
        if (++h->entries > CONTEXT_ENTRIES_MAX)
                return err_set(e, CLOCHE_E_TOO_LARGE, "the context has more than %d entries", CONTEXT_ENTRIES_MAX);
        size = snprintf(facts, sizeof(facts), "%c %o %lld %zu ",
                        S_ISDIR(status.st_mode)   ? 'd'
                        : S_ISLNK(status.st_mode) ? 'l'
                                                  : 'f',
                        S_ISLNK(status.st_mode) ? 0 : status.st_mode & 0777,
                        S_ISDIR(status.st_mode) ? 0 : (long long)status.st_size, strlen(path));
        sha256_update(h->hash, (size_t)size, (const uint8_t *)facts);
        sha256_update(h->hash, strlen(path), (const uint8_t *)path);
        return hash_open(h, dir_fd, name, path, &status, e);
}

int build_context_hash(const struct context *c, const char *path, struct sha256_ctx *hash, struct cloche_err *e)
{
        const char *name;
        _cleanup_fd_ int fd = build_context_open_parent(c, path, &name, e);
        struct hashing *h;
        int r;

        if (fd < 0)
                return fd;
        h = malloc(sizeof(*h));
        if (!h)
                return no_memory(e);
        h->context = c;
        h->hash = hash;
        h->entries = h->depth = 0;
        r = hash_entry(h, fd, name, path, e);
        free(h);
        return r;
}
