/* A segment with classes or extended globs: `@(a|b)` one of the choices, `?(a|b)` one or none,
 * `*(a|b)` any number, `+(a|b)` at least one, `!(a|b)` as in minimatch: any text, except where a
 * choice and the rest would match up to the segment's end. Pure. */
#ifndef CLOCHE_HELPERS_FS_RULES_GLOB_GROUP_H
#define CLOCHE_HELPERS_FS_RULES_GLOB_GROUP_H

#include <stddef.h>
#include <stdint.h>

#define GLOB_NAME_MAX 1024 /* FUSE_NAME_MAX; no file system has longer names */
#define GLOB_GROUPS_DEEP_MAX 16

struct glob_sequence; /* opaque */

/* text: a segment of at most GLOB_BYTES_MAX, with groups at most GLOB_GROUPS_DEEP_MAX deep and no
 * repeating group within another; borrowed for the lifetime of the sequence. NULL when out of
 * memory. */
struct glob_sequence *glob_sequence_new(const char *text, size_t size);
void glob_sequence_free(struct glob_sequence *sequence); /* accepts NULL */
/* Time is proportional to the product of the sizes: each position of the name visits each item of
 * the segment once, or twice in a repeating group. A name of more than GLOB_NAME_MAX bytes never
 * matches. */
int glob_sequence_matches(const struct glob_sequence *sequence, const char *text, const char *end);

/* Parts of a pattern, from glob.c. */
uint32_t glob_next_character(const char **at);
/* from: after the "[" of a class, to: its "]". */
int glob_in_class(const char *from, const char *to, uint32_t c);
/* Skip one character, a backslash pair or a class, inside which special characters are literal. */
const char *glob_skip_plain(const char *p);
/* The closing parenthesis of the group that opens at p; NULL if none does. */
const char *glob_group_end(const char *p);

#endif
