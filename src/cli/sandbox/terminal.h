/* Change the mode of the user's terminal. A child process restores it, however this process
 * ends. */
#ifndef CLOCHE_CLI_SANDBOX_TERMINAL_H
#define CLOCHE_CLI_SANDBOX_TERMINAL_H

#include "cli/run/helper.h"

#include <termios.h>

struct terminal {
        struct termios before;
        struct privileged_helper keeper;
        char path[64];     /* its name, or "" */
        const char *leave; /* also written to the terminal when the process ends without terminal_restore; NULL: none */
        int is_prepared, is_changed;
};

/* Check that standard input and output are terminals. 0, or a line was printed. */
int terminal_check(const char *command);
void terminal_size(unsigned *ret_cols, unsigned *ret_rows);
/* Read the terminal's mode and start the process that restores it, which needs rights that may be
 * dropped later. The other functions call it if needed. Each returns 0, or a line was printed. */
int terminal_prepare(struct terminal *t);
int terminal_raw(struct terminal *t);
/* Hide typed characters except the newline. */
int terminal_hide(struct terminal *t);
/* Idempotent. */
void terminal_restore(struct terminal *t);

#endif
