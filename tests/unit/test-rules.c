/* Globs against minimatch's results (tests/vectors/globs.json), and rules against their documented meaning. */
#include "helpers/fs/rules/glob.h"
#include "helpers/fs/rules/rules.h"
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int matches(const char *pattern, const char *path)
{
        struct glob *glob;
        struct cloche_err e = {0};
        int r = glob_compile(pattern, &glob, &e);

        if (r < 0)
                return r;
        r = glob_matches(glob, path);
        glob_free(glob);
        return r;
}

static void test_globs_as_minimatch(void)
{
        const char *folder = getenv("CLOCHE_TEST_VECTORS");
        char path[4096];
        json_t *rows, *row;
        size_t i;

        snprintf(path, sizeof(path), "%s/globs.json", folder ? folder : "tests/vectors");
        rows = json_load_file(path, 0, NULL);
        CHECK(json_array_size(rows) > 300, "%s", path);
        json_array_foreach (rows, i, row) {
                const char *pattern = json_string_value(json_array_get(row, 0)),
                           *text = json_string_value(json_array_get(row, 1));
                int expected = json_is_true(json_array_get(row, 2));

                CHECK(matches(pattern, text) == expected, "'%s' %s '%s'", pattern, expected ? "takes" : "leaves", text);
        }
        json_decref(rows);
}

static void test_globs_of_a_mount(void)
{
        static const struct {
                const char *pattern, *path;
                int expected;
        } rows[] = {
                {"**", "", 1},
                {"*", "", 0},
                {"a/**", "", 0},
                {"/a", "a", 1},
                {"./a", "a", 1},
                {"a//b", "a/b", 1},
                {"a/", "a", 1},
                {"?", "\xff", 1},
                {"\xff", "\xff", 1},
                {"[\xc3\xa4]", "\xc3", 0},
                {"?", "\xc3\xa4", 1},
                {"?", "\xed\xa0\x80", 0},
                {"???", "\xed\xa0\x80", 1},
                {"?", "\xe0\x80\xaf", 0},
                {"???", "\xe0\x80\xaf", 1},
                {"@(?)", "\xf0\x9f\x98\x80", 1},
                {"@(?)", "\xf4\x90\x80\x80", 0},
                {"@(\xff|\xc3)", "\xc3", 1},
                {"[!a]?", "\xc3(", 1},
                {"[[:x:a]", ":", 1},
                {"a/../b", "b", -CLOCHE_E_INVALID_ARGUMENT},
                {"", "a", -CLOCHE_E_INVALID_ARGUMENT},
                {"+(a*(b))", "b", -CLOCHE_E_INVALID_ARGUMENT},
                {"{+,x}({*,y}(a))", "a", -CLOCHE_E_INVALID_ARGUMENT},
                {"+(a/b)", "a", -CLOCHE_E_INVALID_ARGUMENT},
                {"!(@(+(x*(a)|y)))", "ab", -CLOCHE_E_INVALID_ARGUMENT},
                {"{1..300}", "1", -CLOCHE_E_INVALID_ARGUMENT},
                {"{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", "a", -CLOCHE_E_INVALID_ARGUMENT},
                {"\\!a", "!a", 1},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                CHECK(matches(rows[i].pattern, rows[i].path) == rows[i].expected, "'%s' and '%s'", rows[i].pattern,
                      rows[i].path);
}

/* Longer than any path that one call takes: a tree can be deeper. */
static void test_globs_of_long_paths(void)
{
        static const size_t sizes[] = {4000, 4096, 4200, 60000};
        static char path[65536];

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                size_t size = sizes[i];

                for (size_t at = 0; at < size; at++)
                        path[at] = at % 2 ? '/' : 'd';
                strcpy(path + size, "x.key");
                CHECK(matches("**/*.key", path) == 1 && matches("d/**/x.*", path) == 1 &&
                              matches("**/d/d/[x].key", path) == 1,
                      "below %zu bytes", size);
                CHECK(matches("**/*.pem", path) == 0 && matches("e/**", path) == 0 && matches("*.key", path) == 0,
                      "nor others below %zu bytes", size);
        }
}

