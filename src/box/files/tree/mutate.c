/* Runs in: cloche-files, within a box, with its user's rights. */
#include "box/files/operations.h"

#include "atomic-file.h"
#include "base/err.h"
#include "path.h"
#include "tree.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int file_mkdir(struct files_request *q, struct cloche_err *e)
{
        _cleanup_text_ char *path = NULL;
        int made = 1, r;
        mode_t mode;

        r = request_path(q, "path", &path, e);
        if (r == 0)
                r = request_mode(q, "mode", 0755, &mode, e);
        if (r < 0)
                return r;
        if (request_is_true(q, "recursive", 0)) {
                r = place_make_directories(path, 1, mode, &made, e);
        } else if (mkdir(path, mode) < 0 || chmod(path, mode) < 0) {
                return files_os(e, errno, "make the directory %s", path);
        }
        return r < 0 ? r : request_answer(q, json_pack("{s:s, s:b}", "path", path, "created", made), e);
}

/* -- from, to ------------------------------------------------------------------------------------------------- */

struct way {
        char *from, *to; /* to: final path, also when a directory was named */
        int overwrites;
};

static void way_done(struct way *way)
{
        free(way->from);
        free(way->to);
}

static int into_directory(struct way *way, struct cloche_err *e)
{
        const char *name = path_name(way->from);
        struct stat status;
        char *inner;

        if (stat(way->to, &status) < 0 || !S_ISDIR(status.st_mode))
                return 0;
        inner = path_join(way->to, name);
        if (!inner)
                return request_no_memory(e);
        free(way->to);
        way->to = inner;
        return 0;
}

static int read_way(const struct files_request *q, struct way *way, struct cloche_err *e)
{
        const char *name;
        int r;

        r = request_path(q, "from", &way->from, e);
        if (r == 0)
                r = request_path(q, "to", &way->to, e);
        if (r < 0)
                return r;
        name = path_name(way->from);
        if (!*name || strcmp(name, "..") == 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "\"from\" is %s, expected a path that ends in a name",
                               way->from);
        way->overwrites = request_is_true(q, "overwrite", 1);
        return into_directory(way, e);
}

static int answer_way(struct files_request *q, const struct way *way, struct cloche_err *e)
{
        return request_answer(q, json_pack("{s:s, s:s}", "from", way->from, "to", way->to), e);
}

#define _cleanup_way_ __attribute__((cleanup(way_done)))

int file_copy(struct files_request *q, struct cloche_err *e)
{
        _cleanup_way_ struct way way = {0};
        int r = read_way(q, &way, e);

        if (r == 0)
                r = tree_copy(way.from, way.to, way.overwrites, e);
        return r < 0 ? r : answer_way(q, &way, e);
}

/* Between file systems: copy, then remove. */
static int move_over(const struct way *way, struct cloche_err *e)
{
        uint64_t count = 0;
        int r = tree_copy(way->from, way->to, way->overwrites, e);

        return r < 0 ? r : tree_remove(way->from, &count, e);
}

static int move(const struct way *way, const char *directory, struct cloche_err *e)
{
        struct stat status;
        int r;

        if (lstat(way->from, &status) < 0)
                return files_os(e, errno, "move %s", way->from);
        r = tree_check_removable(way->from, directory, e);
        if (r == 0)
                r = tree_check_outside(&status, way->from, way->to, e);
        if (r < 0)
                return r;
        if (renameat2(AT_FDCWD, way->from, AT_FDCWD, way->to, way->overwrites ? 0 : RENAME_NOREPLACE) == 0)
                return 0;
        return errno == EXDEV ? move_over(way, e) : files_os(e, errno, "move %s to %s", way->from, way->to);
}

int file_move(struct files_request *q, struct cloche_err *e)
{
        _cleanup_way_ struct way way = {0};
        int r = read_way(q, &way, e);

        if (r == 0)
                r = move(&way, q->directory, e);
        return r < 0 ? r : answer_way(q, &way, e);
}

/* -- remove --------------------------------------------------------------------------------------------------- */

static int remove_one(const struct files_request *q, const char *path, uint64_t *count, struct cloche_err *e)
{
        struct stat status;
        int r;

        if (lstat(path, &status) < 0)
                return (errno == ENOENT || errno == ENOTDIR) && request_is_true(q, "force", 0)
                               ? 0
                               : files_os(e, errno, "remove %s", path);
        if (S_ISDIR(status.st_mode) && !request_is_true(q, "recursive", 0))
                return err_set(e, CLOCHE_E_FILE_KIND, "%s is a directory: it is removed with \"recursive\": true",
                               path);
        r = tree_check_removable(path, q->directory, e);
        return r < 0 ? r : tree_remove(path, count, e);
}

int file_remove(struct files_request *q, struct cloche_err *e)
{
        _cleanup_text_ char *path = NULL;
        uint64_t count = 0;
        int r = request_path(q, "path", &path, e);

        if (r == 0)
                r = remove_one(q, path, &count, e);
        return r < 0 ? r : request_answer(q, json_pack("{s:s, s:I}", "path", path, "count", (json_int_t)count), e);
}
