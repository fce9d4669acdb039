/* Convert a cell's output, displays and error to the form of Jupyter notebooks. */
#ifndef CLOCHE_CLI_CELLS_NOTEBOOK_OUTPUTS_H
#define CLOCHE_CLI_CELLS_NOTEBOOK_OUTPUTS_H

#include "cli/sandbox/daemon-client.h"

struct notebook_outputs {
        json_t *cell;     /* borrowed; owner of the outputs */
        json_t *outputs;  /* borrowed from the cell */
        json_t *by_id;    /* owned; per displayId an array of the outputs that show it, in any cell */
        json_int_t count; /* of the cell */
        int clears;       /* clear before the next output */
        size_t bytes;     /* approximate size of the cell's outputs */
        char stream[8];   /* "stdout", "stderr": stream of the text being collected */
        struct buf printed;
};

void notebook_outputs_init(struct notebook_outputs *o);
void notebook_outputs_done(struct notebook_outputs *o);

/* Start a cell; its old outputs are removed. */
void notebook_outputs_cell(struct notebook_outputs *o, json_t *cell);
/* Handle an event of context.run. -CLOCHE_E_TOO_LARGE: more than a notebook may hold. */
CLOCHE_MUST_CHECK int notebook_outputs_take(struct notebook_outputs *o, const struct daemon_message *message,
                                            struct cloche_err *e);
/* End the cell; answer: in text form, with the count and the error; NULL: none. */
void notebook_outputs_end(struct notebook_outputs *o, const json_t *answer);

#endif
