/* Verdicts of the rules on nodes and names, with denials recorded.
 * Runs in: cloche-fs, as the mounted directory's owner or the caller, confined. */
#include "access.h"

#include <string.h>

#define READING (1u << RULES_READ | 1u << RULES_LIST)

static unsigned decide(const struct fs_mount *mount, const char *path, size_t *ret_rule)
{
        if (path)
                return rules_decide(mount->settings.rules, path, ret_rule);
        if (ret_rule)
                *ret_rule = RULES_DEFAULT;
        return 0; /* too long to check */
}

/* The path on the host if it differs from the guest's. */
static const char *former_path(struct fs_mount *mount, const struct node *node, const char *path)
{
        const char *lower;

        if (!mount->tree.moved || !node->has_lower)
                return NULL;
        lower = node_lower_path(node, mount->lower_path);
        return lower && path && strcmp(lower, path) == 0 ? NULL : lower ? lower : "";
}

static unsigned compute(struct fs_mount *mount, const struct node *node)
{
        unsigned rights = ~0u;
        const char *path = "", *former;

        for (const struct name *name = node->names; name; name = name->same_next) {
                path = name_path(name, mount->path);
                if (!name->is_seed)
                        rights &= decide(mount, path, NULL);
        }
        if (node == mount->tree.root)
                rights = decide(mount, "", NULL);
        former = former_path(mount, node, path);
        if (former)
                rights &= decide(mount, former, NULL) | ~READING;
        return rights;
}

unsigned access_rights(struct fs_mount *mount, struct node *node)
{
        if (node->seeded_at)
                return ~0u;
        if (mount->settings.all_alike && !(node->names && node->names->is_seed))
                return decide(mount, "", NULL);
        if (node->rights_epoch != mount->tree.epoch && (node->names || node == mount->tree.root)) {
                node->rights = compute(mount, node);
                node->rights_epoch = mount->tree.epoch;
        }
        return node->rights;
}

bool access_allows(struct fs_mount *mount, struct node *node, enum rules_action action)
{
        return access_rights(mount, node) & 1u << action;
}

bool access_veils(struct fs_mount *mount, struct node *node)
{
        return (access_rights(mount, node) & READING) == 0;
}

bool access_veils_name(struct fs_mount *mount, const struct node *parent, const char *name)
{
        const struct name *entry = tree_find(&mount->tree, parent, name);
        unsigned rights =
                decide(mount, mount->settings.all_alike ? "" : node_child_path(parent, name, mount->path), NULL);

        if (entry && entry->node)
                return access_veils(mount, entry->node);
        if (mount->tree.moved && parent->has_lower)
                rights &= decide(mount, node_child_lower_path(parent, name, mount->lower_path), NULL);
        return (rights & READING) == 0;
}

enum access_verdict access_refusal(const struct fs_mount *mount, enum rules_action action)
{
        /* A read cannot be pretended. */
        if (action == RULES_READ || action == RULES_LIST || mount->settings.on_denied == DENIED_THROW)
                return ACCESS_NO;
        return mount->settings.on_denied == DENIED_IGNORE ? ACCESS_DROP : ACCESS_VIRTUAL;
}

enum access_verdict access_worse(enum access_verdict a, enum access_verdict b)
{
        static const int order[] = {[ACCESS_YES] = 0, [ACCESS_VIRTUAL] = 1, [ACCESS_DROP] = 2, [ACCESS_NO] = 3};

        return order[a] > order[b] ? a : b;
}

static void record(struct fs_mount *mount, const char *path, enum rules_action action, size_t rule)
{
        denial_log_deny(&mount->denial_log, path, action, rules_pattern(mount->settings.rules, rule));
}

/* Record the refusing path of the node and its rule. */
static void record_node(struct fs_mount *mount, const struct node *node, enum rules_action action)
{
        const char *path = "", *former;
        size_t rule;

        for (const struct name *name = node->names; name; name = name->same_next) {
                path = name_path(name, mount->path);
                if (path && !name->is_seed && !(decide(mount, path, &rule) & 1u << action)) {
                        record(mount, path, action, rule);
                        return;
                }
        }
        if (node == mount->tree.root) {
                decide(mount, "", &rule);
                record(mount, "", action, rule);
                return;
        }
        former = former_path(mount, node, path);
        if (former && node->names) {
                decide(mount, former, &rule);
                record(mount, path ? path : former, action, rule);
        }
}

enum access_verdict access_check_node(struct fs_mount *mount, struct node *node, enum rules_action action)
{
        if (access_allows(mount, node, action))
                return ACCESS_YES;
        record_node(mount, node, action);
        return access_refusal(mount, action);
}

bool access_check_path(const struct fs_mount *mount, const char *path, enum rules_action action, size_t *ret_rule)
{
        return decide(mount, path, ret_rule) & 1u << action;
}

enum access_verdict access_check_name(struct fs_mount *mount, const struct node *parent, const char *name,
                                      enum rules_action action)
{
        const char *path = node_child_path(parent, name, mount->path);
        const struct name *entry = tree_find(&mount->tree, parent, name);
        size_t rule;

        if (entry && entry->is_seed)
                return ACCESS_VIRTUAL; /* placed by the caller, and so are its replacements */
        if (access_check_path(mount, path, action, &rule))
                return ACCESS_YES;
        if (path)
                record(mount, path, action, rule);
        return access_refusal(mount, action);
}
