/* The permission rules of the executor contract for a path below a mount. Pure.
 *
 * {"default": {"read": true, …}, "rules": [{"pattern": GLOB, "allow": […], "deny": […], "priority":
 * N}], "exclude": [GLOB, …]}
 * Rules are ordered by priority, higher first, then as given; the first whose pattern matches
 * decides. It removes the actions it denies, then adds those it allows; the default covers the
 * rest. An exclude is a rule of priority 1000 that denies all actions on its matches and everything
 * below; one without a slash matches a name at any depth. */
#ifndef CLOCHE_HELPERS_FS_RULES_RULES_H
#define CLOCHE_HELPERS_FS_RULES_RULES_H

#include <cloche/error.h>
#include <jansson.h>
#include <stddef.h>

enum rules_action { RULES_READ, RULES_LIST, RULES_CREATE, RULES_MODIFY, RULES_DELETE, RULES_ACTION_COUNT };

#define RULES_MAX 1000
#define RULES_DEFAULT ((size_t)-1)

struct rules; /* opaque */

/* permissions: NULL or JSON null gives the defaults: read and list. -CLOCHE_E_INVALID_ARGUMENT
 * names the place ("rules[3].pattern"). */
int rules_load(const json_t *permissions, struct rules **ret, struct cloche_err *e);
void rules_free(struct rules *rules); /* accepts NULL */

/* The allowed actions, bit 1u << enum rules_action. path as in glob_matches(). *ret_rule (may be
 * NULL): the deciding rule, for rules_pattern(), or RULES_DEFAULT. */
unsigned rules_decide(const struct rules *rules, const char *path, size_t *ret_rule);
/* The actions allowed by any rule or by the default, as the same bits. */
unsigned rules_any(const struct rules *rules);
/* The pattern as given; "" for RULES_DEFAULT. Lives as long as rules. */
const char *rules_pattern(const struct rules *rules, size_t rule);

const char *rules_action_name(enum rules_action action);

#endif
