/* The one name that is not the guest's, in whatever directory: cloche-sync keeps its journal in it, at the root of what is synced, and a
 * directory beneath one mount may be the root of the next. A guest that could make it could forge a journal, which is carried out. The
 * guest never sees it, finds it or makes it, and no denial is recorded. File systems may fold case. */
#ifndef CLOCHE_FS_RESERVED_H
#define CLOCHE_FS_RESERVED_H

#include <stdbool.h>
#include <string.h>

#define RESERVED_NAME ".cloche-sync"

static inline bool reserved_is(const char *name, size_t size)
{
        return size == strlen(RESERVED_NAME) && strncasecmp(name, RESERVED_NAME, size) == 0;
}

/* Whether a part of the path is the name. */
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
