/* Where symbolic links lead. Pure. */
#ifndef CLOCHE_FS_LINK_H
#define CLOCHE_FS_LINK_H

/* The fault of a link at path, below a top, that points to target; NULL: it leads to something at or below the top. It must be relative, have ".." at
 * its beginning only, and go no higher than the top: so each link alone leads to something beneath the top, and so does any way over several of them. */
const char *link_fault(const char *path, const char *target);

#endif
