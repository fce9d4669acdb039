/* Walk a tree without following links. Few descriptors are open at any depth; for directories on
 * the way only names are held. Entries that vanish meanwhile are skipped. */
#ifndef CLOCHE_BOX_FILES_TREE_WALK_H
#define CLOCHE_BOX_FILES_TREE_WALK_H

#include <cloche/error.h>
#include <stddef.h>
#include <sys/stat.h>

enum walk_event {
        WALK_FOUND, /* an entry; a directory comes before its contents */
        WALK_ENTER, /* path is the directory that is walked next */
        WALK_LEAVE,
};

struct walk_entry {
        const char *path; /* below the walked directory */
        const char *name;
        int dir_fd;                /* the directory that contains name */
        const struct stat *status; /* with is_brief: of an entry that was found its kind and its inode alone */
};

enum { WALK_ON = 0, WALK_PASS_OVER = 1, WALK_STOP = 2 };

struct walk_options {
        /* WALK_PASS_OVER: skip this directory (not with is_by_path). WALK_STOP: end the walk.
         * Negative: the walk fails. */
        int (*visit)(void *data, enum walk_event event, const struct walk_entry *entry, struct cloche_err *e);
        void *data;
        unsigned is_by_path : 1;   /* sort by bytes of the path; contents may follow later; no ENTER, no LEAVE */
        unsigned is_flat : 1;      /* do not descend */
        unsigned is_brief : 1;     /* ask for no attributes of entries; not with device */
        unsigned skips_hidden : 1; /* skip names that begin with a dot and their contents */
        unsigned skips_denied : 1; /* unreadable directories count as empty */
        dev_t device;              /* entries on others are passed over without a request to their server; 0: none is */
        const char *after;         /* with is_by_path: only paths after this one; NULL: all */
        size_t limit;              /* with is_by_path: the caller needs at most this many; 0: all */
};

/* dir_fd: borrowed. 0, also after WALK_STOP; errors of files_os(). */
CLOCHE_MUST_CHECK int walk_tree(int dir_fd, const struct walk_options *options, struct cloche_err *e);

#endif
