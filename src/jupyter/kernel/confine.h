/* Give up rights. */
#ifndef CLOCHE_JUPYTER_KERNEL_CONFINE_H
#define CLOCHE_JUPYTER_KERNEL_CONFINE_H

#include <cloche/error.h>

/* Capabilities, files and new connections; before there are threads. */
CLOCHE_MUST_CHECK int confine_to_sockets(struct cloche_err *e);
/* All system calls but those of filter-calls.def, in all threads. */
CLOCHE_MUST_CHECK int confine_kernel_calls(struct cloche_err *e);

#endif
