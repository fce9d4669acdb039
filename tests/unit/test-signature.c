/* Arguments and results against signatures: every form, every keyword, and attacks by strangers. */
#include "base/clock.h"
#include "engine/run/pattern.h"
#include "engine/run/schema.h"
#include "engine/run/signature.h"
#include "tap.h"
#include "wire/json.h"
#include "wire/value.h"
#include "wire/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* As the engine has it: integers beyond the safe ones are bigints, and the forms were checked. NULL: not given. */
static json_t *parse(const char *text)
{
        json_t *value, *held;
        struct cloche_err e;

        if (!text)
                return NULL;
        if (json_load_human(text, strlen(text), &value, &e) < 0 ||
            value_read(value, VALUE_TEXT, NULL, 0, &held, &e) < 0) {
                printf("# %s: %s\n", text, e.msg);
                abort(); /* a mistake in this file */
        }
        json_decref(value);
        return held;
}

static const char *told(const struct schema_error *m, char ret[600])
{
        snprintf(ret, 600, "%s: %s%s%s", m->is_value ? "value" : "type", m->where, m->where[0] ? ": " : "", m->what);
        return ret;
}

/* -- binding -------------------------------------------------------------------------------------------------- */

/* expected: [args, holes, kwargs, order], or "type: …", "value: …". */
static void check_bind(const char *args, const char *kwargs, const char *schema, const char *expected)
{
        json_t *given[] = {parse(args), parse(kwargs), parse(schema)}, *wanted, *got;
        struct arguments a = {0};
        struct schema_error m = {0};
        char message[600];
        int r = signature_bind(given[0], given[1], given[2], &a, &m);

        if (expected[0] == '[') {
                wanted = parse(expected);
                got = r == 0 ? json_pack("[O, O, O, O]", a.args, a.holes, a.kwargs, a.order) : NULL;
                CHECK(r == 0 && json_equal(wanted, got), "%s %s %s: %s", args, kwargs, schema,
                      r == 0 ? expected : told(&m, message));
                json_decref(wanted);
                json_decref(got);
        } else {
                CHECK(r == 1 && strcmp(told(&m, message), expected) == 0 && !a.args, "%s %s %s: %s", args, kwargs,
                      schema, r == 1 ? message : "fits");
        }
        arguments_done(&a);
        for (int i = 0; i < 3; i++)
                json_decref(given[i]);
}

static void test_forms_of_arguments(void)
{
        check_bind(NULL, NULL, NULL, "[[], [], {}, null]");
        check_bind("[1, \"x\", null]", "{\"k\": 2}", NULL, "[[1, \"x\", null], [], {\"k\": 2}, null]");
        check_bind("{\"a\": 1}", "{\"b\": 2}", NULL, "[[], [], {\"a\": 1, \"b\": 2}, null]");
        check_bind("[{\"index\": 2, \"value\": \"c\"}, {\"value\": \"a\", \"index\": 0}]", NULL, NULL,
                   "[[\"a\", null, \"c\"], [1], {}, null]");
        check_bind("[{\"index\": 0, \"value\": 1}, 2]", NULL, NULL,
                   "[[{\"index\": 0, \"value\": 1}, 2], [], {}, null]");
        check_bind("[{\"index\": 0, \"value\": 1, \"more\": 2}]", NULL, NULL,
                   "[[{\"index\": 0, \"value\": 1, \"more\": 2}], [], {}, null]");
        check_bind("[{\"index\": 65536, \"value\": 1}]", NULL, NULL, "type: argument index 65536 is not a position");
        check_bind("[{\"index\": -1, \"value\": 1}]", NULL, NULL, "type: argument index -1 is not a position");
        check_bind("[{\"index\": 1.0, \"value\": 1}]", NULL, NULL, "type: argument index 1.0 is not a position");
        check_bind("[{\"index\": 99999999999999999999, \"value\": 1}]", NULL, NULL,
                   "type: argument index 99999999999999999999 is not a position");
        check_bind("[{\"index\": 3, \"value\": 1}, {\"index\": 3, \"value\": 1}]", NULL, NULL,
                   "type: argument index 3 is given twice");
        check_bind("{\"a\": 1}", "{\"a\": 2}", NULL, "type: argument 'a' is given twice, in args and in kwargs");
        check_bind("{\"$\": \"bytes\", \"b64\": \"\"}", NULL, NULL, "type: args must be an array or an object");
        check_bind(NULL, "{\"$\": \"set\", \"v\": []}", NULL, "type: kwargs must be an object");
}

