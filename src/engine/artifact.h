/* What compiled languages built, kept between runs in a directory of the caller's: by content, so that one program's build
 * is never another's. Only ever loaded in a box again. */
#ifndef CLOCHE_ENGINE_ARTIFACT_H
#define CLOCHE_ENGINE_ARTIFACT_H

#include "base/buf.h"

#include <stddef.h>
#include <sys/types.h>

#define ARTIFACT_BYTES_MAX (64u << 20)
#define ARTIFACT_KEY_SIZE 65 /* SHA-256 in hexadecimal, terminated */

/* directory: NULL is cloche/builds-OWNER below $XDG_CACHE_HOME or $HOME/.cache, "" none. Made where it is missing, and given to
 * owner, the user whom this process is, or will be. The descriptor, or -errno: there is none, or it is not the owner's alone to
 * write (-EPERM). */
int artifacts_open(const char *directory, uid_t owner);

/* Over all parts and their lengths. */
struct artifact_part {
        const void *data;
        size_t size;
};
void artifact_key(const struct artifact_part *parts, size_t count, char ret[ARTIFACT_KEY_SIZE]);

/* 1: *ret holds it. 0: there is none, or it cannot be had; it is built again then. */
int artifact_load(int artifacts_fd, const char *key, struct buf *ret);
/* 0 or -errno. Those not used for longest go when all together are over 256 MiB. */
int artifact_save(int artifacts_fd, const char *key, const void *data, size_t size);

#endif