static void test_kinds_of_segments(void)
{
        static const struct {
                const char *pattern, *path;
                int expected;
        } rows[] = {
                {"*.c", ".c", 1},
                {"*.c", "a.c", 1},
                {"*.c", "a.cc", 0},
                {"*.c", "c", 0},
                {"*", ".", 1},
                {"a*", "a", 1},
                {"*a*", "bab", 1},
                {"abc", "ab", 0},
                {"abc", "abcd", 0},
                {"*\xc3\xa9", "\xc3\xa9", 1},
                {"a/*/c", "a/b/c", 1},
                {"a/*/c", "a/c", 0},
                {"**/a/**/b", "a/b", 1},
                {"**/a/**/b", "x/a/y/z/b", 1},
                {"**/a/**/b", "x/a/y/b/z", 0},
                {"**/*.d/**", "q.d/x", 1},
                {"**/*.d/**", "q.d", 0},
                {"*\\*", "a*", 1},
                {"*\\*", "ab", 0},
                {"{*.a,b}/c", "x.a/c", 1},
                {"{*.a,b}/c", "b/c", 1},
                {"{*.a,b}/c", "a/c", 0},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                CHECK(matches(rows[i].pattern, rows[i].path) == rows[i].expected, "'%s' and '%s'", rows[i].pattern,
                      rows[i].path);
}

/* Generous: each row takes milliseconds, where one whose work doubles or is multiplied by the name once more takes
 * minutes. */
#define BOUNDED_SECONDS 10

/* Sanitizers take thirty times as long for the same steps, and look for other mistakes than for slow ones. */
#if defined(__SANITIZE_ADDRESS__)
#define MEASURED_NAME 256
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MEASURED_NAME 256
#endif
#endif
#ifndef MEASURED_NAME
#define MEASURED_NAME 1001
#endif

static void takes_bounded_time(const char *pattern, const char *name)
{
        clock_t began = clock();
        int r = matches(pattern, name);

        CHECK(r >= 0 && clock() - began < BOUNDED_SECONDS * CLOCKS_PER_SEC, "%.60s: %d, in bounded time", pattern, r);
}

/* A pattern of stars against a text that almost fits is where others take minutes. */
static void test_globs_are_bounded(void)
{
        char pattern[2001], path[4001];

        for (size_t i = 0; i < 1000; i++)
                memcpy(pattern + 2 * i, "*a", 2);
        memset(path, 'a', 4000);
        pattern[2000] = path[4000] = '\0';
        CHECK(matches(pattern, path) == 1, "a thousand stars");
        path[3999] = 'b';
        CHECK(matches(pattern, path) == 0, "a thousand stars in vain");
        for (size_t i = 0; i < 250; i++)
                memcpy(pattern + 5 * i, "**/a/", 5);
        pattern[1249] = '\0';
        for (size_t i = 0; i < 250; i++)
                memcpy(path + 2 * i, "a/", 2);
        path[499] = '\0';
        CHECK(matches(pattern, path) == 1, "many double stars");
        path[498] = 'b';
        CHECK(matches(pattern, path) == 0, "many double stars in vain");
}

/* Groups that fit in many ways, and in none at the end, of as many bytes as a pattern and a name may have. */
static void test_extended_globs_are_bounded(void)
{
        static const char *const groups[] = {"+(a|aa|a*|*a|[a]a)", "*(a|aa|aaa)", "!(a)",         "?(a)",
                                             "@(a|aa|*)",          "!(*(a|aa)b)", "+(*a*a*|!(b))"};
        static char pattern[4097], name[1025];

        for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
                size_t size = strlen(groups[i]), at = 0, length = i == 0 ? sizeof(name) - 1 : MEASURED_NAME - 1;

                for (; at + size < sizeof(pattern) - 1; at += size)
                        memcpy(pattern + at, groups[i], size);
                pattern[at] = 'c';
                pattern[at + 1] = '\0';
                memset(name, 'a', length);
                name[length] = '\0';
                CHECK(matches(pattern, name) == 0, "%s in vain", groups[i]);
                name[length - 1] = 'c';
                takes_bounded_time(pattern, name);
        }
        memset(pattern, '\0', sizeof(pattern));
        for (size_t i = 0; i < 20; i++)
                strcat(pattern, "@(");
        strcat(pattern, "a))))))))))))))))))))");
        CHECK(matches(pattern, "a") == -CLOCHE_E_INVALID_ARGUMENT, "twenty deep");
}

