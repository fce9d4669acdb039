/* State of one mount, shared by all parts. Runs in: cloche-fs, one thread. */
#ifndef CLOCHE_HELPERS_FS_MOUNT_H
#define CLOCHE_HELPERS_FS_MOUNT_H

#include "helpers/fs/rules/settings.h"
#include "helpers/fs/tree/denial-log.h"
#include "helpers/fs/tree/directory.h"
#include "helpers/fs/tree/loading.h"
#include "helpers/fs/tree/lower.h"
#include "helpers/fs/tree/node.h"
#include "helpers/fs/tree/upper.h"
#include "passthrough.h"

struct fuse_session;

struct fs_mount {
        struct settings settings;
        struct lower lower;
        struct directories directories;
        struct upper upper;
        struct tree tree;
        struct denial_log denial_log;
        struct fs_passthrough passthrough;
        struct loading *loading;
        struct fuse_session *session;
        size_t open_handles, listing_bytes;
        uint64_t loaded_bytes;                    /* counted against maxTotalSize */
        uint64_t lists;                           /* number of change lists made */
        bool has_seeds;                           /* the caller has placed something over it */
        struct name *points[SETTINGS_POINTS_MAX]; /* where other mounts stand; NULL after the last (points.h) */
        struct node *file;                        /* shown instead of the root; NULL: none */
        char path[NODE_PATH_MAX], other_path[NODE_PATH_MAX], lower_path[NODE_PATH_MAX]; /* scratch of one call each */
};

#endif
