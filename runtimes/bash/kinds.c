#include "display.h"

#include <stdio.h>
#include <string.h>

static const struct kind kinds[] = {
        {"html", "html", "text/html", TEXT},
        {NULL, "htm", "text/html", TEXT},
        {"markdown", "md", "text/markdown", TEXT},
        {"latex", "tex", "text/latex", TEXT},
        {"svg", "svg", "image/svg+xml", TEXT},
        {"png", "png", "image/png", BYTES},
        {"jpeg", "jpg", "image/jpeg", BYTES},
        {NULL, "jpeg", "image/jpeg", BYTES},
        {"gif", "gif", "image/gif", BYTES},
        {NULL, "webp", "image/webp", BYTES},
        {"pdf", "pdf", "application/pdf", BYTES},
        {"json", "json", "application/json", JSON},
        {"chart", NULL, "application/vnd.cloche.chart+json", JSON},
        {"javascript", "js", "application/javascript", TEXT},
        {"text", "txt", "text/plain", TEXT},
        {NULL, "log", "text/plain", TEXT},
        {NULL, "csv", "text/plain", TEXT},
};

const struct kind *kind_of_option(const char *option)
{
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
                if (kinds[i].option && strcmp(kinds[i].option, option) == 0)
                        return &kinds[i];
        return NULL;
}

const struct kind *kind_of_file(const char *path)
{
        const char *dot = strrchr(path, '.');

        for (size_t i = 0; dot && i < sizeof(kinds) / sizeof(kinds[0]); i++)
                if (kinds[i].ending && strcasecmp(kinds[i].ending, dot + 1) == 0)
                        return &kinds[i];
        return NULL;
}

static int ends_with(const char *text, const char *end)
{
        size_t length = strlen(text), of_end = strlen(end);

        return length >= of_end && strcmp(text + length - of_end, end) == 0;
}

static enum form form_of_mime(const char *mime)
{
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
                if (strcmp(kinds[i].mime, mime) == 0)
                        return kinds[i].form;
        return ends_with(mime, "json")                                     ? JSON
               : strncmp(mime, "text/", 5) == 0 || ends_with(mime, "+xml") ? TEXT
                                                                           : BYTES;
}

static int is_mime(const char *text)
{
        size_t type = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.+-");

        return type > 0 && text[type] == '/' && text[type + 1] &&
               !text[type + 1 + strspn(text + type + 1, "abcdefghijklmnopqrstuvwxyz0123456789.+-")];
}

/* The word after an option that takes one; NULL after a message. */
static const char *word_behind(WORD_LIST **words)
{
        const char *option = (*words)->word->word;

        *words = (*words)->next;
        if (!*words)
                builtin_error("%s: what belongs to it is missing", option);
        return *words ? (*words)->word->word : NULL;
}

static int read_type(const char *mime, struct display *ret)
{
        if (!mime)
                return -1;
        if (!is_mime(mime)) {
                builtin_error("--type: '%s' is no MIME type", mime);
                return -1;
        }
        ret->kind = (struct kind){.option = "type", .mime = mime, .form = form_of_mime(mime)};
        return 0;
}

static int read_option(WORD_LIST **words, struct display *ret)
{
        const char *name = (*words)->word->word + 2;
        const struct kind *kind = kind_of_option(name);

        if (kind)
                ret->kind = *kind;
        else if (strcmp(name, "type") == 0)
                return read_type(word_behind(words), ret);
        else if (strcmp(name, "id") == 0)
                return (ret->id = word_behind(words)) ? 0 : -1;
        else if (strcmp(name, "update") == 0)
                ret->is_update = 1;
        else if (strcmp(name, "clear") == 0)
                ret->is_clear = 1;
        else if (strcmp(name, "wait") == 0)
                ret->waits = 1;
        else {
                builtin_error("--%s: no such option", name);
                return -1;
        }
        return 0;
}

int display_read_words(WORD_LIST *words, struct display *ret)
{
        int is_behind_options = 0;

        for (; words; words = words->next) {
                const char *word = words->word->word;

                if (!is_behind_options && strcmp(word, "--") == 0) {
                        is_behind_options = 1;
                } else if (!is_behind_options && strncmp(word, "--", 2) == 0) {
                        if (read_option(&words, ret) < 0)
                                return -1;
                } else if (ret->argument) {
                        builtin_error("one thing at a time: '%s' is too much", word);
                        return -1;
                } else {
                        ret->argument = word;
                }
        }
        if (ret->is_update && !ret->id) {
                builtin_error("--update: of which display? Say --id");
                return -1;
        }
        return 0;
}
