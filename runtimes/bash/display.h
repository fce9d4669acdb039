/* The request of `display`: its words, and the table of kinds (kinds.c). */
#ifndef CLOCHE_BASH_DISPLAY_H
#define CLOCHE_BASH_DISPLAY_H

#include "box/shell/loadable.h"

enum form { TEXT, JSON, BYTES };

struct kind {
        const char *option; /* also the file name's ending, unless there is another */
        const char *ending;
        const char *mime;
        enum form form;
};

struct display {
        struct kind kind; /* mime NULL: not yet known */
        const char *id, *argument;
        int is_update, is_clear, waits;
};

/* By an option without its dashes; by a file's ending. NULL: none. */
const struct kind *kind_of_option(const char *option);
const struct kind *kind_of_file(const char *path);

/* 0, or -1 after a message. */
int display_read_words(WORD_LIST *words, struct display *ret);

#endif
