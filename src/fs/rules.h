/* What may be done with a path below a mount: the permission rules of the executor contract. Pure.
 *
 * {"default": {"read": true, …}, "rules": [{"pattern": GLOB, "allow": […], "deny": […], "priority": N}], "exclude": [GLOB, …]}
 * Rules go by priority, higher first, then as given; the first whose pattern matches decides. It takes away what it denies, then
 * gives what it allows; what it does not name is the default's. An exclude is a rule of priority 1000 that denies all, for what
 * it matches and all below; one without a slash is a name at any depth. */
#ifndef CLOCHE_FS_RULES_H
#define CLOCHE_FS_RULES_H

#include <cloche/cloche.h>
#include <jansson.h>
#include <stddef.h>

enum rules_action { RULES_READ, RULES_LIST, RULES_CREATE, RULES_MODIFY, RULES_DELETE, RULES_ACTION_COUNT };

#define RULES_MAX 1000
#define RULES_DEFAULT ((size_t)-1)

struct rules; /* opaque */

/* permissions: NULL or JSON null is all defaults: read and list. -CLOCHE_E_INVALID_ARGUMENT names the place ("rules[3].pattern"). */
int rules_load(const json_t *permissions, struct rules **ret, struct cloche_err *e);
void rules_free(struct rules *rules); /* accepts NULL */

/* The allowed actions, bit 1u << enum rules_action. path as of glob_matches(). *ret_rule (may be NULL): which decided, for
 * rules_pattern(), or RULES_DEFAULT. */
unsigned rules_decide(const struct rules *rules, const char *path, size_t *ret_rule);
/* The actions that any rule, or the default, allows: the same bits. */
unsigned rules_any(const struct rules *rules);
/* As the caller wrote it; "" for RULES_DEFAULT. Lives as long as rules. */
const char *rules_pattern(const struct rules *rules, size_t rule);

const char *rules_action_name(enum rules_action action);

#endif
