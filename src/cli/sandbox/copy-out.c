/* Copy from a sandbox to the host. The caller may name the directory through links; below it no
 * file is opened through a link.
 * Runs in: the CLI, as its user. */
#include "base/err.h"
#include "base/fd.h"
#include "cli/output/print.h"
#include "copy.h"
#include "sandbox-options.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define PERMISSIONS 0777
#define LIST_AT_ONCE 1000

struct out {
        struct copy *copy;
        const char *inside, *host; /* the directory in the sandbox and on the host */
        int dir_fd;                /* on the host */
};

/* -- contents ------------------------------------------------------------------------------------------------- */

/* 1: more pieces remain. */
static int fetch_piece(struct copy *copy, const char *inside, uint64_t *offset, int fd, const char *name,
                       struct cloche_err *e)
{
        struct daemon_message message;
        const void *data;
        size_t size;
        int r = copy_request(copy, "file.read", inside,
                             json_pack("{s:I, s:i}", "offset", (json_int_t)*offset, "limit", COPY_PIECE_BYTES), NULL, 0,
                             &message, e);

        if (r < 0)
                return r;
        r = daemon_bytes(&message, json_object_get(message.body, "content"), "content", &data, &size, e);
        if (r == 0 && (r = fd_write_full(fd, data, size)) < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, -r, "cannot write '%s'", name);
        *offset += r == 0 ? size : 0;
        if (r == 0)
                r = size > 0 && *offset < (uint64_t)json_integer_value(json_object_get(message.body, "total"));
        daemon_message_done(&message);
        return r;
}

static int fetch(struct copy *copy, const char *inside, int fd, const char *name, struct cloche_err *e)
{
        uint64_t offset = 0;
        int r;

        do
                r = copy_is_cancelled() ? err_set(e, CLOCHE_E_CANCELLED, "cancelled")
                                        : fetch_piece(copy, inside, &offset, fd, name, e);
        while (r == 1);
        return r;
}

/* -- trees ---------------------------------------------------------------------------------------------------- */

/* Follows no link: one created by the sandbox may stand anywhere on the way. */
static int open_below(int dir_fd, const char *path, int flags, unsigned mode)
{
        struct open_how how = {
                .flags = (uint64_t)(flags | O_CLOEXEC),
                .mode = flags & O_CREAT ? mode : 0,
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
        };
        int fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));

        return fd < 0 ? -errno : fd;
}

static int is_link(int dir_fd, const char *name)
{
        struct stat st;

        return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
}

static int fail_link(const char *directory, const char *path, struct cloche_err *e)
{
        return err_set(e, CLOCHE_E_FILE_EXISTS,
                       "cannot write '%s%s%s': the path contains a link, which is not followed; remove the link first",
                       directory, *directory ? "/" : "", path);
}

/* The parent directory of a path below ours, and its last part: openat2(2) creates files only. */
static int open_parent(const struct out *out, const char *path, const char **ret_last, struct cloche_err *e)
{
        const char *slash = strrchr(path, '/');
        char parent[COPY_PATH_BYTES];
        int fd;

        *ret_last = slash ? slash + 1 : path;
        memcpy(parent, slash ? path : ".", slash ? (size_t)(slash - path) : 1);
        parent[slash ? slash - path : 1] = '\0';
        fd = open_below(out->dir_fd, parent, O_PATH | O_DIRECTORY, 0);
        if (fd == -ELOOP)
                return fail_link(out->host, path, e);
        return fd < 0 ? err_os(e, CLOCHE_E_UNREADABLE_FILE, -fd, "cannot open the directory of '%s'", path) : fd;
}

