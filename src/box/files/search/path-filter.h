/* "include" and "exclude" of a request: globs of helpers/fs/rules/glob.h for paths below the walked directory. A
 * glob without a slash matches names at any depth. */
#ifndef CLOCHE_BOX_FILES_SEARCH_PATH_FILTER_H
#define CLOCHE_BOX_FILES_SEARCH_PATH_FILTER_H

#include "box/files/request.h"

#define SIEVE_GLOBS_MAX 256

struct sieve_list {
        struct sieve_glob *globs;
        size_t count;
        unsigned is_given : 1;
};

struct sieve {
        struct sieve_list include, exclude;
};

/* absent: globs excluded when "exclude" is absent, ends with NULL. -CLOCHE_E_INVALID_ARGUMENT names
 * the glob. */
CLOCHE_MUST_CHECK int sieve_open(struct sieve *s, const struct request *q, const char *const *absent,
                                 struct cloche_err *e);
void sieve_done(struct sieve *s);
/* 1: skip this path and everything below. */
int sieve_excludes(const struct sieve *s, const char *path);
/* 1: select this path unless it is excluded. */
int sieve_includes(const struct sieve *s, const char *path);

#define _cleanup_sieve_ __attribute__((cleanup(sieve_done)))

#endif
