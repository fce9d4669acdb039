/* Decide if a symbolic link leads out of its directory.
 * Runs in: cloche-fs, cloche-sync, cloche-files and the engine; pure. */
#include "link.h"

#include <string.h>

const char *link_fault(const char *path, const char *target)
{
        size_t depth = 0;
        int is_forward = 0;

        if (!*target)
                return "is a link to nothing";
        if (*target == '/')
                return "is a link to an absolute path";
        for (const char *slash = path; (slash = strchr(slash, '/')); slash++)
                depth++;
        for (const char *at = target + strspn(target, "/"); *at; at += strspn(at, "/")) {
                size_t size = strcspn(at, "/");
                const char *part = at;

                at += size;
                if (size == 1 && part[0] == '.')
                        continue;
                if (size != 2 || memcmp(part, "..", 2) != 0) {
                        is_forward = 1;
                        continue;
                }
                if (is_forward)
                        return "is a link with \"..\" behind a name";
                if (depth-- == 0)
                        return "is a link that leads out";
        }
        return NULL;
}
