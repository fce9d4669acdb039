/* Untrusted regular expressions on untrusted texts, in bounded time and memory. The syntax is
 * PCRE2's, with ECMAScript's meaning where both have one. Pure, but for the thread's own clock. */
#ifndef CLOCHE_ENGINE_RUN_PATTERN_H
#define CLOCHE_ENGINE_RUN_PATTERN_H

#include <jansson.h>
#include <stdint.h>

/* The patterns of one value: compiled once, with a common time limit. Starts zeroed. */
struct patterns {
        struct pattern *first;
        uint64_t spent_ns, end_ns, work;
};

/* Return 1 if the text has a match, 0 if not. -EINVAL: source is no pattern, or too large; -ETIME:
 * it needs too much time or memory; -ENOMEM. source is borrowed until patterns_done. */
int patterns_match(struct patterns *patterns, const json_t *source, const json_t *text);
void patterns_done(struct patterns *patterns);

#endif
