/* Unpacking in two passes: all of the archive is read and every member checked before anything is written. */
#ifndef CLOCHE_FILES_UNPACK_H
#define CLOCHE_FILES_UNPACK_H

#include "archive.h"
#include "member.h"

#include <sys/types.h>

#define UNPACK_MEMBERS_MAX 1000000
#define UNPACK_FREE_BYTES (UINT64_C(64) << 20) /* beyond which contents are at most */
#define UNPACK_RATIO_MAX 200                   /* times the archive's size */

enum member_kind { MEMBER_FILE, MEMBER_DIRECTORY, MEMBER_LINK, MEMBER_HARD_LINK };

struct member {
        char path[MEMBER_PATH_MAX + 1]; /* "": the top itself */
        enum member_kind kind;
        int is_own; /* set by the caller: of a box that was saved. Its links lead where they led, modes are whole */
        const char *link;               /* of a link its target, of a hard link link_path */
        char link_path[MEMBER_PATH_MAX + 1];
        struct archive_entry *entry;
};

/* -CLOCHE_E_BAD_ARCHIVE: a kind, path or link that is not taken. */
CLOCHE_MUST_CHECK int unpack_member(struct archive_entry *entry, struct member *m, struct cloche_err *e);

/* The first pass. top_fd: what is unpacked into, or -EBADF when it is not there yet. */
CLOCHE_MUST_CHECK int unpack_check(int archive_fd, const char *path, int top_fd, struct cloche_err *e);
/* The second; adds to files and bytes. */
CLOCHE_MUST_CHECK int unpack_write(int archive_fd, const char *path, int top_fd, uint64_t *files, uint64_t *bytes, struct cloche_err *e);

/* What pack_save() wrote, from fd, a stream, into a directory: nothing is known before it is written. Directories that are there stay, their modes and
 * times are set where that is permitted. */
CLOCHE_MUST_CHECK int unpack_restore(int fd, const char *directory, struct cloche_err *e);

/* A directory below the top, no link on the way; O_PATH. path "": the top. The descriptor or -errno. */
int unpack_open_below(int top_fd, const char *path);

#endif
