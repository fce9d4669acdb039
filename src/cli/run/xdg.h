/* A user's directories (XDG Base Directory Specification). Functions print a line and return an
 * exit code, or 0. */
#ifndef CLOCHE_CLI_RUN_XDG_H
#define CLOCHE_CLI_RUN_XDG_H

#include <stddef.h>

#define XDG_PATH_BYTES 4096

/* $VARIABLE/below, or $HOME/otherwise/below. what: a word for messages, "prefixes". */
int cli_xdg_find(const char *variable, const char *otherwise, const char *below, const char *what, char *ret,
                 size_t size);
/* Write a path for a file whose readers have another current directory. */
int cli_xdg_make_absolute(const char *path, char *ret, size_t size);
/* Create the directory and its parents, mode 0700. */
int cli_xdg_make_directories(const char *path);
/* Likewise, for all users. */
int cli_xdg_make_shared_directories(const char *path);
/* List the matching entries in byte order, *ret_count of them; empty if the directory is missing.
 * The list and its entries are owned by the caller. */
int cli_xdg_list(const char *directory, int (*is_name)(const char *name), char ***ret, size_t *ret_count);
void cli_xdg_list_free(char **names, size_t count);

#endif
