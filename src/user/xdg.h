/* Where the XDG Base Directory Specification puts a user's files. Runs in: the CLI, cloched; as the user who started them. */
#ifndef CLOCHE_USER_XDG_H
#define CLOCHE_USER_XDG_H

#include <stddef.h>

/* $VARIABLE/below, or $HOME/otherwise/below; relative paths do not count. 0, -ENOENT: neither variable is set, -ENAMETOOLONG. */
int xdg_find(const char *variable, const char *otherwise, const char *below, char *ret, size_t size);
/* The directory and those above it that are missing, of mode 0700. 0 or -errno. */
int xdg_make_directories(const char *path);
/* Likewise only the directories above a path. */
int xdg_make_parents(const char *path);

#endif
