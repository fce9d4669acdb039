#include "network-words.h"

#include <string.h>

const char *network_words_find(const char *text, size_t size)
{
        static const char *const said[] = {
                "ould not resolve host",
                "emporary failure in name resolution",
                "ailure resolving",
                "ame or service not known",
                "nable to resolve",
                "EAI_AGAIN",
                "ENOTFOUND",
                "etwork is unreachable",
                "ENETUNREACH",
                "ame resolution",
                "rname not found",
        };

        const char *found = NULL;

        for (size_t i = 0; i < sizeof(said) / sizeof(said[0]) && !found; i++)
                found = memmem(text, size, said[i], strlen(said[i]));
        return found;
}

static size_t least(size_t a, size_t b)
{
        return a < b ? a : b;
}

void network_words_add(struct network_words *words, const char *piece, size_t size)
{
        char seam[2 * NETWORK_WORDS_KEPT];
        size_t head = least(size, NETWORK_WORDS_KEPT), whole = words->kept_size + head,
               kept = least(whole, NETWORK_WORDS_KEPT);

        if (words->is_found)
                return;
        memcpy(seam, words->kept, words->kept_size);
        memcpy(seam + words->kept_size, piece, head);
        words->is_found = network_words_find(seam, whole) || network_words_find(piece, size);
        if (size >= NETWORK_WORDS_KEPT)
                memcpy(words->kept, piece + size - NETWORK_WORDS_KEPT, NETWORK_WORDS_KEPT);
        else
                memcpy(words->kept, seam + whole - kept, kept);
        words->kept_size = kept;
}