/* Names that JSON objects cannot have here keep the escaped form. */
static void test_escaped_names(void)
{
        check_bind("{\"$\": \"object\", \"v\": [[\"$\", 1], [\"b\", 2]]}", "{\"c\": 3}", NULL,
                   "[[], [], {\"$\": \"object\", \"v\": [[\"$\", 1], [\"b\", 2], [\"c\", 3]]}, null]");
        check_bind(NULL, "{\"$\": \"map\", \"v\": [[\"a\", 1]]}", NULL, "[[], [], {\"a\": 1}, null]");
        check_bind(NULL, "{\"$\": \"object\", \"v\": [[\"$\", \"x\"]]}",
                   "{\"input\": {\"$\": \"object\", \"v\": [[\"$\", {\"type\": \"null\"}]]}}",
                   "type: argument '$': expected null, got string");
}

static void test_references(void)
{
        check_bind("[[1], {\"$\": \"ref\", \"n\": 1}]", NULL, NULL,
                   "[[[1], {\"$\": \"ref\", \"n\": 1}], [], {}, null]");
        check_bind("{\"a\": [], \"b\": {\"$\": \"ref\", \"n\": 1}}", NULL, NULL,
                   "[[], [], {\"a\": [], \"b\": {\"$\": \"ref\", \"n\": 1}}, null]");
        check_bind("{\"a\": []}", "{\"b\": {\"$\": \"ref\", \"n\": 0}}", NULL,
                   "type: references among arguments take args as an array of values, and no schema");
        check_bind("[{\"index\": 0, \"value\": {\"$\": \"ref\", \"n\": 0}}]", NULL, NULL,
                   "type: references among arguments take args as an array of values, and no schema");
        check_bind("[{\"$\": \"ref\", \"n\": 0}]", NULL, "{}",
                   "type: references among arguments take args as an array of values, and no schema");
        check_bind(NULL, NULL, "{\"input\": [{\"default\": {\"$\": \"ref\", \"n\": 0}}]}",
                   "value: schema: references cannot be in it");
}

#define OLD(more)                                                                                                     \
        "{\"params\": [{\"name\": \"a\", \"type\": \"integer\", \"required\": true}, {\"name\": \"b\", \"default\": " \
        "\"d\"}, {\"name\": \"c\"}]" more "}"

static void test_old_form(void)
{
        check_bind("[1]", NULL, OLD(""), "[[1], [], {\"b\": \"d\"}, [\"a\", \"b\", \"c\"]]");
        check_bind("[1, 2, 3]", NULL, OLD(""), "[[1, 2, 3], [], {}, [\"a\", \"b\", \"c\"]]");
        check_bind(NULL, "{\"c\": 3, \"a\": 1}", OLD(""),
                   "[[], [], {\"c\": 3, \"a\": 1, \"b\": \"d\"}, [\"a\", \"b\", \"c\"]]");
        check_bind("[{\"index\": 2, \"value\": 3}]", "{\"a\": 1}", OLD(""),
                   "[[null, \"d\", 3], [0], {\"a\": 1}, [\"a\", \"b\", \"c\"]]");
        check_bind(NULL, NULL, OLD(""), "type: missing required argument 'a'");
        check_bind("[{\"index\": 1, \"value\": 3}]", NULL, OLD(""), "type: missing required argument 'a'");
        check_bind("[true]", NULL, OLD(""), "type: argument 'a': expected integer, got boolean");
        check_bind("[1, 2, 3, 4]", NULL, OLD(""), "type: argument 4 is too many: the schema has 3 (a, b, c)");
        check_bind("[1, 2, 3, 4]", NULL, OLD(", \"variadic\": true"), "[[1, 2, 3, 4], [], {}, [\"a\", \"b\", \"c\"]]");
        check_bind("[1]", "{\"z\": 1}", OLD(""), "type: unknown argument 'z'; the schema has: a, b, c");
        check_bind("[1, 2]", "{\"z\": 1}", OLD(", \"acceptsKwargs\": true"),
                   "[[1, 2], [], {\"z\": 1}, [\"a\", \"b\", \"c\"]]");
        check_bind("[1, 2]", "{\"b\": 1}", OLD(""), "type: argument 'b' is given twice");
        check_bind("[1]", NULL, "{\"params\": [{}]}", "[[1], [], {}, [\"arg0\"]]");
        check_bind("[1]", NULL, "{\"params\": []}", "type: argument 1 is too many: the schema has 0 (none)");
}

