/* What a cell prints, displays and fails with, as Jupyter puts it into a notebook. */
#ifndef CLOCHE_CLI_NOTEBOOK_OUTPUTS_H
#define CLOCHE_CLI_NOTEBOOK_OUTPUTS_H

#include "daemon-client.h"

struct notebook_outputs {
        json_t *cell;      /* borrowed; whose they are */
        json_t *outputs;   /* borrowed from the cell */
        json_t *by_id;     /* owned; of a displayId an array of the outputs that show it, in whatever cell */
        json_int_t count;  /* of the cell */
        int clears;        /* before the next output comes */
        size_t bytes;      /* that the cell holds, about */
        char stream[8];    /* "stdout", "stderr": what is being printed, and is no output yet; */
        struct buf printed;
};

void notebook_outputs_begin(struct notebook_outputs *o);
void notebook_outputs_done(struct notebook_outputs *o);

/* Those of a cell that begins: what it had is gone. */
void notebook_outputs_cell(struct notebook_outputs *o, json_t *cell);
/* Of the events of context.run. -CLOCHE_E_TOO_LARGE: more than a notebook may hold. */
CLOCHE_MUST_CHECK int notebook_outputs_take(struct notebook_outputs *o, const struct daemon_told *told, struct cloche_err *e);
/* The cell has ended; answer: in text form, with the count and the error, NULL when there is none. */
void notebook_outputs_end(struct notebook_outputs *o, const json_t *answer);

#endif
