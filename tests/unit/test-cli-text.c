/* Texts that the command line checks: incomplete cells, and JSON as notebooks have it. */
#include "cli/cells/incomplete.h"
#include "cli/output/json-text.h"
#include "cli/output/plain-value.h"
#include "tap.h"

#include <string.h>

static void test_cells(void)
{
        static const struct {
                const char *language, *code;
                int goes_on;
        } rows[] = {
                {"python", "x = 1", 0},
                {"python", "def f():", 1},
                {"python", "def f():\n    return 1", 1},
                {"python", "def f():\n    return 1\n", 0},
                {"python", "f(", 1},
                {"python", "f(\n1)", 0},
                {"python", "'''a", 1},
                {"python", "'''a\nb'''", 0},
                {"python", "x = {'a': 1}", 0},
                {"python", "# if:", 0},
                {"python", "if x: # c", 1},
                {"python", "@d", 1},
                {"python", "a \\", 1},
                {"python", "'('", 0},
                {"python", "x[1:2]", 0},
                {"python", "d = {1:\n2}", 0},
                {"python", "'it\\'s (' + \"(\"", 0},
                {"python", "", 0},
                {"python", "(\n", 0},
                {"bash", "echo hi", 0},
                {"bash", "for x in a b; do", 1},
                {"bash", "for x in a; do echo $x; done", 0},
                {"bash", "if true; then", 1},
                {"bash", "if true\nthen echo 1", 1},
                {"bash", "echo if for", 0},
                {"bash", "f() {", 1},
                {"bash", "f() {\necho\n}", 0},
                {"bash", "echo 'a", 1},
                {"bash", "a |", 1},
                {"bash", "a &&", 1},
                {"bash", "sleep 1 &", 0},
                {"bash", "a || b", 0},
                {"bash", "case x in a) echo;; esac", 0},
                {"bash", "echo $((1+2)) ${#x} $#", 0},
                {"bash", "echo 'it\\'", 0},
                {"ruby", "def f", 1},
                {"ruby", "def f\n1\nend", 0},
                {"ruby", "[1].each do |x|", 1},
                {"ruby", "x if y", 0},
                {"ruby", "while x do", 1},
                {"ruby", "while x do\nend", 0},
                {"ruby", "x = if y", 1},
                {"ruby", "puts \"#{x}\"", 0},
                {"javascript", "function f() {", 1},
                {"javascript", "function f() {\n}", 0},
                {"javascript", "`a", 1},
                {"javascript", "// {", 0},
                {"javascript", "/* a", 1},
                {"typescript", "[1].map(x => {", 1},
                {"php", "function f() {", 1},
                {"php", "echo 'a\nb';", 0},
                {"cobol", "(", 0},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                CHECK(is_incomplete(rows[i].language, rows[i].code, strlen(rows[i].code)) == rows[i].goes_on,
                      "%s: %.30s", rows[i].language, rows[i].code);
}

/* A file that Python wrote with indent=1 and ensure_ascii=False comes back byte for byte. */
static void comes_back(const char *text)
{
        json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        struct buf out = BUF_INIT(1 << 20);

        CHECK(value && json_text(&out, value) == 0 && out.size == strlen(text) && memcmp(out.data, text, out.size) == 0,
              "%.40s", text);
        buf_done(&out);
        json_decref(value);
}

static void test_json(void)
{
        static const char *const texts[] = {
                "0.1",
                "1.0",
                "-0.0",
                "1e-05",
                "0.0001",
                "1e+16",
                "123456.789",
                "5e-324",
                "1.7976931348623157e+308",
                "100.0",
                "2.5e-07",
                "1234567890123456.0",
                "9007199254740991",
                "-3",
                "true",
                "false",
                "null",
                "[]",
                "{}",
                "\"\"",
                "\"\\u001b\\u0000\\u001f\x7f\\\"\\\\/\\b\\f\\n\\r\\t\xc3\xa4\xe2\x80\xa8\"",
                "{\n \"b\": [\n  1,\n  []\n ],\n \"a\": {\n  \"x\": {}\n }\n}",
        };

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                comes_back(texts[i]);
}

static void test_plain(void)
{
        static const struct {
                const char *tagged, *plain;
        } rows[] = {
                {"[1,1.5,\"a\",null,true,{\"b\":[]}]", "[1,1.5,\"a\",null,true,{\"b\":[]}]"},
                {"{\"$\":\"bigint\",\"v\":\"-123456789012345678901\"}", "-123456789012345678901"},
                {"{\"$\":\"bytes\",\"b64\":\"AAE=\"}", "\"AAE=\""},
                {"{\"$\":\"set\",\"v\":[1,{\"$\":\"set\",\"v\":[]}]}", "[1,[]]"},
                {"{\"$\":\"map\",\"v\":[[1,\"a\"],[1.5,2],[true,3],[null,4],[[1,2],5],[{\"$\":\"date\",\"v\":\"2026-11-"
                 "21\"},6],[\"1\",\"b\"]]}",
                 "{\"1\":\"b\",\"1.5\":2,\"true\":3,\"null\":4,\"[1,2]\":5,\"2026-11-21\":6}"},
                {"{\"$\":\"object\",\"v\":[[\"$\",1],[\"a\\u0000b\",2]]}", "{\"$\":1,\"a\\u0000b\":2}"},
                {"{\"$\":\"array\",\"t\":\"i16\",\"b64\":\"AQD//w==\"}", "[1,-1]"},
                {"{\"$\":\"array\",\"t\":\"u64\",\"b64\":\"//////////8=\"}", "[18446744073709551615]"},
                {"{\"$\":\"array\",\"t\":\"i64\",\"b64\":\"//////////8=\"}", "[-1]"},
                {"{\"$\":\"array\",\"t\":\"f64\",\"b64\":\"AAAAAAAA+D8AAAAAAAD4fw==\"}", "[1.5,null]"},
                {"{\"$\":\"number\",\"v\":\"NaN\"}", "null"},
                {"{\"$\":\"number\",\"v\":\"-0\"}", "-0"},
                {"{\"$\":\"undefined\"}", "null"},
                {"[{\"$\":\"hole\"}]", "[null]"},
                {"{\"$\":\"utf16\",\"b64\":\"YQAiAD3Y6QA=\"}", "\"a\\u0022\\ud83d\\u00e9\""},
                {"{\"$\":\"regexp\",\"source\":\"a\\\\d\",\"flags\":\"gi\"}", "\"/a\\\\d/gi\""},
                {"{\"$\":\"error\",\"v\":{\"name\":\"E\",\"message\":\"m\",\"fields\":{\"code\":7}}}",
                 "{\"name\":\"E\",\"message\":\"m\",\"code\":7}"},
                {"{\"$\":\"class\",\"t\":\"URL\",\"v\":\"http://a\"}", "\"http://a\""},
                /* Objects that only look like tagged values are printed unchanged. */
                {"{\"$\":\"bigint\",\"v\":\"1 2\"}", "{\"$\":\"bigint\",\"v\":\"1 2\"}"},
                {"{\"$\":\"map\",\"v\":[[1]]}", "{\"$\":\"map\",\"v\":[[1]]}"},
                {"{\"$\":\"gizmo\"}", "{\"$\":\"gizmo\"}"},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                json_t *value = json_loads(rows[i].tagged, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
                struct buf out = BUF_INIT(1 << 20);

                CHECK(value && plain_value(&out, value) == 0 && out.size == strlen(rows[i].plain) &&
                              memcmp(out.data, rows[i].plain, out.size) == 0,
                      "%s gave %.*s", rows[i].tagged, (int)out.size, out.data ? out.data : "");
                buf_done(&out);
                json_decref(value);
        }
}

int main(void)
{
        test_cells();
        test_plain();
        test_json();
        return tap_done();
}