static void test_new_form(void)
{
        const char *swapped = "{\"input\": {\"b\": {\"index\": 1}, \"z\": {}, \"a\": {\"index\": 0, \"type\": "
                              "\"null\"}}, \"strict\": true}";

        check_bind("[null, 1, 2]", NULL, swapped, "[[null, 1, 2], [], {}, [\"a\", \"b\", \"z\"]]");
        check_bind("[1]", NULL, swapped, "type: argument 'a': expected null, got integer");
        check_bind("[null, 1, 2, 3]", NULL, swapped, "type: argument 4 is too many: the schema has 3 (a, b, z)");
        check_bind("[1, 2]", "{\"k\": 3}", "{\"input\": [{\"name\": \"a\"}]}", "[[1, 2], [], {\"k\": 3}, [\"a\"]]");
        check_bind("[1, 2]", NULL, "{\"input\": [{\"name\": \"a\"}], \"strict\": true}",
                   "type: argument 2 is too many: the schema has 1 (a)");
        check_bind("[1]", NULL, "{}", "[[1], [], {}, []]");
        check_bind("[1]", NULL, "{\"output\": {\"type\": \"any\"}, \"title\": \"t\"}", "[[1], [], {}, []]");
        check_bind("[{}]", NULL, "{\"input\": [{\"name\": \"o\", \"required\": [\"p\"]}]}",
                   "type: argument 'o': property 'p' is missing");
        check_bind(NULL, NULL, "{\"input\": [{\"name\": \"big\", \"default\": 12345678901234567890}]}",
                   "[[], [], {\"big\": 12345678901234567890}, [\"big\"]]");
}

static void test_broken_schemas(void)
{
        check_bind(NULL, NULL, "{\"params\": {}}", "value: schema: params must be an array of objects");
        check_bind(NULL, NULL, "{\"params\": [1]}", "value: schema: params must be an array of objects");
        check_bind(NULL, NULL, "{\"input\": 1}", "value: schema: input must be an array or an object");
        check_bind(NULL, NULL, "{\"input\": [[]]}", "value: schema: input must be an array of objects");
        check_bind(NULL, NULL, "{\"input\": {\"a\": 1}}", "value: schema: input must map names to schemas");
        check_bind(NULL, NULL, "{\"input\": {\"a\": {\"index\": 1}}}",
                   "value: schema of 'a': index 1 is not a free position");
        check_bind(NULL, NULL, "{\"input\": {\"a\": {\"index\": 0}, \"b\": {\"index\": 0}}}",
                   "value: schema of 'b': index 0 is not a free position");
        check_bind(NULL, NULL, "{\"input\": {\"a\": {\"index\": \"0\"}}}",
                   "value: schema of 'a': index \"0\" is not a free position");
        check_bind(NULL, NULL, "{\"params\": [{\"name\": 1}]}",
                   "value: schema: the name of parameter 0 must be a string");
        check_bind(NULL, NULL, "{\"params\": [{\"name\": \"a\"}, {\"name\": \"a\"}]}",
                   "value: schema: two parameters are named 'a'");
        check_bind(NULL, NULL, "{\"strict\": 1}", "value: schema: strict must be true or false");
        check_bind(NULL, NULL, "{\"properties\": {}}", "value: schema: 'properties' is not supported");
        check_bind(NULL, NULL, "{\"output\": []}", "value: schema of the output: must be an object");
        check_bind(NULL, NULL, "{\"input\": {\"a\": {\"required\": 1}}}",
                   "value: schema of 'a': keyword 'required' has a wrong value");
}

