/* Cells of a context, run for people: output as it comes, displays as text and files, errors with their traceback. */
#ifndef CLOCHE_CLI_CELLS_H
#define CLOCHE_CLI_CELLS_H

#include "displays.h"
#include "follow.h"

#define CELL_TIMED_OUT 124

struct cells {
        /* By the caller; borrowed. */
        struct daemon_client *client;
        const char *sandbox, *context, *language; /* context: NULL is the language's default one, language: NULL is python */
        uint64_t timeout_ms;                      /* 0: the context's own, CLOCHE_UNLIMITED: none */
        int interrupts;                           /* SIGINT interrupts the cell, and what it holds stays */
        int restart;                              /* begin anew when the interpreter has ended */
        struct questions *questions;              /* NULL: who asks is told that there is no input */
        struct displays displays;
        /* Of a run. */
        struct follow *follow;
        int ended_by;  /* the signal that took it back; 0: none did */
        int is_lost;   /* nobody answered: the connection is over */
        int ends_line; /* what it printed ends with one, or there is nothing */
};

/* The parameters of context.run, a new reference; NULL when the code is no text. */
json_t *cells_params(const struct cells *cells, const char *code, size_t size);
/* 0, or the exit code: what became of the cell was said. ret: the answer, a new reference or NULL; may be NULL. */
int cells_run(struct cells *cells, const char *code, size_t size, json_t **ret);
/* Of an answer. */
int cells_exit_code(const json_t *answer);
/* Its error on standard error, without what could steer a terminal. */
void cells_say_error(const json_t *answer);

#endif
