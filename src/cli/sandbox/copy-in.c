/* Copy from the host into a sandbox. Runs in: the CLI, as its user. */
#include "base/err.h"
#include "base/fd.h"
#include "copy.h"
#include "sandbox-options.h"
#include "wire/json.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#define PERMISSIONS 0777
#define LINKS_AT_ONCE_BYTES (1u << 20)

static const char make_links[] = "while IFS= read -r -d '' from && IFS= read -r -d '' to; do command ln -sfnT -- "
                                 "\"$to\" \"$from\" || exit 1; done";

struct in {
        struct copy *copy;
        struct buf links; /* path in the sandbox and target of each, terminated; created after everything else */
        char *piece;      /* COPY_PIECE_BYTES */
};

/* -- one file ------------------------------------------------------------------------------------------------- */

static ssize_t read_piece(int fd, char *piece, const char *name, struct cloche_err *e)
{
        size_t size = 0;

        while (size < COPY_PIECE_BYTES) {
                ssize_t n;

                copy_wait(fd);
                if (copy_is_cancelled())
                        return err_set(e, CLOCHE_E_CANCELLED, "cancelled");
                n = read(fd, piece + size, COPY_PIECE_BYTES - size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "cannot read '%s'", name);
                if (n == 0)
                        break;
                size += (size_t)n;
        }
        return (ssize_t)size;
}

int copy_write_piece(struct copy *copy, const char *path, const void *data, size_t size, uint64_t offset, unsigned mode,
                     struct cloche_err *e)
{
        json_t *more = json_pack("{s:o}", "content", json_attachment(0, size));

        if (offset == 0)
                json_object_set_new(more, "mode", json_integer(mode));
        else
                json_object_set_new(more, "offset", json_integer((json_int_t)offset));
        return copy_request(copy, "file.write", path, more, data, size, NULL, e);
}

/* size: of the first piece, already read. */
static int write_pieces(const struct in *in, int fd, ssize_t size, const char *name, const char *path, unsigned mode,
                        struct cloche_err *e)
{
        uint64_t offset = 0;

        while (size > 0) {
                int r = copy_write_piece(in->copy, path, in->piece, (size_t)size, offset, mode, e);

                if (r < 0)
                        return r;
                offset += (uint64_t)size;
                size = size == COPY_PIECE_BYTES ? read_piece(fd, in->piece, name, e) : 0;
        }
        return (int)size;
}

static int move(const struct in *in, const char *from, const char *to, struct cloche_err *e)
{
        struct daemon_message message;
        int r = daemon_call(&in->copy->client, "file.move",
                            json_pack("{s:s, s:s, s:s, s:b}", "sandbox", in->copy->sandbox, "from", from, "to", to,
                                      "overwrite", 1),
                            NULL, 0, &message, e);

        if (r == 0)
                daemon_message_done(&message);
        return r;
}

/* Write under a temporary name until complete: readers see the old file or the new one. */
static int send_pieces(const struct in *in, int fd, ssize_t size, const char *name, const char *path, unsigned mode,
                       struct cloche_err *e)
{
        char aside[COPY_PATH_BYTES];
        uint64_t number = 0;
        struct cloche_err ignored;
        int r;

        (void)!getrandom(&number, sizeof(number), 0);
        r = snprintf(aside, sizeof(aside), "%s.cloche-upload-%016llx", path, (unsigned long long)number);
        if (r >= (int)sizeof(aside))
                return err_set(e, CLOCHE_E_TOO_LARGE, "the path is too long");
        r = write_pieces(in, fd, size, name, aside, mode, e);
        if (r == 0)
                r = move(in, aside, path, e);
        if (r < 0)
                (void)copy_request(in->copy, "file.remove", aside, json_pack("{s:b}", "force", 1), NULL, 0, NULL,
                                   &ignored);
        return r;
}

static int send_file(const struct in *in, int fd, const char *name, const char *path, unsigned mode,
                     struct cloche_err *e)
{
        ssize_t size = read_piece(fd, in->piece, name, e);
        int r;

