/* "include" and "exclude" of a request: globs as fs/glob.h has them, of paths below what is gone through. One without a slash is of names, wherever
 * they are. */
#ifndef CLOCHE_FILES_SIEVE_H
#define CLOCHE_FILES_SIEVE_H

#include "request.h"

#define SIEVE_GLOBS_MAX 256

struct sieve_list {
        struct sieve_glob *globs;
        size_t count;
        unsigned is_given : 1;
};

struct sieve {
        struct sieve_list include, exclude;
};

/* absent: globs excluded when "exclude" is absent, NULL at its end. -CLOCHE_E_INVALID_ARGUMENT names the glob. */
CLOCHE_MUST_CHECK int sieve_open(struct sieve *s, const struct request *q, const char *const *absent, struct cloche_err *e);
void sieve_done(struct sieve *s);
/* 1: this path, and all below it, is of no interest. */
int sieve_excludes(const struct sieve *s, const char *path);
/* 1: it is wanted, if it is not excluded. */
int sieve_includes(const struct sieve *s, const char *path);

#define _cleanup_sieve_ __attribute__((cleanup(sieve_done)))

#endif
