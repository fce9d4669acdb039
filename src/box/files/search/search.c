/* Runs in: a job of cloche-files, within a box, with its user's rights. */
#include "box/files/operations.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/utf8.h"
#include "box/files/tree/contents.h"
#include "box/files/tree/path.h"
#include "pattern.h"
#include "search.h"

#include <fcntl.h>
#include <string.h>

#define LIMIT_ABSENT 1000
#define LIMIT_MAX 100000
#define LINE_CHARACTERS_MAX 1000
#define WINDOW_BYTES (16u << 20) /* a longer line or match is searched in pieces */

struct search {
        struct files_request *q;
        const struct pattern *pattern;
        json_t *matches;
        size_t limit, files;
        int is_truncated;
};

/* The position in one file. */
struct place_in_file {
        const char *path;
        size_t line, counted; /* line number at the byte counted up to */
};

static size_t count_lines(const char *from, const char *to)
{
        size_t count = 0;

        while (from < to && (from = memchr(from, '\n', (size_t)(to - from)))) {
                count++;
                from++;
        }
        return count;
}

static size_t cut_line(const char *line, size_t size)
{
        size_t cut = utf8_offset(line, size, LINE_CHARACTERS_MAX);

        return cut < 4 * LINE_CHARACTERS_MAX ? cut : 4 * LINE_CHARACTERS_MAX;
}

static int add_match(struct search *s, struct place_in_file *at, const char *text, size_t size, size_t from,
                     size_t *ret_line_end, struct cloche_err *e)
{
        const char *before = from ? memrchr(text, '\n', from) : NULL, *line = before ? before + 1 : text;
        const char *end = memchr(text + from, '\n', size - from);
        size_t line_size = (size_t)((end ? end : text + size) - line);

        at->line += count_lines(text + at->counted, text + from);
        at->counted = from;
        *ret_line_end = (size_t)(line - text) + line_size;
        if (json_array_append_new(s->matches,
                                  json_pack("{s:o, s:I, s:I, s:o}", "path",
                                            request_text_or_bytes(s->q, at->path, strlen(at->path)), "line",
                                            (json_int_t)at->line, "column",
                                            (json_int_t)utf8_count(line, (size_t)(text + from - line)) + 1, "text",
                                            request_text_or_bytes(s->q, line, cut_line(line, line_size)))) < 0)
                return request_no_memory(e);
        return 0;
}

static int search_window(struct search *s, struct place_in_file *at, const char *text, size_t size,
                         struct cloche_err *e)
{
        int is_utf8 = utf8_is_valid(text, size), r = 0;
        size_t from, to, next = 0;

        at->counted = 0;
        while (next < size && (r = pattern_find(s->pattern, text, size, next, is_utf8, &from, &to, e)) > 0) {
                if (from == size) /* no line follows the last line's end */
                        break;
                if (json_array_size(s->matches) == s->limit) {
                        s->is_truncated = 1;
                        return WALK_STOP;
                }
                r = add_match(s, at, text, size, from, &next, e);
                if (r < 0)
                        break;
                next++;
        }
        if (r < 0)
                return err_wrap(e, "%s from line %zu on", at->path, at->line);
        at->line += count_lines(text + at->counted, text + size);
        return WALK_ON;
}

/* Fill the window. *is_end: the file has ended. */
static int fill(int fd, const char *path, struct buf *window, int *is_end, struct cloche_err *e)
{
        while (window->size < WINDOW_BYTES) {
                char *room = buf_reserve(window, 64u << 10);
                ssize_t n;

                if (!room)
                        return request_no_memory(e);
                n = read(fd, room, 64u << 10);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return files_os(e, errno, "read %s", path);
                *is_end = n == 0;
                if (n == 0)
                        return 0;
                window->size += (size_t)n;
        }
        return 0;
}

static size_t whole_lines(const struct buf *window, int is_end)
{
        const char *last = is_end ? NULL : memrchr(window->data, '\n', window->size);

        return last ? (size_t)(last + 1 - window->data) : window->size;
}

static int search_file(void *data, int fd, const char *path, const struct walk_entry *entry, struct cloche_err *e)
{
        _cleanup_buf_ struct buf window = BUF_INIT(WINDOW_BYTES + (128u << 10));
        struct place_in_file at = {.path = path, .line = 1};
        struct search *s = data;
        size_t before = json_array_size(s->matches);
        int is_end = 0, r = 0;

        (void)entry;
        while (r == WALK_ON && !is_end) {
                size_t size;

                r = fill(fd, path, &window, &is_end, e);
                if (r < 0 || window.size == 0)
                        break;
                if (memchr(window.data, '\0', window.size)) {
                        while (json_array_size(s->matches) > before)
                                json_array_remove(s->matches, json_array_size(s->matches) - 1);
                        return 0;
                }
                size = whole_lines(&window, is_end);
                r = search_window(s, &at, window.data, size, e);
                buf_consume(&window, size);
        }
        s->files += json_array_size(s->matches) > before;
        return r;
}

int file_search(struct files_request *q, struct cloche_err *e)
{
        _cleanup_pattern_ struct pattern *pattern = NULL;
        uint64_t limit = request_count(q, "limit", LIMIT_ABSENT);
        struct search s = {.q = q, .limit = (size_t)limit};
        int r;

        if (limit < 1 || limit > LIMIT_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "\"limit\" is %llu, expected 1 to %d",
                               (unsigned long long)limit, LIMIT_MAX);
        r = pattern_open(q, &pattern, e);
        if (r < 0)
                return r;
        s.pattern = pattern;
        s.matches = json_array();
        r = search_each(q, search_file, &s, e);
        if (r == 0)
                r = request_answer(q,
                                   json_pack("{s:O, s:I, s:b}", "matches", s.matches, "files", (json_int_t)s.files,
                                             "truncated", s.is_truncated),
                                   e);
        json_decref(s.matches);
        return r;
}
