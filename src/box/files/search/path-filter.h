/* "include" and "exclude" of a request: globs of helpers/fs/rules/glob.h for paths below the
 * walked directory. A glob without a slash matches names at any depth. */
#ifndef CLOCHE_BOX_FILES_SEARCH_PATH_FILTER_H
#define CLOCHE_BOX_FILES_SEARCH_PATH_FILTER_H

#include "box/files/request.h"

#define PATH_FILTER_GLOBS_MAX 256

struct path_filter_list {
        struct path_filter_glob *globs;
        size_t count;
        unsigned is_given : 1;
};

struct path_filter {
        struct path_filter_list include, exclude;
};

/* absent: globs excluded when "exclude" is absent, ends with NULL. -CLOCHE_E_INVALID_ARGUMENT names
 * the glob. */
CLOCHE_MUST_CHECK int path_filter_open(struct path_filter *s, const struct files_request *q, const char *const *absent,
                                       struct cloche_err *e);
void path_filter_done(struct path_filter *s);
/* 1: skip this path and everything below. */
int path_filter_excludes(const struct path_filter *s, const char *path);
/* 1: select this path unless it is excluded. */
int path_filter_includes(const struct path_filter *s, const char *path);

#define _cleanup_path_filter_ __attribute__((cleanup(path_filter_done)))

#endif
