#define PCRE2_CODE_UNIT_WIDTH 8

#include "pattern.h"

#include <errno.h>
#include <pcre2.h>
#include <stdlib.h>
#include <time.h>

#define SOURCE_BYTES_MAX (16u << 10)
#define HEAP_KIB_MAX (64u << 10)
#define CPU_NS_MAX UINT64_C(250000000)
#define WORK_PER_LOOK (1u << 20) /* bytes that may be read between two checks of the clock */

#define OPTIONS                                                                                                    \
        (PCRE2_UTF | PCRE2_ALT_BSUX | PCRE2_DOLLAR_ENDONLY | PCRE2_MATCH_UNSET_BACKREF | PCRE2_ALLOW_EMPTY_CLASS | \
         PCRE2_NEVER_BACKSLASH_C | PCRE2_AUTO_CALLOUT)

struct pattern {
        const json_t *source;
        pcre2_code *code;
        pcre2_match_data *match;
        struct pattern *next;
};

static uint64_t cpu_now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int compile(const json_t *source, pcre2_code **ret)
{
        pcre2_compile_context *context = pcre2_compile_context_create(NULL);
        int code = PCRE2_ERROR_NOMEMORY;
        size_t at;

        if (context) {
                pcre2_set_max_pattern_length(context, SOURCE_BYTES_MAX);
                pcre2_set_compile_extra_options(context, PCRE2_EXTRA_ALT_BSUX);
                *ret = pcre2_compile((PCRE2_SPTR)json_string_value(source), json_string_length(source), OPTIONS, &code,
                                     &at, context);
        }
        pcre2_compile_context_free(context);
        if (*ret)
                return 0;
        return code == PCRE2_ERROR_NOMEMORY || code == PCRE2_ERROR_HEAP_FAILED ? -ENOMEM : -EINVAL;
}

static int find(struct patterns *patterns, const json_t *source, struct pattern **ret)
{
        struct pattern *p = patterns->first;
        int r;

        while (p && p->source != source)
                p = p->next;
        *ret = p;
        if (p)
                return p->match ? 0 : -EINVAL;
        p = calloc(1, sizeof(*p));
        if (!p)
                return -ENOMEM;
        p->source = source;
        p->next = patterns->first;
        patterns->first = *ret = p;
        r = compile(source, &p->code);
        if (r < 0)
                return r;
        p->match = pcre2_match_data_create(1, NULL);
        return p->match ? 0 : -ENOMEM;
}

/* Callback before each item of the pattern. One item reads at most the whole text. */
static int on_item(pcre2_callout_block *item, void *data)
{
        struct patterns *patterns = data;

        patterns->work += 16 + item->subject_length;
        if (patterns->work < WORK_PER_LOOK)
                return 0;
        patterns->work = 0;
        return cpu_now_ns() > patterns->end_ns ? PCRE2_ERROR_CALLOUT : 0;
}

static int match(struct patterns *patterns, const struct pattern *p, const json_t *text)
{
        pcre2_match_context *context = pcre2_match_context_create(NULL);
        uint64_t begun_ns = cpu_now_ns();
        int r;

        if (!context)
                return -ENOMEM;
        patterns->end_ns = begun_ns + CPU_NS_MAX - patterns->spent_ns;
        pcre2_set_heap_limit(context, HEAP_KIB_MAX);
        pcre2_set_match_limit(context, UINT32_MAX); /* the clock bounds it */
        pcre2_set_callout(context, on_item, patterns);
        r = pcre2_match(p->code, (PCRE2_SPTR)json_string_value(text), json_string_length(text), 0, PCRE2_NO_UTF_CHECK,
                        p->match, context);
        pcre2_match_context_free(context);
        patterns->spent_ns += cpu_now_ns() - begun_ns;
        if (r == PCRE2_ERROR_NOMEMORY)
                return -ENOMEM;
        if ((r < 0 && r != PCRE2_ERROR_NOMATCH) || patterns->spent_ns > CPU_NS_MAX)
                return -ETIME;
        return r >= 0;
}

int patterns_match(struct patterns *patterns, const json_t *source, const json_t *text)
{
        struct pattern *p;
        int r = find(patterns, source, &p);

        return r < 0 ? r : match(patterns, p, text);
}

void patterns_done(struct patterns *patterns)
{
        for (struct pattern *p = patterns->first, *next; p; p = next) {
                next = p->next;
                pcre2_code_free(p->code);
                pcre2_match_data_free(p->match);
                free(p);
        }
        *patterns = (struct patterns){0};
}