        if (size < 0)
                return (int)size;
        /* A whole file in one write is atomic already. */
        r = size < COPY_PIECE_BYTES ? copy_write_piece(in->copy, path, in->piece, (size_t)size, 0, mode, e)
                                    : send_pieces(in, fd, size, name, path, mode, e);
        return r < 0 ? err_wrap(e, "%s", name) : 0;
}

/* -- links ---------------------------------------------------------------------------------------------------- */

/* No request creates links, so the sandbox's own ln creates them from a list on its input. */
static int send_links(struct in *in, struct cloche_err *e)
{
        struct daemon_message message;
        json_t *list;
        int r;

        if (in->links.size == 0)
                return 0;
        list = json_attachment(0, in->links.size);
        r = daemon_call(&in->copy->client, "exec",
                        json_pack("{s:s, s:s, s:s, s:b, s:o}", "sandbox", in->copy->sandbox, "command", make_links,
                                  "cwd", "/workspace", "fork", 1, "stdin", list),
                        in->links.data, in->links.size, &message, e);
        if (r < 0)
                return r;
        in->links.size = 0;
        if (json_integer_value(json_object_get(message.body, "exitCode")) != 0)
                r = err_set(e, CLOCHE_E_FILE_DENIED, "cannot make the links in the sandbox: %.200s",
                            sandbox_text(message.body, "stderr"));
        daemon_message_done(&message);
        return r;
}

static int add_link(struct in *in, int dir_fd, const char *entry, const char *path, struct cloche_err *e)
{
        char target[PATH_MAX];
        ssize_t n = readlinkat(dir_fd, entry, target, sizeof(target) - 1);
        int r;

        if (n < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "cannot read the link '%s'", entry);
        target[n] = '\0';
        r = buf_append(&in->links, path, strlen(path) + 1);
        if (r == 0)
                r = buf_append(&in->links, target, (size_t)n + 1);
        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "store a link");
        return in->links.size > LINKS_AT_ONCE_BYTES ? send_links(in, e) : 0;
}

/* -- trees ---------------------------------------------------------------------------------------------------- */

static void send_entry(struct in *in, int dir_fd, const char *entry, const char *name, const char *path);

static int make_directory(const struct in *in, const char *path, unsigned mode, struct cloche_err *e)
{
        return copy_request(in->copy, "file.mkdir", path,
                            json_pack("{s:b, s:I}", "recursive", 1, "mode", (json_int_t)mode), NULL, 0, NULL, e);
}

/* Paths are on the heap, so that the tree's depth does not exhaust the stack. */
static void send_below(struct in *in, int dir_fd, const char *entry, const char *name, const char *path)
{
        char *below_name = NULL, *below_path = NULL;
        struct cloche_err e = {0};
        int r = asprintf(&below_name, "%s/%s", name, entry) < 0 || asprintf(&below_path, "%s/%s", path, entry) < 0
                        ? err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "copy")
                        : 0;

        if (r == 0 && strlen(below_path) >= COPY_PATH_BYTES)
                r = err_set(&e, CLOCHE_E_TOO_LARGE, "a path of more than %d bytes below '%.100s'", COPY_PATH_BYTES - 1,
                            name);
        if (r == 0)
                send_entry(in, dir_fd, entry, below_name, below_path);
        else
                copy_skip(in->copy, &e);
        free(below_name);
        free(below_path);
}

static void send_entries(struct in *in, DIR *dir, const char *name, const char *path)
{
        struct dirent *entry;

        while (!copy_is_cancelled() && (entry = readdir(dir)))
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        send_below(in, dirfd(dir), entry->d_name, name, path);
}

/* Takes fd. */
static int send_directory(struct in *in, int fd, const char *name, const char *path, unsigned mode,
                          struct cloche_err *e)
{
        DIR *dir = fdopendir(fd);
        int r;

        if (!dir) {
                close(fd);
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "cannot read '%s'", name);
        }
        r = make_directory(in, path, mode, e);
        if (r == 0)
                send_entries(in, dir, name, path);
        closedir(dir);
        return r;
}