/* -- schemas -------------------------------------------------------------------------------------------------- */

/* expected NULL: it fits. */
static void check_fits(const char *schema, const char *value, const char *expected)
{
        json_t *rules = parse(schema), *given = parse(value);
        struct schema_error m = {0};
        char message[600];
        int r = schema_check(rules, &m);

        CHECK(r == 0, "%s is a schema", schema);
        r = schema_fits(rules, given, &m);
        CHECK(expected ? r == 1 && strcmp(told(&m, message), expected) == 0 : r == 0, "%s, %s: %s", schema, value,
              r == 1 ? told(&m, message) : "fits");
        json_decref(rules);
        json_decref(given);
}

static void test_types(void)
{
        static const struct {
                const char *value, *types; /* those it fits, of string number integer boolean array object null bytes */
        } rows[] = {
                {"\"s\"", "s"},
                {"1.5", "n"},
                {"1", "ni"},
                {"1.0", "ni"},
                {"1e300", "ni"},
                {"true", "b"},
                {"[]", "a"},
                {"{}", "o"},
                {"null", "0"},
                {"{\"$\": \"undefined\"}", "0"},
                {"{\"$\": \"bigint\", \"v\": \"5\"}", "ni"},
                {"{\"$\": \"number\", \"v\": \"NaN\"}", "n"},
                {"{\"$\": \"number\", \"v\": \"-0\"}", "ni"},
                {"{\"$\": \"number\", \"v\": \"Infinity\"}", "n"},
                {"{\"$\": \"bytes\", \"b64\": \"\"}", "y"},
                {"{\"$\": \"buffer\", \"b64\": \"\"}", "y"},
                {"{\"$\": \"array\", \"t\": \"f64\", \"b64\": \"\"}", "a"},
                {"{\"$\": \"object\", \"v\": [[\"$\", 1]]}", "o"},
                {"{\"$\": \"map\", \"v\": [[\"a\", 1]]}", "o"},
                {"{\"$\": \"map\", \"v\": [[1, 1]]}", ""},
                {"{\"$\": \"set\", \"v\": []}", ""},
                {"{\"$\": \"date\", \"v\": null}", ""},
                {"{\"$\": \"regexp\", \"source\": \"\", \"flags\": \"\"}", ""},
                {"{\"$\": \"class\", \"t\": \"URL\", \"v\": \"x\"}", ""},
                {"{\"$\": \"error\", \"v\": {\"name\": \"E\", \"message\": \"m\"}}", ""},
        };
        static const struct {
                char letter;
                const char *schema;
        } types[] = {
                {'s', "{\"type\": \"string\"}"},  {'n', "{\"type\": \"number\"}"}, {'i', "{\"type\": \"integer\"}"},
                {'b', "{\"type\": \"boolean\"}"}, {'a', "{\"type\": \"array\"}"},  {'o', "{\"type\": \"object\"}"},
                {'0', "{\"type\": \"null\"}"},    {'y', "{\"type\": \"bytes\"}"},
        };
        struct schema_error m;

        for (size_t i = 0; i < COUNT(rows); i++) {
                json_t *value = parse(rows[i].value);

                for (size_t k = 0; k < COUNT(types); k++) {
                        json_t *schema = parse(types[k].schema);

                        CHECK(schema_fits(schema, value, &m) == !strchr(rows[i].types, types[k].letter), "%s, %s",
                              rows[i].value, types[k].schema);
                        json_decref(schema);
                }
                json_decref(value);
                check_fits("{\"type\": [\"null\", \"any\"]}", rows[i].value, NULL);
        }
        check_fits("{\"type\": [\"string\", \"null\"]}", "{\"$\": \"date\", \"v\": null}",
                   "type: expected string or null, got date");
}

