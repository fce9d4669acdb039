/* A notebook: a file of nbformat 4. Whatever is not run stays as it was, in its order. */
#ifndef CLOCHE_CLI_NOTEBOOK_H
#define CLOCHE_CLI_NOTEBOOK_H

#include <jansson.h>
#include <stddef.h>

struct notebook {
        const char *path; /* borrowed */
        json_t *root, *cells;
};

/* Each: 0, or the exit code: a line was printed. */

/* Read and looked at: what is not as nbformat says is named by its place. */
int notebook_read(struct notebook *n, const char *path);
/* In place of what is at that path, whole or not at all; "-" is standard output. */
int notebook_write(const struct notebook *n, const char *path);
/* Ours, of its metadata. */
int notebook_language(const struct notebook *n, const char **ret);
void notebook_done(struct notebook *n);

int notebook_is_code(const json_t *cell);
int notebook_has_tag(const json_t *cell, const char *tag);
/* Of a cell, owned by the caller; NULL without memory. */
char *notebook_source(const json_t *cell, size_t *ret_size);
/* What an output's text is in the file: an array of lines with their ends. A new reference. */
json_t *notebook_lines(const char *text, size_t size);

#endif
