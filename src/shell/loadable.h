/* What any builtin of ours does that makes a live bash run code: cloche-bash.so (runtimes/bash) and cloche-session.so (this folder). */
#ifndef CLOCHE_SHELL_LOADABLE_H
#define CLOCHE_SHELL_LOADABLE_H

#include <sys/types.h>

#include <config.h>

#include <shell.h>
#include <builtins.h>
#include <builtins/common.h>

#define FUNCTIONS_NESTED_MAX 2000 /* one that calls itself for ever would end the process by a segmentation fault */

/* Whether the object works in this version of bash; when not, an error message names both. */
int loadable_fits(void);
/* The number of elements of an indexed array in this version of bash. */
long loadable_array_size(const ARRAY *array);
/* Not as `bash -c` looks to code: no BASH_EXECUTION_STRING, no c in $-. */
void loadable_look_plain(void);

/* Code that leaves work() by jumping to top_level comes back here: returns how it jumped (bashjmp.h), or 0 with what work() returned.
 * about_to_undo, or NULL: told before what the code was in the middle of is undone. */
int loadable_guard(int (*work)(void *data), void *data, void (*about_to_undo)(int jump, void *data), int *ret_status);

/* A descriptor out of the way of code, which likes small numbers; close-on-exec. When there is no room it stays where it is. */
int loadable_move_up(int fd);

#endif
