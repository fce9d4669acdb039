/* Read, check and write notebook files. Runs in: the CLI, as its user. */
#include "notebook.h"

#include "base/buf.h"
#include "base/fd.h"
#include "cli/command/cli.h"
#include "cli/output/json-text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_BYTES_MAX (1u << 30)

/* -- reading -------------------------------------------------------------------------------------------------- */

static int bad_cell(const struct notebook *n, size_t number, const char *what)
{
        return cli_bad("%s: cell %zu: %s", n->path, number + 1, what);
}

static int is_text(const json_t *value)
{
        const json_t *line;
        size_t i;

        json_array_foreach (value, i, line)
                if (!json_is_string(line))
                        return 0;
        return json_is_string(value) || json_is_array(value);
}

static int check_cell(const struct notebook *n, size_t number)
{
        const json_t *cell = json_array_get(n->cells, number);
        const json_t *tags = json_object_get(json_object_get(cell, "metadata"), "tags");

        if (!json_is_object(cell))
                return bad_cell(n, number, "expected an object");
        if (!json_is_string(json_object_get(cell, "cell_type")))
                return bad_cell(n, number, "cell_type: expected code, markdown or raw");
        if (!is_text(json_object_get(cell, "source")))
                return bad_cell(n, number, "source: expected text or an array of lines");
        if (tags && !json_is_array(tags))
                return bad_cell(n, number, "metadata.tags: expected an array");
        if (notebook_is_code(cell) && json_object_get(cell, "outputs") &&
            !json_is_array(json_object_get(cell, "outputs")))
                return bad_cell(n, number, "outputs: expected an array");
        return 0;
}

static int check(const struct notebook *n)
{
        const json_t *format = json_object_get(n->root, "nbformat");
        int bad = 0;

        if (!json_is_object(n->root))
                return cli_bad("%s: expected a notebook, an object of nbformat, metadata and cells", n->path);
        if (!json_is_integer(format))
                return cli_bad("%s: nbformat: expected the number 4", n->path);
        if (json_integer_value(format) != 4)
                return cli_bad("%s: nbformat: version %lld, expected 4 (jupyter nbconvert --to notebook "
                               "converts it)",
                               n->path, (long long)json_integer_value(format));
        if (!json_is_array(n->cells))
                return cli_bad("%s: cells: expected an array", n->path);
        for (size_t i = 0; !bad && i < json_array_size(n->cells); i++)
                bad = check_cell(n, i);
        return bad;
}

/* Not json_loadf: the caller adds the file's name to the message, and a directory is not an
 * empty file. */
static int load(struct notebook *n)
{
        json_error_t where;
        FILE *file = fopen(n->path, "re");

        if (!file)
                return cli_bad("cannot read '%s': %s", n->path, strerror(errno));
        errno = 0;
        n->root = json_loadf(file, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &where);
        if (!n->root && ferror(file)) {
                fclose(file);
                return cli_bad("cannot read '%s': %s", n->path, strerror(errno ? errno : EIO));
        }
        fclose(file);
        return n->root ? 0
                       : cli_bad("%s: line %d, column %d: invalid JSON: %s", n->path, where.line, where.column,
                                 where.text);
}

int notebook_read(struct notebook *n, const char *path)
{
        int bad;

        *n = (struct notebook){.path = path};
        bad = load(n);
        n->cells = json_object_get(n->root, "cells");
        return bad ? bad : check(n);
}

void notebook_done(struct notebook *n)
{
        json_decref(n->root);
}

/* -- properties ----------------------------------------------------------------------------------------------- */

int notebook_language(const struct notebook *n, const char **ret)
{
        static const struct {
                const char *written, *is;
        } rows[] = {
                {"python", "python"},
                {"python3", "python"},
                {"ipython", "python"},
                {"javascript", "javascript"},
                {"jslab", "javascript"},
                {"node", "javascript"},
                {"typescript", "typescript"},
                {"tslab", "typescript"},
                {"deno", "typescript"},
                {"bash", "bash"},
                {"ruby", "ruby"},
                {"php", "php"},
        };
        const json_t *metadata = json_object_get(n->root, "metadata"),
                     *kernel = json_object_get(metadata, "kernelspec");
        const json_t *written = json_object_get(kernel, "language");

        if (!json_is_string(written))
                written = json_object_get(json_object_get(metadata, "language_info"), "name");
        if (!json_is_string(written))
                written = json_object_get(kernel, "name");
        if (!json_is_string(written))
                return cli_bad("%s: metadata: neither kernelspec nor language_info names the language (use --language "
                               "LANGUAGE does)",
                               n->path);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if (strcasecmp(rows[i].written, json_string_value(written)) == 0) {
                        *ret = rows[i].is;
                        return 0;
                }
        return cli_bad("%s: metadata: its language '%.60s' is none of python, javascript, typescript, bash, ruby, php "
                       "(--language LANGUAGE overrides it)",
                       n->path, json_string_value(written));
}

