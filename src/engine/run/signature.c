#include "signature.h"

#include "schema.h"
#include "wire/view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POSITIONS_MAX 65536

/* -- given arguments ------------------------------------------------------------------------------------------ */

struct given {
        const json_t **placed; /* borrowed; NULL: a hole */
        size_t count;
        json_t *named;
};

static void given_done(struct given *g)
{
        free(g->placed);
        json_decref(g->named);
}

static int make_places(struct given *g, size_t count)
{
        g->placed = calloc(count + 1, sizeof(g->placed[0]));
        g->count = count;
        return g->placed ? 0 : -ENOMEM;
}

static int place_all(struct given *g, const json_t *args)
{
        int r = make_places(g, json_array_size(args));

        for (size_t i = 0; r == 0 && i < g->count; i++)
                g->placed[i] = json_array_get(args, i);
        return r;
}

static int is_indexed(const json_t *args)
{
        for (size_t i = 0; i < json_array_size(args); i++) {
                const json_t *item = json_array_get(args, i);

                if (json_object_size(item) != 2 || !json_object_get(item, "index") || !json_object_get(item, "value"))
                        return 0;
        }
        return json_array_size(args) > 0;
}

static int place_indexed(struct given *g, const json_t *args, struct misfit *m)
{
        json_int_t last = 0;
        struct misfit_text shown;
        int r;

        for (size_t i = 0; i < json_array_size(args); i++) {
                const json_t *index = json_object_get(json_array_get(args, i), "index");

                if (!json_is_integer(index) || json_integer_value(index) < 0 ||
                    json_integer_value(index) >= POSITIONS_MAX)
                        return misfit_set(m, 0, "argument index %s is not a position", misfit_value(index, &shown));
                if (json_integer_value(index) > last)
                        last = json_integer_value(index);
        }
        r = make_places(g, (size_t)last + 1);
        for (size_t i = 0; r == 0 && i < json_array_size(args); i++) {
                size_t index = (size_t)json_integer_value(json_object_get(json_array_get(args, i), "index"));

                if (g->placed[index])
                        return misfit_set(m, 0, "argument index %zu is given twice", index);
                g->placed[index] = json_object_get(json_array_get(args, i), "value");
        }
        return r;
}

static int add_named(struct given *g, const json_t *object, struct misfit *m)
{
        json_t *members = view_members(object), *member;
        int r = members ? 0 : -ENOMEM;
        struct misfit_text shown;
        const char *name;
        size_t size;

        json_object_keylen_foreach (members, name, size, member) {
                if (r == 0 && json_object_getn(g->named, name, size))
                        r = misfit_set(m, 0, "argument '%s' is given twice, in args and in kwargs",
                                       misfit_name(name, size, &shown));
                else if (r == 0 && json_object_setn(g->named, name, size, member) < 0)
                        r = -ENOMEM;
        }
        json_decref(members);
        return r;
}

static int is_object(const json_t *value)
{
        return json_is_object(value) && view_kind(value) == VIEW_OBJECT;
}

static int collect(const json_t *args, const json_t *kwargs, struct given *g, struct misfit *m)
{
        int r;

        if (args && !json_is_array(args) && !is_object(args))
                return misfit_set(m, 0, "args must be an array or an object");
        if (kwargs && !is_object(kwargs))
                return misfit_set(m, 0, "kwargs must be an object");
        g->named = json_object();
        if (!g->named)
                return -ENOMEM;
        if (is_indexed(args))
                r = place_indexed(g, args, m);
        else
                r = place_all(g, args);
        if (r == 0 && json_is_object(args))
                r = add_named(g, args, m);
        return r == 0 && kwargs ? add_named(g, kwargs, m) : r;
}

/* References count the containers of args and of kwargs in their places, so values that are moved
 * or checked must have none. */
static int refuse_references(const json_t *args, const json_t *kwargs, const json_t *schema, struct misfit *m)
{
        int is_moved = schema || is_indexed(args) || (json_is_object(args) && json_object_size(kwargs) > 0);

        if (schema && view_has_references(schema))
                return misfit_set(m, 1, "schema: references cannot be in it");
        if (is_moved && ((args && view_has_references(args)) || (kwargs && view_has_references(kwargs))))
                return misfit_set(m, 0, "references among arguments take args as an array of values, and no schema");
        return 0;
}