static int make_directory(const struct out *out, const char *path, unsigned mode, struct cloche_err *e)
{
        const char *last;
        _cleanup_fd_ int parent_fd = open_parent(out, path, &last, e);
        struct stat st;

        if (parent_fd < 0)
                return parent_fd;
        /* The owner needs write access to fill it. */
        if (mkdirat(parent_fd, last, mode | S_IRWXU) == 0)
                return 0;
        if (errno == EEXIST && fstatat(parent_fd, last, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
                return 0;
        return err_os(e, CLOCHE_E_FILE_EXISTS, errno, "cannot make the directory '%s/%s'", out->host, path);
}

/* True if a link at path stays within the tree: '..' is allowed only at its beginning, because
 * after a name that is itself a link it leads elsewhere. */
static int stays_within(const char *path, const char *target)
{
        int depth = 0, is_leading = 1;

        if (*target == '/' || !*target)
                return 0;
        for (const char *at = path; (at = strchr(at, '/')); at++)
                depth++;
        for (; *target; target += strspn(target, "/")) {
                size_t size = strcspn(target, "/");
                int is_up = size == 2 && memcmp(target, "..", 2) == 0;

                if (is_up && (!is_leading || depth-- == 0))
                        return 0;
                is_leading &= is_up || (size == 1 && *target == '.');
                target += size;
        }
        return 1;
}

static int make_link(const struct out *out, const char *path, const json_t *entry, struct cloche_err *e)
{
        char *target = output_path_bytes(json_object_get(entry, "target"));
        const char *last;
        _cleanup_fd_ int parent_fd = target ? open_parent(out, path, &last, e) : -EBADF;
        int r = parent_fd < 0 ? parent_fd : 0;

        if (!target)
                r = err_set(e, CLOCHE_E_PROTOCOL, "the target of the link '%s' cannot be read", path);
        else if (!stays_within(path, target))
                r = err_set(e, CLOCHE_E_FILE_KIND,
                            "skipped the link '%s': it leads out of the copied directory, to '%s'", path, target);
        else if (r == 0 && symlinkat(target, parent_fd, last) < 0)
                r = err_os(e, CLOCHE_E_FILE_EXISTS, errno, "cannot make the link '%s/%s'", out->host, path);
        free(target);
        return r;
}

/* Create a new file, replacing an existing one, which may have other names or be setuid. O_EXCL
 * follows no link. */
static int open_new(int parent_fd, const char *name, unsigned mode)
{
        const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
        int fd = openat(parent_fd, name, flags, mode);
        struct stat st;

        if (fd < 0 && errno == EEXIST && fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
                if (!S_ISREG(st.st_mode))
                        return S_ISLNK(st.st_mode) ? -ELOOP : S_ISDIR(st.st_mode) ? -EISDIR : -EEXIST;
                fd = unlinkat(parent_fd, name, 0) < 0 ? -1 : openat(parent_fd, name, flags, mode);
        }
        return fd < 0 ? -errno : fd;
}

static int fetch_into(struct copy *copy, const char *inside, int parent_fd, const char *name, unsigned mode,
                      const char *host, struct cloche_err *e)
{
        _cleanup_fd_ int fd = open_new(parent_fd, name, mode);

        if (fd == -ELOOP)
                return fail_link("", host, e);
        if (fd < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, -fd, "cannot write '%s'", host);
        return fetch(copy, inside, fd, host, e);
}

static int make_file(const struct out *out, const char *path, unsigned mode, struct cloche_err *e)
{
        char inside[COPY_PATH_BYTES], host[COPY_PATH_BYTES];
        const char *last;
        _cleanup_fd_ int parent_fd = open_parent(out, path, &last, e);
        int r = parent_fd < 0 ? parent_fd : copy_join(inside, out->inside, path, e);

        if (r == 0)
                r = copy_join(host, out->host, path, e);
        return r < 0 ? r : fetch_into(out->copy, inside, parent_fd, last, mode, host, e);
}

/* Rejects paths that lead out of the directory or are ambiguous. */
static int is_path_below(const char *path)
{
        if (!*path || strlen(path) >= COPY_PATH_BYTES)
                return 0;
        for (;;) {
                size_t size = strcspn(path, "/");

                if (size == 0 || (size == 1 && path[0] == '.') || (size == 2 && path[0] == '.' && path[1] == '.'))
                        return 0;
                if (!path[size])
                        return 1;
                path += size + 1;
        }
}

static int fetch_entry(const struct out *out, const json_t *entry, struct cloche_err *e)
{
        const char *type = sandbox_text(entry, "type"),
                   *path = json_string_value(json_object_get(entry, "relativePath"));
        unsigned mode = (unsigned)json_integer_value(json_object_get(entry, "mode")) & PERMISSIONS;

        if (!path)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "skipped a file below '%s': its name is not UTF-8",
                               out->inside);
        if (!is_path_below(path))
                return err_set(e, CLOCHE_E_PROTOCOL, "the sandbox lists '%s', which is not a path below '%s'", path,
                               out->inside);
        if (strcmp(type, "directory") == 0)
                return make_directory(out, path, mode, e);
        if (strcmp(type, "symlink") == 0)
                return make_link(out, path, entry, e);
        if (strcmp(type, "file") == 0)
                return make_file(out, path, mode, e);
        return err_set(e, CLOCHE_E_FILE_KIND, "'%s/%s' is not a file, directory or link", out->inside, path);
}

/* Keeps the answer in text form, since other requests are sent while it is processed. ret_next:
 * owned, NULL after the last page. */
static int fetch_page(const struct out *out, const char *after, char **ret_next, struct cloche_err *e)
{
        json_t *more = json_pack("{s:b, s:b, s:i, s:s*}", "recursive", 1, "hidden", 1, "limit", LIST_AT_ONCE, "after",
                                 after),
               *page = NULL, *entry;
        struct daemon_message message;
        size_t i;
        int r = copy_request(out->copy, "file.list", out->inside, more, NULL, 0, &message, e);

        if (r < 0)
                return r;
        r = daemon_text_form(&message, &page, e);
        daemon_message_done(&message);
        json_array_foreach (json_object_get(page, "entries"), i, entry) {
                struct cloche_err passed = {0};

                if (copy_is_cancelled())
                        break;
                if (fetch_entry(out, entry, &passed) < 0)
                        copy_skip(out->copy, &passed);
        }
        *ret_next = json_is_string(json_object_get(page, "next")) ? strdup(sandbox_text(page, "next")) : NULL;
        if (r == 0 && json_object_get(page, "next") && !*ret_next)
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                            "a name below '%s' is not UTF-8: later names cannot be listed", out->inside);
        json_decref(page);
        return r;
}

