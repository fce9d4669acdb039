/* Targets of symbolic links. Pure. */
#ifndef CLOCHE_HELPERS_FS_RULES_LINK_H
#define CLOCHE_HELPERS_FS_RULES_LINK_H

/* The fault of a link at path, below a top, with this target; NULL: it stays at or below the top.
 * The target must be relative, have ".." only at its beginning, and go no higher than the top. Thus
 * each link, and any chain of links, stays below the top. */
const char *link_fault(const char *path, const char *target);

#endif