/* -- parameters of the schema --------------------------------------------------------------------------------- */

struct parameter {
        const json_t *name; /* owned by rules->order */
        json_t *schema;
        int is_required;
};

struct rules {
        struct parameter *rows;
        size_t count;
        json_t *order, *places; /* names; positions by name */
        int is_variadic, takes_keywords;
};

static void rules_done(struct rules *rules)
{
        for (size_t i = 0; i < rules->count; i++)
                json_decref(rules->rows[i].schema);
        free(rules->rows);
        json_decref(rules->order);
        json_decref(rules->places);
}

static int in_parameter(int r, struct misfit *m, const char *what, const json_t *name)
{
        struct misfit_text shown;
        char step[sizeof(shown) + 32];

        snprintf(step, sizeof(step), "%s '%s'", what,
                 misfit_name(json_string_value(name), json_string_length(name), &shown));
        return misfit_in(r, m, step);
}

/* name is stolen. rows has room for it. */
static int declare(struct rules *rules, json_t *name, const json_t *schema, struct misfit *m)
{
        const char *text = json_string_value(name);
        size_t size = json_string_length(name);
        const json_t *flag = json_object_get(schema, "required");
        struct parameter *p = &rules->rows[rules->count];
        struct misfit_text shown;

        if (json_array_append_new(rules->order, name) < 0)
                return -ENOMEM;
        if (json_object_getn(rules->places, text, size))
                return misfit_set(m, 1, "schema: two parameters are named '%s'", misfit_name(text, size, &shown));
        if (json_object_setn_new(rules->places, text, size, json_integer((json_int_t)rules->count)) < 0)
                return -ENOMEM;
        *p = (struct parameter){.name = name, .schema = json_copy((json_t *)schema), .is_required = json_is_true(flag)};
        if (!p->schema)
                return -ENOMEM;
        rules->count++;
        if (json_is_boolean(flag)) /* else it is the keyword "required", of an object's properties */
                json_object_del(p->schema, "required");
        return in_parameter(schema_check(p->schema, m), m, "schema of", name);
}

static int declare_list(struct rules *rules, const json_t *list, const char *what, struct misfit *m)
{
        char placeholder[32];
        int r = 0;

        for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
                const json_t *item = json_array_get(list, i), *name = json_object_get(item, "name");

                if (!json_is_object(item) || json_object_get(item, "$"))
                        return misfit_set(m, 1, "schema: %s must be an array of objects", what);
                if (name && !json_is_string(name))
                        return misfit_set(m, 1, "schema: the name of parameter %zu must be a string", i);
                snprintf(placeholder, sizeof(placeholder), "arg%zu", i);
                r = declare(rules, name ? json_copy((json_t *)name) : json_string(placeholder), item, m);
        }
        return r;
}

struct slot {
        const char *name;
        size_t size;
        const json_t *schema;
};

/* Place the parameters that have an index. */
static int fill_indexed(struct slot *slots, size_t count, json_t *members, struct misfit *m)
{
        struct misfit_text shown, other;
        const char *name;
        json_t *schema;
        size_t size;

        json_object_keylen_foreach (members, name, size, schema) {
                const json_t *index = json_object_get(schema, "index");
                json_int_t at = json_integer_value(index);

                if (!json_is_object(schema) || json_object_get(schema, "$"))
                        return misfit_set(m, 1, "schema: input must map names to schemas");
                if (!index)
                        continue;
                if (!json_is_integer(index) || at < 0 || at >= (json_int_t)count || slots[at].name)
                        return misfit_set(m, 1, "schema of '%s': index %s is not a free position",
                                          misfit_name(name, size, &shown), misfit_value(index, &other));
                slots[at] = (struct slot){name, size, schema};
        }
        return 0;
}

/* Place the others between them, in their order. */
static void fill_others(struct slot *slots, json_t *members)
{
        const char *name;
        json_t *schema;
        size_t size, at = 0;

        json_object_keylen_foreach (members, name, size, schema) {
                if (json_object_get(schema, "index"))
                        continue;
                while (slots[at].name)
                        at++;
                slots[at] = (struct slot){name, size, schema};
        }
}

