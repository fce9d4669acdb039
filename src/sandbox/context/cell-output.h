/* Output of cells that did not fit into their answers. */
#ifndef CLOCHE_SANDBOX_CONTEXT_CELL_OUTPUT_H
#define CLOCHE_SANDBOX_CONTEXT_CELL_OUTPUT_H

#include "sandbox/process/process.h"

/* cell-output.c: find output for output.read. NULL: unknown, or dropped. */
const struct spool *context_output_find(struct sandbox *s, const char *id, enum stream_index index);
/* Take over both spools of a cell; return the output's id, or NULL without memory. */
const char *context_output_keep(struct sandbox *s, struct spool *out, struct spool *err);
uint64_t context_outputs_bytes(const struct sandbox *s);
void context_outputs_free(struct sandbox *s);

#endif
