/* The watched directories: one inotify watch each, and the tree of their locations. inotify(7). */
#ifndef CLOCHE_BOX_FILES_WATCH_TREE_H
#define CLOCHE_BOX_FILES_WATCH_TREE_H

#include "box/files/search/path-filter.h"

#include <sys/queue.h>

struct watch_node {
        int wd;
        char *name; /* "" for the root */
        struct watch_node *parent;
        LIST_HEAD(watch_children, watch_node) children;
        LIST_ENTRY(watch_node) siblings;
};

struct watch_tree {
        int inotify_fd; /* owned */
        struct watch_node *root;
        void *by_wd; /* tsearch(3) */
        size_t count;
        const struct path_filter *filter; /* borrowed */
        int is_flat;
};

/* Called for each new entry of a scan; path: below the root. */
typedef int (*watch_told)(void *data, const char *path, int is_directory, struct cloche_err *e);

/* Watch the directory and, unless is_flat, all below it. Errors of files_os(); -CLOCHE_E_RESOURCE
 * names the exhausted limit. */
CLOCHE_MUST_CHECK int watch_tree_open(struct watch_tree *t, const char *path, struct cloche_err *e);
void watch_tree_done(struct watch_tree *t);

/* Watch a subdirectory and all below it; existing watches stay. told may be NULL. name NULL:
 * node is the root, which is scanned itself. */
CLOCHE_MUST_CHECK int watch_tree_scan(struct watch_tree *t, const char *root, struct watch_node *node, const char *name,
                                      watch_told told, void *data, struct cloche_err *e);

struct watch_node *watch_tree_find(const struct watch_tree *t, int wd); /* or NULL */
struct watch_node *watch_node_child(const struct watch_node *node, const char *name);
/* The path of a name in the node, below the root; owned by the caller, NULL when out of memory. */
char *watch_node_path(const struct watch_node *node, const char *name);
/* Drop a node and all below it: the kernel has removed its watch or, with is_watched, must
 * remove it. */
void watch_tree_drop(struct watch_tree *t, struct watch_node *node, int is_watched);
/* 0 or -ENOMEM. */
CLOCHE_MUST_CHECK int watch_tree_move(struct watch_node *node, struct watch_node *parent, const char *name);

#endif
