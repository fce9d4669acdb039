/* HTTP of guests: the host of each request, and how much of it is passed on, for any division into pieces. */
#include "helpers/egress/read/http.h"
#include "tap.h"

#include <string.h>

struct requested {
        char all[512];
        const char *refused;
};

static int on_host(void *data, const struct http_host *host, int is_tunnel, const char **ret_why)
{
        struct requested *requested = data;
        size_t size = strlen(requested->all);

        snprintf(requested->all + size, sizeof(requested->all) - size, "%s%s:%u%s ",
                 host->is_name ? host->name : "address", is_tunnel ? "!" : "", host->port, "");
        *ret_why = NULL;
        return requested->refused && strcmp(requested->refused, host->name) == 0 ? -1 : 0;
}

/* All of it, pieces of that size at a time; how much has gone on, or -1. */
static ssize_t read_all(struct http *http, const char *text, size_t size, size_t piece, struct requested *requested,
                        const char **ret_why)
{
        const struct http_face face = {.check_host = on_host, .data = requested};
        size_t from = 0, have = 0;

        while (have < size) {
                ssize_t n;

                have = have + piece < size ? have + piece : size;
                n = http_read(http, text + from, have - from, &face, ret_why);
                if (n < 0)
                        return -1;
                from += (size_t)n;
        }
        return (ssize_t)from;
}

/* One line of a report, whatever the text. */
static const char *line(const char *text)
{
        static char shown[80];
        size_t i = 0;

        for (; text[i] && i < sizeof(shown) - 1; i++)
                shown[i] = text[i] < ' ' || text[i] > '~' ? '.' : text[i];
        shown[i] = '\0';
        return shown;
}

static void passes(const char *text, const char *hosts)
{
        size_t size = strlen(text), pieces[] = {size, 1, 2, 3, 7, 50};

        for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
                struct http http = {.state = HTTP_AT_HEAD};
                struct requested requested = {.refused = NULL};
                const char *why = NULL;
                ssize_t n = read_all(&http, text, size, pieces[i], &requested, &why);

                CHECK(n == (ssize_t)size && strcmp(requested.all, hosts) == 0,
                      "passes in pieces of %zu: %s: %zd, asked '%s' %s", pieces[i], line(text), n, requested.all,
                      why ? why : "");
        }
}

static void cuts(const char *text)
{
        size_t size = strlen(text), pieces[] = {size, 1, 7};

        for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
                struct http http = {.state = HTTP_AT_HEAD};
                struct requested requested = {.refused = "evil.test"};
                const char *why = NULL;
                ssize_t n = read_all(&http, text, size, pieces[i], &requested, &why);

                CHECK(n < 0 && why && http.state == HTTP_IS_CUT, "cut: %s: %s", line(text), why ? why : "");
        }
}

#define HOST "Host: a.test\r\n"