static void test_numbers(void)
{
        const char *huge = "{\"$\": \"bigint\", \"v\": \"123456789012345678901234567890\"}";

        check_fits("{\"minimum\": 2}", "2", NULL);
        check_fits("{\"minimum\": 2}", "1.9", "value: expected at least 2, got 1.9");
        check_fits("{\"maximum\": 2}", "2.0", NULL);
        check_fits("{\"maximum\": 2}", "3", "value: expected at most 2, got 3");
        check_fits("{\"exclusiveMinimum\": 2}", "2", "value: expected more than 2, got 2");
        check_fits("{\"exclusiveMaximum\": 2}", "2", "value: expected less than 2, got 2");
        check_fits("{\"exclusiveMaximum\": 2}", "1.5", NULL);
        check_fits("{\"minimum\": 2}", "\"1\"", NULL);
        check_fits("{\"minimum\": 0}", "{\"$\": \"number\", \"v\": \"NaN\"}", "value: expected at least 0, got NaN");
        check_fits("{\"maximum\": 0}", "{\"$\": \"number\", \"v\": \"NaN\"}", "value: expected at most 0, got NaN");
        check_fits("{\"maximum\": 1e308}", "{\"$\": \"number\", \"v\": \"Infinity\"}",
                   "value: expected at most 1e308, got Infinity");
        check_fits("{\"minimum\": 123456789012345678901234567889}", huge, NULL);
        check_fits("{\"minimum\": 123456789012345678901234567891}", huge,
                   "value: expected at least 123456789012345678901234567891, got 123456789012345678901234567890");
        check_fits("{\"maximum\": 1e29}", huge, "value: expected at most 1e29, got 123456789012345678901234567890");
        check_fits("{\"minimum\": -1e29, \"maximum\": 1e30}", huge, NULL);
        check_fits("{\"maximum\": -0.5}", "{\"$\": \"bigint\", \"v\": \"0\"}", "value: expected at most -0.5, got 0");
        check_fits("{\"minimum\": -0.5, \"maximum\": 0.5}", "{\"$\": \"bigint\", \"v\": \"0\"}", NULL);
        check_fits("{\"minimum\": -12345678901234567890}", "{\"$\": \"bigint\", \"v\": \"-12345678901234567891\"}",
                   "value: expected at least -12345678901234567890, got -12345678901234567891");
        check_fits("{\"maximum\": {\"$\": \"number\", \"v\": \"Infinity\"}}", huge, NULL);
}

static void test_texts(void)
{
        check_fits("{\"maxLength\": 2}", "\"😀é\"", NULL);
        check_fits("{\"maxLength\": 2}", "\"abc\"", "value: expected at most 2 characters, got 3");
        check_fits("{\"minLength\": 3}", "\"😀é\"", "value: expected at least 3 characters, got 2");
        check_fits("{\"minLength\": 3}", "[]", NULL);
        check_fits("{\"maxLength\": 3}", "\"a\\u0000b\"", NULL);
        check_fits("{\"pattern\": \"b+\"}", "\"abbc\"", NULL);
        check_fits("{\"pattern\": \"^b+$\"}", "\"abbc\"", "value: \"abbc\" does not match ^b+$");
        check_fits("{\"pattern\": \"^a$\"}", "\"a\\n\"", "value: \"a\n\" does not match ^a$");
        check_fits("{\"pattern\": \"^\\\\u00e9.\\\\x41$\"}", "\"é😀A\"", NULL);
        check_fits("{\"pattern\": \"^\\\\u{1F600}$\"}", "\"😀\"", NULL);
        check_fits("{\"pattern\": \"^\\\\p{Lu}\"}", "\"É\"", NULL);
        check_fits("{\"pattern\": \"^\\\\d$\"}", "\"٣\"", "value: \"٣\" does not match ^\\d$");
        check_fits("{\"pattern\": \"[]\"}", "\"a\"", "value: \"a\" does not match []");
        check_fits("{\"pattern\": \"^a\\\\x00b$\"}", "\"a\\u0000b\"", NULL);
}

