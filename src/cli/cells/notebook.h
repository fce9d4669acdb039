/* A notebook file of nbformat 4. Parts that are not run stay unchanged and in order. */
#ifndef CLOCHE_CLI_CELLS_NOTEBOOK_H
#define CLOCHE_CLI_CELLS_NOTEBOOK_H

#include <jansson.h>
#include <stddef.h>

struct notebook {
        const char *path; /* borrowed */
        json_t *root, *cells;
};

/* Each returns 0, or the exit code after a line was printed. */

/* Read and validate; an error names the place that violates nbformat. */
int notebook_read(struct notebook *n, const char *path);
/* Replace the file at that path atomically; "-" is standard output. */
int notebook_write(const struct notebook *n, const char *path);
/* Our language for that of its metadata. */
int notebook_language(const struct notebook *n, const char **ret);
void notebook_done(struct notebook *n);

int notebook_is_code(const json_t *cell);
int notebook_has_tag(const json_t *cell, const char *tag);
/* The source of a cell, owned by the caller; NULL when out of memory. */
char *notebook_source(const json_t *cell, size_t *ret_size);
/* An output's text as in the file: an array of lines with their ends. A new reference. */
json_t *notebook_lines(const char *text, size_t size);

#endif
