/* A set of paths, eight bytes each: hashes under a secret random key. Two paths collide once in a
 * few million million sets. */
#ifndef CLOCHE_BOX_FILES_TREE_PATH_SET_H
#define CLOCHE_BOX_FILES_TREE_PATH_SET_H

#include <stddef.h>
#include <stdint.h>

struct path_set {
        uint64_t key[2];
        uint64_t *slots; /* 0: free */
        size_t count, room;
};

/* 1: added; 0: already present; -ENOMEM. path has size bytes and need not be terminated. */
int path_set_add(struct path_set *s, const char *path, size_t size);
int path_set_has(const struct path_set *s, const char *path, size_t size);
void path_set_done(struct path_set *s);

#endif
