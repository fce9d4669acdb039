/* The pure parts of HTTP: queries, ranges, names of previews, headers that are passed on, and the tables of operations.
 */
#include "base/buf.h"
#include "daemon/http/forward.h"
#include "daemon/http/framing.h"
#include "daemon/http/operation.h"
#include "daemon/http/query.h"
#include "daemon/http/range.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>

static int queried(const char *query, const char *expected)
{
        struct cloche_err e = {0};
        json_t *all = NULL;
        char *text;
        int r = query_parse(query, &all, &e), same;

        if (!expected)
                return r == -CLOCHE_E_INVALID_ARGUMENT && !all && e.msg[0];
        text = json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS);
        same = r == 0 && text && strcmp(text, expected) == 0;
        free(text);
        json_decref(all);
        return same;
}

static void test_queries(void)
{
        static const struct {
                const char *query, *expected;
        } rows[] = {
                {"", "{}"},
                {"&&", "{}"},
                {"a=1", "{\"a\":\"1\"}"},
                {"a", "{\"a\":\"\"}"},
                {"a=&b", "{\"a\":\"\",\"b\":\"\"}"},
                {"a=b=c", "{\"a\":\"b=c\"}"},
                {"p=%2Ftmp%2fx+y%2B", "{\"p\":\"/tmp/x y+\"}"},
                {"%61=%c3%a4", "{\"a\":\"\303\244\"}"},
                {"a=%26&b=%3D", "{\"a\":\"&\",\"b\":\"=\"}"},
                {"a=%", NULL},
                {"a=%1", NULL},
                {"a=%zz", NULL},
                {"a=%0", NULL},
                {"a=%00", NULL},
                {"a%00=b", NULL},
                {"a=%ff", NULL},
                {"%ff=a", NULL},
                {"a=1&a=2", "{\"a\":[\"1\",\"2\"]}"},
                {"a=1&%61=2&b&a", "{\"a\":[\"1\",\"2\",\"\"],\"b\":\"\"}"},
                {"=x", NULL},
                {"a=1&=", NULL},
        };
        char many[70 * 5 + 1] = "";

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                CHECK(queried(rows[i].query, rows[i].expected), "query \"%s\"", rows[i].query);
        for (int i = 0; i < 70; i++)
                snprintf(many + 4 * i, sizeof(many) - 4 * (size_t)i, "x%02d&", i);
        CHECK(queried(many, NULL), "no more than %d parameters", QUERY_FIELDS_MAX);
}

static void test_ranges(void)
{
        static const struct {
                const char *text;
                uint64_t total;
                int r;
                uint64_t first, end;
        } rows[] = {
                {NULL, 10, 0, 0, 10},
                {"", 10, 0, 0, 10},
                {"bytes=0-0", 10, 0, 0, 1},
                {"bytes=3-", 10, 0, 3, 10},
                {"bytes=3-99", 10, 0, 3, 10},
                {"BYTES=9-9", 10, 0, 9, 10},
                {"bytes=-3", 10, 0, 7, 10},
                {"bytes=-99", 10, 0, 0, 10},
                {"bytes=10-", 10, -1, 0, 0},
                {"bytes=-0", 10, -1, 0, 0},
                {"bytes=0-", 0, -1, 0, 0},
                {"bytes=-1", 0, -1, 0, 0},
                {"bytes=5-4", 10, 0, 0, 10},
                {"bytes=1-2,4-5", 10, 0, 0, 10},
                {"bytes=a-b", 10, 0, 0, 10},
                {"bytes=-", 10, 0, 0, 10},
                {"bytes=1", 10, 0, 0, 10},
                {"bytes=1-2x", 10, 0, 0, 10},
                {"bytes=99999999999999999999-", 10, 0, 0, 10},
                {"lines=1-2", 10, 0, 0, 10},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct range range = range_parse(rows[i].text);
                uint64_t first, end;
                int r = range_resolve(&range, rows[i].total, &first, &end);

                CHECK(r == rows[i].r && (r < 0 || (first == rows[i].first && end == rows[i].end)), "range \"%s\"",
                      rows[i].text ? rows[i].text : "(none)");
        }
}

static int named(const char *host, unsigned port, const char *sandbox, const char *token)
{
        struct preview_name name;
        size_t size;
        const char *label = preview_label(host, "preview.test:80", &size);

        return label && preview_name_parse(label, size, &name) == 0 && name.port == port &&
               strcmp(name.sandbox, sandbox) == 0 && strcmp(name.token, token) == 0;
}

static int is_no_name(const char *host)
{
        struct preview_name name;
        size_t size;
        const char *label = preview_label(host, "preview.test", &size);

        return label && preview_name_parse(label, size, &name) < 0;
}

