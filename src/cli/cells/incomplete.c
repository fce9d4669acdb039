/* A cell is incomplete while brackets, quotes or blocks are open. Runs in: the CLI, as its user. */
#include "incomplete.h"

#include <ctype.h>
#include <string.h>

#define WORDS 16

struct syntax {
        const char *language;
        int has_slashes;    /* comments begin with two slashes, or a slash and a star; otherwise with a hash */
        int has_triples;    /* three quotes begin a multi-line text */
        const char *quotes; /* quotes of multi-line texts */
        int has_colons;     /* a line that ends in one begins a block, which an empty line ends */
        const char *openers[WORDS], *closers[WORDS]; /* words; openers count only where a command begins */
};

static const struct syntax syntaxes[] = {
        {"python", .has_triples = 1, .quotes = "", .has_colons = 1},
        {"javascript", .has_slashes = 1, .quotes = "`"},
        {"typescript", .has_slashes = 1, .quotes = "`"},
        {"php", .has_slashes = 1, .quotes = "'\""},
        {"bash", .quotes = "'\"", .openers = {"if", "for", "while", "until", "case", "select"},
         .closers = {"fi", "done", "esac"}},
        {"ruby", .quotes = "'\"",
         .openers = {"def", "class", "module", "if", "unless", "while", "until", "for", "begin", "case", "do"},
         .closers = {"end"}},
};

struct scan {
        const struct syntax *syntax;
        const char *at, *end;
        int brackets, words; /* number of open ones */
        int is_open;         /* inside a text or comment */
        int is_block;
        int begins;     /* a command may begin here */
        int is_loop;    /* the line began with a word that takes a "do" */
        char last;      /* last code character of the line; '\0': none yet */
        int wants_more; /* it was a pipe or "&&" */
};

static int is_in(const char *const *words, const char *word, size_t size)
{
        for (size_t i = 0; i < WORDS && words[i]; i++)
                if (strlen(words[i]) == size && memcmp(words[i], word, size) == 0)
                        return 1;
        return 0;
}

static int begins_with(const struct scan *s, const char *text)
{
        size_t size = strlen(text);

        return (size_t)(s->end - s->at) >= size && memcmp(s->at, text, size) == 0;
}

/* Skip past the next `until`, or to the end, or with is_line to the end of the line. */
static void skip(struct scan *s, const char *until, int is_line, int has_escapes)
{
        for (; s->at < s->end; s->at++) {
                if (has_escapes && *s->at == '\\' && s->at + 1 < s->end) {
                        s->at++;
                        continue;
                }
                if (is_line && *s->at == '\n')
                        return;
                if (begins_with(s, until)) {
                        s->at += strlen(until);
                        return;
                }
        }
        s->is_open = !is_line;
}

static void skip_quoted(struct scan *s)
{
        char quote[2] = {*s->at}, triple[4] = {*s->at, *s->at, *s->at};

        s->last = *quote;
        s->wants_more = 0;
        if (s->syntax->has_triples && begins_with(s, triple)) {
                s->at += 3;
                skip(s, triple, 0, 1);
                return;
        }
        s->at++;
        skip(s, quote, !strchr(s->syntax->quotes, *quote), strcmp(s->syntax->language, "bash") != 0 || *quote == '"');
}

/* 1: a comment was skipped. */
static int skip_comment(struct scan *s, int is_separate)
{
        if (s->syntax->has_slashes && begins_with(s, "/*"))
                skip(s, "*/", 0, 0);
        else if ((s->syntax->has_slashes && begins_with(s, "//")) || (*s->at == '#' && is_separate))
                skip(s, "\n", 1, 0);
        else
                return 0;
        return 1;
}

static int is_word(char c)
{
        return isalnum((unsigned char)c) || c == '_' || c & 0x80;
}

static void take_word(struct scan *s)
{
        static const char *const followed[WORDS] = {"do", "then", "else"}, *const loops[WORDS] = {"while", "until",
                                                                                                  "for"};
        const char *word = s->at;
        size_t size;
        int is_do;

        while (s->at < s->end && is_word(*s->at))
                s->at++;
        size = (size_t)(s->at - word);
        is_do = size == 2 && memcmp(word, "do", 2) == 0;
        if (is_in(s->syntax->openers, word, size) && (is_do ? !s->is_loop : s->begins))
                s->words++;
        if (is_in(s->syntax->closers, word, size))
                s->words -= s->words > 0;
        s->is_loop |= s->begins && is_in(loops, word, size);
        s->begins = is_in(followed, word, size);
        s->wants_more = 0;
        s->last = s->at[-1];
}

static void take_line_end(struct scan *s)
{
        s->is_block |= s->syntax->has_colons && s->last == ':' && s->brackets == 0;
        s->begins = 1;
        s->is_loop = 0;
        s->last = '\0';
        s->at++;
}

static void take_sign(struct scan *s)
{
        s->brackets += strchr("([{", *s->at) != NULL;
        s->brackets -= strchr(")]}", *s->at) != NULL && s->brackets > 0;
        s->is_block |= s->syntax->has_colons && *s->at == '@' && !s->last;
        s->begins = strchr(";&|({=", *s->at) != NULL;
        s->wants_more = *s->at == '|' || (*s->at == '&' && s->last == '&');
        s->last = *s->at++;
}

static void scan(struct scan *s)
{
        int is_separate = 1;

        while (s->at < s->end && !s->is_open) {
                char c = *s->at;

                if (skip_comment(s, is_separate))
                        continue;
                is_separate = isspace((unsigned char)c);
                if (c == '\n')
                        take_line_end(s);
                else if (c == '\\' && s->at + 1 < s->end)
                        s->at += 2;
                else if (c == '\'' || c == '"' || c == '`')
                        skip_quoted(s);
                else if (is_word(c))
                        take_word(s);
                else if (isspace((unsigned char)c))
                        s->at++;
                else
                        take_sign(s);
        }
}

int is_incomplete(const char *language, const char *code, size_t size)
{
        struct scan s = {.at = code, .end = code + size, .begins = 1};
        size_t line = size;

        while (line > 0 && code[line - 1] != '\n')
                line--;
        if (strspn(code + line, " \t\r") >= size - line)
                return 0;
        for (size_t i = 0; i < sizeof(syntaxes) / sizeof(syntaxes[0]); i++)
                if (strcmp(syntaxes[i].language, language) == 0)
                        s.syntax = &syntaxes[i];
        if (!s.syntax)
                return 0;
        scan(&s);
        s.is_block |= s.syntax->has_colons && s.last == ':' && s.brackets == 0;
        return s.is_open || s.brackets > 0 || s.words > 0 || s.is_block || code[size - 1] == '\\' ||
               (*s.syntax->openers && s.wants_more);
}
