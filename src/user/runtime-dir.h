/* Where a user's own daemon has its socket: a directory that nobody else can write to, found again by every program of the user.
 * Runs in: the CLI, cloched; as the user who started them. */
#ifndef CLOCHE_USER_RUNTIME_DIR_H
#define CLOCHE_USER_RUNTIME_DIR_H

#include <cloche/cloche.h>

#define RUNTIME_DIR_BYTES 96 /* a socket's whole path has at most 107 */

/* The n-th place in the order in which they are tried:
 *   root             /run/cloche-root
 *   ordinary users   $XDG_RUNTIME_DIR/cloche, /run/user/UID/cloche
 *   everybody        /tmp/cloche-UID
 * 1; 0: this place cannot be used here (its parent is missing, or another user's); -1: there are no more. */
int runtime_dir_place(unsigned n, char ret[RUNTIME_DIR_BYTES]);
/* Open the directory, and with is_made make it when it is missing. A descriptor; -CLOCHE_E_NOT_FOUND: it is not there, or cannot be
 * made; -CLOCHE_E_FORBIDDEN: another user made it, or others may write there. */
CLOCHE_MUST_CHECK int runtime_dir_open(const char *path, int is_made, struct cloche_err *e);

#endif