static int fetch_tree(struct out *out, struct cloche_err *e)
{
        char *after = NULL;
        int r;

        do {
                char *next = NULL;

                r = fetch_page(out, after, &next, e);
                free(after);
                after = next;
        } while (r == 0 && after && !copy_is_cancelled());
        free(after);
        return r;
}

/* -- the command ---------------------------------------------------------------------------------------------- */

/* The destination: a name in an open directory. */
struct target {
        int dir_fd;
        char name[COPY_PATH_BYTES], host[COPY_PATH_BYTES]; /* host: for messages */
        int is_named; /* the caller named the file itself, which may be a pipe or device */
};

static int fetch_directory(struct copy *copy, const char *inside, const struct target *target, unsigned mode,
                           struct cloche_err *e)
{
        struct out out = {.copy = copy, .inside = inside, .host = target->host};
        _cleanup_fd_ int dir_fd = -EBADF;

        if (mkdirat(target->dir_fd, target->name, mode | S_IRWXU) < 0 && errno != EEXIST)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "cannot make '%s'", target->host);
        dir_fd = open_below(target->dir_fd, target->name, O_PATH | O_DIRECTORY, 0);
        if (is_link(target->dir_fd, target->name))
                return fail_link("", target->host, e);
        if (dir_fd < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, -dir_fd, "cannot open '%s'", target->host);
        out.dir_fd = dir_fd;
        return fetch_tree(&out, e);
}

