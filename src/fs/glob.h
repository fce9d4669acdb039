/* Globs of the executor contract: as minimatch with dot files on, matched against a path below a mount. Pure.
 *
 * `*` any run of characters within a segment, `?` one, `[abc]` `[a-z]` `[!abc]` `[[:alpha:]]` one of a class, `\c` c itself,
 * `{a,b{c,d}}` `{1..12}` alternatives, and a segment that is `**` any number of segments, none included. Characters are code
 * points; bytes that are no UTF-8 are one each. A `!` at the start: every path that the rest does not match.
 *
 * Extended globs within a segment: `@(a|b)`, `?(a|b)`, `*(a|b)`, `+(a|b)` and `!(a|b)` (glob-group.h). The first two may
 * have a '/' in them. Refused by name, for the time they would take: groups that repeat within others that do, groups more
 * than 16 deep, and more than 16 brackets, braces and groups that open nothing. */
#ifndef CLOCHE_FS_GLOB_H
#define CLOCHE_FS_GLOB_H

#include <cloche/cloche.h>

#define GLOB_BYTES_MAX 4096
#define GLOB_ALTERNATIVES_MAX 256 /* of one pattern, braces written out */

struct glob; /* opaque */

/* -CLOCHE_E_INVALID_ARGUMENT names what is wrong and where. ret is owned by the caller, glob_free(). */
int glob_compile(const char *pattern, struct glob **ret, struct cloche_err *e);
void glob_free(struct glob *glob); /* accepts NULL */

/* path: relative, segments parted by single '/', without "." and ".."; "" is the mount itself. 1 or 0; the time is bounded by the
 * product of both lengths, the pattern's with braces written out. */
int glob_matches(const struct glob *glob, const char *path);

#endif