static void test_requests(void)
{
        passes("GET / HTTP/1.1\r\n" HOST "\r\n", "a.test:0 ");
        passes("GET /x?y#z HTTP/1.1\r\nhOST:\tA.Test.:8080 \r\nX: \xc3\xa9\r\n\r\n", "a.test:8080 ");
        passes("GET / HTTP/1.0\r\n\r\n", "");
        passes("OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "a.test:0 ");
        passes("GET http://b.test/x HTTP/1.1\r\n" HOST "\r\n", "a.test:0 b.test:80 ");
        passes("GET http://10.0.0.1:81/x HTTP/1.1\r\nHost: 10.0.0.1:81\r\n\r\n", "address:81 address:81 ");
        passes("POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: b.test\r\n\r\n",
               "a.test:0 b.test:0 ");
        passes("POST / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\nGET / HTTP/1.1\r\nHost: b.test\r\n\r\n",
               "a.test:0 b.test:0 ");
        passes("POST / HTTP/1.1\r\n" HOST
               "Transfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0a\r\n0123456789\r\n00\r\n\r\nGET / HTTP/1.1\r\nHost: "
               "b.test\r\n\r\n",
               "a.test:0 b.test:0 ");
        passes("POST / HTTP/1.1\r\n" HOST
               "Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\nC: d\r\n\r\nGET / HTTP/1.1\r\nHost: b.test\r\n\r\n",
               "a.test:0 b.test:0 ");
}

static void test_cut(void)
{
        static const char *const all[] = {
                "GET / HTTP/1.1\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
                "GET / HTTP/1.1\r\n" HOST HOST "\r\n",
                "GET / HTTP/1.1\r\nHost:\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a.test:0\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a.test:\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a.test:99999\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: 0x7f.1\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a.test\r\n x\r\n\r\n",
                "GET / HTTP/1.1\nHost: a.test\n\n\r\n\r\n",
                "GET / HTTP/1.1\r\nHost : a.test\r\n\r\n",
                "GET / HTTP/1.1\r\nX: \x01\r\n" HOST "\r\n",
                "GET / HTTP/1.1\r\nX: a\rb\r\n" HOST "\r\n",
                "GET / HTTP/2.0\r\n" HOST "\r\n",
                "GET / HTTP/1.2\r\n" HOST "\r\n",
                "PRI * HTTP/2.0\r\n\r\n",
                "GET  / HTTP/1.1\r\n" HOST "\r\n",
                "GET / HTTP/1.1 \r\n" HOST "\r\n",
                "GET\t/ HTTP/1.1\r\n" HOST "\r\n",
                "\r\nGET / HTTP/1.1\r\n" HOST "\r\n",
                "get / HTTP/1.1\r\n" HOST "\r\n",
                "GET http://evil.test/ HTTP/1.1\r\n" HOST "\r\n",
                "GET http://a@b.test/ HTTP/1.1\r\n" HOST "\r\n",
                "GET https://a.test/ HTTP/1.1\r\n" HOST "\r\n",
                "POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
                "POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\nContent-Length: 3\r\n\r\n",
                "POST / HTTP/1.1\r\n" HOST "Content-Length: 3, 3\r\n\r\n",
                "POST / HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n",
                "POST / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999999\r\n\r\n",
                "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n",
                "POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n",
                "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n",
                "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n\r\n",
                "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\nx\n",
                "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n",
                "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1000000000000000\r\n",
                "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\nC\r\n\r\n",
                "GET / HTTP/1.1\r\n" HOST "Upgrade: h2c\r\n\r\n",
                "GET / HTTP/1.1\r\n" HOST "HTTP2-Settings: x\r\n\r\n",
                "GET / HTTP/1.1\r\n" HOST "Upgrade: websocket\r\nContent-Length: 3\r\n\r\n",
                "GET / HTTP/1.1\r\n" HOST "\r\nGET / HTTP/1.1\r\n" HOST "Upgrade: websocket\r\n\r\n",
                "CONNECT a.test HTTP/1.1\r\n" HOST "\r\n",
                "CONNECT evil.test:443 HTTP/1.1\r\n" HOST "\r\n",
                "GET / HTTP/1.1\r\n" HOST "\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
                "GET / HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nxGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        };

        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
                cuts(all[i]);
}

static void test_long_heads(void)
{
        static char text[HTTP_HEAD_MAX + 100];
        struct http http = {.state = HTTP_AT_HEAD};
        struct requested requested = {.refused = NULL};
        const char *why = "";
        int size = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" HOST "X: ");

        memset(text + size, 'x', sizeof(text) - (size_t)size);
        CHECK(read_all(&http, text, HTTP_HEAD_MAX, 1000, &requested, &why) < 0, "a head without an end: %s", why);
        http = (struct http){.state = HTTP_AT_HEAD};
        memcpy(text + HTTP_HEAD_MAX - 4, "\r\n\r\n", 4);
        CHECK(read_all(&http, text, HTTP_HEAD_MAX, HTTP_HEAD_MAX, &requested, &why) == HTTP_HEAD_MAX,
              "the longest head");
}

static void test_switches(void)
{
        static const char upgrade[] = "GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n";
        const struct http_face face = {.check_host = on_host, .data = &(struct requested){.refused = "evil.test"}};
        struct http http = {.state = HTTP_AT_HEAD};
        const char *why = NULL;

        CHECK(http_read(&http, upgrade, sizeof(upgrade) - 1, &face, &why) == sizeof(upgrade) - 1 &&
                      http.state == HTTP_IS_SWITCHING,
              "an upgrade passes");
        CHECK(http_read(&http, "bytes", 5, &face, &why) == 0, "what follows waits");
        CHECK(egress_http_answer(&http, "HTTP/1.1 10", 11) == -1, "for the answer");
        CHECK(egress_http_answer(&http, "HTTP/1.1 101 S", 14) == 1 && http_read(&http, "\0bytes", 6, &face, &why) == 6,
              "then all passes");
        http = (struct http){.state = HTTP_AT_HEAD};
        CHECK(http_read(&http, upgrade, sizeof(upgrade) - 1, &face, &why) > 0 &&
                      egress_http_answer(&http, "HTTP/1.1 200 OK", 15) == 0,
              "the server goes on with HTTP");
        CHECK(http_read(&http, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", 36, &face, &why) < 0, "and it is read");
        http = (struct http){.state = HTTP_AT_HEAD};
        CHECK(http_read(&http, upgrade, sizeof(upgrade) - 1, &face, &why) > 0 &&
                      egress_http_answer(&http, "SSH-2.0-x HT", 12) == 0,
              "an answer of another kind is none");
        http = (struct http){.state = HTTP_AT_HEAD};
        CHECK(http_read(&http, "CONNECT b.test:443 HTTP/1.1\r\nHost: x\r\n\r\n", 40, &face, &why) == 40 &&
                      http.is_tunnel && http.target.port == 443,
              "a tunnel");
        CHECK(egress_http_answer(&http, "HTTP/1.0 200 Connected", 20) == 1, "is open with 200");
}

static void test_looks(void)
{
        static const struct {
                const char *text;
                enum http_guess looks, at_end;
        } rows[] = {
                {"GET / HTTP/1.1\r\n", HTTP_GUESS_HTTP, HTTP_GUESS_HTTP},
                {"\r\n\r\n GET / http/1.1\n", HTTP_GUESS_HTTP, HTTP_GUESS_HTTP},
                {"G1ET\t/ x HTTP/\n", HTTP_GUESS_HTTP, HTTP_GUESS_HTTP},
                {"GET", HTTP_GUESS_OPEN, HTTP_GUESS_OTHER},
                {"GET /", HTTP_GUESS_OPEN, HTTP_GUESS_OTHER},
                {"GET / HTTP/1.1", HTTP_GUESS_OPEN, HTTP_GUESS_HTTP},
                {"EHLO a\r\n", HTTP_GUESS_OTHER, HTTP_GUESS_OTHER},
                {"SSH-2.0-x\r\n", HTTP_GUESS_OTHER, HTTP_GUESS_OTHER},
                {"*1\r\n$4\r\n", HTTP_GUESS_OTHER, HTTP_GUESS_OTHER},
                {"\x80", HTTP_GUESS_OTHER, HTTP_GUESS_OTHER},
                {"{\"a\":1}", HTTP_GUESS_OTHER, HTTP_GUESS_OTHER},
                {"GET \x01", HTTP_GUESS_OTHER, HTTP_GUESS_OTHER},
                {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", HTTP_GUESS_OTHER, HTTP_GUESS_OTHER},
                {"", HTTP_GUESS_OPEN, HTTP_GUESS_OTHER},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                CHECK(http_guess(rows[i].text, strlen(rows[i].text), 0) == rows[i].looks, "so it looks: %s",
                      line(rows[i].text));
                CHECK(http_guess(rows[i].text, strlen(rows[i].text), 1) == rows[i].at_end, "and when nothing follows");
        }
}

int main(void)
{
        test_requests();
        test_cut();
        test_long_heads();
        test_switches();
        test_looks();
        return tap_done();
}