static void test_containers(void)
{
        const char *shape = "{\"properties\": {\"p\": {\"type\": \"null\"}}, \"required\": [\"p\"], "
                            "\"additionalProperties\": false}";

        check_fits("{\"items\": {\"type\": \"string\"}}", "[\"a\", 1]", "type: [1]: expected string, got integer");
        check_fits("{\"items\": {\"maximum\": 255}}", "{\"$\": \"array\", \"t\": \"u16\", \"b64\": \"/wAAAQ==\"}",
                   "value: [1]: expected at most 255, got 256");
        check_fits("{\"items\": {\"minimum\": 0}}", "{\"$\": \"array\", \"t\": \"i8\", \"b64\": \"AP8=\"}",
                   "value: [1]: expected at least 0, got -1");
        check_fits("{\"items\": {\"minimum\": 0}}", "{\"$\": \"array\", \"t\": \"u64\", \"b64\": \"//////////8=\"}",
                   NULL);
        check_fits("{\"items\": {\"enum\": [18446744073709551615]}}",
                   "{\"$\": \"array\", \"t\": \"u64\", \"b64\": \"//////////8=\"}", NULL);
        check_fits("{\"items\": {\"enum\": [-9223372036854775808]}}",
                   "{\"$\": \"array\", \"t\": \"i64\", \"b64\": \"AAAAAAAAAIA=\"}", NULL);
        check_fits("{\"items\": {\"const\": 1.5}}", "{\"$\": \"array\", \"t\": \"f32\", \"b64\": \"AADAPw==\"}", NULL);
        check_fits("{\"items\": {\"const\": 1}}", "{\"$\": \"array\", \"t\": \"f64\", \"b64\": \"AAAAAAAA8D8=\"}",
                   NULL);
        check_fits("{\"items\": {\"type\": \"integer\"}}", "{\"$\": \"array\", \"t\": \"f32\", \"b64\": \"AADAfw==\"}",
                   "type: [0]: expected integer, got number");
        check_fits("{\"minItems\": 2, \"maxItems\": 2}", "{\"$\": \"array\", \"t\": \"u8c\", \"b64\": \"AAE=\"}", NULL);
        check_fits("{\"minItems\": 1}", "[]", "value: expected at least 1 items, got 0");
        check_fits("{\"maxItems\": 1}", "[1, 2]", "value: expected at most 1 items, got 2");
        check_fits(shape, "{\"p\": null}", NULL);
        check_fits(shape, "{\"$\": \"map\", \"v\": [[\"p\", null]]}", NULL);
        check_fits(shape, "{}", "type: property 'p' is missing");
        check_fits(shape, "{\"p\": 1}", "type: .p: expected null, got integer");
        check_fits(shape, "{\"$\": \"object\", \"v\": [[\"p\", null], [\"$\", 1]]}", "type: unknown property '$'");
        check_fits(shape, "[]", NULL);
        check_fits("{\"additionalProperties\": {\"items\": {\"type\": \"null\"}}}", "{\"a\": [null], \"b\": [null, 1]}",
                   "type: .b[1]: expected null, got integer");
}

static void test_combinations(void)
{
        check_fits("{\"enum\": [1, \"x\", {\"a\": [null, 2.0]}]}", "{\"a\": [{\"$\": \"undefined\"}, 2]}", NULL);
        check_fits("{\"enum\": [{\"a\": 1, \"b\": 2}]}", "{\"$\": \"map\", \"v\": [[\"b\", 2], [\"a\", 1]]}", NULL);
        check_fits("{\"enum\": [1]}", "true", "value: expected one of [1], got true");
        check_fits("{\"enum\": [1]}", "{\"$\": \"bigint\", \"v\": \"1\"}", NULL);
        check_fits("{\"enum\": [0]}", "{\"$\": \"number\", \"v\": \"-0\"}", NULL);
        check_fits("{\"enum\": []}", "1", "value: expected one of [], got 1");
        check_fits("{\"enum\": [{\"a\": 1}]}", "{\"a\": 1, \"b\": 2}",
                   "value: expected one of [{\"a\": 1}], got object");
        check_fits("{\"const\": null}", "null", NULL);
        check_fits("{\"const\": \"a\"}", "\"b\"", "value: expected \"a\", got \"b\"");
        check_fits("{\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"null\"}]}", "null", NULL);
        check_fits("{\"anyOf\": [{\"type\": \"string\"}, {\"items\": {\"type\": \"null\"}, \"type\": \"array\"}]}",
                   "[1]", "type: fits none of anyOf, for the last[0]: expected null, got integer");
        check_fits("{\"oneOf\": [{\"minimum\": 1}, {\"minimum\": 2}]}", "1", NULL);
        check_fits("{\"oneOf\": [{\"minimum\": 1}, {\"minimum\": 2}]}", "2", "value: fits more than one of oneOf");
        check_fits("{\"oneOf\": [{\"minimum\": 1}, {\"minimum\": 2}]}", "0",
                   "value: fits none of oneOf, for the last: expected at least 2, got 0");
        check_fits("{\"allOf\": [{\"minimum\": 1}, {\"maximum\": 2}]}", "3", "value: expected at most 2, got 3");
}

