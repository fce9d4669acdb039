/* The user's own terminal in another mode. However this process ends, the terminal is put back: a child that outlives it sees to that. */
#ifndef CLOCHE_CLI_TERMINAL_H
#define CLOCHE_CLI_TERMINAL_H

#include "errand.h"

#include <termios.h>

struct terminal {
        struct termios before;
        struct errand keeper;
        char path[64]; /* its name, or "" */
        int is_prepared, is_changed;
};

/* Whether standard input and output are one. 0, or a line was printed. */
int terminal_check(const char *command);
void terminal_size(unsigned *ret_cols, unsigned *ret_rows);
/* Reads the terminal's mode, and starts what restores it, which needs rights that this process may give up later. The others call it when it was not called. Each: 0, or a
 * line was printed. */
int terminal_prepare(struct terminal *t);
int terminal_raw(struct terminal *t);
/* What is typed is not shown, but the end of its line. */
int terminal_hide(struct terminal *t);
/* Again does nothing. */
void terminal_restore(struct terminal *t);

#endif
