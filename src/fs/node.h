/* The tree a guest sees: nodes (what inodes are) and names (what directory entries are). A node is of the host, of the guest, or
 * of the host and changed; only what the kernel knows of or the guest changed is held in memory, all else is looked up again.
 *
 * A name stands in the table when it has a node, or when the host's entry of that name is not to be seen: removed or moved away
 * by the guest (gone holds the node that was there), left out, or covered by what the caller placed there. Pure but for memory: no
 * system calls. */
#ifndef CLOCHE_FS_NODE_H
#define CLOCHE_FS_NODE_H

#include "lower.h"

#include <stdbool.h>
#include <stddef.h>

#define NODE_NAME_MAX 255
#define NODE_PATH_MAX 65536 /* bytes of a path below the mount, terminator included */
#define NODE_MAGIC 0xc10cf5u

struct name {
        struct name *hash_next;
        struct name *entry_prev, *entry_next; /* among the parent's entries */
        struct name *same_next;               /* among the node's names */
        struct node *parent;
        struct node *node; /* NULL: nothing is there */
        struct node *gone; /* held; NULL: the host's entry, if there is one, is not hidden by the guest */
        struct lower_identity *covered; /* what the host had here, left out, when the guest put something in its place */
        uint64_t hash;
        bool left_out;     /* the host's entry is there and not shown */
        bool placed;       /* the caller put something here; what the host has is never shown */
        bool made_virtual; /* node came here without the right to */
        bool gone_virtual;
        uint16_t size;
        char bytes[]; /* terminated */
};

struct attributes {
        mode_t permissions; /* 07777 */
        uint64_t size;
        struct timespec atime, mtime, ctime;
};

struct xattr {
        struct xattr *next;
        size_t name_size, size; /* name with its terminator, value right after it */
        char bytes[];
};

/* What the kernel reads by itself, past us (passthrough.h). While it does, no open of the node may be answered otherwise. */
struct backing {
        int32_t id;
        unsigned opens;
        uint64_t dev, ino;
};

struct node {
        unsigned magic;
        mode_t kind; /* of S_IFMT */
        uint64_t ino;

        uint64_t lookups; /* the kernel's references */
        unsigned handles, making, members, pins;
        unsigned short kept; /* where directory.c may have its descriptor */
        enum folding { FOLDING_UNKNOWN, FOLDING_NONE, FOLDING_SUSPECTED } folding; /* does the host find its names by other spellings? */
        struct name *names;
        unsigned name_count;

        /* The host's. lower_parent is held. */
        bool has_lower;
        struct node *lower_parent;
        char *lower_name;
        struct stat st;              /* as last seen */
        struct backing *backing;     /* NULL: none */
        struct lower_identity shown; /* what the kernel's cache holds pages of */
        struct lower_identity copied; /* when the guest first changed it: wrote, renamed or removed it */

        /* The guest's. */
        bool own;     /* attributes are these, no longer the host's */
        bool set;     /* mode or times were given by the guest */
        bool written; /* contents were */
        bool is_virtual, stale, loaded;
        bool nameless; /* made without a name (O_TMPFILE) and not given one so far */
        bool stored;  /* small contents were handed to the kernel's cache */
        struct name *placed_at; /* the caller put it there; NULL: it is none of the caller's */
        struct attributes attributes;
        uint64_t content; /* in upper; 0: none */
        char *target;     /* of a symbolic link of the guest */
        uint64_t listed;  /* with the list of changes of that number: a directory of the caller that something to be synced is in */
        struct xattr *xattrs;

        struct name *entries; /* of a directory */
        size_t entry_count;

        uint64_t rights_epoch; /* rights are as of this epoch of the tree; without a name they are as they last were */
        unsigned rights;
};

struct tree_limits {
        size_t nodes;   /* held in memory */
        size_t changed; /* nodes and names the guest changed */
        size_t xattr_bytes;
};

struct tree {
        struct node *root;
        struct name **table;
        size_t table_size, name_count;
        size_t node_count, changed_count, xattr_bytes;
        struct tree_limits limits;
        uint64_t seed[2];
        uint64_t last_ino;
        uint64_t epoch; /* when decisions by path may have changed */
        bool moved;     /* something of the host is no longer where it was */
        void (*drop_content)(void *, uint64_t content); /* of a node that is gone for good */
        void *argument;
};

int tree_init(struct tree *tree, const struct tree_limits *limits, const uint64_t seed[2]);
void tree_done(struct tree *tree);

/* NULL with no memory or over the limit. Lives until tree_settle() finds that nothing holds it. */
struct node *tree_new_node(struct tree *tree, mode_t kind);
/* The same for what the host has in parent. */
struct node *tree_new_lower_node(struct tree *tree, struct node *parent, const char *name, const struct stat *st);

struct name *tree_find(const struct tree *tree, const struct node *parent, const char *name);
/* A name that neither has a node nor hides anything is dropped by tree_settle_name(). NULL with no memory. */
struct name *tree_make_name(struct tree *tree, struct node *parent, const char *name);
void tree_put(struct tree *tree, struct name *name, struct node *node);
/* Take the node from its name. When the host has it there, it is remembered as gone, and as what. */
void tree_take(struct tree *tree, struct name *name);
/* The same when the host took it away: nothing is remembered. */
void tree_drop(struct name *name);
void tree_settle_name(struct tree *tree, struct name *name);
/* Free the node and what it alone held, if nothing holds it. */
void tree_settle(struct tree *tree, struct node *node);

/* Attributes are from now on the guest's; they are to be set. -1 over the limit. */
int tree_own(struct tree *tree, struct node *node);
bool tree_has_room(const struct tree *tree);
uint64_t tree_new_ino(struct tree *tree);

/* Does the node carry anything of the guest's? */
bool node_is_changed(const struct node *node);
/* Is st, of its place, another file than the one the kernel reads by itself? */
bool node_is_replaced(const struct node *node, const struct stat *st);
/* Is it where the host has it? */
bool node_is_at_home(const struct node *node);
bool name_is_home(const struct name *name, const struct node *node);
/* Is it, or a directory above it, where the host will not have it? */
bool name_is_in_virtual(const struct name *name);
struct node *node_parent(const struct node *node);

/* Paths below the mount, terminated, in ret[NODE_PATH_MAX]; the text begins at the pointer returned, NULL: it is too long.
 * node_path is of its first name ("" when it has none left), node_lower_path where the host has it. */
const char *node_path(const struct node *node, char *ret);
const char *name_path(const struct name *name, char *ret);
const char *node_lower_path(const struct node *node, char *ret);
/* Of what would be called so in parent. */
const char *node_child_path(const struct node *parent, const char *name, char *ret);
const char *node_child_lower_path(const struct node *parent, const char *name, char *ret);

#endif
