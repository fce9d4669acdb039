/* Select the host's files that exist for the guest: included and within the size bounds. */
#ifndef CLOCHE_HELPERS_FS_TREE_LOADING_H
#define CLOCHE_HELPERS_FS_TREE_LOADING_H

#include "helpers/fs/rules/settings.h"

struct loading; /* opaque */

int loading_new(const struct settings *settings, struct loading **ret, struct cloche_err *e);
void loading_free(struct loading *loading); /* accepts NULL */

/* True if each of the host's entries needs a stat before it is shown. */
bool loading_needs_stat(const struct loading *loading);

/* path: on the host. *ret_why: a warning to record (static), or NULL. */
bool loading_admits(const struct loading *loading, const char *path, const struct stat *st, const char **ret_why);

#endif
