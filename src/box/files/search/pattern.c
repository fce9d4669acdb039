/* Runs in: a job of cloche-files, within a box, with its user's rights. */
#include "pattern.h"

#include "base/err.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

struct pattern {
        const char *text; /* literal text; borrowed from the request. NULL: codes are set */
        size_t text_size;
        int is_literal;
        pcre2_code *utf;     /* for subjects that are UTF-8 */
        pcre2_code *invalid; /* for other subjects */
        pcre2_match_data *match;
        pcre2_match_context *limits;
};

void pattern_free(struct pattern **p)
{
        if (!*p)
                return;
        pcre2_code_free((*p)->utf);
        pcre2_code_free((*p)->invalid);
        pcre2_match_data_free((*p)->match);
        pcre2_match_context_free((*p)->limits);
        free(*p);
        *p = NULL;
}

static int compile(const char *text, size_t size, uint32_t options, pcre2_code **ret, struct cloche_err *e)
{
        pcre2_compile_context *context = pcre2_compile_context_create(NULL);
        PCRE2_SIZE at;
        int code;

        if (!context)
                return request_no_memory(e);
        pcre2_set_newline(context, PCRE2_NEWLINE_ANYCRLF);
        *ret = pcre2_compile((PCRE2_SPTR)text, size, options, &code, &at, context);
        pcre2_compile_context_free(context);
        if (!*ret) {
                PCRE2_UCHAR message[160];

                pcre2_get_error_message(code, message, sizeof(message));
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "\"pattern\" is no regular expression: %s, at %zu",
                               (char *)message, (size_t)at);
        }
        return 0;
}

static int compile_both(struct pattern *p, const char *text, size_t size, int ignores_case, struct cloche_err *e)
{
        uint32_t options = PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C | (ignores_case ? PCRE2_CASELESS : 0);
        int r;

        options |= p->is_literal ? PCRE2_LITERAL : PCRE2_MULTILINE | PCRE2_UCP;
        if (p->is_literal)
                options &= ~PCRE2_NEVER_BACKSLASH_C;
        r = compile(text, size, options, &p->utf, e);
        if (r == 0)
                r = compile(text, size, options | PCRE2_MATCH_INVALID_UTF, &p->invalid, e);
        if (r < 0)
                return r;
        p->match = pcre2_match_data_create_from_pattern(p->utf, NULL);
        p->limits = pcre2_match_context_create(NULL);
        if (!p->match || !p->limits)
                return request_no_memory(e);
        pcre2_set_match_limit(p->limits, PATTERN_STEPS_MAX);
        pcre2_set_heap_limit(p->limits, PATTERN_MEMORY_KIB);
        return 0;
}

int pattern_open(const struct files_request *q, struct pattern **ret, struct cloche_err *e)
{
        const char *text = request_text(q, "text"), *expression = request_text(q, "pattern"),
                   *given = text ? text : expression;
        int ignores_case = request_is_true(q, "ignoreCase", 0), r;
        _cleanup_pattern_ struct pattern *p = NULL;

        if (!text == !expression)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "expected one of \"text\" and \"pattern\"");
        if (!*given || strlen(given) > PATTERN_BYTES_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "\"%s\" has %zu bytes, expected 1 to %u",
                               text ? "text" : "pattern", strlen(given), PATTERN_BYTES_MAX);
        p = calloc(1, sizeof(*p));
        if (!p)
                return request_no_memory(e);
        p->is_literal = text != NULL;
        if (text && !ignores_case) {
                p->text = text;
                p->text_size = strlen(text);
        } else {
                r = compile_both(p, given, strlen(given), ignores_case, e);
                if (r < 0)
                        return r;
        }
        *ret = p;
        p = NULL;
        return 0;
}