static int declare_members(struct rules *rules, json_t *members, struct misfit *m)
{
        size_t count = json_object_size(members);
        struct slot *slots = calloc(count + 1, sizeof(*slots));
        int r = slots ? fill_indexed(slots, count, members, m) : -ENOMEM;

        if (r == 0)
                fill_others(slots, members);
        for (size_t i = 0; r == 0 && i < count; i++)
                r = declare(rules, json_stringn(slots[i].name, slots[i].size), slots[i].schema, m);
        free(slots);
        return r;
}

static int make_rows(struct rules *rules, size_t count)
{
        rules->rows = calloc(count + 1, sizeof(rules->rows[0]));
        rules->order = json_array();
        rules->places = json_object();
        return rules->rows && rules->order && rules->places ? 0 : -ENOMEM;
}

static int declare_input(struct rules *rules, const json_t *input, struct misfit *m)
{
        json_t *members = is_object(input) ? view_members(input) : NULL;
        int r = make_rows(rules, members ? json_object_size(members) : json_array_size(input));

        if (r == 0 && is_object(input))
                r = members ? declare_members(rules, members, m) : -ENOMEM;
        else if (r == 0 && input && !json_is_array(input))
                r = misfit_set(m, 1, "schema: input must be an array or an object");
        else if (r == 0)
                r = declare_list(rules, input, "input", m);
        json_decref(members);
        return r;
}

static int declare_params(struct rules *rules, const json_t *params, struct misfit *m)
{
        int r = make_rows(rules, json_array_size(params));

        if (r == 0 && !json_is_array(params))
                r = misfit_set(m, 1, "schema: params must be an array of objects");
        return r != 0 ? r : declare_list(rules, params, "params", m);
}

static int check_members(const json_t *schema, struct misfit *m)
{
        static const char *const flags[] = {"variadic", "acceptsKwargs", "strict"};
        static const char *const others[] = {"params", "input", "output"};
        struct misfit_text shown;
        const char *name;
        json_t *value;

        json_object_foreach ((json_t *)schema, name, value) {
                int is_known = schema_is_annotation(name);

                for (size_t i = 0; i < 3; i++) {
                        if (strcmp(name, flags[i]) == 0 && !json_is_boolean(value))
                                return misfit_set(m, 1, "schema: %s must be true or false", name);
                        is_known |= strcmp(name, flags[i]) == 0 || strcmp(name, others[i]) == 0;
                }
                if (!is_known)
                        return misfit_set(m, 1, "schema: '%s' is not supported",
                                          misfit_name(name, strlen(name), &shown));
        }
        return 0;
}

static int read_schema(const json_t *schema, struct rules *rules, struct misfit *m)
{
        const json_t *params = json_object_get(schema, "params"), *output = json_object_get(schema, "output");
        int r = check_members(schema, m);

        rules->is_variadic = rules->takes_keywords = !json_is_true(json_object_get(schema, "strict"));
        if (params) {
                rules->is_variadic = json_is_true(json_object_get(schema, "variadic"));
                rules->takes_keywords = json_is_true(json_object_get(schema, "acceptsKwargs"));
        }
        if (r == 0)
                r = params ? declare_params(rules, params, m)
                           : declare_input(rules, json_object_get(schema, "input"), m);
        if (r == 0 && output)
                r = misfit_in(schema_check(output, m), m, "schema of the output");
        return r;
}

/* -- arguments against parameters ----------------------------------------------------------------------------- */

static const char *names_of(const struct rules *rules, struct misfit_text *ret)
{
        struct misfit_text name;
        size_t size = 0;

        strcpy(ret->text, rules->count ? "" : "none");
        for (size_t i = 0; i < rules->count; i++) {
                misfit_name(json_string_value(rules->rows[i].name), json_string_length(rules->rows[i].name), &name);
                if (size + strlen(name.text) + sizeof(", …") > sizeof(ret->text)) {
                        strcpy(ret->text + size, "…");
                        break;
                }
                size += (size_t)snprintf(ret->text + size, sizeof(ret->text) - size, "%s%s", i ? ", " : "", name.text);
        }
        return ret->text;
}

