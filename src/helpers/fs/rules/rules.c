/* Parse the rules and decide rights for a path.
 * Runs in: cloche-fs, cloche-sync, cloche-files and the engine; pure. */
#include "rules.h"

#include "base/err.h"
#include "glob.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXCLUDE_PRIORITY 1000
#define ALL ((1u << RULES_ACTION_COUNT) - 1)
#define DEFAULT (1u << RULES_READ | 1u << RULES_LIST)

struct rule {
        struct glob *glob, *below; /* below: for an exclude, everything in it */
        char *pattern;
        double priority;
        size_t seed_entry; /* index among the given rules */
        unsigned allow, deny;
};

struct rules {
        struct rule *rows;
        size_t count;
        unsigned initial;
};

static const char *const action_names[RULES_ACTION_COUNT] = {"read", "list", "create", "modify", "delete"};

const char *rules_action_name(enum rules_action action)
{
        return action_names[action];
}

const char *rules_pattern(const struct rules *rules, size_t rule)
{
        return rule < rules->count ? rules->rows[rule].pattern : "";
}

/* -- reading -------------------------------------------------------------------------------------------------- */

static int action_bit(const char *name, unsigned *ret)
{
        for (int i = 0; name && i < RULES_ACTION_COUNT; i++)
                if (strcmp(name, action_names[i]) == 0) {
                        *ret |= 1u << i;
                        return 0;
                }
        if (name && strcmp(name, "*") == 0) {
                *ret = ALL;
                return 0;
        }
        return -1;
}

/* A list of names, or a single name; missing means none. */
static int read_actions(const json_t *list, const char *where, size_t index, unsigned *ret, struct cloche_err *e)
{
        size_t count = json_is_array(list) ? json_array_size(list) : list != NULL;

        *ret = 0;
        for (size_t i = 0; i < count; i++) {
                const json_t *name = json_is_array(list) ? json_array_get(list, i) : list;

                if (action_bit(json_string_value(name), ret) < 0)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "rules[%zu].%s: '%.40s' is none of read, list, create, modify, delete and *",
                                       index, where, json_is_string(name) ? json_string_value(name) : "(not a string)");
        }
        return 0;
}

static int read_initial(const json_t *given, unsigned *ret, struct cloche_err *e)
{
        const char *name;
        json_t *value;

        *ret = DEFAULT;
        if (given && !json_is_object(given))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "default: expected an object of actions, true or false each");
        json_object_foreach ((json_t *)given, name, value) {
                unsigned bit = 0;

                if (strcmp(name, "*") == 0 || action_bit(name, &bit) < 0 || !json_is_boolean(value))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "default.%.40s: expected read, list, create, modify or delete, and true or "
                                       "false",
                                       name);
                *ret = json_is_true(value) ? *ret | bit : *ret & ~bit;
        }
        return 0;
}

static int check_keys(const json_t *object, const char *const *known, const char *what, size_t index,
                      struct cloche_err *e)
{
        const char *name;
        json_t *value;

        json_object_foreach ((json_t *)object, name, value) {
                const char *const *k = known;

                while (*k && strcmp(*k, name) != 0)
                        k++;
                if (!*k)
                        return index == RULES_DEFAULT
                                       ? err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s: unknown member '%.40s'", what, name)
                                       : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s[%zu]: unknown member '%.40s'", what,
                                                 index, name);
        }
        return 0;
}

static struct rule *add(struct rules *rules)
{
        struct rule *row = &rules->rows[rules->count];

        row->seed_entry = rules->count++;
        return row;
}

static int read_rule(const json_t *given, size_t index, struct rules *rules, struct cloche_err *e)
{
        static const char *const known[] = {"pattern", "allow", "deny", "priority", NULL};
        const char *pattern = json_string_value(json_object_get(given, "pattern"));
        const json_t *priority = json_object_get(given, "priority");
        struct rule *row = add(rules);
        int r;

        if (!json_is_object(given) || !pattern)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "rules[%zu]: expected an object with a pattern", index);
        if (priority && !json_is_number(priority))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "rules[%zu].priority: expected a number", index);
        row->priority = json_number_value(priority);
        row->pattern = strdup(pattern);
        r = check_keys(given, known, "rules", index, e);
        if (r == 0)
                r = read_actions(json_object_get(given, "deny"), "deny", index, &row->deny, e);
        if (r == 0)
                r = read_actions(json_object_get(given, "allow"), "allow", index, &row->allow, e);
        if (r == 0 && glob_compile(pattern, &row->glob, e) < 0) {
                char where[40];

                snprintf(where, sizeof(where), "rules[%zu].pattern", index);
                r = err_wrap(e, "%s", where);
        }
        if (r == 0 && !row->pattern)
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the rules");
        return r;
}

