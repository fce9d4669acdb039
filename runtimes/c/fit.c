#include "fit.h"
#include "box/agent/agent.h"
#include "convert.h"

#include <stdlib.h>
#include <string.h>

#define LEVELS_MAX 4 /* nesting of examined values: alternatives of alternatives multiply */

enum kind { KIND_NULL, KIND_BOOL, KIND_INTEGER, KIND_REAL, KIND_TEXT, KIND_BYTES, KIND_LIST, KIND_OBJECT, KIND_OTHER };

static enum kind kind_of_tag(const char *tag)
{
        static const struct {
                const char *tag;
                enum kind kind;
        } rows[] = {{"bigint", KIND_INTEGER}, {"number", KIND_REAL}, {"bytes", KIND_BYTES}, {"buffer", KIND_BYTES},
                    {"array", KIND_LIST},     {"set", KIND_LIST},    {"map", KIND_OBJECT},  {"object", KIND_OBJECT}};

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if (strcmp(tag, rows[i].tag) == 0)
                        return rows[i].kind;
        return KIND_OTHER;
}

static enum kind kind_of(const json_t *value)
{
        const char *tag = agent_tag(value);

        if (tag)
                return kind_of_tag(tag);
        switch (json_typeof(value)) {
        case JSON_NULL:
                return KIND_NULL;
        case JSON_TRUE:
        case JSON_FALSE:
                return KIND_BOOL;
        case JSON_INTEGER:
                return KIND_INTEGER;
        case JSON_REAL:
                return KIND_REAL;
        case JSON_STRING:
                return KIND_TEXT;
        case JSON_ARRAY:
                return KIND_LIST;
        default:
                return KIND_OBJECT;
        }
}

static int has_tag(const json_t *value, const char *tag)
{
        return agent_tag(value) && strcmp(agent_tag(value), tag) == 0;
}

static enum fit worse(enum fit a, enum fit b)
{
        return a > b ? a : b;
}

/* -- numbers and names ---------------------------------------------------------------------------------------- */

static enum fit number_fit(enum kind kind, const struct type *type)
{
        switch (type->kind) {
        case TYPE_BOOL:
                return kind == KIND_BOOL ? FIT_BEST : kind == KIND_INTEGER ? FIT_TAKEN : FIT_NEVER;
        case TYPE_INTEGER:
                return kind == KIND_INTEGER ? FIT_BEST : kind == KIND_BOOL ? FIT_NEAR : FIT_NEVER;
        case TYPE_FLOAT:
                return kind == KIND_REAL ? FIT_BEST : kind == KIND_INTEGER ? FIT_NEAR : FIT_NEVER;
        case TYPE_CHAR:
        case TYPE_ENUM:
                return kind == KIND_INTEGER ? FIT_TAKEN : kind == KIND_BOOL ? FIT_FAR : FIT_NEVER;
        default:
                return FIT_NEVER;
        }
}

static int is_enumerator(const struct type *type, const char *name)
{
        const char *scope;

        while ((scope = strstr(name, "::")))
                name = scope + 2;
        for (size_t i = 0; i < type->enumerator_count; i++)
                if (strcmp(type->enumerators[i].name, name) == 0)
                        return 1;
        return 0;
}

static enum fit scalar_fit(const json_t *value, const struct type *type)
{
        if (!json_is_string(value))
                return number_fit(kind_of(value), type);
        if (type->kind == TYPE_CHAR)
                return json_string_length(value) == 1 ? FIT_NEAR : FIT_NEVER;
        return type->kind == TYPE_ENUM && is_enumerator(type, json_string_value(value)) ? FIT_NEAR : FIT_NEVER;
}

/* -- lists ---------------------------------------------------------------------------------------------------- */

static enum fit fit_within(const json_t *value, const struct type *type, int levels);

static enum fit elements_fit(const json_t *value, const struct type *element, int levels)
{
        const char *numbers = has_tag(value, "array") ? json_string_value(json_object_get(value, "t")) : NULL;
        const json_t *items = json_is_array(value) ? value : json_object_get(value, "v");
        enum fit fit = FIT_BEST;

        if (numbers)
                return number_fit(*numbers == 'f' ? KIND_REAL : KIND_INTEGER, element);
        for (size_t i = 0; levels > 0 && i < json_array_size(items) && fit != FIT_NEVER; i++)
                fit = worse(fit, fit_within(json_array_get(items, i), element, levels - 1));
        return fit;
}

