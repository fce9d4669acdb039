#include "dependencies.h"

#include <string.h>

#define PATH_BYTES_MAX 4095

/* An incomplete list is worse than none. */
static void forget(struct buf *list)
{
        buf_consume(list, list->size);
}

static int append_line(struct buf *list, const char *path, size_t size)
{
        return buf_append(list, path, size) < 0 || buf_append(list, "\n", 1) < 0 ? -1 : 0;
}

void dependencies_append(struct buf *list, const char *path, size_t size)
{
        if (append_line(list, path, size) < 0)
                forget(list);
}

/* The next word, with escaped blanks and the like; *ret_end: the character after it, or -1.
 * Escaped newlines are left out. Returns its size, which may exceed the buffer. */
static size_t next_word(const char **at, const char *end, int is_target, char *ret, size_t room, int *ret_end)
{
        size_t size = 0;

        while (*at < end) {
                char ch = *(*at)++;

                if (ch == '\\') {
                        if (*at == end)
                                break;
                        ch = *(*at)++;
                        if (ch == '\n')
                                continue;
                } else if (ch == ' ' || ch == '\n' || (ch == ':' && is_target)) {
                        *ret_end = ch;
                        return size;
                }
                if (size < room)
                        ret[size] = ch;
                size++;
        }
        *ret_end = -1;
        return size;
}

void dependencies_parse(const char *text, size_t size, const char *without, struct buf *list)
{
        const char *at = text, *end = text + size;
        size_t skipped = strlen(without);
        char word[PATH_BYTES_MAX];
        int is_target = 1, last = '\n';

        while (at < end) {
                size_t length = next_word(&at, end, is_target, word, sizeof(word), &last);
                int is_own = length >= skipped && memcmp(word, without, skipped) == 0;

                if (last < 0 || length > sizeof(word) ||
                    (length > 0 && !is_target && !is_own && append_line(list, word, length) < 0)) {
                        forget(list);
                        return;
                }
                is_target = last == '\n' || (is_target && last != ':');
        }
        if (last != '\n')
                forget(list);
}
