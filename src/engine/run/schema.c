#include "schema.h"

#include "base/utf8.h"
#include "pattern.h"
#include "wire/view.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct keyword;

/* One value against one schema. */
struct check {
        struct misfit *misfit;
        struct patterns patterns;
        const json_t *schema; /* these two are of the current rule */
        const struct keyword *keyword;
};

struct keyword {
        const char *name;
        int (*is_rule)(const json_t *rule); /* true if it can be the keyword's value */
        int (*check)(struct check *c, const json_t *rule, const json_t *value);
        unsigned kinds; /* of the values it constrains */
        int sign;       /* of a bound: 1 for at least, -1 for at most */
        int is_exclusive;
};

static int check(struct check *c, const json_t *schema, const json_t *value);

/* -- values of keywords --------------------------------------------------------------------------------------- */

#define OF(kind) (1u << VIEW_##kind)
#define NUMBERS (OF(NUMBER) | OF(INTEGER))
#define ANYTHING ~0u

static const struct {
        const char *name;
        unsigned kinds;
} types[] = {
        {"string", OF(STRING)},   {"number", NUMBERS},  {"integer", OF(INTEGER)},
        {"boolean", OF(BOOLEAN)}, {"array", OF(ARRAY)}, {"object", OF(OBJECT)},
        {"null", OF(NULL)},       {"bytes", OF(BYTES)}, {"any", ANYTHING},
};

/* Return the kinds of a type's name, 0 if there is no such type. */
static unsigned kinds_of(const json_t *name)
{
        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
                if (json_is_string(name) && strcmp(json_string_value(name), types[i].name) == 0)
                        return types[i].kinds;
        return 0;
}

static int is_strings(const json_t *rule)
{
        for (size_t i = 0; i < json_array_size(rule); i++)
                if (!json_is_string(json_array_get(rule, i)))
                        return 0;
        return json_is_array(rule);
}

static int is_type(const json_t *rule)
{
        return json_is_string(rule) || (is_strings(rule) && json_array_size(rule) > 0);
}

static int is_list(const json_t *rule)
{
        return json_is_array(rule);
}

static int is_alternatives(const json_t *rule)
{
        return json_array_size(rule) > 0;
}

static int is_anything(const json_t *rule)
{
        return rule != NULL;
}

static int is_object(const json_t *rule)
{
        return json_is_object(rule) && view_kind(rule) == VIEW_OBJECT;
}

static int is_schema_or_flag(const json_t *rule)
{
        return json_is_boolean(rule) || is_object(rule);
}

static int is_number(const json_t *rule)
{
        return NUMBERS >> view_kind(rule) & 1;
}

static int is_size(const json_t *rule)
{
        return json_is_integer(rule) && json_integer_value(rule) >= 0;
}

/* -- values against rules ------------------------------------------------------------------------------------- */

static int refuse_type(struct check *c, const json_t *rule, const json_t *value)
{
        struct misfit_text wanted = {""};
        size_t size = 0;

        if (json_is_string(rule))
                return misfit_set(c->misfit, 0, "expected %s, got %s", json_string_value(rule), view_kind_name(value));
        for (size_t i = 0; i < json_array_size(rule) && size < sizeof(wanted.text); i++)
                size += (size_t)snprintf(wanted.text + size, sizeof(wanted.text) - size, "%s%s", i ? " or " : "",
                                         json_string_value(json_array_get(rule, i)));
        return misfit_set(c->misfit, 0, "expected %s, got %s", wanted.text, view_kind_name(value));
}

static int check_type(struct check *c, const json_t *rule, const json_t *value)
{
        unsigned kinds = kinds_of(rule);

        for (size_t i = 0; i < json_array_size(rule); i++)
                kinds |= kinds_of(json_array_get(rule, i));
        return kinds & 1u << view_kind(value) ? 0 : refuse_type(c, rule, value);
}

