/* Going through a tree without following links. Few descriptors are open at once however deep it is; of directories on the way only the names
 * are held. What vanishes meanwhile is passed over. */
#ifndef CLOCHE_FILES_WALK_H
#define CLOCHE_FILES_WALK_H

#include <cloche/cloche.h>
#include <sys/stat.h>

enum walk_event {
        WALK_FOUND, /* an entry; of a directory before what is in it */
        WALK_ENTER, /* path is the directory that is gone through from now on */
        WALK_LEAVE,
};

struct walk_entry {
        const char *path; /* below the one that is walked */
        const char *name;
        int dir_fd;       /* the directory name is in */
        const struct stat *status;
};

enum { WALK_ON = 0, WALK_PASS_OVER = 1, WALK_STOP = 2 };

struct walk_options {
        /* WALK_PASS_OVER: not into this directory (not with is_by_path). WALK_STOP: that was all. Negative: the walk fails. */
        int (*visit)(void *data, enum walk_event event, const struct walk_entry *entry, struct cloche_err *e);
        void *data;
        unsigned is_by_path : 1;     /* sorted by the bytes of the path: what is in a directory need not follow it at once; no ENTER, no LEAVE */
        unsigned is_flat : 1;        /* not into directories */
        unsigned skips_hidden : 1;   /* names that begin with a dot, and what is below */
        unsigned skips_denied : 1;   /* directories that may not be read count as empty */
        const char *after;           /* with is_by_path: only paths behind this one; NULL: all */
        size_t limit;                /* with is_by_path: so many are asked for at most; 0: all */
};

/* dir_fd: borrowed. 0, also when it was stopped; errors of files_os(). */
CLOCHE_MUST_CHECK int walk_tree(int dir_fd, const struct walk_options *options, struct cloche_err *e);

#endif
