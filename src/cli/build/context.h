/* The directory whose files a build may copy. No path leads out of it: links on the way are
 * refused. */
#ifndef CLOCHE_CLI_BUILD_CONTEXT_H
#define CLOCHE_CLI_BUILD_CONTEXT_H

#include <cloche/error.h>
#include <jansson.h>
#include <nettle/sha2.h>
#include <stddef.h>

#define CONTEXT_ENTRIES_MAX 1000000

struct context {
        int fd;
        struct ignore_row *rows; /* of .dockerignore */
        size_t count, room;
};

/* Open it and read its .dockerignore. */
CLOCHE_MUST_CHECK int build_context_open(const char *path, struct context *ret, struct cloche_err *e);
void build_context_done(struct context *context);
/* True for an entry that .dockerignore leaves out, with all that is in it. */
int build_context_ignores(const struct context *context, const char *path, int is_directory);
/* Find the entries of a source of COPY or ADD. *ret: a list of paths, sorted.
 * -CLOCHE_E_FILE_NOT_FOUND: there is none.
 * */
CLOCHE_MUST_CHECK int build_context_find(const struct context *context, const char *source, json_t **ret,
                                         struct cloche_err *e);
/* Open the directory of a path. *ret_name: its name there. */
CLOCHE_MUST_CHECK int build_context_open_parent(const struct context *context, const char *path, const char **ret_name,
                                                struct cloche_err *e);
/* List the names of an open directory, sorted. path: for messages. */
CLOCHE_MUST_CHECK int build_context_names(int fd, const char *path, json_t **ret, struct cloche_err *e);
/* Hash names, modes and contents of an entry, times not. */
CLOCHE_MUST_CHECK int build_context_hash(const struct context *context, const char *path, struct sha256_ctx *hash,
                                         struct cloche_err *e);

#endif
