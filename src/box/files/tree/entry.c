/* Runs in: cloche-files, within a box, with its user's rights. */
#include "entry.h"

#include "path.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

const char *entry_type(mode_t mode)
{
        return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "directory" : S_ISLNK(mode) ? "symlink" : "other";
}

static json_t *target(struct files_request *q, int dir_fd, const char *name, const struct stat *status)
{
        char text[PATH_MAX];
        ssize_t size = S_ISLNK(status->st_mode) ? readlinkat(dir_fd, name, text, sizeof(text)) : -1;

        return size < 0 ? NULL : request_text_or_bytes(q, text, (size_t)size);
}

json_t *entry_describe(struct files_request *q, int dir_fd, const char *name, const char *path, const char *relative,
                       const struct stat *status)
{
        const char *last = path_name(path);

        return json_pack("{s:o, s:o, s:o, s:s, s:I, s:i, s:o, s:o*}", "name",
                         request_text_or_bytes(q, last, strlen(last)), "path",
                         request_text_or_bytes(q, path, strlen(path)), "relativePath",
                         request_text_or_bytes(q, relative, strlen(relative)), "type", entry_type(status->st_mode),
                         "size", (json_int_t)status->st_size, "mode", (int)(status->st_mode & 07777), "modifiedAt",
                         request_time(&status->st_mtim), "target", target(q, dir_fd, name, status));
}
