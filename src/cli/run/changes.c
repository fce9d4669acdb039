/* Keep, list, load and drop change sets in the user's state directory.
 * Runs in: the CLI, as its user; a run that root started drops to a user of its own first. */
#include "changes.h"

#include "base/fd.h"
#include "base/privilege.h"
#include "cli/command/cli.h"
#include "mounts.h"
#include "session.h"
#include "wire/json.h"
#include "xdg.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define FORMAT 1
#define ABOUT "about.json"
#define ABOUT_BYTES_MAX (1u << 20)
#define INCOMPLETE_PREFIX ".new-" /* prefix of the name until complete */
#define DEPTH_MAX 4               /* NAME/set/0/1 */

static int find_directory(char *ret, size_t size)
{
        return cli_xdg_find("XDG_STATE_HOME", ".local/state", "cloche/changes", "changes", ret, size);
}

static int is_name(const char *name)
{
        size_t size = strlen(name);

        return size > 0 && size < CHANGES_NAME_BYTES && name[0] >= '0' && name[0] <= '9' &&
               strspn(name, "0123456789abcdefghijklmnopqrstuvwxyz-.") == size;
}

static int unknown(const char *name)
{
        return cli_bad("there are no kept changes '%.*s' (cloche changes list shows them)",
                       (int)strcspn(name, "\n\r\033"), name);
}

/* The directory of all sets; -1: a line was printed, -ENOENT: none yet. */
static int open_all(int *ret_fd)
{
        char directory[XDG_PATH_BYTES];
        int bad = find_directory(directory, sizeof(directory));

        *ret_fd = -EBADF;
        if (bad)
                return bad;
        *ret_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return *ret_fd >= 0 || errno == ENOENT ? 0 : cli_bad("cannot open '%s': %s", directory, strerror(errno));
}

/* -- removing ------------------------------------------------------------------------------------------------- */

static int remove_tree(int at_fd, const char *name, int depth);

/* 0 or -errno. A set was written by a process that handles guest data, so no link is followed. */
static int remove_entries(int fd, int depth)
{
        DIR *dir = fdopendir(fd);
        struct dirent *entry;
        int r = 0;

        if (!dir) {
                close(fd);
                return -errno;
        }
        while (r == 0 && (entry = readdir(dir)))
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                        r = remove_tree(dirfd(dir), entry->d_name, depth - 1);
        closedir(dir);
        return r;
}