static void check_broken(const char *schema, const char *expected)
{
        json_t *rules = parse(schema);
        struct schema_error m = {0};
        char message[600];
        int r = schema_check(rules, &m);

        CHECK(r == 1 && strcmp(told(&m, message), expected) == 0, "%s: %s", schema, r == 1 ? message : "is a schema");
        json_decref(rules);
}

static void test_what_is_no_schema(void)
{
        static const char *const wrong[] = {
                "type",      "1",          "type",
                "[]",        "type",       "[1]",
                "enum",      "1",          "minimum",
                "\"1\"",     "maximum",    "null",
                "minLength", "-1",         "maxLength",
                "1.5",       "minItems",   "true",
                "pattern",   "1",          "pattern",
                "\"(\"",     "pattern",    "\"\\\\C\"",
                "required",  "[1]",        "required",
                "true",      "properties", "[]",
                "items",     "[]",         "additionalProperties",
                "1",         "anyOf",      "[]",
                "oneOf",     "{}",         "allOf",
                "1",
        };
        char schema[200], expected[200];

        for (size_t i = 0; i < COUNT(wrong); i += 2) {
                snprintf(schema, sizeof(schema), "{\"%s\": %s}", wrong[i], wrong[i + 1]);
                snprintf(expected, sizeof(expected), "value: keyword '%s' has a wrong value", wrong[i]);
                check_broken(schema, expected);
        }
        check_broken("{\"type\": \"int\"}", "value: unknown type 'int'");
        check_broken("{\"type\": [\"null\", \"x\"]}", "value: unknown type 'x'");
        check_broken("{\"not\": {}}", "value: keyword 'not' is not supported");
        check_broken("{\"properties\": {\"p\": {\"items\": {\"if\": {}}}}}",
                     "value: .p.items: keyword 'if' is not supported");
        check_broken("{\"anyOf\": [{}, {\"$ref\": \"x\"}]}", "value: .anyOf[1]: keyword '$ref' is not supported");
        check_broken("{\"additionalProperties\": {\"type\": \"x\"}}", "value: .additionalProperties: unknown type 'x'");
        check_broken("{\"anyOf\": [{}], \"properties\": {\"p\": {\"x\": 1}}, \"oneOf\": [{}]}",
                     "value: .p: keyword 'x' is not supported");
        check_broken("{\"items\": 1}", "value: keyword 'items' has a wrong value");
        check_broken("{\"properties\": {\"p\": 1}}", "value: .p: must be an object");
        check_broken("{\"items\": {\"$\": \"object\", \"v\": []}}", "value: .items: must be an object");
}

/* -- attacks by strangers ------------------------------------------------------------------------------------------ */

static char *repeated(const char *text, size_t times)
{
        size_t size = strlen(text);
        char *made = malloc(size * times + 1);

        for (size_t i = 0; i < times; i++)
                memcpy(made + i * size, text, size);
        made[size * times] = '\0';
        return made;
}

static void check_bounded(const char *pattern, const char *piece, size_t times)
{
        char *text = repeated(piece, times);
        json_t *source = json_string(pattern), *subject = json_string(text);
        struct patterns patterns = {0};
        uint64_t begun = clock_now_ns();
        int r = patterns_match(&patterns, source, subject);

        CHECK(r == -ETIME, "%s on %zu times %s takes too long", pattern, times, piece);
        CHECK(patterns_match(&patterns, source, subject) == -ETIME, "and again");
        CHECK(clock_now_ns() - begun < UINT64_C(20000000000), "but not long: %llu ms",
              (unsigned long long)(clock_now_ns() - begun) / 1000000);
        patterns_done(&patterns);
        json_decref(source);
        json_decref(subject);
        free(text);
}

