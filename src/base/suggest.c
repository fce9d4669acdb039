/* The nearest of several words to a mistyped one. Runs in: the CLI and cloche-image, as the user
 * of each. */
#include "suggest.h"

#include <stdio.h>
#include <string.h>

struct suggest suggest_for(const char *typed, size_t size)
{
        /* A third of the letters may be wrong: one in "rn", two in "pyhton". */
        return (struct suggest){.typed = typed, .typed_size = size, .distance = (unsigned)(size + 2) / 3 + 1};
}

static unsigned least(unsigned a, unsigned b)
{
        return a < b ? a : b;
}

/* The number of insertions, deletions, replacements and swaps of neighbours (optimal string
 * alignment). */
static unsigned distance(const char *a, size_t a_size, const char *b, size_t b_size)
{
        unsigned rows[SUGGEST_BYTES_MAX + 1][SUGGEST_BYTES_MAX + 1];

        for (size_t i = 0; i <= a_size; i++)
                rows[i][0] = (unsigned)i;
        for (size_t k = 0; k <= b_size; k++)
                rows[0][k] = (unsigned)k;
        for (size_t i = 1; i <= a_size; i++)
                for (size_t k = 1; k <= b_size; k++) {
                        unsigned replaced = rows[i - 1][k - 1] + (a[i - 1] != b[k - 1]);

                        rows[i][k] = least(replaced, least(rows[i - 1][k], rows[i][k - 1]) + 1);
                        if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                                rows[i][k] = least(rows[i][k], rows[i - 2][k - 2] + 1);
                }
        return rows[a_size][b_size];
}

void suggest_candidate(struct suggest *s, const char *candidate, size_t size)
{
        unsigned d;

        if (s->typed_size > SUGGEST_BYTES_MAX || size > SUGGEST_BYTES_MAX)
                return;
        d = distance(s->typed, s->typed_size, candidate, size);
        if (d >= s->distance || d >= size)
                return;
        s->distance = d;
        s->best = candidate;
        s->best_size = size;
}

const char *suggest_text(const struct suggest *s, char ret[SUGGEST_TEXT_BYTES])
{
        ret[0] = '\0';
        if (s->best)
                snprintf(ret, SUGGEST_TEXT_BYTES, "; did you mean '%.*s'?", (int)s->best_size, s->best);
        return ret;
}
