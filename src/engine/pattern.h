/* Regular expressions that a stranger wrote, on texts of another: in time and memory that are bounded. The syntax is PCRE2's,
 * with ECMAScript's meaning where both have one. Pure, but for the thread's own clock. */
#ifndef CLOCHE_ENGINE_PATTERN_H
#define CLOCHE_ENGINE_PATTERN_H

#include <jansson.h>
#include <stdint.h>

/* Those that one value is matched against: compiled once, and they have their time together. Starts zeroed. */
struct patterns {
        struct pattern *first;
        uint64_t spent_ns, end_ns, work;
};

/* 1: the text has a match. 0: it has none. -EINVAL: source is no pattern, or too large; -ETIME: it would take too long, or too
 * much memory; -ENOMEM. source is borrowed until the end. */
int patterns_match(struct patterns *patterns, const json_t *source, const json_t *text);
void patterns_done(struct patterns *patterns);

#endif
