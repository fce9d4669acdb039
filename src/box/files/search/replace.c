/* Runs in: a job of cloche-files, within a box, with its user's rights. */
#include "box/files/operations.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/utf8.h"
#include "box/files/tree/atomic-file.h"
#include "box/files/tree/contents.h"
#include "pattern.h"
#include "search.h"

#include <string.h>

#define FILE_BYTES_MAX (64u << 20) /* per file, before and after */

struct replace {
        struct files_request *q;
        const struct pattern *pattern;
        json_t *files;
        int64_t count;
        int is_dry;
};

static int read_whole(int fd, const char *path, const struct stat *status, struct buf *out, struct cloche_err *e)
{
        if (status->st_size > (off_t)FILE_BYTES_MAX)
                return err_set(e, CLOCHE_E_TOO_LARGE,
                               "%s has %lld bytes, text is replaced in files of at most %u: exclude it", path,
                               (long long)status->st_size, FILE_BYTES_MAX);
        for (;;) {
                char *at = buf_reserve(out, 64u << 10);
                ssize_t n;

                if (!at)
                        return err_set(e, CLOCHE_E_TOO_LARGE, "%s has more than %u bytes, or there is no memory for it",
                                       path, FILE_BYTES_MAX);
                n = read(fd, at, 64u << 10);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? files_os(e, errno, "read %s", path) : 0;
                out->size += (size_t)n;
        }
}

static int rewrite(const struct walk_entry *entry, const char *path, const struct buf *text, struct cloche_err *e)
{
        _cleanup_place_ struct place place = PLACE_INIT;
        int r = place_open_at(&place, entry->dir_fd, entry->name, path, entry->status->st_mode & (S_IFMT | 07777), e);

        if (r < 0)
                return r;
        r = fd_write_full(place.fd, text->data, text->size);
        return r < 0 ? files_os(e, -r, "write %s", path) : place_commit(&place, path, e);
}

static int replace_in_file(void *data, int fd, const char *path, const struct walk_entry *entry, struct cloche_err *e)
{
        _cleanup_buf_ struct buf before = BUF_INIT(FILE_BYTES_MAX + (64u << 10)),
                                 after = BUF_INIT(FILE_BYTES_MAX + (64u << 10));
        const json_t *replacement;
        struct replace *s = data;
        int64_t count;
        int r;

        r = read_whole(fd, path, entry->status, &before, e);
        if (r < 0 || before.size == 0 || memchr(before.data, '\0', before.size))
                return r;
        replacement = json_object_get(s->q->params, "replacement");
        count = pattern_replace(s->pattern, before.data, before.size, utf8_is_valid(before.data, before.size),
                                json_string_value(replacement), json_string_length(replacement), &after, e);
        if (count < 0)
                return err_wrap(e, "%s", path);
        if (count == 0)
                return WALK_ON;
        r = s->is_dry ? 0 : rewrite(entry, path, &after, e);
        if (r < 0)
                return r;
        s->count += count;
        if (json_array_append_new(s->files,
                                  json_pack("{s:o, s:I}", "path", request_text_or_bytes(s->q, path, strlen(path)),
                                            "count", (json_int_t)count)) < 0)
                return request_no_memory(e);
        return WALK_ON;
}

int file_replace(struct files_request *q, struct cloche_err *e)
{
        _cleanup_pattern_ struct pattern *pattern = NULL;
        struct replace s = {.q = q, .is_dry = request_is_true(q, "dryRun", 0)};
        int r = pattern_open(q, &pattern, e);

        if (r < 0)
                return r;
        s.pattern = pattern;
        s.files = json_array();
        r = search_each(q, replace_in_file, &s, e);
        if (r == 0)
                r = request_answer(q, json_pack("{s:O, s:I}", "files", s.files, "count", (json_int_t)s.count), e);
        json_decref(s.files);
        return r;
}
