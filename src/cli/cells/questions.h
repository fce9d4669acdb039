/* Input requests of a cell (input, a password), answered in order with lines of standard input. */
#ifndef CLOCHE_CLI_CELLS_QUESTIONS_H
#define CLOCHE_CLI_CELLS_QUESTIONS_H

#include "cli/output/output-queue.h"
#include "cli/sandbox/daemon-client.h"
#include "cli/sandbox/terminal.h"

struct questions {
        const char *sandbox;      /* borrowed */
        struct buf typed;         /* read but not used yet */
        json_t *open;             /* pending events, oldest first; NULL: none so far */
        int is_over;              /* standard input has ended */
        struct terminal terminal; /* while a password is typed */
};

void questions_init(struct questions *q, const char *sandbox);
void questions_done(struct questions *q);

int questions_are_open(const struct questions *q);
/* Handle a request: print its prompt on standard output after earlier output. */
CLOCHE_MUST_CHECK int questions_take(struct questions *q, const json_t *about, struct output_queue *out,
                                     struct daemon_client *client, struct cloche_err *e);
/* Call when standard input is readable. */
CLOCHE_MUST_CHECK int questions_read(struct questions *q, struct output_queue *out, struct daemon_client *client,
                                     struct cloche_err *e);
/* The cell has ended: drop its requests. */
void questions_drop(struct questions *q);

#endif
