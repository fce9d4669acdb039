/* Runs in: cloche-files, within a box, with its user's rights. */
#include "path.h"

#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In place; the result is no longer. */
static void tidy(char *path)
{
        char *to = path;

        for (const char *at = path; *at;) {
                const char *end = strchrnul(at, '/');
                size_t size = (size_t)(end - at);

                if (size > 0 && !(size == 1 && at[0] == '.')) {
                        *to++ = '/';
                        memmove(to, at, size);
                        to += size;
                }
                at = *end ? end + 1 : end;
        }
        if (to == path)
                *to++ = '/';
        *to = '\0';
}

int path_absolute(const char *directory, const char *given, char **ret, struct cloche_err *e)
{
        char *path;

        if (!given || !*given)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the path is empty");
        if (strlen(given) > PATH_BYTES_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the path has %zu bytes, at most %d are accepted",
                               strlen(given), PATH_BYTES_MAX);
        path = *given == '/' ? path_join("/", given) : path_join(directory, given);
        if (!path)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read a path");
        tidy(path);
        if (strlen(path) > PATH_BYTES_MAX) {
                free(path);
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the path has more than %d bytes below %s", PATH_BYTES_MAX,
                               directory);
        }
        *ret = path;
        return 0;
}

char *path_join(const char *directory, const char *name)
{
        size_t size = strlen(directory);
        char *path;

        while (size > 0 && directory[size - 1] == '/')
                size--;
        while (*name == '/')
                name++;
        if (!*name)
                return size ? strndup(directory, size) : strdup("/");
        return asprintf(&path, "%.*s/%s", (int)size, directory, name) < 0 ? NULL : path;
}

const char *path_name(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

char *path_parent(const char *path)
{
        const char *slash = strrchr(path, '/');

        return !slash || slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

int path_is_temporary(const char *name)
{
        size_t prefix = strlen(PATH_TEMPORARY_PREFIX);

        return strncmp(name, PATH_TEMPORARY_PREFIX, prefix) == 0 && strlen(name) == prefix + PATH_TEMPORARY_DIGITS &&
               strspn(name + prefix, "0123456789abcdef") == PATH_TEMPORARY_DIGITS;
}
