/* The rules at the operations: may this be done here, now? Each refusal is recorded with the rule that refused. */
#ifndef CLOCHE_FS_PERMIT_H
#define CLOCHE_FS_PERMIT_H

#include "mount.h"

enum permit {
        PERMIT_YES,
        PERMIT_NO,      /* EACCES */
        PERMIT_DROP,    /* say it was done, and do nothing */
        PERMIT_VIRTUAL, /* do it, for the guest alone */
};

/* On a node, by the path it has now; with several names, what all of them allow. What the host has under a path that denies
 * reading or listing stays unreadable wherever it is moved. What the caller placed is free. */
enum permit permit_node(struct mount *mount, struct node *node, enum rules_action action);
/* On a name, whether something is there or not. */
enum permit permit_name(struct mount *mount, const struct node *parent, const char *name, enum rules_action action);
/* On any path; nothing is recorded. *ret_rule as of rules_decide(). */
bool permit_path(const struct mount *mount, const char *path, enum rules_action action, size_t *ret_rule);

/* The rights as bits; nothing is recorded. */
unsigned permit_rights(struct mount *mount, struct node *node);
bool permit_allows(struct mount *mount, struct node *node, enum rules_action action);
/* Neither to be read nor listed: a name that is left out of listings and shows nothing but its kind. */
bool permit_veils(struct mount *mount, struct node *node);
bool permit_veils_name(struct mount *mount, const struct node *parent, const char *name);

/* What a refusal of this action comes to under the mount's policy. */
enum permit permit_refusal(const struct mount *mount, enum rules_action action);
/* The one that stands when both were asked: a refusal before a drop before a virtual. */
enum permit permit_worse(enum permit a, enum permit b);

#endif
