/* Columns of lists that several commands show. */
#ifndef CLOCHE_CLI_OUTPUT_COLUMNS_H
#define CLOCHE_CLI_OUTPUT_COLUMNS_H

#include "table.h"

#define COLUMNS_OF_PROCESSES 6
#define COLUMNS_OF_CONTEXTS 8
extern const struct table_column columns_of_processes[COLUMNS_OF_PROCESSES];
extern const struct table_column columns_of_contexts[COLUMNS_OF_CONTEXTS];

#endif
