/* Files on their way into a box and its mounts: requests to the box's init or to the mount's
 * server, each answer starting the next. */
#ifndef CLOCHE_ENGINE_BOX_SEED_H
#define CLOCHE_ENGINE_BOX_SEED_H

#include "files.h"

struct seeding {
        struct box *box;
        struct mounts *mounts; /* of the box, or NULL; a file in one becomes a virtual file */
        const struct kept_files *files;
        size_t next_in_mount, next_in_box;                    /* next rows to check */
        unsigned pending;                                     /* answers missing from init */
        void (*done)(void *data, const struct cloche_err *e); /* NULL: idle */
        void *data;
};

/* box, mounts, files: borrowed until done is called, perhaps from here. Send the box's init no
 * other request before done. */
void seeding_start(struct seeding *p, struct box *box, struct mounts *mounts, const struct kept_files *files,
                   void (*done)(void *data, const struct cloche_err *e), void *data);
/* Drop the callback. Accepts one that is all 0 or done. */
void seeding_stop(struct seeding *p);

#endif