static void append(char *text, const char *part, size_t times)
{
        for (char *at = text + strlen(text); times > 0; times--)
                at = stpcpy(at, part);
}

/* Groups before `!(x)*`, where two questions go through each level, and parts that are as long as a pattern may be. */
static void test_nested_globs_are_bounded(void)
{
        static const struct {
                const char *head, *open;
                size_t deep;
                const char *inner;
                size_t times;
                const char *close, *tail;
        } rows[] = {
                {"", "?@(", 16, "a", 1, ")!(x)*", ""},    {"", "?@(", 16, "*a", 1900, ")!(x)*", ""},
                {"+(", "?@(", 14, "a", 1, ")!(x)*", ")"}, {"", "?@(", 15, "+(a|*b)", 500, ")!(x)*", ""},
                {"", "!(", 16, "a", 1, "b)*", "b"},       {"+(a|", "", 0, "*a", 2000, "", "b)"},
                {"+(a|b", "", 0, "?(a)", 1000, "", ")"},  {"[", "", 0, "[:a", 1300, "", "]*c"},
        };
        static const char names[] = {'a', '['};

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                char pattern[4200] = "", name[MEASURED_NAME] = "";

                append(pattern, rows[i].head, 1);
                append(pattern, rows[i].open, rows[i].deep);
                append(pattern, rows[i].inner, rows[i].times);
                append(pattern, rows[i].close, rows[i].deep);
                append(pattern, rows[i].tail, 1);
                for (size_t k = 0; k < sizeof(names); k++) {
                        memset(name, names[k], MEASURED_NAME - 1);
                        takes_bounded_time(pattern, name);
                }
        }
}

/* Each opener that opens nothing is looked for to the end. */
static void test_literal_openers_are_bounded(void)
{
        static const char *const parts[] = {"[", "{", "@(", "@([", "{a}", "{["};

        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
                char pattern[4097] = "", literal[128] = "";
                clock_t began = clock();

                append(pattern, parts[i], 4000 / strlen(parts[i]));
                CHECK(matches(pattern, "a") == -CLOCHE_E_INVALID_ARGUMENT &&
                              clock() - began < BOUNDED_SECONDS * CLOCKS_PER_SEC,
                      "%.60s", pattern);
                append(literal, parts[i], 8);
                CHECK(matches(literal, literal) == 1, "%s", literal);
        }
}

static struct rules *load(const char *text, struct cloche_err *e)
{
        json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
        struct rules *rules = NULL;

        if (rules_load(json, &rules, e) < 0)
                rules = NULL;
        json_decref(json);
        return rules;
}

static void actions_text(unsigned actions, char *ret)
{
        for (int i = 0; i < RULES_ACTION_COUNT; i++)
                ret[i] = actions & 1u << i ? rules_action_name((enum rules_action)i)[0] : '-';
        ret[RULES_ACTION_COUNT] = '\0';
}

static void decides(const char *text, const char *path, const char *expected, const char *pattern)
{
        struct cloche_err e = {0};
        struct rules *rules = load(text, &e);
        char actions[RULES_ACTION_COUNT + 1] = "";
        size_t rule = 0;

        if (rules)
                actions_text(rules_decide(rules, path, &rule), actions);
        CHECK(rules && strcmp(actions, expected) == 0 && strcmp(rules_pattern(rules, rule), pattern) == 0,
              "%s of '%s': %s by '%s' %s", text, path, actions, rules ? rules_pattern(rules, rule) : "", e.msg);
        rules_free(rules);
}

