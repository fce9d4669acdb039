/* Files on their way into a box and its mounts: each asked of the box's init or of the mount's server, and gone on with when the answer comes. */
#ifndef CLOCHE_ENGINE_PLACE_H
#define CLOCHE_ENGINE_PLACE_H

#include "files.h"

struct placing {
        struct box *box;
        struct mounts *mounts; /* NULL, or those of the box; what lies in one is put there as a virtual file */
        const struct kept_files *files;
        size_t next_in_mount, next_in_box; /* rows that were not looked at yet */
        unsigned asked;                    /* answers to come from init */
        void (*done)(void *data, const struct cloche_err *e); /* NULL: nothing is on its way */
        void *data;
};

/* box, mounts, files: borrowed until done is called, which may be from here. Before done nothing else is asked of the box's init. */
void placing_begin(struct placing *p, struct box *box, struct mounts *mounts, const struct kept_files *files,
                   void (*done)(void *data, const struct cloche_err *e), void *data);
/* done is not called any more. Also of one that is all 0, or is done. */
void placing_stop(struct placing *p);

#endif
