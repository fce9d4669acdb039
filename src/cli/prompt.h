/* Lines typed on the terminal, with editing, history and completion (libedit). SIGINT, SIGTERM, SIGHUP and SIGWINCH are blocked by the caller, and heard
 * here while a line is typed. */
#ifndef CLOCHE_CLI_PROMPT_H
#define CLOCHE_CLI_PROMPT_H

#include <stddef.h>

/* What may stand in place of the last `replaced` characters before the cursor. */
struct prompt_matches {
        char **texts; /* owned, and each */
        size_t count, replaced;
};

struct prompt;

/* complete: of the line up to the cursor; 0, or nothing can be said. history: a file, NULL: none. NULL without memory. */
struct prompt *prompt_new(const char *history, int (*complete)(void *data, const char *line, size_t size, struct prompt_matches *ret), void *data);
void prompt_free(struct prompt *p);

enum prompt_end { PROMPT_LINE, PROMPT_OVER, PROMPT_INTERRUPTED, PROMPT_SIGNALLED };

/* A line with its end, valid until the next is asked for; PROMPT_OVER: Ctrl-D, INTERRUPTED: Ctrl-C, SIGNALLED: we are to end. */
enum prompt_end prompt_read(struct prompt *p, const char *text, const char **ret, size_t *ret_size);

#endif
