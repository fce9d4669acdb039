/* A user's directories by the XDG Base Directory Specification. Runs in: the CLI, cloched; as the
 * user who started them. */
#ifndef CLOCHE_USER_XDG_H
#define CLOCHE_USER_XDG_H

#include <stddef.h>

/* $VARIABLE/below, or $HOME/otherwise/below; relative paths are ignored. 0, -ENOENT: neither
 * variable is set, -ENAMETOOLONG. */
int xdg_find(const char *variable, const char *otherwise, const char *below, char *ret, size_t size);
/* Create the directory and its missing parents with mode 0700. 0 or -errno. */
int xdg_make_directories(const char *path);
/* Likewise, with mode 0755 within the umask. */
int xdg_make_shared_directories(const char *path);
/* Create only the missing parents of a path. */
int xdg_make_parents(const char *path);

#endif
