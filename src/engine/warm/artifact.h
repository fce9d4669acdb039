/* Build results of compiled languages, cached between runs in a directory of the caller's. Entries
 * are keyed by content, so a program never gets another program's build. They are loaded only
 * inside a box. */
#ifndef CLOCHE_ENGINE_WARM_ARTIFACT_H
#define CLOCHE_ENGINE_WARM_ARTIFACT_H

#include "base/buf.h"

#include <stddef.h>
#include <sys/types.h>

#define ARTIFACT_BYTES_MAX (64u << 20)
#define ARTIFACT_KEY_SIZE 65 /* SHA-256 in hexadecimal, terminated */

/* Open the cache directory. NULL: cloche/builds-OWNER below $XDG_CACHE_HOME or $HOME/.cache; "": no
 * cache. Creates the directory if it is missing and gives it to owner, the uid that this process
 * has or will have. Returns a descriptor or -errno; -EPERM if others than owner may write to the
 * directory. */
int artifacts_open(const char *directory, uid_t owner);

/* The key covers all parts and their lengths. */
struct artifact_part {
        const void *data;
        size_t size;
};
void artifact_key(const struct artifact_part *parts, size_t count, char ret[ARTIFACT_KEY_SIZE]);

/* Return 1 with the entry in *ret, or 0 if it is missing or unreadable; the program is then built
 * again. */
int artifact_load(int artifacts_fd, const char *key, struct buf *ret);
/* Return 0 or -errno. If all entries exceed 256 MiB, the least recently used ones are removed. */
int artifact_save(int artifacts_fd, const char *key, const void *data, size_t size);

#endif
