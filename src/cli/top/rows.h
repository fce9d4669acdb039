/* The rows of cloche top: sandboxes and their use. Pure, but for the clock of ages. */
#ifndef CLOCHE_CLI_TOP_ROWS_H
#define CLOCHE_CLI_TOP_ROWS_H

#include "cli/output/table.h"

#include <stdint.h>

#define TOP_COLUMNS 10
extern const struct table_column top_columns[TOP_COLUMNS];

struct top_order {
        char key;
        const char *name, *heading; /* of the option --sort; of the column */
        const char *member, *more;  /* more: a second member that is added; NULL: none */
        int falls;                  /* the greatest first */
};

/* By its name or key; NULL: there is none. */
const struct top_order *top_order_of_name(const char *name);
const struct top_order *top_order_of_key(int key);
/* Make the rows of an answer of sandbox.list with samples, a new reference. before:
 * the object that the last call has filled, of processor times; elapsed_ns: the time
 * since then, 0: no such call. */
json_t *top_rows(const json_t *answer, json_t *before, uint64_t elapsed_ns);
void top_sort(json_t *rows, const struct top_order *order, int is_reversed);

#endif
