/* How the container API converts bytes and URLs. */
#include "tap.h"

#include "daemon/container/internal.h"

#include <stdlib.h>
#include <string.h>

/* The text of bytes that come in pieces of this size. */
static int becomes(const char *bytes, size_t size, size_t piece, const char *expected)
{
        _cleanup_buf_ struct buf out = BUF_INIT(1000);
        struct container_utf8 utf8 = {0};
        int r = 0;

        for (size_t at = 0; r == 0 && at < size; at += piece)
                r = container_utf8_append(&utf8, bytes + at, size - at < piece ? size - at : piece, 0, &out);
        if (r == 0)
                r = container_utf8_append(&utf8, "", 0, 1, &out);
        return r == 0 && utf8.held_size == 0 && out.size == strlen(expected) &&
               memcmp(out.data ? out.data : "", expected, out.size) == 0;
}

#define R "\xef\xbf\xbd"

static void test_utf8(void)
{
        static const struct {
                const char *bytes, *expected, *what;
        } rows[] = {
                {"", "", "nothing"},
                {"plain", "plain", "ASCII"},
                {"gr\xc3\xbc\xc3\x9f\xe2\x82\xac\xf0\x9f\x98\x80.", "gr\xc3\xbc\xc3\x9f\xe2\x82\xac\xf0\x9f\x98\x80.",
                 "characters of two, three and four bytes"},
                {"a\xff"
                 "b",
                 "a" R "b", "a byte that begins nothing"},
                {"a\xe2\x82", "a" R, "a character that is cut off: one mark"},
                {"\xe2\x82z", R "z", "one that does not go on"},
                {"\xc0\xaf", R R, "too long a form of '/'"},
                {"\xed\xa0\x80", R R R, "half of a pair"},
                {"\xf4\x90\x80\x80", R R R R, "beyond the last character"},
                {"\x80\x80", R R, "what only goes on"},
                {"\xf0\x9f\xf0\x9f\x98\x80", R "\xf0\x9f\x98\x80", "one that is begun anew"},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                size_t size = strlen(rows[i].bytes);
                int good = 1;

                for (size_t piece = 1; piece <= size + 1; piece++)
                        good &= becomes(rows[i].bytes, size, piece, rows[i].expected);
                CHECK(good, "%s, in pieces of any size", rows[i].what);
                CHECK(container_is_utf8(rows[i].bytes, size, 0) == (strcmp(rows[i].bytes, rows[i].expected) == 0),
                      "%s: whether it is UTF-8", rows[i].what);
        }
        CHECK(container_is_utf8("a\xe2\x82", 3, 1), "it may be cut");
        CHECK(!container_is_utf8("a\xe2z", 3, 1), "but not in the middle");
}

static int decodes(const char *text, const char *expected)
{
        char *decoded = container_decode(text, strlen(text));
        int good = decoded && expected ? strcmp(decoded, expected) == 0 : decoded == expected;

        free(decoded);
        return good;
}

static int query_is(const char *query, const char *name, const char *expected)
{
        const struct container_request q = {.query = (char *)query};
        char *value = container_query(&q, name);
        int good = value && expected ? strcmp(value, expected) == 0 : value == expected;

        free(value);
        return good;
}

static void test_urls(void)
{
        CHECK(decodes("a%20b%2Fc", "a b/c"), "hexadecimal pairs");
        CHECK(decodes("%e2%82%AC", "\xe2\x82\xac"), "of either case");
        CHECK(decodes("", ""), "nothing");
        CHECK(decodes("%", NULL) && decodes("%2", NULL) && decodes("a%2", NULL) && decodes("%zz", NULL),
              "pairs that are none");
        CHECK(decodes("a%00b", NULL), "NUL");
        CHECK(decodes("%ff", NULL) && decodes("%e2%82", NULL), "what is no UTF-8");
        CHECK(query_is("a=1&bc=2&b=3", "b", "3"), "a parameter by its whole name");
        CHECK(query_is("a=x%26y", "a", "x&y"), "decoded");
        CHECK(query_is("a=", "a", ""), "an empty one");
        CHECK(query_is("", "a", NULL) && query_is("b", "b", NULL) && query_is("&&", "a", NULL), "absent");
}

static void test_values(void)
{
        const struct buf attachments = {.data = (char *)"xx\377y", .size = 4};
        json_t *text = json_string("text"), *good = json_pack("{s:s, s:i, s:i}", "$", "bytes", "at", 2, "n", 2);
        json_t *beyond = json_pack("{s:s, s:i, s:i}", "$", "bytes", "at", 2, "n", 3),
               *other = json_pack("{s:s}", "$", "undefined"), *made;
        const char *bytes;
        size_t size;

        CHECK(door_bytes(text, NULL, &bytes, &size) && size == 4, "text");
        CHECK(door_bytes(good, &attachments, &bytes, &size) && size == 2 && memcmp(bytes, "\377y", 2) == 0, "bytes");
        CHECK(!door_bytes(beyond, &attachments, &bytes, &size), "bytes that lie outside");
        CHECK(!door_bytes(good, NULL, &bytes, &size) && !door_bytes(other, &attachments, &bytes, &size),
              "what is neither");
        made = door_string(good, &attachments);
        CHECK(strcmp(json_string_value(made), R "y") == 0, "as text");
        json_decref(text);
        json_decref(good);
        json_decref(beyond);
        json_decref(other);
        json_decref(made);
}

int main(void)
{
        test_utf8();
        test_urls();
        test_values();
        return tap_done();
}
