/* Predicates on the text of paths; nothing is looked up. */
#ifndef CLOCHE_BASE_PATH_H
#define CLOCHE_BASE_PATH_H

#include <string.h>

/* directory has no slash at its end, except for the root itself. */
static inline int path_is_at_or_below(const char *path, const char *directory)
{
        size_t size = strlen(directory);

        if (size == 1 && directory[0] == '/')
                return path[0] == '/';
        return strncmp(path, directory, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

#endif