static int check_enum(struct check *c, const json_t *rule, const json_t *value)
{
        struct misfit_text allowed, got;

        for (size_t i = 0; i < json_array_size(rule); i++) {
                int same = view_equal(value, json_array_get(rule, i));

                if (same != 0)
                        return same < 0 ? same : 0;
        }
        return misfit_set(c->misfit, 1, "expected one of %s, got %s", misfit_json(rule, &allowed),
                          misfit_value(value, &got));
}

static int check_const(struct check *c, const json_t *rule, const json_t *value)
{
        struct misfit_text allowed, got;
        int same = view_equal(value, rule);

        if (same != 0)
                return same < 0 ? same : 0;
        return misfit_set(c->misfit, 1, "expected %s, got %s", misfit_json(rule, &allowed), misfit_value(value, &got));
}

/* Count the schemas that the value fits, up to `most`. */
static int count_fitting(struct check *c, const json_t *schemas, const json_t *value, int most)
{
        int fitting = 0;

        for (size_t i = 0; i < json_array_size(schemas) && fitting < most; i++) {
                int r = check(c, json_array_get(schemas, i), value);

                if (r < 0)
                        return r;
                fitting += r == 0;
        }
        return fitting;
}

static int check_alternatives(struct check *c, const json_t *rule, const json_t *value)
{
        const struct keyword *keyword = c->keyword;
        int fitting = count_fitting(c, rule, value, keyword->is_exclusive ? 2 : 1);
        struct misfit last;

        if (fitting < 0 || fitting == 1)
                return fitting < 0 ? fitting : 0;
        if (fitting > 1)
                return misfit_set(c->misfit, 1, "fits more than one of %s", keyword->name);
        last = *c->misfit;
        return misfit_set(c->misfit, last.is_value, "fits none of %s, for the last%s: %s", keyword->name, last.where,
                          last.what);
}

static int check_all(struct check *c, const json_t *rule, const json_t *value)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < json_array_size(rule); i++)
                r = check(c, json_array_get(rule, i), value);
        return r;
}

static int check_properties(struct check *c, const json_t *rule, const json_t *value)
{
        json_t *members = view_members(value), *properties = view_members(rule), *inner;
        int r = members && properties ? 0 : -ENOMEM;
        const char *key;
        size_t size;

        json_object_keylen_foreach (properties, key, size, inner) {
                const json_t *member = r == 0 ? json_object_getn(members, key, size) : NULL;

                if (member)
                        r = misfit_in_member(check(c, inner, member), c->misfit, key, size);
        }
        json_decref(properties);
        json_decref(members);
        return r;
}

static int check_additional(struct check *c, const json_t *rule, const json_t *value)
{
        const json_t *known = json_object_get(c->schema, "properties");
        json_t *members = view_members(value), *properties = known ? view_members(known) : json_object(), *member;
        int r = members && properties ? 0 : -ENOMEM;
        struct misfit_text name;
        const char *key;
        size_t size;

        json_object_keylen_foreach (members, key, size, member) {
                if (r != 0 || json_object_getn(properties, key, size) || json_is_true(rule))
                        continue;
                if (json_is_false(rule))
                        r = misfit_set(c->misfit, 0, "unknown property '%s'", misfit_name(key, size, &name));
                else
                        r = misfit_in_member(check(c, rule, member), c->misfit, key, size);
        }
        json_decref(properties);
        json_decref(members);
        return r;
}

static int check_required(struct check *c, const json_t *rule, const json_t *value)
{
        json_t *members = view_members(value);
        int r = members ? 0 : -ENOMEM;
        struct misfit_text shown;

        for (size_t i = 0; r == 0 && i < json_array_size(rule); i++) {
                const char *name = json_string_value(json_array_get(rule, i));
                size_t size = json_string_length(json_array_get(rule, i));

                if (!json_object_getn(members, name, size))
                        r = misfit_set(c->misfit, 0, "property '%s' is missing", misfit_name(name, size, &shown));
        }
        json_decref(members);
        return r;
}

static int check_items(struct check *c, const json_t *rule, const json_t *value)
{
        const struct view_items items = view_items(value);
        int r = 0;

        for (size_t i = 0; r == 0 && i < items.count; i++) {
                json_t *item = view_item(&items, i);

                r = item ? misfit_in_item(check(c, rule, item), c->misfit, i) : -ENOMEM;
                json_decref(item);
        }
        return r;
}