static int fetch_file(struct copy *copy, const char *inside, const struct target *target, unsigned mode,
                      struct cloche_err *e)
{
        _cleanup_fd_ int fd = -EBADF;

        if (!target->is_named)
                return fetch_into(copy, inside, target->dir_fd, target->name, mode, target->host, e);
        fd = openat(target->dir_fd, target->name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY,
                    mode);
        if (fd < 0 && errno == ELOOP)
                return fail_link("", target->host, e);
        if (fd < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "cannot write '%s'", target->host);
        return fetch(copy, inside, fd, target->host, e);
}

/* host is a name in the directory before its last slash. */
static int find_named(const char *host, struct target *ret, struct cloche_err *e)
{
        size_t size = strlen(host);
        char parent[COPY_PATH_BYTES];
        int r = copy_join(ret->host, "", host, e);

        if (r < 0)
                return r;
        copy_last(host, ret->name);
        while (size > 1 && host[size - 1] == '/')
                size--;
        size -= strlen(ret->name);
        snprintf(parent, sizeof(parent), "%.*s", (int)(size ? size : 1), size ? host : ".");
        ret->is_named = 1;
        ret->dir_fd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return ret->dir_fd < 0 ? err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "cannot open '%s'", parent) : 0;
}

/* As in cp, an existing directory receives the source under its own name. */
static int find_target(const char *inside, const char *host, int is_directory, struct target *ret, struct cloche_err *e)
{
        size_t size = strlen(host);
        int is_whole, r;

        copy_last(inside, ret->name);
        is_whole = strcmp(ret->name, ".") == 0 || strcmp(ret->name, "..") == 0 || strcmp(ret->name, "/") == 0;
        ret->dir_fd = open(host, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (ret->dir_fd < 0 && size && host[size - 1] == '/' && !(is_directory && is_whole))
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "cannot open the directory '%s'", host);
        if (ret->dir_fd < 0)
                return find_named(host, ret, e);
        if (!is_whole)
                return copy_join(ret->host, host, ret->name, e);
        r = copy_join(ret->host, "", host, e);
        strcpy(ret->name, ".");
        return r;
}

static int fetch_to(struct copy *copy, const char *inside, const char *host, int is_directory, unsigned mode,
                    struct cloche_err *e)
{
        struct target target = {.dir_fd = -EBADF};
        int r = find_target(inside, host, is_directory, &target, e);

        if (r == 0)
                r = is_directory ? fetch_directory(copy, inside, &target, mode, e)
                                 : fetch_file(copy, inside, &target, mode, e);
        fd_close(&target.dir_fd);
        return r;
}

int cli_copy_out(struct copy *copy, const char *inside, const char *host)
{
        struct cloche_err e = {0};
        json_t *entry = NULL;
        int r = copy_stat(copy, inside, &entry, &e), is_directory;
        unsigned mode = (unsigned)json_integer_value(json_object_get(entry, "mode")) & PERMISSIONS;

        is_directory = strcmp(sandbox_text(entry, "type"), "directory") == 0;
        if (r == 0 && !entry)
                r = err_set(&e, CLOCHE_E_FILE_NOT_FOUND, "there is no '%s' in the sandbox '%s'", inside, copy->sandbox);
        if (r == 0 && strcmp(host, "-") == 0)
                r = is_directory ? err_set(&e, CLOCHE_E_FILE_KIND,
                                           "'%s' is a directory and cannot be written to standard output: name a "
                                           "target to copy it to",
                                           inside)
                                 : fetch(copy, inside, STDOUT_FILENO, "standard output", &e);
        else if (r == 0)
                r = fetch_to(copy, inside, host, is_directory, mode, &e);
        json_decref(entry);
        return r < 0 ? sandbox_fail(&e) : 0;
}
