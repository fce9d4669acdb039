/* Runs in: cloche-files, within a box, with its user's rights. Archives come from anyone. */
#include "member.h"

#include "base/err.h"
#include "helpers/fs/rules/link.h"

#include <string.h>

static int refuse(struct cloche_err *e, const char *member, const char *why)
{
        return err_set(e, CLOCHE_E_BAD_ARCHIVE, "the member %.120s %s", member, why);
}

/* Return the size of the next part of a path, or 0; *at moves past it. */
static size_t next_part(const char **at, const char **ret)
{
        size_t size;

        while (**at == '/')
                ++*at;
        size = strcspn(*at, "/");
        *ret = *at;
        *at += size;
        return size;
}

static int is_part(const char *part, size_t size, const char *name)
{
        return strlen(name) == size && memcmp(part, name, size) == 0;
}

int member_path(const char *given, char *path, struct cloche_err *e)
{
        const char *at = given, *part;
        size_t size, used = 0;

        if (*given == '/')
                return refuse(e, given, "has an absolute path");
        while ((size = next_part(&at, &part)) > 0) {
                if (is_part(part, size, "."))
                        continue;
                if (is_part(part, size, ".."))
                        return refuse(e, given, "has \"..\" in its path");
                if (size > MEMBER_NAME_MAX || used + size + 1 > MEMBER_PATH_MAX)
                        return refuse(e, given, "has a path that is too long");
                if (used)
                        path[used++] = '/';
                memcpy(path + used, part, size);
                used += size;
        }
        path[used] = '\0';
        return 0;
}

int member_check_link(const char *path, const char *target, struct cloche_err *e)
{
        const char *fault = link_fault(path, target);

        return fault ? refuse(e, path, fault) : 0;
}
