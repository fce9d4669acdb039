/* Globs of the executor contract: minimatch with dot files on, matched against a path below a
 * mount. Pure.
 *
 * `*` any run of characters within a segment, `?` one, `[abc]` `[a-z]` `[!abc]` `[[:alpha:]]` one
 * of a class, `\c` c itself, `{a,b{c,d}}` `{1..12}` alternatives, and the segment `**` any number
 * of segments, including none. Characters are code points; each byte of invalid UTF-8 is one. A
 * leading `!` matches every path that the rest does not match.
 *
 * Extended globs within a segment: `@(a|b)`, `?(a|b)`, `*(a|b)`, `+(a|b)` and `!(a|b)`
 * (glob-group.h). The first two may contain '/'. Patterns that would take too long are refused with
 * an error: repeating groups within repeating groups, groups more than 16 deep, and more than 16
 * unmatched brackets, braces and parentheses. */
#ifndef CLOCHE_HELPERS_FS_RULES_GLOB_H
#define CLOCHE_HELPERS_FS_RULES_GLOB_H

#include <cloche/error.h>

#define GLOB_BYTES_MAX 4096
#define GLOB_ALTERNATIVES_MAX 256 /* per pattern, after brace expansion */

struct glob; /* opaque */

/* -CLOCHE_E_INVALID_ARGUMENT names the fault and its position. ret is owned by the caller,
 * glob_free(). */
int glob_compile(const char *pattern, struct glob **ret, struct cloche_err *e);
void glob_free(struct glob *glob); /* accepts NULL */

/* path: relative, segments separated by single '/', without "." and ".."; "" is the mount itself. 1
 * or 0; time is bounded by the product of both lengths, the pattern's after brace expansion. */
int glob_matches(const struct glob *glob, const char *path);

#endif