/* Arrays, and all library classes that hold elements of one type. */
static enum fit sequence_fit(const json_t *value, const struct type *type, int levels)
{
        const struct type *element = type->inner[0];
        int is_set = type->kind == TYPE_SET || type->kind == TYPE_HASH_SET;

        if (type->is_ordered_otherwise)
                return FIT_NEVER;
        switch (kind_of(value)) {
        case KIND_LIST:
                return worse(has_tag(value, "set") && !is_set ? FIT_NEAR : FIT_BEST,
                             elements_fit(value, element, levels));
        case KIND_BYTES:
                return element->is_byte ? FIT_BEST : worse(FIT_NEAR, number_fit(KIND_INTEGER, element));
        case KIND_TEXT:
                if (type->kind == TYPE_ARRAY && element->kind == TYPE_CHAR)
                        return FIT_BEST;
                return type->kind == TYPE_VECTOR && (element->is_byte || element->kind == TYPE_CHAR) ? FIT_TAKEN
                                                                                                     : FIT_NEVER;
        default:
                return FIT_NEVER;
        }
}

static enum fit tuple_fit(const json_t *value, const struct type *type, int levels)
{
        enum fit fit = FIT_BEST;

        if (!json_is_array(value) || json_array_size(value) != type->member_count)
                return FIT_NEVER;
        for (size_t i = 0; levels > 0 && i < type->member_count; i++)
                fit = worse(fit, fit_within(json_array_get(value, i), type->members[i].type, levels - 1));
        return fit;
}

/* -- objects -------------------------------------------------------------------------------------------------- */

typedef enum fit fit_entry(const json_t *key, const json_t *value, const struct type *type, int levels);

/* Calls visit for each key and value of an object in any of its forms; returns the worst result. */
static enum fit worst_entry(const json_t *object, fit_entry *visit, const struct type *type, int levels)
{
        const json_t *pairs = json_object_get(object, "v"), *pair;
        enum fit fit = FIT_BEST;
        const char *name;
        json_t *value, *key;
        size_t i;

        if (agent_tag(object)) {
                json_array_foreach (pairs, i, pair)
                        fit = worse(fit, visit(json_array_get(pair, 0), json_array_get(pair, 1), type, levels));
                return fit;
        }
        json_object_foreach ((json_t *)object, name, value) { /* NOLINT: only read */
                key = json_string(name);
                fit = worse(fit, visit(key, value, type, levels));
                json_decref(key);
        }
        return fit;
}

static enum fit member_fit(const json_t *key, const json_t *value, const struct type *type, int levels)
{
        for (size_t i = 0; i < type->member_count; i++)
                if (type->members[i].name && json_is_string(key) &&
                    strcmp(type->members[i].name, json_string_value(key)) == 0)
                        return levels > 0 ? fit_within(value, type->members[i].type, levels - 1) : FIT_BEST;
        return FIT_NEVER;
}

static size_t entry_count(const json_t *object)
{
        return agent_tag(object) ? json_array_size(json_object_get(object, "v")) : json_object_size(object);
}

/* Lengths of members may be omitted. */
static int is_count_right(const struct type *type, size_t given)
{
        size_t most = 0, least = 0;

        if (type->kind == TYPE_UNION)
                return given == 1;
        for (size_t i = 0; i < type->member_count; i++) {
                const struct member *m = &type->members[i];

                most += m->name != NULL;
                least += m->name &&
                         !(i > 0 && m->bit_size == 0 && convert_is_length(m[-1].name, m[-1].type, m->name, m->type));
        }
        return given >= least && given <= most;
}

static enum fit struct_fit(const json_t *value, const struct type *type, int levels)
{
        if (type->is_made_by_itself)
                return FIT_NEVER;
        if (type->kind == TYPE_STRUCT && type->member_count == 0 && json_is_null(value)) /* std::monostate and such */
                return FIT_NEAR;
        if (kind_of(value) != KIND_OBJECT || has_tag(value, "map") || !is_count_right(type, entry_count(value)))
                return FIT_NEVER;
        return worst_entry(value, member_fit, type, levels);
}

/* A text key may stand for an integer. */
static enum fit key_fit(const json_t *key, const struct type *type)
{
        char *end;

        if (json_is_string(key) && type->kind == TYPE_INTEGER) {
                (void)strtoll(json_string_value(key), &end, 10);
                return *json_string_value(key) && !*end ? FIT_NEAR : FIT_NEVER;
        }
        return fit_within(key, type, 1);
}

