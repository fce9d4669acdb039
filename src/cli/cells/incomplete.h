/* Decide if a typed cell continues on the next line, from brackets, quotes and words; no
 * language is parsed. */
#ifndef CLOCHE_CLI_CELLS_INCOMPLETE_H
#define CLOCHE_CLI_CELLS_INCOMPLETE_H

#include <stddef.h>

/* An empty last line ends any cell. */
int is_incomplete(const char *language, const char *code, size_t size);

#endif