static void test_preview_names(void)
{
        static const char *const bad[] = {
                "x.preview.test",           ".preview.test",           "8080.preview.test",
                "8080-a.preview.test",      "8080-.preview.test",      "8080--t.preview.test",
                "8080-a-.preview.test",     "08080-a-t.preview.test",  "0-a-t.preview.test",
                "65536-a-t.preview.test",   "123456-a-t.preview.test", "-a-t.preview.test",
                "8o80-a-t.preview.test",    "8080-a-t.x.preview.test", "8080-a-12345678901234567.preview.test",
                "8080-a%2f-t.preview.test",
        };
        size_t size;

        CHECK(named("8080-a-t.preview.test", 8080, "a", "t"), "port, sandbox, token");
        CHECK(named("1-my-box-a_1.Preview.TEST:99", 1, "my-box", "a_1"),
              "the token is behind the last hyphen, the port before the first");
        CHECK(named("65535-A-T.preview.test", 65535, "a", "t"), "case is lost");
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                CHECK(is_no_name(bad[i]), "no preview: %s", bad[i]);
        CHECK(!preview_label("preview.test", "preview.test", &size), "the base itself is none");
        CHECK(!preview_label("8080-a-tpreview.test", "preview.test", &size), "a dot stands before it");
        CHECK(!preview_label("8080-a-t.preview.test.evil", "preview.test", &size), "nothing stands behind it");
        CHECK(!preview_label("[::1]:80", "preview.test", &size) && !preview_label("", "preview.test", &size),
              "addresses are none");
        CHECK(forward_host_size("[::1]:80") == 5 && forward_host_size("a:1") == 1 && forward_host_size("[") == 1,
              "hosts and ports");
}

static void test_headers(void)
{
        static const struct {
                const char *text;
                int is_own;
        } cookies[] = {
                {"a=1", 1},
                {"a=1; Path=/; Secure", 1},
                {"a=1; Domain=x.preview.test", 1},
                {"a=1; domain=.X.preview.test", 1},
                {"a=1; Domain=preview.test", 0},
                {"a=1;DOMAIN = test", 0},
                {"a=1; Domain=", 0},
                {"a=1; Domain=x.preview.test; Domain=preview.test", 0},
                {"a=1; Domain=y.x.preview.test", 0},
                {"domain=preview.test", 1},
                {"a=1; Domain", 1},
        };
        const char *host = "x.preview.test:80";

        CHECK(forward_is_hop("connection", NULL) && forward_is_hop("Transfer-Encoding", NULL) &&
                      !forward_is_hop("Content-Type", NULL),
              "hops by name");
        CHECK(forward_is_hop("X-Mine", "close, x-mine") && !forward_is_hop("X-Min", "close, x-mine"),
              "hops that are named");
        CHECK(forward_has_item("keep-alive , Upgrade", "upgrade") && !forward_has_item("upgraded", "upgrade") &&
                      !forward_has_item(NULL, "x"),
              "items");
        CHECK(forward_is_clean("a\tb\303\244") && !forward_is_clean("a\rb") && !forward_is_clean("a\x7f"),
              "characters");
        for (size_t i = 0; i < sizeof(cookies) / sizeof(cookies[0]); i++)
                CHECK(forward_is_own_cookie(cookies[i].text, host, forward_host_size(host)) == cookies[i].is_own,
                      "cookie \"%s\"", cookies[i].text);
}

static int leads_to(const char *verb, const char *path, int symbol, const char *sandbox)
{
        json_t *params = NULL;
        char allowed[64];
        const struct operation *operation = operation_by_path(verb, path, &params, allowed, sizeof(allowed));
        const char *name = json_string_value(json_object_get(params, "sandbox"));
        int is_right = symbol < 0 ? !operation
                                  : operation && (int)operation->symbol == symbol &&
                                            (!sandbox || (name && strcmp(name, sandbox) == 0));

        json_decref(params);
        return is_right;
}

