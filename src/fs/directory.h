/* The host's directories that are looked into: their descriptors are kept for a moment, for to look by a path from the root costs three
 * calls and grows with its depth. A directory that the host has moved meanwhile is believed to be where it was for as long; of one
 * moved out of the mount Landlock lets nothing be opened even then. */
#ifndef CLOCHE_FS_DIRECTORY_H
#define CLOCHE_FS_DIRECTORY_H

#include "lower.h"

#include <stdbool.h>
#include <stddef.h>

#define DIRECTORIES_KEPT 128

struct node;

struct directories {
        const struct lower *lower;
        uint64_t keep_ns; /* 0: not at all */
        struct kept {
                const struct node *node; /* compared, never followed: it may be gone */
                int fd;
                uint64_t until_ns;
        } kept[DIRECTORIES_KEPT];
        unsigned hand; /* of the clock that chooses which goes */
        char *path;    /* scratch, NODE_PATH_MAX */
};

void directories_init(struct directories *directories, const struct lower *lower, uint64_t keep_ns, char *path);

/* The descriptor (O_PATH) of what the host has as this node: borrowed until the next call. -errno. */
int directory_find(struct directories *directories, struct node *node);
/* A file system that folds case finds "secret" by "SECRET", which rules know nothing of. Is st, found by this name, listed under it? */
bool directory_spells(struct directories *directories, struct node *directory, const char *name, const struct stat *st);
/* As lower_stat(), lower_open_file() and lower_read_link() of what is called so in it. */
int directory_stat(struct directories *directories, struct node *directory, const char *name, struct stat *ret);
int directory_open_file(struct directories *directories, struct node *directory, const char *name, struct stat *ret);
int directory_read_link(struct directories *directories, struct node *directory, const char *name, char *ret, int size);

#endif
