/* Whether a text has the words by which programs say that a name or a host cannot be reached. It says nothing about a policy: a line of ours behind it
 * names the cause. The text is a guest's; it decides about that line and nothing else. Pure. */
#ifndef CLOCHE_ENGINE_NETWORK_WORDS_H
#define CLOCHE_ENGINE_NETWORK_WORDS_H

#include <stddef.h>

#define NETWORK_WORDS_KEPT 48 /* more than the longest word has */

/* A text that comes in pieces. Zeroed at first. */
struct network_words {
        char kept[NETWORK_WORDS_KEPT]; /* the end of the piece before */
        size_t kept_size;
        int is_found;
};

/* Where such words begin, or NULL. */
const char *network_words_find(const char *text, size_t size);
void network_words_add(struct network_words *words, const char *piece, size_t size);

#endif