int notebook_is_code(const json_t *cell)
{
        const char *type = json_string_value(json_object_get(cell, "cell_type"));

        return type && strcmp(type, "code") == 0;
}

int notebook_has_tag(const json_t *cell, const char *tag)
{
        const json_t *each;
        size_t i;

        json_array_foreach (json_object_get(json_object_get(cell, "metadata"), "tags"), i, each)
                if (json_is_string(each) && strcmp(json_string_value(each), tag) == 0)
                        return 1;
        return 0;
}

char *notebook_source(const json_t *cell, size_t *ret_size)
{
        const json_t *source = json_object_get(cell, "source"), *line;
        struct buf text = BUF_INIT(FILE_BYTES_MAX);
        size_t i;
        int r = json_is_string(source) ? buf_append(&text, json_string_value(source), json_string_length(source)) : 0;

        json_array_foreach (source, i, line)
                if (r == 0)
                        r = buf_append(&text, json_string_value(line), json_string_length(line));
        *ret_size = text.size;
        if (r == 0 && buf_append(&text, "", 1) == 0)
                return text.data;
        buf_done(&text);
        return NULL;
}

/* -- lines ---------------------------------------------------------------------------------------------------- */

/* The size of the line end at `at`, 0: none. Line ends of Python's str.splitlines. */
static size_t line_end(const char *at, size_t left)
{
        static const char *const ends[] = {"\r\n", "\n",   "\r",       "\v",           "\f",          "\x1c",
                                           "\x1d", "\x1e", "\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9"};

        for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
                if (strlen(ends[i]) <= left && memcmp(at, ends[i], strlen(ends[i])) == 0)
                        return strlen(ends[i]);
        return 0;
}

json_t *notebook_lines(const char *text, size_t size)
{
        json_t *lines = json_array();
        size_t begin = 0;

        for (size_t at = 0; at < size;) {
                size_t end = line_end(text + at, size - at);

                at += end ? end : 1;
                if (end || at == size) {
                        json_array_append_new(lines, json_stringn(text + begin, at - begin));
                        begin = at;
                }
        }
        return lines;
}

/* -- writing -------------------------------------------------------------------------------------------------- */

static int bad_write(const char *path, int os_errno)
{
        return cli_bad("cannot write '%s': %s", path, strerror(os_errno)), 1;
}

/* Copy the old file's permissions, and its owner if permitted. -errno. */
static int make_alike(int fd, const char *path)
{
        struct stat before;
        mode_t mask = umask(0);

        umask(mask);
        if (stat(path, &before) < 0)
                return fchmod(fd, 0666 & ~mask) < 0 ? -errno : 0;
        if (fchown(fd, before.st_uid, before.st_gid) < 0 && errno != EPERM)
                return -errno;
        return fchmod(fd, before.st_mode & 0777) < 0 ? -errno : 0;
}

/* Write beside it, then rename. -errno. */
static int replace(const char *path, const struct buf *text)
{
        char beside[4200];
        _cleanup_fd_ int fd = -EBADF;
        int r;

        if (snprintf(beside, sizeof(beside), "%s.cloche-XXXXXX", path) >= (int)sizeof(beside))
                return -ENAMETOOLONG;
        fd = mkostemp(beside, O_CLOEXEC);
        if (fd < 0)
                return -errno;
        r = fd_write_full(fd, text->data, text->size);
        if (r == 0)
                r = make_alike(fd, path);
        if (r == 0 && (fsync(fd) < 0 || rename(beside, path) < 0))
                r = -errno;
        if (r < 0)
                unlink(beside);
        return r;
}

/* A link stays: its target is replaced. A special file (a pipe, /dev/stdout) is written
 * directly. */
static int write_file(const char *path, const struct buf *text)
{
        char *whole = realpath(path, NULL);
        struct stat st;
        int r;

        if (whole && stat(whole, &st) == 0 && !S_ISREG(st.st_mode)) {
                _cleanup_fd_ int fd = open(whole, O_WRONLY | O_CLOEXEC | O_NOCTTY);

                r = fd < 0 ? -errno : fd_write_full(fd, text->data, text->size);
        } else {
                r = replace(whole ? whole : path, text);
        }
        free(whole);
        return r;
}

int notebook_write(const struct notebook *n, const char *path)
{
        _cleanup_buf_ struct buf text = BUF_INIT(FILE_BYTES_MAX);
        int r = json_text(&text, n->root);

        if (r == 0)
                r = buf_append(&text, "\n", 1);
        if (r == 0)
                r = strcmp(path, "-") == 0 ? fd_write_full(STDOUT_FILENO, text.data, text.size)
                                           : write_file(path, &text);
        return r < 0 ? bad_write(path, -r) : 0;
}
