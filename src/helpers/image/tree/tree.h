/* A tree in the making: layers are applied to it in order. Every path is resolved beneath the top,
 * without links. */
#ifndef CLOCHE_HELPERS_IMAGE_TREE_TREE_H
#define CLOCHE_HELPERS_IMAGE_TREE_TREE_H

#include "box/files/tree/path-set.h"
#include "helpers/image/read/change.h"
#include "helpers/image/work.h"

#include <stdbool.h>

#define TREE_ENTRIES_MAX UINT64_C(2000000) /* members of all layers */
#define TREE_BYTES_MAX (UINT64_C(32) << 30)
/* The paths of all directories, as they are in memory: one member of a few bytes in the archive
 * can make 1024 directories that no other describes. */
#define TREE_PATH_BYTES_MAX (UINT64_C(16) << 20)

/* Attributes of a directory, to be set once nothing is written to it any more. */
struct image_tree_directory {
        char *path;
        size_t number; /* the later one of a path counts */
        mode_t mode;
        uid_t uid;
        gid_t gid;
        struct timespec time;
};

struct image_tree {
        int top_fd; /* borrowed */
        bool keeps_ids;
        bool has_lower;                /* this layer is not the first: its whiteouts may hide something */
        const struct changes *changes; /* the layer is a sandbox's; NULL: an image's */
        struct work *work;
        uint64_t entries, bytes, layer_bytes, layer_bytes_max, path_bytes;
        char phase[80];
        struct layer_drops drops;
        struct path_set fresh; /* paths of this layer, if it has lower ones */
        struct image_tree_directory *directories;
        size_t directory_count, directory_room;
        struct archive_entry_linkresolver *links; /* of a directory of the host; NULL: an archive */
        dev_t store_device;                       /* such a directory may contain the store */
        ino_t store_inode;
        int dir_fd; /* directory of the last member */
        char dir_path[MEMBER_PATH_MAX + 1];
        struct layer_member member;
};

void image_tree_init(struct image_tree *tree, int top_fd, bool keeps_ids, struct work *work);
void image_tree_done(struct image_tree *tree);

/* Apply all members of an archive. read: members that were read already, the last of them with its
 * contents still to come; NULL ends them. name: of the archive, for messages. bytes_max: of all
 * contents. */
CLOCHE_MUST_CHECK int image_tree_apply(struct image_tree *tree, struct archive *archive,
                                       struct archive_entry *const *read, const char *name, uint64_t bytes_max,
                                       struct cloche_err *e);
/* Set the attributes of directories. */
CLOCHE_MUST_CHECK int image_tree_finish(struct image_tree *tree, struct cloche_err *e);

/* Cut the row of our user out of accounts that a sandbox with root wrote, and its empty home
 * directories: each box adds them. base_fd: the tree below. */
CLOCHE_MUST_CHECK int image_tree_cut_accounts(const struct image_tree *tree, int base_fd, struct cloche_err *e);

/* Begin with all that another tree has: directories are made, and files are its own files, whose
 * numbers are added to base. */
struct listing_base;
CLOCHE_MUST_CHECK int image_tree_begin_with(struct image_tree *tree, int base_fd, struct listing_base *base,
                                            struct cloche_err *e);

/* Parts of the above. */

/* The mode that an entry has in a store; keeps_ids: of root. */
mode_t image_tree_mode(bool keeps_ids, mode_t mode, bool is_directory);
/* Cut all rows that are exactly this one. Return the new size. */
size_t image_tree_cut_rows(char *text, size_t size, const char *row);

/* Open a directory below the top; O_PATH. path "": the top. The descriptor or -errno. */
int image_tree_open_below(int top_fd, const char *path, int flags);
/* Remove tree->dir_fd/name, found at path: all of it, or with only_lower the entries of lower
 * layers. */
CLOCHE_MUST_CHECK int image_tree_remove_at(struct image_tree *tree, const char *name, const char *path, bool only_lower,
                                           struct cloche_err *e);
/* Keep the attributes of a directory for image_tree_finish(). */
CLOCHE_MUST_CHECK int image_tree_remember(struct image_tree *tree, const char *path,
                                          const struct image_tree_directory *attributes, struct cloche_err *e);
/* Forget the directory of the last member: it may have been removed. */
void image_tree_leave(struct image_tree *tree);
/* Open the directory that contains the member's path. 1: *ret_name is its name there; 0:
 * there is no such directory. */
CLOCHE_MUST_CHECK int image_tree_find(struct image_tree *tree, const struct layer_member *m, const char **ret_name,
                                      struct cloche_err *e);
CLOCHE_MUST_CHECK int image_tree_hide(struct image_tree *tree, const struct layer_member *m, struct cloche_err *e);
/* Remove all that lower layers have in the directory. */
CLOCHE_MUST_CHECK int image_tree_hide_below(struct image_tree *tree, const char *path, struct cloche_err *e);
int image_tree_failed(int number, const char *path, struct cloche_err *e);

#endif
