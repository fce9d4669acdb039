/* The system call filter of cloche-fs: what it may still ask the kernel when it has met bytes that a guest chose. */
#ifndef CLOCHE_FS_FILTER_H
#define CLOCHE_FS_FILTER_H

#include <cloche/cloche.h>

/* For good. no_new_privs must be set. -CLOCHE_E_GUARD_MISSING where the kernel has none. */
int filter_enter(struct cloche_err *e);

#endif