static int check_size(struct check *c, const json_t *bound, size_t size, const char *what)
{
        long long wanted = json_integer_value(bound), have = (long long)size;
        int is_least = c->keyword->sign > 0;

        if (is_least ? have >= wanted : have <= wanted)
                return 0;
        return misfit_set(c->misfit, 1, "expected at %s %lld %s, got %lld", is_least ? "least" : "most", wanted, what,
                          have);
}

static int check_count(struct check *c, const json_t *rule, const json_t *value)
{
        return check_size(c, rule, view_items(value).count, "items");
}

static int check_length(struct check *c, const json_t *rule, const json_t *value)
{
        return check_size(c, rule, utf8_count(json_string_value(value), json_string_length(value)), "characters");
}

static int check_bound(struct check *c, const json_t *rule, const json_t *value)
{
        static const char *const words[2][2] = {{"at most", "at least"}, {"less than", "more than"}};
        const struct keyword *k = c->keyword;
        struct misfit_text bound, got;
        int order;

        if (view_compare(value, rule, &order) && (k->sign * order > 0 || (order == 0 && !k->is_exclusive)))
                return 0;
        return misfit_set(c->misfit, 1, "expected %s %s, got %s", words[k->is_exclusive][k->sign > 0],
                          misfit_value(rule, &bound), misfit_value(value, &got));
}

static int check_pattern(struct check *c, const json_t *rule, const json_t *value)
{
        int r = patterns_match(&c->patterns, rule, value);
        struct misfit_text got, source;

        if (r == -ENOMEM || r == 1)
                return r < 0 ? r : 0;
        misfit_name(json_string_value(rule), json_string_length(rule), &source);
        if (r < 0)
                return misfit_set(c->misfit, 1, "takes too much time or memory to match against %s", source.text);
        return misfit_set(c->misfit, 1, "%s does not match %s", misfit_value(value, &got), source.text);
}

static int is_pattern(const json_t *rule)
{
        struct patterns patterns = {0};
        json_t *nothing = json_string("");
        int r = json_is_string(rule) && nothing ? patterns_match(&patterns, rule, nothing) : -EINVAL;

        json_decref(nothing);
        patterns_done(&patterns);
        return r != -EINVAL;
}

/* -- schemas -------------------------------------------------------------------------------------------------- */

