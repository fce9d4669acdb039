/* Check the rules at each operation. Each refusal is recorded with its rule. */
#ifndef CLOCHE_HELPERS_FS_TREE_ACCESS_H
#define CLOCHE_HELPERS_FS_TREE_ACCESS_H

#include "helpers/fs/mount.h"

enum access_verdict {
        ACCESS_YES,
        ACCESS_NO,      /* EACCES */
        ACCESS_DROP,    /* report success without doing it */
        ACCESS_VIRTUAL, /* do it for the guest only */
};

/* Check a node by its present path; with several names all must allow it. Contents whose host path
 * denies reading or listing stay unreadable wherever they are moved. Seeds are free. */
enum access_verdict access_check_node(struct fs_mount *mount, struct node *node, enum rules_action action);
/* Check a name, existing or not. */
enum access_verdict access_check_name(struct fs_mount *mount, const struct node *parent, const char *name,
                                      enum rules_action action);
/* Check any path; nothing is recorded. *ret_rule as in rules_decide(). */
bool access_check_path(const struct fs_mount *mount, const char *path, enum rules_action action, size_t *ret_rule);

/* The rights as bits; nothing is recorded. */
unsigned access_rights(struct fs_mount *mount, struct node *node);
bool access_allows(struct fs_mount *mount, struct node *node, enum rules_action action);
/* True if it may be neither read nor listed: it is left out of listings and shows only its kind. */
bool access_veils(struct fs_mount *mount, struct node *node);
bool access_veils_name(struct fs_mount *mount, const struct node *parent, const char *name);

/* The verdict for a refused action under the mount's policy. */
enum access_verdict access_refusal(const struct fs_mount *mount, enum rules_action action);
/* The stricter verdict: a refusal before a drop before a virtual. */
enum access_verdict access_worse(enum access_verdict a, enum access_verdict b);

#endif