static int send_opened(struct in *in, int dir_fd, const char *entry, const char *name, const char *path, int follow,
                       struct cloche_err *e)
{
        /* O_NONBLOCK: never block on a pipe. */
        _cleanup_fd_ int fd =
                openat(dir_fd, entry, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (follow ? 0 : O_NOFOLLOW));
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "cannot read '%s'", name);
        if (S_ISDIR(st.st_mode))
                return send_directory(in, TAKE_FD(fd), name, path, st.st_mode & PERMISSIONS, e);
        if (!S_ISREG(st.st_mode))
                return err_set(e, CLOCHE_E_FILE_KIND, "'%s' is not a file, directory or link", name);
        return send_file(in, fd, name, path, st.st_mode & PERMISSIONS, e);
}

static void send_entry(struct in *in, int dir_fd, const char *entry, const char *name, const char *path)
{
        struct cloche_err e = {0};
        struct stat st;
        int r = fstatat(dir_fd, entry, &st, AT_SYMLINK_NOFOLLOW);

        if (r < 0)
                r = err_os(&e, CLOCHE_E_UNREADABLE_FILE, errno, "cannot read '%s'", name);
        else if (in->copy->stays && in->copy->stays(in->copy->stays_data, name, S_ISDIR(st.st_mode)))
                r = 0;
        else if (S_ISLNK(st.st_mode))
                r = add_link(in, dir_fd, entry, path, &e);
        else if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
                r = err_set(&e, CLOCHE_E_FILE_KIND, "'%s' is not a file, directory or link", name);
        else
                r = send_opened(in, dir_fd, entry, name, path, 0, &e);
        if (r < 0)
                copy_skip(in->copy, &e);
}

/* -- the command ---------------------------------------------------------------------------------------------- */

/* As in cp, an existing directory receives the source under its own name. */
static int find_target(struct copy *copy, const char *host, const char *inside, char ret[COPY_PATH_BYTES],
                       struct cloche_err *e)
{
        char last[COPY_PATH_BYTES];
        json_t *entry;
        int r = copy_stat(copy, inside, &entry, e), is_directory;

        if (r < 0)
                return r;
        is_directory = strcmp(sandbox_text(entry, "type"), "directory") == 0 || inside[strlen(inside) - 1] == '/';
        json_decref(entry);
        if (!is_directory)
                return copy_join(ret, "", inside, e);
        if (strcmp(host, "-") == 0)
                return err_set(e, CLOCHE_E_FILE_KIND, "'%s' is a directory: standard input needs the name of a file",
                               inside);
        copy_last(host, last);
        if (strcmp(last, ".") == 0 || strcmp(last, "..") == 0 || strcmp(last, "/") == 0)
                return copy_join(ret, "", inside, e);
        return copy_join(ret, inside, last, e);
}

int cli_copy_entry(struct copy *copy, int dir_fd, const char *entry, const char *name, const char *inside)
{
        struct in in = {.copy = copy, .links = BUF_INIT(16u << 20), .piece = malloc(COPY_PIECE_BYTES)};
        struct cloche_err e = {0};
        int r = in.piece ? 0 : err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "copy");

        if (r == 0)
                send_entry(&in, dir_fd, entry, name, inside);
        if (r == 0)
                r = send_links(&in, &e);
        buf_done(&in.links);
        free(in.piece);
        return r < 0 ? sandbox_fail(&e) : copy->code;
}

int cli_copy_in(struct copy *copy, const char *host, const char *inside)
{
        struct in in = {.copy = copy, .links = BUF_INIT(16u << 20), .piece = malloc(COPY_PIECE_BYTES)};
        char target[COPY_PATH_BYTES];
        struct cloche_err e = {0};
        int r = in.piece ? find_target(copy, host, inside, target, &e) : err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "copy");

        if (r == 0)
                r = strcmp(host, "-") == 0 ? send_file(&in, STDIN_FILENO, "standard input", target, 0644, &e)
                                           : send_opened(&in, AT_FDCWD, host, host, target, 1, &e);
        if (r == 0)
                r = send_links(&in, &e);
        buf_done(&in.links);
        free(in.piece);
        return r < 0 ? sandbox_fail(&e) : 0;
}
