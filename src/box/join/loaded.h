/* Files of the image that a template has in memory. A fork in a sandbox with a writable root
 * must find them unchanged there: otherwise its memory and its files are of two versions. */
#ifndef CLOCHE_BOX_JOIN_LOADED_H
#define CLOCHE_BOX_JOIN_LOADED_H

#include <cloche/error.h>

/* Record the mapped files: the program, its libraries and modules. */
void loaded_record(void);
/* Record one more, which was read and not mapped. */
void loaded_add(const char *path);
/* In the fork, within its box: fail with the name of a file that is not as it was. */
int loaded_check(struct cloche_err *e);

#endif
