/* Detects error texts of programs that cannot resolve a name or reach a host. The text comes from a
 * guest, so a match only adds a warning to the result, which gives the cause. Pure. */
#ifndef CLOCHE_ENGINE_BOX_NETWORK_WORDS_H
#define CLOCHE_ENGINE_BOX_NETWORK_WORDS_H

#include <stddef.h>

#define NETWORK_WORDS_KEPT 48 /* more than the longest phrase */

/* A text that comes in pieces. Starts zeroed. */
struct network_words {
        char kept[NETWORK_WORDS_KEPT]; /* the end of the last piece */
        size_t kept_size;
        int is_found;
};

/* Return the beginning of such a phrase, or NULL. */
const char *network_words_find(const char *text, size_t size);
void network_words_add(struct network_words *words, const char *piece, size_t size);

#endif