static void test_paths(void)
{
        char allowed[64];
        json_t *params;

        CHECK(leads_to("POST", "/v1/sandboxes/a/exec", OPERATION_SANDBOX_EXEC, "a"), "a name in the middle");
        CHECK(leads_to("GET", "/v1/sandboxes/a/exec", OPERATION_EXEC_SOCKET, "a"), "another verb, another operation");
        CHECK(leads_to("DELETE", "/v1/sandboxes/a", OPERATION_SANDBOX_DELETE, "a") &&
                      leads_to("GET", "/v1/sandboxes", OPERATION_SANDBOX_LIST, NULL),
              "at the end, and none");
        CHECK(leads_to("DELETE", "/v1/prefixes/p", OPERATION_PREFIX_DISPOSE, NULL), "the other table");
        CHECK(leads_to("POST", "/v1/sandboxes//exec", -1, NULL) && leads_to("POST", "/v1/sandboxes/a/b/exec", -1, NULL),
              "one part, and not an empty one");
        CHECK(leads_to("GET", "/v1/sandboxes/", -1, NULL) && leads_to("POST", "/v1/sandboxes/a/exec/", -1, NULL),
              "nothing more, nothing less");
        CHECK(leads_to("POST", "/v1/sandboxes/\xff/exec", -1, NULL), "no UTF-8");
        CHECK(!operation_by_path("PUT", "/v1/sandboxes/a/exec", &params, allowed, sizeof(allowed)) && !params &&
                      strstr(allowed, "POST") && strstr(allowed, "GET"),
              "verbs a path has");
}

static int checks(const char *method, const char *text)
{
        struct cloche_err e = {0};
        json_t *params = json_loads(text, 0, NULL);
        int r = operation_check(operation_by_method(method), params, &e);

        json_decref(params);
        return r == 0;
}

static void test_parameters(void)
{
        CHECK(checks("exec", "{\"sandbox\": \"a\", \"command\": \"x\", \"timeoutMs\": 86400000}"), "exec");
        CHECK(!checks("exec", "{\"command\": \"x\"}") && !checks("exec", "{\"sandbox\": \"a\"}"), "what it needs");
        CHECK(checks("exec", "{\"sandbox\": \"a\", \"command\": {\"$\": \"bytes\", \"at\": 0, \"n\": 1}}"),
              "bytes in frame form");
        CHECK(!checks("exec", "{\"sandbox\": \"a\", \"command\": {\"$\": \"bytes\", \"b64\": \"AA==\"}}"),
              "and only so");
        CHECK(!checks("exec", "{\"sandbox\": \"a\", \"command\": \"x\", \"timeoutMs\": 86400001}"),
              "milliseconds of a day");
        CHECK(checks("file.read", "{\"sandbox\": \"a\", \"path\": \"x\", \"offset\": 9007199254740991}"),
              "bytes of any file");
        CHECK(checks("sandbox.create", "{}") && checks("sandbox.list", "{}") &&
                      !checks("sandbox.list", "{\"sandbox\": \"a\"}"),
              "who has a name");
        CHECK(checks("hold", "{\"id\": 1, \"hold\": true}") && !checks("hold", "{\"id\": 1}"), "hold");
        for (int i = 0; i < OPERATION_COUNT; i++) {
                const struct operation *operation = operation_at((enum operation_symbol)i);

                CHECK((int)operation->symbol == i && (*operation->method || *operation->path), "row %d", i);
        }
}

/* The fault of a text that comes in pieces of that many bytes; ret: the text the parser behind reads. */
static enum framing_fault framed(enum framing_side side, const char *text, size_t piece, char *ret, size_t room)
{
        struct framing f;
        size_t out = 0, size = strlen(text);

        framing_init(&f, side);
        for (size_t i = 0; i < size; i += piece) {
                size_t n = size - i < piece ? size - i : piece, at = (size_t)framing_holds(&f);
                char bytes[512];

                memcpy(bytes + at, text + i, n);
                n = framing_filter(&f, bytes, at, n, sizeof(bytes));
                if (out + n < room)
                        memcpy(ret + out, bytes, n);
                out += n;
        }
        ret[out < room ? out : 0] = '\0';
        return f.fault;
}

#define GET "GET / HTTP/1.1\r\nHost: a\r\n"
#define CHUNKED GET "Transfer-Encoding:chunked\r\n\r\n"
#define ANSWER "HTTP/1.1 200 OK\r\n"