static void test_patterns_that_explode(void)
{
        json_t *source = json_string("^(?:[a-z]+ ?)+$"), *too_large, *subject;
        struct patterns patterns = {0};
        char *text = repeated("word ", 20000), *long_one = repeated("a", 20000);

        check_bounded("^(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", 1);
        check_bounded("(?:a|a?)+[bc]", "a", 40);
        check_bounded("x*[yz]", "x", 4 << 20);
        check_bounded("(.*)\\1{3}[!?]", "ab", 200000);
        check_bounded("(?:(a)|b)*c", "ab", 8 << 20);
        subject = json_string(text);
        CHECK(patterns_match(&patterns, source, subject) == 1, "a long text that is matched in one go");
        too_large = json_string(long_one);
        CHECK(patterns_match(&patterns, too_large, subject) == -EINVAL, "a pattern that is too large");
        patterns_done(&patterns);
        json_decref(too_large);
        json_decref(source);
        json_decref(subject);
        free(text);
        free(long_one);
}

/* Messages stay text, whatever is in them. */
static void test_messages(void)
{
        char *name = repeated("é", 5000), *way = repeated("[", 150), *back = repeated("]", 150);
        char *schema, *value = malloc(40000);
        json_t *rules, *given;
        struct schema_error m;

        snprintf(value, 40000, "{\"x%s\": %s\"%s\"%s}", name, way, name, back);
        given = parse(value);
        schema = malloc(40000);
        strcpy(schema, "{\"type\": \"null\"}");
        for (int i = 0; i < 150; i++) {
                char *inner = strdup(schema);

                snprintf(schema, 40000, "{\"items\": %s}", inner);
                free(inner);
        }
        snprintf(value, 40000, "{\"additionalProperties\": %s}", schema);
        rules = parse(value);
        CHECK(schema_check(rules, &m) == 0 && schema_fits(rules, given, &m) == 1,
              "an item beneath 150 arrays does not fit");
        given = (json_decref(given), json_pack("[s, s]", m.where, m.what));
        CHECK(given && strncmp(m.where, ".xé", 4) == 0 && strlen(m.where) < sizeof(m.where), "where: %s", m.where);
        json_decref(rules);
        json_decref(given);
        rules = json_pack("{s:[s]}", "enum", name);
        given = json_string(name);
        json_array_append_new(json_object_get(rules, "enum"), json_string("z"));
        json_array_remove(json_object_get(rules, "enum"), 0);
        CHECK(schema_fits(rules, given, &m) == 1, "does not fit");
        rules = (json_decref(rules), json_string(m.what));
        CHECK(rules != NULL, "what: %s", m.what);
        json_decref(rules);
        json_decref(given);
        free(name);
        free(way);
        free(back);
        free(schema);
        free(value);
}

static void test_output(void)
{
        json_t *schema = parse("{\"output\": {\"items\": {\"type\": \"string\"}}}"), *none = parse("{}"),
               *bad = parse("[\"a\", 1]"), *good = parse("[\"a\"]"),
               *shared = parse("[[], {\"$\": \"ref\", \"n\": 1}]");
        struct schema_error m;
        char message[600];

        CHECK(signature_check_output(schema, good, &m) == 0, "fits");
        CHECK(signature_check_output(none, bad, &m) == 0, "nothing is asked for");
        CHECK(signature_check_output(schema, bad, &m) == 1 &&
                      strcmp(told(&m, message), "type: result[1]: expected string, got integer") == 0,
              "%s", message);
        CHECK(signature_check_output(schema, shared, &m) == 1 && strstr(told(&m, message), "references"), "%s",
              message);
        json_decref(schema);
        json_decref(none);
        json_decref(bad);
        json_decref(good);
        json_decref(shared);
}

int main(void)
{
        test_forms_of_arguments();
        test_escaped_names();
        test_references();
        test_old_form();
        test_new_form();
        test_broken_schemas();
        test_types();
        test_numbers();
        test_texts();
        test_containers();
        test_combinations();
        test_what_is_no_schema();
        test_patterns_that_explode();
        test_messages();
        test_output();
        return tap_done();
}
