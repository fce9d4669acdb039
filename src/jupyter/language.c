/* Languages as front ends call them. Pure. Runs in: cloche, cloche-kernel and cloched-engine, with
 * their rights. */
#include "jupyter.h"

#include <string.h>

static const struct jupyter_language languages[] = {
        {"python", "Python 3", "python", "text/x-python", ".py", "ipython3", "python"},
        {"javascript", "JavaScript", "javascript", "text/javascript", ".js", "javascript", "javascript"},
        {"typescript", "TypeScript", "typescript", "text/typescript", ".ts", "typescript", "text/typescript"},
        {"ruby", "Ruby", "ruby", "text/x-ruby", ".rb", "ruby", "ruby"},
        {"php", "PHP", "php", "text/x-php", ".php", "php", "text/x-php"},
        {"bash", "Bash", "bash", "text/x-sh", ".sh", "bash", "shell"},
};

const struct jupyter_language *jupyter_language_at(size_t index)
{
        return index < sizeof(languages) / sizeof(languages[0]) ? &languages[index] : NULL;
}

const struct jupyter_language *jupyter_language_find(const char *name)
{
        const struct jupyter_language *language;

        for (size_t i = 0; (language = jupyter_language_at(i)); i++)
                if (strcmp(language->name, name) == 0)
                        return language;
        return NULL;
}
