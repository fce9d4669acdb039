/* A cache of descriptors of the host's directories: a lookup by path from the root costs three
 * calls and grows with depth. A cached directory that the host has moved keeps its old place until
 * it expires. Even then Landlock forbids opening anything in a directory moved out of the mount. */
#ifndef CLOCHE_HELPERS_FS_TREE_DIRECTORY_H
#define CLOCHE_HELPERS_FS_TREE_DIRECTORY_H

#include "lower.h"

#include <stdbool.h>
#include <stddef.h>

#define DIRECTORIES_KEPT 128

struct node;

struct directories {
        const struct lower *lower;
        uint64_t keep_ns; /* 0: no caching */
        struct kept {
                const struct node *node; /* only compared, never dereferenced: it may be freed */
                int fd;
                uint64_t until_ns;
        } kept[DIRECTORIES_KEPT];
        unsigned hand; /* clock hand of the eviction */
        char *path;    /* scratch, NODE_PATH_MAX */
};

void directories_init(struct directories *directories, const struct lower *lower, uint64_t keep_ns, char *path);

/* Return the descriptor (O_PATH) of the host's directory of this node, borrowed until the next
 * call; or -errno. */
int directory_find(struct directories *directories, struct node *node);
/* A file system that folds case finds "secret" as "SECRET", which rules do not match. True if st,
 * found by this name, is listed under exactly this name. */
bool directory_spells(struct directories *directories, struct node *directory, const char *name, const struct stat *st);
/* lower_stat() and lower_open_file() for a name in the directory. */
int directory_stat(struct directories *directories, struct node *directory, const char *name, struct stat *ret);
int directory_open_file(struct directories *directories, struct node *directory, const char *name, struct stat *ret);
/* At most size bytes, not terminated; the number or -errno. */
int directory_read_link(struct directories *directories, struct node *directory, const char *name, char *ret, int size);

#endif
