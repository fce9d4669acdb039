/* What a cell asks for (input, a password), answered with lines of standard input, one question after another. */
#ifndef CLOCHE_CLI_QUESTIONS_H
#define CLOCHE_CLI_QUESTIONS_H

#include "daemon-client.h"
#include "outlet.h"
#include "terminal.h"

struct questions {
        const char *sandbox;      /* borrowed */
        struct buf typed;         /* read, and no answer yet */
        json_t *open;             /* of the events, the oldest first; NULL: none ever */
        int is_over;              /* standard input is */
        struct terminal terminal; /* while a password is typed */
};

void questions_begin(struct questions *q, const char *sandbox);
void questions_done(struct questions *q);

int questions_are_open(const struct questions *q);
/* The cell asks: its prompt goes to standard output, behind what was printed. */
CLOCHE_MUST_CHECK int questions_take(struct questions *q, const json_t *about, struct outlet *out, struct daemon_client *client, struct cloche_err *e);
/* Standard input has something. */
CLOCHE_MUST_CHECK int questions_read(struct questions *q, struct outlet *out, struct daemon_client *client, struct cloche_err *e);
/* The cell has ended, and with it what it asked. */
void questions_forget(struct questions *q);

#endif
