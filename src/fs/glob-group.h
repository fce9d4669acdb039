/* A segment with classes or extended globs: `@(a|b)` one of the choices, `?(a|b)` or none, `*(a|b)` any number, `+(a|b)`
 * at least one, `!(a|b)` as minimatch has it: any text, but not where a choice and all that follows would match up to the
 * segment's end. Pure. */
#ifndef CLOCHE_FS_GLOB_GROUP_H
#define CLOCHE_FS_GLOB_GROUP_H

#include <stddef.h>
#include <stdint.h>

#define GLOB_NAME_MAX 1024 /* FUSE_NAME_MAX; no file system has longer names */
#define GLOB_GROUPS_DEEP_MAX 16

struct glob_sequence; /* opaque */

/* text: a segment of at most GLOB_BYTES_MAX, with groups at most GLOB_GROUPS_DEEP_MAX deep and none that repeats within one
 * that does; borrowed as long as the sequence lives. NULL without memory. */
struct glob_sequence *glob_sequence_new(const char *text, size_t size);
void glob_sequence_free(struct glob_sequence *sequence); /* accepts NULL */
/* Takes time proportional to the product of the sizes: each position of the name sees each item of the segment once, or
 * twice in a group that repeats. A name of more than GLOB_NAME_MAX bytes is matched by none. */
int glob_sequence_matches(const struct glob_sequence *sequence, const char *text, const char *end);

/* glob.c: parts of a pattern. */
uint32_t glob_next_character(const char **at);
/* from: behind the "[" of a class, to: its "]". */
int glob_in_class(const char *from, const char *to, uint32_t c);
/* Past a backslash pair or a class, in which special characters are themselves. */
const char *glob_skip_plain(const char *p);
/* A group opens at p: its closing parenthesis; else NULL. */
const char *glob_group_end(const char *p);

#endif
