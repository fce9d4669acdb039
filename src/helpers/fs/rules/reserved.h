/* The one reserved name, in any directory: cloche-sync keeps its journal there, at the root of a
 * synced directory, and a directory below one mount may be the root of the next. A guest that could
 * create it could forge a journal, which is executed. The guest can neither see, find nor create
 * it, and no denial is recorded. File systems may fold case. */
#ifndef CLOCHE_HELPERS_FS_RULES_RESERVED_H
#define CLOCHE_HELPERS_FS_RULES_RESERVED_H

#include <stdbool.h>
#include <string.h>

#define RESERVED_NAME ".cloche-sync"

static inline bool reserved_is(const char *name, size_t size)
{
        return size == strlen(RESERVED_NAME) && strncasecmp(name, RESERVED_NAME, size) == 0;
}

/* True if a part of the path is the reserved name. */
static inline bool reserved_is_in(const char *path)
{
        for (size_t size = strcspn(path, "/");; path += size + 1, size = strcspn(path, "/")) {
                if (reserved_is(path, size))
                        return true;
                if (!path[size])
                        return false;
        }
}

#endif
