/* Unpack in two passes: the archive is read whole and every member checked before any byte is
 * written. */
#ifndef CLOCHE_BOX_FILES_ARCHIVE_UNPACK_H
#define CLOCHE_BOX_FILES_ARCHIVE_UNPACK_H

#include "archive.h"
#include "member.h"

#include <sys/types.h>

#define UNPACK_MEMBERS_MAX 1000000
#define UNPACK_FREE_BYTES (UINT64_C(64) << 20) /* bytes that the ratio does not limit */
#define UNPACK_RATIO_MAX 200                   /* unpacked bytes per byte of archive */

/* MEMBER_GONE: of a saved box alone, a file of its image that it removed. */
enum member_kind { MEMBER_FILE, MEMBER_DIRECTORY, MEMBER_LINK, MEMBER_HARD_LINK, MEMBER_GONE };

struct member {
        char path[MEMBER_PATH_MAX + 1]; /* "": the top itself */
        enum member_kind kind;
        int is_change;    /* of a layer: in a directory of the image. path and link are without JAIL_CHANGES */
        int is_opaque;    /* such a directory hides that of the image */
        int is_own;       /* set by the caller: a saved box. Links keep their targets, modes are complete */
        int keeps_links;  /* set by the caller: links may lead out of the tree */
        const char *link; /* symbolic link: target; hard link: link_path */
        char link_path[MEMBER_PATH_MAX + 1];
        struct archive_entry *entry;
};

/* -CLOCHE_E_BAD_ARCHIVE: an unsupported kind, path or link. */
CLOCHE_MUST_CHECK int unpack_member(struct archive_entry *entry, struct member *m, struct cloche_err *e);

/* Facts of all members that replace those of the archive. */
struct unpack_options {
        int keeps_links;  /* links may lead out of the tree */
        int64_t uid, gid; /* -1: as in the archive; of use to root of the box alone */
        int has_mode;
        mode_t mode; /* of files and directories */
};

/* First pass. top_fd: the destination, or -EBADF if it does not exist yet. */
CLOCHE_MUST_CHECK int unpack_check(int archive_fd, const char *path, int top_fd, const struct unpack_options *options,
                                   struct cloche_err *e);
/* Second pass; adds to files and bytes. */
CLOCHE_MUST_CHECK int unpack_write(int archive_fd, const char *path, int top_fd, const struct unpack_options *options,
                                   uint64_t *files, uint64_t *bytes, struct cloche_err *e);

/* Unpack a stream of pack_save() into a directory; members are checked one by one as they are
 * written. Existing directories stay; their modes and times are set where permitted. */
CLOCHE_MUST_CHECK int unpack_restore(int fd, const char *directory, struct cloche_err *e);

/* Open a directory below the top without following links; O_PATH. path "": the top. The descriptor
 * or -errno. */
int unpack_open_below(int top_fd, const char *path);

#endif