/* Read, list, create, modify, delete. */
static void test_decisions(void)
{
        static const char order[] =
                "{\"rules\":[{\"pattern\":\"*.md\",\"allow\":[\"modify\"]},{\"pattern\":\"**\",\"deny\":[\"*\"]},"
                "{\"pattern\":\"secret.md\",\"deny\":[\"read\"],\"priority\":5}]}";
        static const char both[] = "{\"default\":{\"list\":false},\"rules\":[{\"pattern\":\"a\",\"deny\":\"*\","
                                   "\"allow\":[\"read\",\"create\"]}]}";
        static const char exclude[] = "{\"rules\":[{\"pattern\":\"**\",\"allow\":\"*\",\"priority\":999}],\"exclude\":["
                                      "\"node_modules\",\"dist/*.map\"]}";
        static const char equal[] =
                "{\"rules\":[{\"pattern\":\"x\",\"allow\":\"*\",\"priority\":1000}],\"exclude\":[\"x\"]}";

        decides("null", "any/where", "rl---", "");
        decides("{}", "", "rl---", "");
        decides(order, "readme.md", "rl-m-", "*.md");
        decides(order, "other.txt", "-----", "**");
        decides(order, "secret.md", "-l---", "secret.md");
        decides(both, "a", "r-c--", "a");
        decides(both, "b", "r----", "");
        decides(exclude, "src/x.c", "rlcmd", "**");
        decides(exclude, "a/node_modules", "-----", "node_modules");
        decides(exclude, "a/node_modules/b/c.js", "-----", "node_modules");
        decides(exclude, "node_modules_too/x", "rlcmd", "**");
        decides(exclude, "dist/a.map", "-----", "dist/*.map");
        decides(exclude, "dist/a.map/x", "-----", "dist/*.map");
        decides(exclude, "lib/dist/a.map", "rlcmd", "**");
        decides(equal, "x", "-----", "x");
        decides("{\"rules\":[{\"pattern\":\"x\",\"deny\":\"read\",\"priority\":-1},{\"pattern\":\"x\",\"allow\":"
                "\"delete\"}]}",
                "x", "rl--d", "x");
}

static void refuses(const char *text, const char *place)
{
        struct cloche_err e = {0};
        struct rules *rules = load(text, &e);

        CHECK(!rules && e.code == CLOCHE_E_INVALID_ARGUMENT && strstr(e.msg, place), "%s: %s", text, e.msg);
        rules_free(rules);
}

static void test_refusals(void)
{
        refuses("[]", "permissions");
        refuses("{\"defaults\":{}}", "defaults");
        refuses("{\"default\":{\"write\":true}}", "default.write");
        refuses("{\"default\":{\"read\":1}}", "default.read");
        refuses("{\"default\":{\"*\":true}}", "default.*");
        refuses("{\"rules\":{}}", "arrays");
        refuses("{\"rules\":[{\"allow\":[\"read\"]}]}", "rules[0]");
        refuses("{\"rules\":[{\"pattern\":\"a\"},{\"pattern\":\"b\",\"deny\":[\"write\"]}]}", "rules[1].deny");
        refuses("{\"rules\":[{\"pattern\":\"a\",\"allow\":[1]}]}", "rules[0].allow");
        refuses("{\"rules\":[{\"pattern\":\"a\",\"priority\":\"high\"}]}", "rules[0].priority");
        refuses("{\"rules\":[{\"pattern\":\"!(a/b)\"}]}", "rules[0].pattern");
        refuses("{\"rules\":[{\"pattern\":\"a\",\"allows\":[]}]}", "allows");
        refuses("{\"exclude\":[\"\"]}", "exclude[0]");
        refuses("{\"exclude\":[\"a\",\"+(b/c)\"]}", "exclude[1]");
}

int main(void)
{
        test_globs_as_minimatch();
        test_globs_of_a_mount();
        test_globs_of_long_paths();
        test_kinds_of_segments();
        test_globs_are_bounded();
        test_extended_globs_are_bounded();
        test_nested_globs_are_bounded();
        test_literal_openers_are_bounded();
        test_decisions();
        test_refusals();
        return tap_done();
}