static enum fit pair_fit(const json_t *key, const json_t *value, const struct type *type, int levels)
{
        return levels > 0 ? worse(key_fit(key, type->inner[0]), fit_within(value, type->inner[1], levels - 1))
                          : FIT_BEST;
}

static enum fit map_fit(const json_t *value, const struct type *type, int levels)
{
        if (type->is_multi && kind_of(value) == KIND_LIST)
                return FIT_NEAR;
        if (kind_of(value) != KIND_OBJECT || type->is_ordered_otherwise)
                return FIT_NEVER;
        return worst_entry(value, pair_fit, type, levels);
}

/* -- optional values ------------------------------------------------------------------------------------------ */

static enum fit pointer_fit(const json_t *value, const struct type *type, int levels)
{
        const struct type *target = type->inner[0];
        enum kind kind = kind_of(value);

        if (kind == KIND_NULL)
                return FIT_BEST;
        if (target->kind == TYPE_VOID)
                return kind == KIND_TEXT || kind == KIND_BYTES ? FIT_FAR : FIT_NEVER;
        if (target->kind == TYPE_CHAR)
                return kind == KIND_TEXT    ? FIT_BEST
                       : kind == KIND_BYTES ? FIT_NEAR
                       : kind == KIND_LIST  ? worse(FIT_TAKEN, sequence_fit(value, type, levels))
                                            : FIT_NEVER;
        if (kind == KIND_TEXT && target->is_byte)
                return FIT_TAKEN;
        if (kind == KIND_LIST || kind == KIND_BYTES)
                return worse(FIT_NEAR, sequence_fit(value, type, levels));
        return worse(FIT_NEAR, fit_within(value, target, levels));
}

static enum fit optional_fit(const json_t *value, const struct type *type, int levels)
{
        if (json_is_null(value) ||
            (type->kind == TYPE_OPTIONAL && (has_tag(value, "undefined") || has_tag(value, "hole"))))
                return FIT_BEST;
        return worse(FIT_NEAR, fit_within(value, type->inner[0], levels));
}

static enum fit variant_fit(const json_t *value, const struct type *type, int levels)
{
        enum fit best = FIT_NEVER;

        for (size_t i = 0; i < type->inner_count; i++) {
                enum fit fit = fit_within(value, type->inner[i], levels);

                best = fit < best ? fit : best;
        }
        return worse(FIT_NEAR, best);
}

/* -- any ------------------------------------------------------------------------------------------------------ */

static enum fit fit_within(const json_t *value, const struct type *type, int levels)
{
        switch (type->kind) {
        case TYPE_BOOL:
        case TYPE_CHAR:
        case TYPE_INTEGER:
        case TYPE_FLOAT:
        case TYPE_ENUM:
                return scalar_fit(value, type);
        case TYPE_STRING:
        case TYPE_STRING_VIEW:
                return kind_of(value) == KIND_TEXT ? FIT_BEST : kind_of(value) == KIND_BYTES ? FIT_NEAR : FIT_NEVER;
        case TYPE_STRUCT:
        case TYPE_UNION:
                return struct_fit(value, type, levels);
        case TYPE_ARRAY:
        case TYPE_VECTOR:
        case TYPE_BITS:
        case TYPE_LIST:
        case TYPE_DEQUE:
        case TYPE_SET:
        case TYPE_HASH_SET:
                return sequence_fit(value, type, levels);
        case TYPE_PAIR:
                return tuple_fit(value, type, levels);
        case TYPE_DURATION:
                return number_fit(kind_of(value), &(struct type){.kind = TYPE_FLOAT});
        case TYPE_TIME:
                return has_tag(value, "date") ? FIT_BEST : FIT_NEVER;
        case TYPE_FILE_PATH:
                return kind_of(value) == KIND_TEXT ? FIT_NEAR : FIT_NEVER;
        case TYPE_MAP:
        case TYPE_HASH_MAP:
                return map_fit(value, type, levels);
        case TYPE_REFERENCE:
                return fit_within(value, type->inner[0], levels);
        case TYPE_POINTER:
                return pointer_fit(value, type, levels);
        case TYPE_OPTIONAL:
        case TYPE_UNIQUE:
        case TYPE_SHARED:
                return optional_fit(value, type, levels);
        case TYPE_VARIANT:
                return variant_fit(value, type, levels);
        default:
                return FIT_NEVER;
        }
}

enum fit fit_of(const json_t *value, const struct type *type)
{
        return fit_within(value, type, LEVELS_MAX);
}