static int remove_tree(int at_fd, const char *name, int depth)
{
        int fd, r;

        if (unlinkat(at_fd, name, 0) == 0)
                return 0;
        if (errno != EISDIR && errno != EPERM)
                return -errno;
        if (depth == 0)
                return -ELOOP;
        fd = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        r = remove_entries(fd, depth);
        return r < 0 ? r : unlinkat(at_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int cli_changes_drop(const char *name)
{
        _cleanup_fd_ int all_fd = -EBADF;
        int bad = open_all(&all_fd), r;

        if (bad)
                return bad;
        if (!is_name(name) || all_fd < 0)
                return unknown(name);
        r = remove_tree(all_fd, name, DEPTH_MAX);
        return r == -ENOENT ? unknown(name)
               : r < 0      ? cli_bad("cannot remove the changes '%s': %s", name, strerror(-r))
                            : 0;
}

int cli_changes_drop_all(void)
{
        char **names;
        size_t count;
        int code = changes_names(&names, &count);

        for (size_t i = 0; i < count; i++) {
                int bad = cli_changes_drop(names[i]);

                code = bad ? bad : code;
        }
        cli_xdg_list_free(names, count);
        return code;
}

/* -- reading -------------------------------------------------------------------------------------------------- */

int changes_names(char ***ret, size_t *ret_count)
{
        char directory[XDG_PATH_BYTES];
        int bad = find_directory(directory, sizeof(directory));

        *ret = NULL;
        *ret_count = 0;
        return bad ? bad : cli_xdg_list(directory, is_name, ret, ret_count);
}

static int is_file(const json_t *mount)
{
        const char *kind = json_string_value(json_object_get(mount, "kind"));

        return kind && strcmp(kind, "file") == 0;
}

static int take_mounts(struct changes_kept *kept)
{
        const json_t *mounts = json_object_get(kept->about, "mounts"), *mount;
        size_t i;

        if (!json_is_array(mounts) || json_array_size(mounts) == 0 || json_array_size(mounts) > CHANGES_MOUNTS_MAX)
                return -1;
        json_array_foreach (mounts, i, mount) {
                kept->targets[i] = json_string_value(json_object_get(mount, "target"));
                kept->sources[i] = json_string_value(json_object_get(mount, "source"));
                if (!kept->targets[i] || !kept->sources[i] || kept->sources[i][0] != '/')
                        return -1;
                kept->roots[i] = is_file(mount) ? mounts_directory(kept->sources[i]) : strdup(kept->sources[i]);
                kept->mount_count++;
                if (!kept->roots[i])
                        return -1;
        }
        return 0;
}

static int read_about(struct changes_kept *kept)
{
        _cleanup_fd_ int fd = openat(kept->dir_fd, ABOUT, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        char *text = calloc(1, ABOUT_BYTES_MAX);
        ssize_t size = fd >= 0 && text ? read(fd, text, ABOUT_BYTES_MAX) : -1;
        int r = size <= 0 ? -1 : json_load_text(text, (size_t)size, &kept->about, NULL);

        free(text);
        if (r < 0 || json_integer_value(json_object_get(kept->about, "format")) != FORMAT)
                return -1;
        kept->made = (time_t)json_integer_value(json_object_get(kept->about, "made"));
        kept->count = json_integer_value(json_object_get(kept->about, "count"));
        return take_mounts(kept);
}

/* Fills *ret of the set ret->name; 0, or an exit code with a line. */
static int open_one(int all_fd, struct changes_kept *ret)
{
        ret->dir_fd = openat(all_fd, ret->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (ret->dir_fd < 0)
                return errno == ENOENT || all_fd < 0
                               ? unknown(ret->name)
                               : cli_bad("cannot open the changes '%s': %s", ret->name, strerror(errno));
        ret->set_fd = openat(ret->dir_fd, "set", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (ret->set_fd < 0 || read_about(ret) < 0)
                return cli_bad("the changes '%s' are damaged: cloche changes drop %s", ret->name, ret->name);
        return 0;
}

static int is_within(const char *path, const char *directory)
{
        size_t size = strlen(directory);

        while (size > 0 && directory[size - 1] == '/')
                size--;
        return strncmp(path, directory, size) == 0 && (path[size] == '/' || !path[size]);
}

/* One of its directories holds this one, or lies in it. */
static int is_of(const struct changes_kept *kept, const char *here)
{
        for (size_t i = 0; i < kept->mount_count; i++)
                if (is_within(here, kept->sources[i]) || is_within(kept->sources[i], here))
                        return 1;
        return 0;
}

static int none_here(const char *newest)
{
        return cli_bad("no kept changes belong to this directory; the newest of other directories are '%s' (cloche "
                       "changes list "
                       "lists all; name one set)",
                       newest);
}

/* Names are in order of age. A damaged set has no directory to match, so it is reported in any
 * case. */
static int open_newest(int all_fd, struct changes_kept *ret)
{
        char *here = realpath(".", NULL), **names;
        size_t count;
        int bad = changes_names(&names, &count);

        if (bad == 0 && count == 0)
                bad = cli_bad("there are no kept changes (a run keeps those that --sync manual or an error left "
                              "unwritten)");
        for (size_t i = count; bad == 0 && i > 0; i--) {
                snprintf(ret->name, sizeof(ret->name), "%s", names[i - 1]);
                bad = open_one(all_fd, ret);
                if (bad || !here || is_of(ret, here))
                        break;
                changes_close(ret);
                *ret = (struct changes_kept){.set_fd = -EBADF, .dir_fd = -EBADF};
                if (i == 1)
                        bad = none_here(names[count - 1]);
        }
        cli_xdg_list_free(names, count);
        free(here);
        return bad;
}

int changes_open(const char *name, struct changes_kept *ret)
{
        _cleanup_fd_ int all_fd = -EBADF;
        int bad;

        *ret = (struct changes_kept){.set_fd = -EBADF, .dir_fd = -EBADF};
        if (name && !is_name(name))
                return unknown(name);
        bad = open_all(&all_fd);
        if (bad || !name)
                return bad ? bad : open_newest(all_fd, ret);
        strcpy(ret->name, name);
        return open_one(all_fd, ret);
}

void changes_close(struct changes_kept *kept)
{
        for (size_t i = 0; i < kept->mount_count; i++)
                free(kept->roots[i]);
        json_decref(kept->about);
        fd_close(&kept->set_fd);
        fd_close(&kept->dir_fd);
}

int changes_lock(const struct changes_kept *kept)
{
        if (flock(kept->dir_fd, LOCK_EX | LOCK_NB) == 0)
                return 0;
        return cli_bad("the changes '%s' are being synced already: wait until that command has ended", kept->name);
}

int changes_find_mount(const char *const *targets, size_t count, const char *path, const char **ret_below)
{
        size_t best_size = 0;
        int best = -1;

        for (size_t i = 0; i < count; i++) {
                size_t size = strlen(targets[i]);

                while (size > 1 && targets[i][size - 1] == '/')
                        size--;
                if (strncmp(path, targets[i], size) != 0 || (path[size] && path[size] != '/') || size < best_size)
                        continue;
                best = (int)i;
                best_size = size;
                *ret_below = path + size + (path[size] == '/');
        }
        return best;
}

/* -- writing -------------------------------------------------------------------------------------------------- */

static json_t *about_mounts(const json_t *mount)
{
        json_t *list = json_array(), *dir;
        const char *target;

        json_object_foreach (json_object_get(mount, "dirs"), target, dir)
                json_array_append_new(list,
                                      json_pack("{s:s, s:O, s:O*}", "target", target, "source",
                                                json_object_get(dir, "path"), "kind", json_object_get(dir, "kind")));
        return list;
}

/* Write beside the old file, then replace it. 0 or -errno. */
static int write_about(int dir_fd, json_t *about)
{
        _cleanup_fd_ int fd = openat(dir_fd, ABOUT ".new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
        char *text = about ? json_dumps(about, JSON_COMPACT) : NULL;
        int r = fd < 0 ? -errno : text ? fd_write_full(fd, text, strlen(text)) : -ENOMEM;

        free(text);
        if (r == 0 && renameat(dir_fd, ABOUT ".new", dir_fd, ABOUT) < 0)
                r = -errno;
        return r;
}

int changes_recount(const struct changes_kept *kept, uint32_t count)
{
        int r;

        json_object_set_new(kept->about, "count", json_integer(count));
        r = write_about(kept->dir_fd, kept->about);
        return r < 0 ? cli_bad("cannot save the remaining changes '%s': %s", kept->name, strerror(-r)) : 0;
}

/* Includes milliseconds, so that the newest sorts last. */
static int make_name(char ret[CHANGES_NAME_BYTES])
{
        struct timespec now;
        unsigned char random[4];
        struct tm utc;
        size_t size;

        if (clock_gettime(CLOCK_REALTIME, &now) < 0 || !gmtime_r(&now.tv_sec, &utc) ||
            getrandom(random, sizeof(random), 0) != sizeof(random))
                return -1;
        size = strftime(ret, CHANGES_NAME_BYTES, "%Y%m%d-%H%M%S", &utc);
        size += (size_t)snprintf(ret + size, CHANGES_NAME_BYTES - size, ".%03ld-", now.tv_nsec / 1000000);
        for (size_t i = 0; i < sizeof(random); i++)
                ret[size++] = (char)('a' + random[i] % 26);
        ret[size] = '\0';
        return 0;
}

/* State of a set being kept, shared by the privileged helper and its parent. */
struct keeping {
        int all_fd, dir_fd, set_fd;
        char name[CHANGES_NAME_BYTES], incomplete[CHANGES_NAME_BYTES + sizeof(INCOMPLETE_PREFIX)];
};

/* Owned by the engine's user, but reached through its descriptor only: the directories above it are
 * closed to others. */
static int make_set(struct keeping *keeping)
{
        if (mkdirat(keeping->dir_fd, "set", 0700) < 0)
                return -1;
        keeping->set_fd = openat(keeping->dir_fd, "set", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (keeping->set_fd < 0)
                return -1;
        return privilege_is_root() ? fchown(keeping->set_fd, SESSION_ENGINE_UID, SESSION_ENGINE_UID) : 0;
}

static int make_directory(struct keeping *keeping)
{
        char directory[XDG_PATH_BYTES];
        int bad = find_directory(directory, sizeof(directory));

        if (bad == 0)
                bad = cli_xdg_make_directories(directory);
        if (bad == 0)
                bad = open_all(&keeping->all_fd);
        if (bad)
                return bad;
        if (make_name(keeping->name) < 0)
                return cli_bad("cannot create a name for the changes");
        snprintf(keeping->incomplete, sizeof(keeping->incomplete), INCOMPLETE_PREFIX "%s", keeping->name);
        if (mkdirat(keeping->all_fd, keeping->incomplete, 0700) < 0)
                return cli_bad("cannot make '%s/%s': %s", directory, keeping->incomplete, strerror(errno));
        keeping->dir_fd = openat(keeping->all_fd, keeping->incomplete, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (keeping->dir_fd >= 0 && make_set(keeping) == 0)
                return 0;
        bad = cli_bad("cannot make '%s/%s/set': %s", directory, keeping->incomplete, strerror(errno));
        remove_tree(keeping->all_fd, keeping->incomplete, DEPTH_MAX);
        return bad;
}

static int finish(struct keeping *keeping, const json_t *mount, uint32_t count)
{
        json_t *about = json_pack("{s:i, s:I, s:I, s:o}", "format", FORMAT, "made", (json_int_t)time(NULL), "count",
                                  (json_int_t)count, "mounts", about_mounts(mount));
        int r = write_about(keeping->dir_fd, about);

        json_decref(about);
        if (r == 0 && renameat(keeping->all_fd, keeping->incomplete, keeping->all_fd, keeping->name) < 0)
                r = -errno;
        return r;
}

/* The privileged helper: create a directory, send its descriptor, and rename it into place when
 * filled. */
static int keep(void *data, int fd)
{
        struct keeping keeping = {-EBADF, -EBADF, -EBADF, "", ""};
        uint32_t count;
        int bad = make_directory(&keeping), r;

        if (bad)
                return bad;
        r = fd_send(fd, keeping.name, sizeof(keeping.name), &keeping.set_fd, 1);
        if (r == 0)
                r = fd_read_full(fd, &count, sizeof(count)); /* end of file means that filling failed */
        if (r == 0)
                r = finish(&keeping, data, count);
        if (r == 0)
                return 0;
        remove_tree(keeping.all_fd, keeping.incomplete, DEPTH_MAX);
        return r == -EPIPE ? 1 : cli_bad("cannot keep the changes: %s", strerror(-r));
}

int changes_prepare(struct privileged_helper *helper, const json_t *mount)
{
        return privileged_helper_prepare(helper, keep, (void *)mount);
}

/* Receive the directory; the child prints its own errors. */
static int receive_directory(struct privileged_helper *helper, char name[CHANGES_NAME_BYTES], int *ret_fd)
{
        size_t fd_count = 1;
        ssize_t size = privileged_helper_start(helper) < 0
                               ? -1
                               : fd_receive(helper->fd, name, CHANGES_NAME_BYTES, ret_fd, &fd_count, 0);

        if (size != CHANGES_NAME_BYTES || fd_count != 1)
                return -1;
        name[CHANGES_NAME_BYTES - 1] = '\0';
        return 0;
}

int cli_changes_keep(struct privileged_helper *helper, const cloche_changeset *set, uint32_t count,
                     char ret_name[CHANGES_NAME_BYTES])
{
        _cleanup_fd_ int set_fd = -EBADF;
        char name[CHANGES_NAME_BYTES];
        struct cloche_err e = {0};
        int code = receive_directory(helper, name, &set_fd), end;

        if (code == 0 && cloche_changeset_save(set, set_fd, &e) < 0)
                code = cli_bad("cannot keep the changes: %s", e.msg);
        if (code == 0 && fd_write_full(helper->fd, &count, sizeof(count)) < 0)
                code = -1;
        end = privileged_helper_wait(helper); /* the child has printed the error */
        if (code == 0 && end == 0)
                strcpy(ret_name, name);
        return code == 0 && end == 0 ? 0 : 1;
}
