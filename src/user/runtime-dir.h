/* The directory of a user's own daemon's socket. No other user can write to it, and every program
 * of the user finds it. Runs in: the CLI, cloched; as the user who started them. */
#ifndef CLOCHE_USER_RUNTIME_DIR_H
#define CLOCHE_USER_RUNTIME_DIR_H

#include <cloche/error.h>

#define RUNTIME_DIR_BYTES 96 /* a socket's whole path has at most 107 */

/* The n-th candidate, in the order of trial (spec/discovery-places.def).
 * 1; 0: this candidate is unusable (its parent is missing, or another user's); -1: no more. */
int runtime_dir_place(unsigned n, char ret[RUNTIME_DIR_BYTES]);
/* Open the directory; with is_made create it if missing. A descriptor; -CLOCHE_E_NOT_FOUND: it is
 * missing or cannot be created; -CLOCHE_E_FORBIDDEN: another user owns it, or others may write
 * there. */
CLOCHE_MUST_CHECK int runtime_dir_open(const char *path, int is_made, struct cloche_err *e);

#endif
