/* Walk two listings together, line by line. Runs in: cloche-image, as its user, confined to
 * the store and the source. */
#include "listing.h"

#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KIND, MODE, UID, GID, SIZE, CONTENTS, PATH, REST, FIELDS };

static const char *const names[FIELDS] = {"kind", "mode",     "uid",  "gid",
                                          "size", "contents", "path", "target or attributes"};

struct reader {
        FILE *file;
        char *line;
        size_t room;
        char *fields[FIELDS]; /* of the line; REST may be empty */
        int is_over;
};

static int read_line(struct reader *reader, struct cloche_err *e)
{
        ssize_t size = getline(&reader->line, &reader->room, reader->file);
        char *at = reader->line;

        if (size < 0 && ferror(reader->file))
                return err_os(e, CLOCHE_E_STATE, errno, "read a tree's listing");
        reader->is_over = size <= 0;
        if (reader->is_over)
                return 0;
        at[strcspn(at, "\n")] = '\0';
        for (int i = 0; i < REST; i++) {
                reader->fields[i] = at;
                at += strcspn(at, " ");
                if (*at)
                        *at++ = '\0';
                else if (i < PATH)
                        return err_set(e, CLOCHE_E_STATE, "a tree's listing is damaged: import the image again");
        }
        reader->fields[REST] = at;
        return 0;
}

static unsigned next_byte(const char **at)
{
        const char *text = *at;

        if (!*text)
                return 0;
        if (text[0] == '\\' && text[1] == 'x' && hex_digit(text[2]) >= 0 && hex_digit(text[3]) >= 0) {
                *at += 4;
                return 256u + (unsigned)(hex_digit(text[2]) << 4 | hex_digit(text[3]));
        }
        ++*at;
        return 256u + (unsigned char)*text;
}

/* In the order of the walk: the bytes of names, and a directory before its contents. */
int listing_compare_paths(const char *one, const char *other)
{
        unsigned a, b;

        if (strcmp(one, ".") == 0 || strcmp(other, ".") == 0)
                return (strcmp(one, ".") != 0) - (strcmp(other, ".") != 0);
        do {
                a = next_byte(&one);
                b = next_byte(&other);
                a = a == 256u + '/' ? 1 : a;
                b = b == 256u + '/' ? 1 : b;
        } while (a == b && a);
        return a < b ? -1 : a > b;
}

static int add_change(json_t *list, const char *path, const char *change, const char *was, const char *is)
{
        if (json_array_size(list) >= LISTING_CHANGES_MAX)
                return 0;
        return json_array_append_new(list, json_pack("{s:s, s:s, s:s*, s:s*}", "path", path, "change", change, "was",
                                                     was, "is", is));
}

static int compare_facts(json_t *list, const struct reader *was, const struct reader *is, uint64_t *count)
{
        int r = 0;

        for (int i = 0; r == 0 && i < FIELDS; i++)
                if (strcmp(was->fields[i], is->fields[i]) != 0) {
                        ++*count;
                        r = add_change(list, is->fields[PATH], names[i], was->fields[i], is->fields[i]);
                }
        return r;
}

static int step(json_t *list, struct reader *was, struct reader *is, uint64_t *count, struct cloche_err *e)
{
        int order = was->is_over ? 1 : is->is_over ? -1 : listing_compare_paths(was->fields[PATH], is->fields[PATH]), r;

        if (order == 0)
                r = compare_facts(list, was, is, count);
        else
                r = (++*count, add_change(list, order < 0 ? was->fields[PATH] : is->fields[PATH],
                                          order < 0 ? "removed" : "added", NULL, NULL));
        if (r < 0)
                return work_no_memory(e);
        if (order <= 0)
                r = read_line(was, e);
        if (r == 0 && order >= 0)
                r = read_line(is, e);
        return r;
}

static int open_reader(int fd, struct reader *ret, struct cloche_err *e)
{
        int own_fd = dup(fd);

        *ret = (struct reader){.file = own_fd < 0 ? NULL : fdopen(own_fd, "r")};
        if (!ret->file || fseeko(ret->file, 0, SEEK_SET) < 0)
                return err_os(e, CLOCHE_E_STATE, errno, "read a tree's listing");
        return read_line(ret, e);
}

static void close_reader(struct reader *reader)
{
        if (reader->file)
                fclose(reader->file);
        free(reader->line);
}

int listing_compare(int was_fd, int is_fd, json_t **ret, uint64_t *ret_count, struct cloche_err *e)
{
        struct reader was = {0}, is = {0};
        int r = open_reader(was_fd, &was, e);

        *ret_count = 0;
        *ret = json_array();
        if (r == 0)
                r = open_reader(is_fd, &is, e);
        if (r == 0 && !*ret)
                r = work_no_memory(e);
        while (r == 0 && !(was.is_over && is.is_over))
                r = step(*ret, &was, &is, ret_count, e);
        close_reader(&was);
        close_reader(&is);
        return r;
}

/* -- files in both -------------------------------------------------------------------------------------------- */

static bool are_equal(const struct reader *one, const struct reader *other)
{
        for (int i = 0; i < FIELDS; i++)
                if (strcmp(one->fields[i], other->fields[i]) != 0)
                        return false;
        return true;
}

/* The path's bytes, in place. */
static void unescape(char *text)
{
        const char *from = text;
        unsigned byte;

        while ((byte = next_byte(&from)))
                *text++ = (char)byte;
        *text = '\0';
}

int listing_common(int one_fd, int other_fd, listing_visit visit, void *data, struct cloche_err *e)
{
        struct reader one = {0}, other = {0};
        int r = open_reader(one_fd, &one, e);

        if (r == 0)
                r = open_reader(other_fd, &other, e);
        while (r == 0 && !one.is_over && !other.is_over) {
                int order = listing_compare_paths(one.fields[PATH], other.fields[PATH]);

                if (order == 0 && strcmp(one.fields[KIND], "f") == 0 && are_equal(&one, &other)) {
                        unescape(one.fields[PATH]);
                        r = visit(data, one.fields[PATH], e);
                }
                if (r == 0 && order <= 0)
                        r = read_line(&one, e);
                if (r == 0 && order >= 0)
                        r = read_line(&other, e);
        }
        close_reader(&one);
        close_reader(&other);
        return r;
}
