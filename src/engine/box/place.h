/* Files on their way into a box and its mounts: requests to the box's init or to the mount's
 * server, each answer starting the next. */
#ifndef CLOCHE_ENGINE_BOX_PLACE_H
#define CLOCHE_ENGINE_BOX_PLACE_H

#include "files.h"

struct placing {
        struct box *box;
        struct mounts *mounts; /* of the box, or NULL; a file in one becomes a virtual file */
        const struct kept_files *files;
        size_t next_in_mount, next_in_box;                    /* next rows to check */
        unsigned asked;                                       /* answers missing from init */
        void (*done)(void *data, const struct cloche_err *e); /* NULL: idle */
        void *data;
};

/* box, mounts, files: borrowed until done is called, perhaps from here. Send the box's init no
 * other request before done. */
void placing_begin(struct placing *p, struct box *box, struct mounts *mounts, const struct kept_files *files,
                   void (*done)(void *data, const struct cloche_err *e), void *data);
/* Drop the callback. Accepts one that is all 0 or done. */
void placing_stop(struct placing *p);

#endif