static int fail(int code, struct cloche_err *e)
{
        PCRE2_UCHAR message[160];

        if (code == PCRE2_ERROR_NOMEMORY)
                return request_no_memory(e);
        if (code == PCRE2_ERROR_MATCHLIMIT || code == PCRE2_ERROR_HEAPLIMIT || code == PCRE2_ERROR_DEPTHLIMIT)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "\"pattern\" takes more than %d steps or %u MiB for one match: it backtracks too much",
                               PATTERN_STEPS_MAX, PATTERN_MEMORY_KIB >> 10);
        pcre2_get_error_message(code, message, sizeof(message));
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "\"pattern\" or \"replacement\": %s", (char *)message);
}

int pattern_find(const struct pattern *p, const char *subject, size_t size, size_t at, int is_utf8, size_t *ret_from,
                 size_t *ret_to, struct cloche_err *e)
{
        const PCRE2_SIZE *found;
        int code;

        if (p->text) {
                const char *here = memmem(subject + at, size - at, p->text, p->text_size);

                if (!here)
                        return 0;
                *ret_from = (size_t)(here - subject);
                *ret_to = *ret_from + p->text_size;
                return 1;
        }
        code = pcre2_match(is_utf8 ? p->utf : p->invalid, (PCRE2_SPTR)subject, size, at,
                           is_utf8 ? PCRE2_NO_UTF_CHECK : 0, p->match, p->limits);
        if (code == PCRE2_ERROR_NOMATCH)
                return 0;
        if (code < 0)
                return fail(code, e);
        found = pcre2_get_ovector_pointer(p->match);
        /* \K may set the beginning after the end. */
        *ret_from = found[0] < found[1] ? found[0] : found[1];
        *ret_to = found[1] > found[0] ? found[1] : found[0];
        return 1;
}

static int no_room(const struct buf *out, struct cloche_err *e)
{
        return err_set(e, CLOCHE_E_TOO_LARGE, "it would have more than %zu bytes with the text replaced", out->max);
}

static int64_t replace_text(const struct pattern *p, const char *subject, size_t size, const char *replacement,
                            size_t replacement_size, struct buf *out, struct cloche_err *e)
{
        size_t at = 0;
        int64_t count = 0;

        for (;;) {
                const char *here = memmem(subject + at, size - at, p->text, p->text_size);
                size_t end = here ? (size_t)(here - subject) : size;

                if (buf_append(out, subject + at, end - at) < 0 ||
                    (here && buf_append(out, replacement, replacement_size) < 0))
                        return no_room(out, e);
                if (!here)
                        return count;
                count++;
                at = end + p->text_size;
        }
}

int64_t pattern_replace(const struct pattern *p, const char *subject, size_t size, int is_utf8, const char *replacement,
                        size_t replacement_size, struct buf *out, struct cloche_err *e)
{
        uint32_t options = PCRE2_SUBSTITUTE_GLOBAL | PCRE2_SUBSTITUTE_OVERFLOW_LENGTH | PCRE2_SUBSTITUTE_UNSET_EMPTY;
        PCRE2_SIZE room = size + size / 4 + 4096;
        int code = PCRE2_ERROR_NOMEMORY;

        if (p->text)
                return replace_text(p, subject, size, replacement, replacement_size, out, e);
        options |= (p->is_literal ? PCRE2_SUBSTITUTE_LITERAL : 0) | (is_utf8 ? PCRE2_NO_UTF_CHECK : 0);
        for (int attempt = 0; attempt < 2 && code == PCRE2_ERROR_NOMEMORY; attempt++) {
                char *at = room > out->max ? NULL : buf_reserve(out, room);

                if (!at)
                        return no_room(out, e);
                code = pcre2_substitute(is_utf8 ? p->utf : p->invalid, (PCRE2_SPTR)subject, size, 0, options, p->match,
                                        p->limits, (PCRE2_SPTR)replacement, replacement_size, (PCRE2_UCHAR *)at, &room);
        }
        if (code < 0)
                return fail(code, e);
        out->size += room;
        return code;
}