static int read_exclude(const json_t *given, size_t index, struct rules *rules, struct cloche_err *e)
{
        const char *pattern = json_string_value(given), *anywhere;
        char text[GLOB_BYTES_MAX + 16];
        struct rule *row = add(rules);
        int r;

        if (!pattern || !*pattern || strlen(pattern) > GLOB_BYTES_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "exclude[%zu]: expected a pattern of at most %d bytes",
                               index, GLOB_BYTES_MAX);
        row->priority = EXCLUDE_PRIORITY;
        row->deny = ALL;
        row->pattern = strdup(pattern);
        anywhere = strchr(pattern, '/') ? "" : "**/";
        snprintf(text, sizeof(text), "%s%s", anywhere, pattern);
        r = glob_compile(text, &row->glob, e);
        snprintf(text, sizeof(text), "%s%s/**", anywhere, pattern);
        if (r == 0)
                r = glob_compile(text, &row->below, e);
        if (r < 0) {
                snprintf(text, sizeof(text), "exclude[%zu]", index);
                return err_wrap(e, "%s", text);
        }
        return row->pattern ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the rules");
}

static int by_priority(const void *a, const void *b)
{
        const struct rule *left = a, *right = b;

        if (left->priority != right->priority)
                return left->priority > right->priority ? -1 : 1;
        return left->seed_entry < right->seed_entry ? -1 : left->seed_entry > right->seed_entry;
}

static int read_all(const json_t *permissions, struct rules *rules, struct cloche_err *e)
{
        static const char *const known[] = {"default", "rules", "exclude", NULL};
        const json_t *list = json_object_get(permissions, "rules"), *exclude = json_object_get(permissions, "exclude");
        int r = 0;

        if (permissions && !json_is_null(permissions) && !json_is_object(permissions))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "permissions: expected an object");
        r = check_keys(permissions, known, "permissions", RULES_DEFAULT, e);
        if (r == 0)
                r = read_initial(json_object_get(permissions, "default"), &rules->initial, e);
        if (r == 0 && ((list && !json_is_array(list)) || (exclude && !json_is_array(exclude))))
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "rules and exclude: expected arrays");
        if (r == 0 && json_array_size(list) + json_array_size(exclude) > RULES_MAX)
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "there are more than %d rules", RULES_MAX);
        if (r < 0)
                return r;
        rules->rows = calloc(json_array_size(list) + json_array_size(exclude) + 1, sizeof(*rules->rows));
        if (!rules->rows)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the rules");
        /* At equal priority an exclude precedes a rule, so that an excluded path is not admitted by
         * accident. */
        for (size_t i = 0; r == 0 && i < json_array_size(exclude); i++)
                r = read_exclude(json_array_get(exclude, i), i, rules, e);
        for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
                r = read_rule(json_array_get(list, i), i, rules, e);
        return r;
}

int rules_load(const json_t *permissions, struct rules **ret, struct cloche_err *e)
{
        struct rules *rules = calloc(1, sizeof(*rules));
        int r = rules ? read_all(permissions, rules, e) : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the rules");

        if (r < 0) {
                rules_free(rules);
                return r;
        }
        qsort(rules->rows, rules->count, sizeof(*rules->rows), by_priority);
        *ret = rules;
        return 0;
}

void rules_free(struct rules *rules)
{
        if (!rules)
                return;
        for (size_t i = 0; i < rules->count; i++) {
                glob_free(rules->rows[i].glob);
                glob_free(rules->rows[i].below);
                free(rules->rows[i].pattern);
        }
        free(rules->rows);
        free(rules);
}

/* -- deciding ------------------------------------------------------------------------------------------------- */

unsigned rules_any(const struct rules *rules)
{
        unsigned any = rules->initial;

        for (size_t i = 0; i < rules->count; i++)
                any |= rules->rows[i].allow;
        return any;
}

unsigned rules_decide(const struct rules *rules, const char *path, size_t *ret_rule)
{
        for (size_t i = 0; i < rules->count; i++) {
                const struct rule *row = &rules->rows[i];

                if (!glob_matches(row->glob, path) && !(row->below && glob_matches(row->below, path)))
                        continue;
                if (ret_rule)
                        *ret_rule = i;
                return (rules->initial & ~row->deny) | row->allow;
        }
        if (ret_rule)
                *ret_rule = RULES_DEFAULT;
        return rules->initial;
}
