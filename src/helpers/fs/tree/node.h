/* The tree a guest sees: nodes (inodes) and names (directory entries). A node belongs to the host,
 * to the guest, or to the host with changes. Only nodes that the kernel references or the guest
 * changed are held in memory; others are looked up again.
 *
 * The table holds a name that has a node, or that hides the host's entry: removed or moved away by
 * the guest (removed holds the former node), left out, or covered by a seed. Pure except for
 * memory: no system calls. */
#ifndef CLOCHE_HELPERS_FS_TREE_NODE_H
#define CLOCHE_HELPERS_FS_TREE_NODE_H

#include "lower.h"

#include <stdbool.h>
#include <stddef.h>

#define NODE_NAME_MAX 255
#define NODE_PATH_MAX 65536 /* bytes of a path below the mount, including the NUL */
#define NODE_MAGIC 0xc10cf5u

struct name {
        struct name *hash_next;
        struct name *entry_prev, *entry_next; /* in the parent's list of entries */
        struct name *same_next;               /* in the node's list of names */
        struct node *parent;
        struct node *node;              /* NULL: no entry */
        struct node *removed;           /* held; NULL: the guest does not hide the host's entry, if any */
        struct lower_identity *covered; /* the left-out host entry at the time the guest covered it */
        uint64_t hash;
        bool left_out;     /* the host's entry exists and is not shown */
        bool is_seed;      /* the caller placed an entry here; the host's is never shown */
        bool made_virtual; /* node came here without the right to */
        bool removed_virtually;
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
        size_t name_size, size; /* name including its NUL, followed by value */
        char bytes[];
};

/* A file that the kernel reads directly (passthrough.h). Meanwhile all opens of the node must be
 * passed through. */
struct backing {
        int32_t id;
        unsigned opens;
        uint64_t dev, ino;
};

struct node {
        unsigned magic;
        mode_t kind; /* of S_IFMT */
        uint64_t ino;

        uint64_t lookups; /* the kernel's reference count */
        unsigned handles, making, members, pins;
        unsigned short kept; /* index of its descriptor in directory.c, if still valid */
        enum folding { FOLDING_UNKNOWN, FOLDING_NONE, FOLDING_SUSPECTED } folding; /* the host ignores spelling */
        struct name *names;
        unsigned name_count;

        /* The host's part. lower_parent is held. */
        bool has_lower;
        struct node *lower_parent;
        char *lower_name;
        struct stat st;               /* as last seen */
        struct backing *backing;      /* NULL: none */
        struct lower_identity shown;  /* version that the kernel's cache has pages of */
        struct lower_identity copied; /* version when the guest first changed it: wrote, renamed or removed it */

        /* The guest's part. */
        bool own;     /* attributes below apply, no longer the host's */
        bool set;     /* the guest has set mode or times */
        bool written; /* the guest has written contents */
        bool is_virtual, stale, loaded;
        bool nameless;          /* created without a name (O_TMPFILE) and still unnamed */
        bool stored;            /* small contents are in the kernel's cache */
        struct name *seeded_at; /* name under which the caller placed it as a seed; NULL: no seed */
        struct attributes attributes;
        uint64_t content; /* in upper; 0: none */
        char *target;     /* of a symbolic link by the guest */
        uint64_t listed;  /* change list in which this seeded directory is synced with its contents */
        struct xattr *xattrs;

        struct name *entries; /* of a directory */
        size_t entry_count;

        uint64_t rights_epoch; /* epoch of rights; for a nameless node rights stay as last computed */
        unsigned rights;
};

struct tree_limits {
        size_t nodes;   /* in memory */
        size_t changed; /* nodes and names changed by the guest */
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
        uint64_t epoch;                                 /* increases when decisions by path may have changed */
        bool moved;                                     /* an entry of the host has moved */
        void (*drop_content)(void *, uint64_t content); /* for a node that is freed */
        void *argument;
};

int tree_init(struct tree *tree, const struct tree_limits *limits, const uint64_t seed[2]);
void tree_done(struct tree *tree);

/* NULL when out of memory or over the limit. Lives until tree_settle() finds no reference. */
struct node *tree_new_node(struct tree *tree, mode_t kind);
/* The same for an entry of the host in parent. */
struct node *tree_new_lower_node(struct tree *tree, struct node *parent, const char *name, const struct stat *st);

struct name *tree_find(const struct tree *tree, const struct node *parent, const char *name);
/* tree_settle_name() drops a name without a node that hides nothing. NULL when out of memory. */
struct name *tree_make_name(struct tree *tree, struct node *parent, const char *name);
void tree_put(struct tree *tree, struct name *name, struct node *node);
/* Take the node from its name. If the host has it there, the name records it as
 * removed, with its identity. */
void tree_take(struct tree *tree, struct name *name);
/* Take the node after the host removed it: nothing is recorded. */
void tree_drop(struct name *name);
void tree_settle_name(struct tree *tree, struct name *name);
/* Free the node and its references if nothing holds it. */
void tree_settle(struct tree *tree, struct node *node);

/* Switch to the guest's attributes; the caller fills them in. -1 over the limit. */
int tree_own(struct tree *tree, struct node *node);
bool tree_has_room(const struct tree *tree);
uint64_t tree_new_ino(struct tree *tree);

/* True if the guest has changed the node. */
bool node_is_changed(const struct node *node);
/* True if st, at the node's place, is another file than the one the kernel reads directly. */
bool node_is_replaced(const struct node *node, const struct stat *st);
/* True if the node is at its place on the host. */
bool node_is_at_home(const struct node *node);
bool name_is_home(const struct name *name, const struct node *node);
/* True if the name, or a directory above it, will not exist on the host. */
bool name_is_in_virtual(const struct name *name);
struct node *node_parent(const struct node *node);

/* Paths below the mount, terminated, in ret[NODE_PATH_MAX]. The text begins at the returned
 * pointer; NULL: too long. node_path uses the first name ("" if none is left), node_lower_path the
 * place on the host. */
const char *node_path(const struct node *node, char *ret);
const char *name_path(const struct name *name, char *ret);
const char *node_lower_path(const struct node *node, char *ret);
/* Paths of a name in parent. */
const char *node_child_path(const struct node *parent, const char *name, char *ret);
const char *node_child_lower_path(const struct node *parent, const char *name, char *ret);

#endif
