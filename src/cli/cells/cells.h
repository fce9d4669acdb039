/* Run cells of a context for people: output as it arrives, displays as text and files, errors with
 * their traceback. */
#ifndef CLOCHE_CLI_CELLS_CELLS_H
#define CLOCHE_CLI_CELLS_CELLS_H

#include "cli/sandbox/follow.h"
#include "displays.h"

#define CELL_TIMED_OUT 124

struct cells {
        /* Set by the caller; borrowed. */
        struct daemon_client *client;
        const char *sandbox, *context,
                *language;           /* context: NULL is the language's default one; language: NULL is python */
        uint64_t timeout_ms;         /* 0: the context's own; CLOCHE_UNLIMITED: none */
        int interrupts;              /* SIGINT interrupts the cell; the context keeps its state */
        int restart;                 /* start a new interpreter if it has exited */
        struct questions *questions; /* NULL: input requests are answered with end of file */
        struct displays displays;
        /* State of a run. */
        struct follow *follow;
        int ended_by;  /* the signal that cancelled it; 0: none */
        int is_lost;   /* no answer: the connection is lost */
        int ends_line; /* its output is empty or ends with a newline */
};

/* The parameters of context.run, a new reference; NULL if the code is not UTF-8 text. */
json_t *cells_params(const struct cells *cells, const char *code, size_t size);
/* 0, or the exit code after a message was printed. ret: the answer, a new reference or NULL; may
 * be NULL. */
int cells_run(struct cells *cells, const char *code, size_t size, json_t **ret);
/* The exit code for an answer. */
int cells_exit_code(const json_t *answer);
/* Print its error on standard error, with terminal controls escaped. */
void cells_print_error(const json_t *answer);

#endif
