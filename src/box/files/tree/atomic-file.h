/* Replace a file atomically: write it under a temporary name (path.h) beside its place, then move
 * it there. Readers see the old file or the new one. */
#ifndef CLOCHE_BOX_FILES_TREE_ATOMIC_FILE_H
#define CLOCHE_BOX_FILES_TREE_ATOMIC_FILE_H

#include <cloche/error.h>
#include <sys/types.h>

struct place {
        int dir_fd; /* owned */
        int fd;     /* the file being written; owned */
        char *name; /* owned */
        char temporary[32];
        int is_in_place; /* the directory is not writable: the existing file was truncated and is written directly */
        unsigned refuses : 1; /* set by the caller: do not replace an existing file (CLOCHE_E_FILE_EXISTS) */
};

#define PLACE_INIT ((struct place){.dir_fd = -EBADF, .fd = -EBADF})
#define _cleanup_place_ __attribute__((cleanup(place_done)))

/* Open a temporary file beside path, which stays unchanged. mode 0: the existing file's, or 0644. A
 * directory or device at path is CLOCHE_E_FILE_KIND. */
CLOCHE_MUST_CHECK int files_place_open(struct place *p, const char *path, mode_t mode, struct cloche_err *e);
/* The same for a name in a directory; dir_fd is borrowed, path for messages. */
CLOCHE_MUST_CHECK int place_open_at(struct place *p, int dir_fd, const char *name, const char *path, mode_t mode,
                                    struct cloche_err *e);
CLOCHE_MUST_CHECK int place_commit(struct place *p, const char *path, struct cloche_err *e);
/* Remove an uncommitted file. */
void place_done(struct place *p);

/* Follow links at a path's end, so that the target is written; the target need not
 * exist. *path is replaced. */
CLOCHE_MUST_CHECK int place_follow(char **path, struct cloche_err *e);
/* Create the directories before the last part of the path, or with whole the path itself.
 * *ret_made: the last one is new; may be NULL. */
CLOCHE_MUST_CHECK int place_make_directories(const char *path, int whole, mode_t mode, int *ret_made,
                                             struct cloche_err *e);

#endif
