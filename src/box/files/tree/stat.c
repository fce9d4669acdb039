/* Runs in: cloche-files, within a box, with its user's rights. */
#include "box/files/operations.h"

#include "base/err.h"
#include "base/fd.h"
#include "entry.h"
#include "path.h"
#include "walk.h"
#include "wire/base64.h"

#include <fcntl.h>
#include <string.h>

#define LIST_ABSENT 10000
#define LIST_MAX 100000

int file_stat(struct files_request *q, struct cloche_err *e)
{
        _cleanup_text_ char *path = NULL;
        struct stat status;
        int r = request_path(q, "path", &path, e);

        if (r < 0)
                return r;
        if (lstat(path, &status) < 0)
                return files_os(e, errno, "look at %s", path);
        return request_answer(q, entry_describe(q, AT_FDCWD, path, path, path_name(path), &status), e);
}

int file_exists(struct files_request *q, struct cloche_err *e)
{
        _cleanup_text_ char *path = NULL;
        struct stat status;
        int r = request_path(q, "path", &path, e);

        if (r < 0)
                return r;
        if (stat(path, &status) == 0)
                return request_answer(q,
                                      json_pack("{s:s, s:b, s:s}", "path", path, "exists", 1, "type",
                                                entry_type(status.st_mode)),
                                      e);
        if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP && errno != ENAMETOOLONG)
                return files_os(e, errno, "look at %s", path);
        return request_answer(q, json_pack("{s:s, s:b}", "path", path, "exists", 0), e);
}

/* -- list ----------------------------------------------------------------------------------------------------- */

struct list {
        struct files_request *q;
        const char *path;
        json_t *entries;
        size_t limit;
        char *last; /* relative path of the last entry */
        int is_more;
};

static int take(void *data, enum walk_event event, const struct walk_entry *entry, struct cloche_err *e)
{
        struct list *list = data;
        _cleanup_text_ char *path = NULL;

        (void)event;
        if (json_array_size(list->entries) == list->limit) {
                list->is_more = 1;
                return WALK_STOP;
        }
        path = path_join(list->path, entry->path);
        free(list->last);
        list->last = strdup(entry->path);
        if (!path || !list->last ||
            json_array_append_new(list->entries, entry_describe(list->q, entry->dir_fd, entry->name, path, entry->path,
                                                                entry->status)) < 0)
                return request_no_memory(e);
        return WALK_ON;
}

/* Start of the next page: the path of the last entry. If that is not text: "/" and its base64,
 * since no relative path begins with a slash. */
static json_t *cursor_of(const char *last)
{
        _cleanup_buf_ struct buf text = BUF_INIT(1u << 20);
        json_t *plain = json_string(last);

        if (plain)
                return plain;
        if (buf_append(&text, "/", 1) < 0 || base64_encode(&text, last, strlen(last)) < 0)
                return NULL;
        return json_stringn(text.data, text.size);
}

static int read_cursor(const char *text, char **ret, struct cloche_err *e)
{
        _cleanup_buf_ struct buf bytes = BUF_INIT(1u << 20);

        if (!text)
                return 0;
        if (*text == '/' && (base64_decode(&bytes, text + 1, strlen(text + 1)) < 0 ||
                             memchr(bytes.data ? bytes.data : "", '\0', bytes.size)))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "\"after\" is not what an earlier page answered as next");
        *ret = *text == '/' ? strndup(bytes.data ? bytes.data : "", bytes.size) : strdup(text);
        return *ret ? 0 : request_no_memory(e);
}

static int read_limit(const struct files_request *q, size_t *ret, struct cloche_err *e)
{
        uint64_t limit = request_count(q, "limit", LIST_ABSENT);

        if (limit < 1 || limit > LIST_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "\"limit\" is %llu, expected 1 to %d",
                               (unsigned long long)limit, LIST_MAX);
        *ret = (size_t)limit;
        return 0;
}

static int list_directory(struct list *list, const char *after, struct cloche_err *e)
{
        _cleanup_fd_ int fd = open(list->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct walk_options walk = {.visit = take,
                                    .data = list,
                                    .is_by_path = 1,
                                    .is_flat = !request_is_true(list->q, "recursive", 0),
                                    .skips_hidden = !request_is_true(list->q, "hidden", 0),
                                    .skips_denied = 1,
                                    .after = after,
                                    .limit = list->limit + 1};

        if (fd < 0)
                return files_os(e, errno, "list %s", list->path);
        /* Denied entries are skipped below the directory; the directory itself must be readable. */
        if (faccessat(fd, ".", R_OK | X_OK, AT_EACCESS) < 0)
                return files_os(e, errno, "list %s", list->path);
        return walk_tree(fd, &walk, e);
}

int file_list(struct files_request *q, struct cloche_err *e)
{
        _cleanup_text_ char *path = NULL, *after = NULL;
        struct list list = {.q = q};
        int r;

        r = request_path(q, "path", &path, e);
        if (r == 0)
                r = read_limit(q, &list.limit, e);
        if (r == 0)
                r = read_cursor(request_text(q, "after"), &after, e);
        if (r < 0)
                return r;
        list.path = path;
        list.entries = json_array();
        r = list_directory(&list, after, e);
        if (r == 0)
                r = request_answer(q,
                                   json_pack("{s:s, s:O, s:o*}", "path", path, "entries", list.entries, "next",
                                             list.is_more ? cursor_of(list.last) : NULL),
                                   e);
        json_decref(list.entries);
        free(list.last);
        return r;
}
