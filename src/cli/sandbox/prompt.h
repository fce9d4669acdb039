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

/* Called while a line is typed, with the line and the place of the cursor in it. complete: 0, or no
 * completion. describe: prints lines about the name there. */
struct prompt_help {
        int (*complete)(void *data, const char *line, size_t at, struct prompt_matches *ret);
        void (*describe)(void *data, const char *line, size_t size, size_t at);
        void *data;
};

/* history: a file, NULL: none. NULL when out of memory. */
struct prompt *prompt_new(const char *history, const struct prompt_help *help);
void prompt_free(struct prompt *p);
/* Offer a line that was typed elsewhere, unless the history has it. */
void prompt_remember(struct prompt *p, const char *line);

enum prompt_end { PROMPT_LINE, PROMPT_OVER, PROMPT_INTERRUPTED, PROMPT_SIGNALLED };

/* Read a line with its newline, valid until the next call; PROMPT_OVER: Ctrl-D, INTERRUPTED:
 * Ctrl-C, SIGNALLED: a signal ends the program. */
enum prompt_end prompt_read(struct prompt *p, const char *text, const char **ret, size_t *ret_size);

#endif
