/* Read lines from the terminal with editing, history and completion (libedit). The caller blocks
 * SIGINT, SIGTERM, SIGHUP and SIGWINCH; they are read here while a line is typed. */
#ifndef CLOCHE_CLI_SANDBOX_PROMPT_H
#define CLOCHE_CLI_SANDBOX_PROMPT_H

#include <stddef.h>

/* Candidates for the last `replaced` characters before the cursor. */
struct prompt_matches {
        char **texts; /* owned, and each */
        size_t count, replaced;
};

struct prompt;

/* complete: called with the line up to the cursor; 0, or no completion. history: a file, NULL:
 * none. NULL when out of memory. */
struct prompt *prompt_new(const char *history,
                          int (*complete)(void *data, const char *line, size_t size, struct prompt_matches *ret),
                          void *data);
void prompt_free(struct prompt *p);

enum prompt_end { PROMPT_LINE, PROMPT_OVER, PROMPT_INTERRUPTED, PROMPT_SIGNALLED };

/* Read a line with its newline, valid until the next call; PROMPT_OVER: Ctrl-D, INTERRUPTED:
 * Ctrl-C, SIGNALLED: a signal ends the program. */
enum prompt_end prompt_read(struct prompt *p, const char *text, const char **ret, size_t *ret_size);

#endif
