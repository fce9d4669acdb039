/* Suggest the intended word for a mistyped one. Pure. */
#ifndef CLOCHE_BASE_SUGGEST_H
#define CLOCHE_BASE_SUGGEST_H

#include <stddef.h>

#define SUGGEST_BYTES_MAX 40 /* of a word; longer ones match nothing */

struct suggest {
        const char *typed;
        size_t typed_size;
        const char *best; /* NULL: no match; borrowed from the candidates */
        size_t best_size;
        unsigned distance; /* of the best one */
};

struct suggest suggest_for(const char *typed, size_t size);
void suggest_candidate(struct suggest *s, const char *candidate, size_t size);
#define SUGGEST_TEXT_BYTES (SUGGEST_BYTES_MAX + 32)
/* "; did you mean 'python'?", or "". */
const char *suggest_text(const struct suggest *s, char ret[SUGGEST_TEXT_BYTES]);

#endif