static void test_framing(void)
{
        static const struct {
                enum framing_side side;
                const char *text;
                enum framing_fault fault;
                const char *read;
        } rows[] = {
                {FRAMING_REQUESTS, GET "\r\n" GET "\r\n", FRAMING_SOUND, GET "\r\n" GET "\r\n"},
                {FRAMING_REQUESTS, "\r\n\r\n" GET "\r\n", FRAMING_SOUND, GET "\r\n"},
                {FRAMING_REQUESTS, GET "Content-Length:  2 \r\n\r\n\n\n" GET "\r\n", FRAMING_SOUND,
                 GET "Content-Length:2\r\n\r\n\n\n" GET "\r\n"},
                {FRAMING_REQUESTS, CHUNKED "2;a=b\r\n\r\n\r\n0;c\r\nX: y\r\n\r\n" GET "\r\n", FRAMING_SOUND, NULL},
                {FRAMING_REQUESTS, GET "Upgrade: websocket\r\n\r\n\n\n\x01", FRAMING_SOUND,
                 GET "Upgrade: websocket\r\n\r\n\n\n\x01"},
                {FRAMING_REQUESTS, GET "X: a\n", FRAMING_LINE_END, GET "X: a\r\n\r\n"},
                {FRAMING_REQUESTS, GET "X: a\rb", FRAMING_LINE_END, GET "X: a\r\n\r\n"},
                {FRAMING_REQUESTS, GET "X : a\r\n", FRAMING_NAME, GET "X?:\r\n\r\n"},
                {FRAMING_REQUESTS, GET " X: a\r\n", FRAMING_FOLDED, GET "\r\n"},
                {FRAMING_REQUESTS, GET "Content-Length: +2\r\n\r\n", FRAMING_LENGTH, GET "Content-Length:0\r\n\r\n"},
                {FRAMING_REQUESTS, GET "Content-Length: 2\r\nContent-Length: 2\r\n\r\n", FRAMING_LENGTH_TWICE,
                 GET "Content-Length:2\r\nContent-Length?:\r\n\r\n"},
                {FRAMING_REQUESTS, GET "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", FRAMING_TWO_LENGTHS,
                 NULL},
                {FRAMING_REQUESTS, "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", FRAMING_ENCODING_VERSION,
                 NULL},
                {FRAMING_REQUESTS, GET "Host: b\r\n\r\n", FRAMING_HOST_TWICE, NULL},
                {FRAMING_REQUESTS, "GET / HTTP/1.1\r\n\r\n", FRAMING_HOST_MISSING, "GET / HTTP/1.1\r\n\r\n"},
                {FRAMING_REQUESTS, "GET  / HTTP/1.1\r\n", FRAMING_FIRST_LINE, "GET ? HTTP/1.0\r\n\r\n"},
                {FRAMING_REQUESTS, "GET / HTTP/2.0\r\n", FRAMING_FIRST_LINE, "GET / HTTP/2.0 HTTP/1.0\r\n\r\n"},
                {FRAMING_REQUESTS, CHUNKED "0x2\r\n", FRAMING_CHUNK, CHUNKED "0Z\r\n\r\n"},
                {FRAMING_REQUESTS, CHUNKED "5\nhello", FRAMING_CHUNK, CHUNKED "5Z\r\n\r\n"},
                {FRAMING_REQUESTS, CHUNKED "5\rhello", FRAMING_CHUNK, CHUNKED "5Z\r\n\r\n"},
                {FRAMING_REQUESTS, CHUNKED "1\r\nhello", FRAMING_CHUNK_END, CHUNKED "1\r\nhZ\r\n\r\n"},
                {FRAMING_REQUESTS, CHUNKED "0\r\nContent-Length: 1\r\n\r\n", FRAMING_TRAILER, CHUNKED "0\r\nZ\r\n\r\n"},
                {FRAMING_ANSWERS, "HTTP/1.1 103 Hints\r\n\r\n" ANSWER "Content-Length: 1\r\n\r\nabc", FRAMING_SOUND,
                 NULL},
                {FRAMING_ANSWERS, "HTTP/1.0 200\r\n\r\nall\nof it", FRAMING_SOUND, "HTTP/1.0 200\r\n\r\nall\nof it"},
                {FRAMING_ANSWERS, ANSWER "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", FRAMING_LENGTH_TWICE, NULL},
                {FRAMING_ANSWERS, ANSWER "X: y\n\n", FRAMING_LINE_END, NULL},
                {FRAMING_ANSWERS, "HTTP/1.1 2000 OK\r\n", FRAMING_STATUS_LINE, NULL},
                {FRAMING_ANSWERS, "ICY 200 OK\r\n", FRAMING_STATUS_LINE, NULL},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                for (size_t piece = 1; piece < 300; piece += 7) {
                        char read[512];
                        enum framing_fault fault = framed(rows[i].side, rows[i].text, piece, read, sizeof(read));

                        if (fault != rows[i].fault || (rows[i].read && strcmp(read, rows[i].read) != 0)) {
                                CHECK(0, "message %zu in pieces of %zu: \"%s\", read as %s", i, piece,
                                      framing_message(fault), read);
                                return;
                        }
                }
        CHECK(1, "messages have one end");
}

int main(void)
{
        test_framing();
        test_queries();
        test_ranges();
        test_preview_names();
        test_headers();
        test_paths();
        test_parameters();
        return tap_done();
}
