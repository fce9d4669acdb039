/* A file that takes its place whole: written beside it under a name of our own (path.h), then put there. Whoever looks sees the old or the new. */
#ifndef CLOCHE_FILES_PLACE_H
#define CLOCHE_FILES_PLACE_H

#include <cloche/cloche.h>
#include <sys/types.h>

struct place {
        int dir_fd;      /* owned */
        int fd;          /* what is written; owned */
        char *name;      /* owned */
        char temporary[32];
        int is_in_place; /* its directory may not be written to: the file itself was cut and is written */
        unsigned refuses : 1; /* set by the caller: not over what is there (CLOCHE_E_FILE_EXISTS) */
};

#define PLACE_INIT ((struct place){.dir_fd = -EBADF, .fd = -EBADF})
#define _cleanup_place_ __attribute__((cleanup(place_done)))

/* Beside path, which stays what it is. mode 0: that of the file there, or 0644. A directory or device there is CLOCHE_E_FILE_KIND. */
CLOCHE_MUST_CHECK int place_open(struct place *p, const char *path, mode_t mode, struct cloche_err *e);
/* The same for a name in a directory; dir_fd is borrowed, path for messages. */
CLOCHE_MUST_CHECK int place_open_at(struct place *p, int dir_fd, const char *name, const char *path, mode_t mode, struct cloche_err *e);
CLOCHE_MUST_CHECK int place_commit(struct place *p, const char *path, struct cloche_err *e);
/* What was not put there is removed. */
void place_done(struct place *p);

/* A link at a path's end is followed, so that its target is written; also one that leads nowhere yet. *path is replaced. */
CLOCHE_MUST_CHECK int place_follow(char **path, struct cloche_err *e);
/* The directories before the last part of the path, or with whole the path itself. *ret_made: whether the last was not there; may be NULL. */
CLOCHE_MUST_CHECK int place_make_directories(const char *path, int whole, mode_t mode, int *ret_made, struct cloche_err *e);
/* A name nobody else uses. */
void place_name_temporary(char name[32]);

#endif