static const struct keyword keywords[] = {
        {"type", is_type, check_type, ANYTHING},
        {"enum", is_list, check_enum, ANYTHING},
        {"const", is_anything, check_const, ANYTHING},
        {"minimum", is_number, check_bound, NUMBERS, .sign = 1},
        {"maximum", is_number, check_bound, NUMBERS, .sign = -1},
        {"exclusiveMinimum", is_number, check_bound, NUMBERS, .sign = 1, .is_exclusive = 1},
        {"exclusiveMaximum", is_number, check_bound, NUMBERS, .sign = -1, .is_exclusive = 1},
        {"minLength", is_size, check_length, OF(STRING), .sign = 1},
        {"maxLength", is_size, check_length, OF(STRING), .sign = -1},
        {"pattern", is_pattern, check_pattern, OF(STRING)},
        {"minItems", is_size, check_count, OF(ARRAY), .sign = 1},
        {"maxItems", is_size, check_count, OF(ARRAY), .sign = -1},
        {"items", is_object, check_items, OF(ARRAY)},
        {"required", is_strings, check_required, OF(OBJECT)},
        {"properties", is_object, check_properties, OF(OBJECT)},
        {"additionalProperties", is_schema_or_flag, check_additional, OF(OBJECT)},
        {"anyOf", is_alternatives, check_alternatives, ANYTHING},
        {"oneOf", is_alternatives, check_alternatives, ANYTHING, .is_exclusive = 1},
        {"allOf", is_alternatives, check_all, ANYTHING},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct keyword *find_keyword(const char *name)
{
        for (size_t i = 0; i < COUNT(keywords); i++)
                if (strcmp(name, keywords[i].name) == 0)
                        return &keywords[i];
        return NULL;
}

static int check(struct check *c, const json_t *schema, const json_t *value)
{
        unsigned bit = 1u << view_kind(value);
        const char *name;
        json_t *rule;

        json_object_foreach ((json_t *)schema, name, rule) {
                const struct keyword *keyword = find_keyword(name);
                int r;

                if (!keyword || !(keyword->kinds & bit))
                        continue;
                c->schema = schema;
                c->keyword = keyword;
                r = keyword->check(c, rule, value);
                if (r != 0)
                        return r;
        }
        return 0;
}

int schema_fits(const json_t *schema, const json_t *value, struct misfit *m)
{
        struct check c = {.misfit = m};
        int r = check(&c, schema, value);

        patterns_done(&c.patterns);
        return r;
}

int schema_is_annotation(const char *keyword)
{
        static const char *const names[] = {
                "title",      "description", "examples",  "$comment", "$schema", "$id",   "format",
                "deprecated", "readOnly",    "writeOnly", "default",  "name",    "index",
        };

        for (size_t i = 0; i < COUNT(names); i++)
                if (strcmp(keyword, names[i]) == 0)
                        return 1;
        return 0;
}

static int check_keyword(const char *name, const json_t *rule, struct misfit *m)
{
        const struct keyword *keyword = find_keyword(name);
        struct misfit_text shown;

        if (keyword)
                return keyword->is_rule(rule) ? 0 : misfit_set(m, 1, "keyword '%s' has a wrong value", name);
        if (schema_is_annotation(name))
                return 0;
        return misfit_set(m, 1, "keyword '%s' is not supported", misfit_name(name, strlen(name), &shown));
}

static int check_type_names(const json_t *type, struct misfit *m)
{
        size_t count = json_is_array(type) ? json_array_size(type) : type != NULL;
        struct misfit_text shown;

        for (size_t i = 0; i < count; i++) {
                const json_t *name = json_is_array(type) ? json_array_get(type, i) : type;

                if (!kinds_of(name))
                        return misfit_set(m, 1, "unknown type '%s'",
                                          misfit_name(json_string_value(name), json_string_length(name), &shown));
        }
        return 0;
}

static int check_members(const json_t *properties, struct misfit *m)
{
        json_t *members = properties ? view_members(properties) : json_object(), *inner;
        int r = members ? 0 : -ENOMEM;
        const char *key;
        size_t size;

        json_object_keylen_foreach (members, key, size, inner)
                if (r == 0)
                        r = misfit_in_member(schema_check(inner, m), m, key, size);
        json_decref(members);
        return r;
}

static int check_list(const json_t *list, struct misfit *m)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
                r = misfit_in_item(schema_check(json_array_get(list, i), m), m, i);
        return r;
}

static int check_inner(const json_t *schema, struct misfit *m)
{
        static const char *const lists[] = {"anyOf", "oneOf", "allOf"};
        const json_t *items = json_object_get(schema, "items"),
                     *additional = json_object_get(schema, "additionalProperties");
        int r = check_members(json_object_get(schema, "properties"), m);

        if (r == 0 && items)
                r = misfit_in_member(schema_check(items, m), m, "items", 5);
        if (r == 0 && json_is_object(additional))
                r = misfit_in_member(schema_check(additional, m), m, "additionalProperties", 20);
        for (size_t i = 0; r == 0 && i < COUNT(lists); i++)
                r = misfit_in_member(check_list(json_object_get(schema, lists[i]), m), m, lists[i], strlen(lists[i]));
        return r;
}

int schema_check(const json_t *schema, struct misfit *m)
{
        const char *name;
        json_t *rule;
        int r;

        if (!is_object(schema) || json_object_get(schema, "$"))
                return misfit_set(m, 1, "must be an object");
        json_object_foreach ((json_t *)schema, name, rule) {
                r = check_keyword(name, rule, m);
                if (r != 0)
                        return r;
        }
        r = check_type_names(json_object_get(schema, "type"), m);
        return r != 0 ? r : check_inner(schema, m);
}
