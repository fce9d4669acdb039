/* Predicates on the text of paths; nothing is looked up. */
#ifndef CLOCHE_BASE_PATH_H
#define CLOCHE_BASE_PATH_H

#include <stdbool.h>
#include <string.h>

/* directory has no slash at its end, except for the root itself. */
static inline int path_is_at_or_below(const char *path, const char *directory)
{
        size_t size = strlen(directory);

        if (size == 1 && directory[0] == '/')
                return path[0] == '/';
        return strncmp(path, directory, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

/* True if a part of it is "..". */
static inline bool path_has_parent(const char *path)
{
        while (*path) {
                size_t size = strcspn(path, "/");

                if (size == 2 && path[0] == '.' && path[1] == '.')
                        return true;
                path += size + (path[size] == '/');
        }
        return false;
}

#endif
