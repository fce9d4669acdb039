/* Shared by our builtins that make a live bash run code: cloche-bash.so (runtimes/bash) and
 * cloche-session.so (this folder). */
#ifndef CLOCHE_BOX_SHELL_LOADABLE_H
#define CLOCHE_BOX_SHELL_LOADABLE_H

#include <sys/types.h>

#include <config.h>

#include <shell.h> /* goes first: the others use its types */

#include <builtins.h>
#include <builtins/common.h>

/* A function that calls itself for ever would end the process by a segmentation fault. */
#define FUNCTIONS_NESTED_MAX 2000

/* True if the object works in this version of bash; otherwise an error message names both
 * versions. */
int loadable_fits(void);
/* Return the number of elements of an indexed array in this version of bash. */
long loadable_array_size(const ARRAY *array);
/* Hide the traces of `bash -c` from code: no BASH_EXECUTION_STRING, no c in $-. */
void loadable_hide_traces(void);

/* Run work(). If its code jumps to top_level, the jump ends here: returns its kind
 * (bashjmp.h), or 0 with the result of work(). about_to_undo, or NULL: called before the
 * code's unwind frames run. */
int loadable_guard(int (*work)(void *data), void *data, void (*about_to_undo)(int jump, void *data), int *ret_status);

/* Move a descriptor away from the small numbers that code uses; close-on-exec. It stays if there is
 * no room. */
int loadable_move_up(int fd);

#endif
