/* Which of the host's files are there for the guest: those that are included and within the size bounds. */
#ifndef CLOCHE_FS_LOADING_H
#define CLOCHE_FS_LOADING_H

#include "settings.h"

struct loading; /* opaque */

int loading_new(const struct settings *settings, struct loading **ret, struct cloche_err *e);
void loading_free(struct loading *loading); /* accepts NULL */

/* Must each of the host's entries be looked at, not just named, before it is shown? */
bool loading_looks(const struct loading *loading);

/* path: where the host has it. *ret_why: a warning to record (static), or NULL when nobody need be told. */
bool loading_admits(const struct loading *loading, const char *path, const struct stat *st, const char **ret_why);

#endif
