/* Words and variables of instructions. Runs in: the CLI, as its user. */
#include "dockerfile.h"

#include "base/buf.h"
#include "base/env.h"
#include "base/err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 16 /* of variables in the text for another one */

static int no_memory(struct cloche_err *e)
{
        return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read words");
}

static int not_closed(struct cloche_err *e)
{
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a quote is not closed");
}

/* Return the end of the word, or NULL: a quote is not closed. */
static const char *end_of_word(const char *at)
{
        char quote = '\0';

        for (; *at && (quote || (*at != ' ' && *at != '\t')); at++) {
                if (*at == '\\' && quote != '\'' && at[1])
                        at++;
                else if (quote && *at == quote)
                        quote = '\0';
                else if (!quote && (*at == '"' || *at == '\''))
                        quote = *at;
        }
        return quote ? NULL : at;
}

int docker_split(const char *text, json_t **ret, struct cloche_err *e)
{
        json_t *list = json_array();
        int r = list ? 0 : no_memory(e);

        for (const char *at = text + strspn(text, " \t"), *end; r == 0 && *at; at = end + strspn(end, " \t")) {
                end = end_of_word(at);
                if (!end) {
                        r = not_closed(e);
                        break;
                }
                if (json_array_size(list) == DOCKERFILE_WORDS_MAX)
                        r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "more than %d words", DOCKERFILE_WORDS_MAX);
                else if (json_array_append_new(list, json_stringn(at, (size_t)(end - at))) < 0)
                        r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a word is not UTF-8");
        }
        if (r < 0)
                json_decref(list);
        else
                *ret = list;
        return r;
}

/* -- variables -------------------------------------------------------------------------------------------------- */

struct expansion {
        const char *at;
        docker_lookup lookup;
        void *data;
        unsigned depth;
        struct buf out;
};

static int expand(struct expansion *x, char end, struct cloche_err *e);

static int append(struct expansion *x, const char *text, size_t size, struct cloche_err *e)
{
        return buf_append(&x->out, text, size) < 0
                       ? err_set(e, CLOCHE_E_TOO_LARGE, "the text with its variables has more than %u bytes",
                                 DOCKERFILE_BYTES_MAX)
                       : 0;
}

/* The text after an operator, which is dropped unless it is wanted. */
static int expand_other(struct expansion *x, int is_wanted, struct cloche_err *e)
{
        size_t before = x->out.size;
        int r = ++x->depth > DEPTH_MAX
                        ? err_set(e, CLOCHE_E_INVALID_ARGUMENT, "variables are more than %d deep", DEPTH_MAX)
                        : expand(x, '}', e);

        x->depth--;
        if (r == 0 && !is_wanted)
                x->out.size = before;
        return r;
}

/* ${NAME:-TEXT} and its relatives; at: after the name. */
static int expand_operator(struct expansion *x, const char *name, const char *value, struct cloche_err *e)
{
        int counts_empty = *x->at == ':';
        char operator= x->at[counts_empty];
        int is_set = value && (!counts_empty || *value), r;

        if (!operator|| !strchr("-+?", operator))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "${%.60s%.2s…} is not supported: expected -, + or ?", name,
                               x->at);
        x->at += counts_empty + 1;
        if (operator!= '+' && is_set) {
                r = append(x, value, strlen(value), e);
                return r == 0 ? expand_other(x, 0, e) : r;
        }
        if (operator!= '?')
                return expand_other(x, operator== '-' || is_set, e);
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the variable %.60s is not set", name);
}

static int expand_variable(struct expansion *x, struct cloche_err *e)
{
        int has_brace = x->at[1] == '{', r = 0;
        const char *begin = x->at + 1 + has_brace, *value;
        size_t size = 0;
        char *name;

        while (begin[size] == '_' || (begin[size] >= 'a' && begin[size] <= 'z') ||
               (begin[size] >= 'A' && begin[size] <= 'Z') || (size > 0 && begin[size] >= '0' && begin[size] <= '9'))
                size++;
        if (size == 0 && !has_brace) {
                x->at++;
                return append(x, "$", 1, e);
        }
        if (size == 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "'${' has no name after it");
        name = strndup(begin, size);
        if (!name)
                return no_memory(e);
        x->at = begin + size;
        value = x->lookup(x->data, name);
        if (has_brace && *x->at != '}')
                r = expand_operator(x, name, value, e);
        else if (value)
                r = append(x, value, strlen(value), e);
        free(name);
        if (r == 0 && has_brace && *x->at != '}')
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "'${' has no '}' after it");
        x->at += r == 0 && has_brace;
        return r;
}

static int expand_single(struct expansion *x, struct cloche_err *e)
{
        const char *end = strchr(x->at + 1, '\'');
        int r = end ? append(x, x->at + 1, (size_t)(end - x->at - 1), e) : not_closed(e);

        x->at = end ? end + 1 : x->at;
        return r;
}

/* In double quotes a backslash is one, except before these. */
static int expand_backslash(struct expansion *x, int is_double, struct cloche_err *e)
{
        int stays = is_double && !strchr("\"$\\", x->at[1]);
        int r = append(x, x->at + !stays, 1u + (unsigned)stays, e);

        x->at += 2;
        return r;
}

/* Until end, which stays. */
static int expand(struct expansion *x, char end, struct cloche_err *e)
{
        int is_double = 0, r = 0;

        while (r == 0 && *x->at && (*x->at != end || is_double)) {
                if (*x->at == '$') {
                        r = expand_variable(x, e);
                } else if (*x->at == '\'' && !is_double) {
                        r = expand_single(x, e);
                } else if (*x->at == '\\' && x->at[1]) {
                        r = expand_backslash(x, is_double, e);
                } else if (*x->at == '"') {
                        is_double = !is_double;
                        x->at++;
                } else {
                        r = append(x, x->at++, 1, e);
                }
        }
        return r == 0 && is_double ? not_closed(e) : r;
}

int docker_expand(const char *text, docker_lookup lookup, void *data, char **ret, struct cloche_err *e)
{
        struct expansion x = {.at = text, .lookup = lookup, .data = data, .out = BUF_INIT(DOCKERFILE_BYTES_MAX)};
        int r = expand(&x, '\0', e);

        if (r == 0)
                r = append(&x, "", 1, e);
        *ret = r == 0 ? x.out.data : NULL;
        if (r < 0)
                buf_done(&x.out);
        return r;
}