static int check_surplus(const struct given *g, const struct rules *rules, struct misfit *m)
{
        struct misfit_text shown, known;
        const char *name;
        json_t *value;
        size_t size;

        for (size_t i = rules->count; i < g->count && !rules->is_variadic; i++)
                if (g->placed[i])
                        return misfit_set(m, 0, "argument %zu is too many: the schema has %zu (%s)", i + 1,
                                          rules->count, names_of(rules, &known));
        json_object_keylen_foreach (g->named, name, size, value) {
                const json_t *place = json_object_getn(rules->places, name, size);
                size_t at = (size_t)json_integer_value(place);

                if (place && at < g->count && g->placed[at])
                        return misfit_set(m, 0, "argument '%s' is given twice", misfit_name(name, size, &shown));
                if (!place && !rules->takes_keywords)
                        return misfit_set(m, 0, "unknown argument '%s'; the schema has: %s",
                                          misfit_name(name, size, &shown), names_of(rules, &known));
        }
        return 0;
}

/* Check the parameter's value, or fill in its default: into a hole, else by name. */
static int complete(struct given *g, size_t at, const struct parameter *p, struct misfit *m)
{
        const char *name = json_string_value(p->name);
        size_t size = json_string_length(p->name);
        const json_t *value = at < g->count && g->placed[at] ? g->placed[at] : json_object_getn(g->named, name, size);
        json_t *fallback = json_object_get(p->schema, "default");
        struct misfit_text shown;

        if (value)
                return in_parameter(schema_fits(p->schema, value, m), m, "argument", p->name);
        if (!fallback)
                return p->is_required
                               ? misfit_set(m, 0, "missing required argument '%s'", misfit_name(name, size, &shown))
                               : 0;
        if (at >= g->count)
                return json_object_setn(g->named, name, size, fallback) < 0 ? -ENOMEM : 0;
        g->placed[at] = fallback;
        return 0;
}

static int apply(const struct rules *rules, struct given *g, struct misfit *m)
{
        int r = check_surplus(g, rules, m);

        for (size_t i = 0; r == 0 && i < rules->count; i++)
                r = complete(g, i, &rules->rows[i], m);
        return r;
}

/* -- the agents' form ----------------------------------------------------------------------------------------- */

static int write_arguments(const struct given *g, const json_t *order, struct arguments *ret)
{
        struct arguments made = {.args = json_array(), .holes = json_array(), .kwargs = view_object(g->named)};
        int r = 0;

        made.order = order ? json_incref((json_t *)order) : json_null();
        for (size_t i = 0; r == 0 && i < g->count; i++) {
                r = json_array_append(made.args, g->placed[i] ? (json_t *)g->placed[i] : json_null());
                if (r == 0 && !g->placed[i])
                        r = json_array_append_new(made.holes, json_integer((json_int_t)i));
        }
        if (r < 0 || !made.args || !made.holes || !made.kwargs) {
                arguments_done(&made);
                return -ENOMEM;
        }
        *ret = made;
        return 0;
}

void arguments_done(struct arguments *arguments)
{
        json_decref(arguments->args);
        json_decref(arguments->holes);
        json_decref(arguments->kwargs);
        json_decref(arguments->order);
        *arguments = (struct arguments){0};
}

int signature_bind(const json_t *args, const json_t *kwargs, const json_t *schema, struct arguments *ret,
                   struct misfit *m)
{
        struct rules rules = {0};
        struct given given = {0};
        int r = refuse_references(args, kwargs, schema, m);

        if (r == 0 && schema)
                r = read_schema(schema, &rules, m);
        if (r == 0)
                r = collect(args, kwargs, &given, m);
        if (r == 0 && schema)
                r = apply(&rules, &given, m);
        if (r == 0)
                r = write_arguments(&given, rules.order, ret);
        given_done(&given);
        rules_done(&rules);
        return r;
}

int signature_check_output(const json_t *schema, const json_t *value, struct misfit *m)
{
        const json_t *output = json_object_get(schema, "output");

        if (!output)
                return 0;
        if (view_has_references(value))
                return misfit_set(m, 0, "result: holds references, and cannot be checked");
        return misfit_in(schema_fits(output, value, m), m, "result");
}
