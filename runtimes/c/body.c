/* Distinguishes code that defines functions from code that is the body of one, by its braces and parentheses alone. */
#include "compile.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char *skip_quoted(const char *at)
{
        char quote = *at++;

        while (*at && *at != quote && *at != '\n')
                at += *at == '\\' && at[1] ? 2 : 1;
        return *at ? at + 1 : at;
}

/* R"delimiter( ... )delimiter" */
static const char *skip_raw(const char *at)
{
        const char *open = strchr(at, '('), *end;
        char closing[24] = ")";
        size_t size = open ? (size_t)(open - at - 2) : 0;

        if (!open || size > 16)
                return skip_quoted(at + 1);
        memcpy(closing + 1, at + 2, size);
        memcpy(closing + 1 + size, "\"", 2);
        end = strstr(open, closing);
        return end ? end + strlen(closing) : at + strlen(at);
}

static const char *skip_line(const char *at)
{
        while (*at && *at != '\n')
                at += *at == '\\' && at[1] ? 2 : 1;
        return at;
}

/* The text after white space, comments and, at the beginning of lines, directives. */
static const char *skip_blank(const char *at, int *line_begin)
{
        const char *end;

        for (;;) {
                if (*at == '\n') {
                        *line_begin = 1;
                        at++;
                } else if (isspace((unsigned char)*at)) {
                        at++;
                } else if (at[0] == '/' && at[1] == '/') {
                        at = skip_line(at);
                } else if (at[0] == '/' && at[1] == '*') {
                        end = strstr(at + 2, "*/");
                        at = end ? end + 2 : at + strlen(at);
                } else if (*at == '#' && *line_begin) {
                        at = skip_line(at);
                } else {
                        return at;
                }
        }
}

static int is_word(char c)
{
        return isalnum((unsigned char)c) || c == '_';
}

static int is_any(const char *word, size_t size, const char *const *words)
{
        for (; *words; words++)
                if (strlen(*words) == size && memcmp(word, *words, size) == 0)
                        return 1;
        return 0;
}

/* The statement so far, at the outermost level. */
struct statement {
        int is_called;   /* a name, then parentheses */
        int is_assigned; /* = outside of them */
        int is_scope;    /* namespace, extern "C": its content is outermost too */
        int is_control;  /* if, for, do ... */
        int word_before; /* the last token was a name */
};

static void see_word(struct statement *s, const char *word, size_t size)
{
        static const char *const control[] = {"if",     "for",  "while", "switch", "do", "else",
                                              "return", "case", "try",   "goto",   NULL};
        static const char *const scope[] = {"namespace", "extern", NULL};
        static const char *const not_called[] = {"__attribute__", "alignas", "_Alignas", "__declspec",
                                                 "decltype",      "sizeof",  "asm",      NULL};

        s->is_control |= is_any(word, size, control);
        s->is_scope |= is_any(word, size, scope);
        s->word_before = !is_any(word, size, not_called) && !is_any(word, size, control);
}

static const char *skip_group(const char *at, char open, char close)
{
        int depth = 0, line_begin = 0;

        for (; *(at = skip_blank(at, &line_begin)); line_begin = 0) {
                if (*at == '"' || *at == '\'') {
                        at = skip_quoted(at);
                        continue;
                }
                if (at[0] == 'R' && at[1] == '"') {
                        at = skip_raw(at);
                        continue;
                }
                depth += (*at == open) - (*at == close);
                at++;
                if (depth == 0)
                        break;
        }
        return at;
}

enum compile_shape compile_shape(const char *at)
{
        enum compile_shape shape = SHAPE_UNKNOWN;
        struct statement s = {0};
        int line_begin = 1;

        while (*(at = skip_blank(at, &line_begin))) {
                line_begin = 0;
                if (at[0] == 'R' && at[1] == '"') {
                        at = skip_raw(at);
                } else if (is_word(*at)) {
                        const char *word = at;

                        while (is_word(*at))
                                at++;
                        see_word(&s, word, (size_t)(at - word));
                        if (s.is_control)
                                shape = SHAPE_BODY;
                } else if (*at == '"' || *at == '\'') {
                        at = skip_quoted(at);
                } else if (*at == '(') {
                        s.is_called |= s.word_before;
                        s.word_before = 0;
                        at = skip_group(at, '(', ')');
                } else if (*at == '{') {
                        if (s.is_called && !s.is_assigned && !s.is_control)
                                return SHAPE_PROGRAM;
                        at = s.is_scope && !s.is_called ? at + 1 : skip_group(at, '{', '}');
                        /* struct a { ... } f() { ... }: the declaration goes on after a type. */
                        s = (struct statement){0};
                } else {
                        s.is_assigned |= *at == '=';
                        s.word_before = 0;
                        if (*at == ';' || *at == '}')
                                s = (struct statement){0};
                        at++;
                }
        }
        return shape;
}

/* The beginning of the first line that is neither blank, comment nor directive. */
static const char *first_statement(const char *code)
{
        const char *begin = code, *at;
        int line_begin = 1;

        at = skip_blank(code, &line_begin);
        while (at > begin && at[-1] != '\n')
                at--;
        return at;
}

const char *compile_body_name(int is_cpp)
{
        return is_cpp ? "cloche_body" : "main";
}

int compile_wrap_body(const struct compile_job *job, const char *name, struct buf *out)
{
        static const char plain[] = "int main(int argc, char **argv)";
        static const char deduced[] = "auto cloche_body(int argc, char *const *argv)";
        const char *statement = first_statement(job->code);
        const char *head = job->is_cpp && job->target == COMPILE_LIBRARY ? deduced : plain;
        char line[200];
        int number = 1, r;

        for (const char *at = job->code; at < statement; at++)
                number += *at == '\n';
        snprintf(line, sizeof(line), "\n%s { (void)argc; (void)argv;\n#line %d \"%s\"\n", head, number, name);
        r = buf_append(out, job->code, (size_t)(statement - job->code));
        if (r == 0)
                r = buf_append(out, line, strlen(line));
        if (r == 0)
                r = buf_append(out, statement, strlen(statement));
        return r < 0 ? r : buf_append(out, "\n}\n", 3);
}
