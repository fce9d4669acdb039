/* Answers of guests, and how they are passed on; no request is behind them here. */
#include "daemon/preview/answer.h"
#include "tap.h"

#include <string.h>

/* The functions of daemon/http/server.h by which an answer is passed on. */
static struct {
        unsigned status, headers;
        int64_t length;
        char body[256];
        size_t size;
} said;

void http_set_foreign(struct http_request *request)
{
        (void)request;
}

void http_add_header(struct http_request *request, const char *name, const char *value)
{
        (void)request;
        said.headers += *name && value;
}

void http_stream_raw(struct http_request *request, unsigned status, const char *type, int64_t length)
{
        (void)request;
        (void)type;
        said.status = status;
        said.length = length;
}

int http_stream_write(struct http_request *request, const void *bytes, size_t size)
{
        (void)request;
        if (size > sizeof(said.body) - said.size)
                return -1;
        memcpy(said.body + said.size, bytes, size);
        said.size += size;
        return 0;
}

/* In pieces of that many bytes, and then the end; 1: it is whole. */
static int take(const char *text, size_t piece)
{
        struct cloche_err e = {0};
        struct answer a;
        size_t at = 0, size = strlen(text);
        int r = 0, is_done;

        memset(&said, 0, sizeof(said));
        answer_init(&a, NULL, "a.test", 0, 0);
        while (r == 0 && !a.is_done && at <= size) {
                char bytes[1 + 256];
                size_t n = size - at < piece ? size - at : piece;

                memcpy(bytes + 1, text + at, n);
                at += n ? n : 1;
                r = answer_take(&a, bytes, &n, &e);
        }
        is_done = a.is_done;
        answer_done(&a);
        return r == -CLOCHE_E_PROTOCOL && e.msg[0] ? 0 : r == 0 && is_done ? 1 : -1;
}

#define OK "HTTP/1.1 200 OK\r\n"

static void test_answers(void)
{
        static const struct {
                const char *text;
                int whole;
                unsigned status, headers;
                const char *body;
        } rows[] = {
                {OK "\r\nall", 1, 200, 0, "all"}, /* no header: there is no buffer for any */
                {"HTTP/1.0 404\r\n\r\n", 1, 404, 0, ""},
                {OK "X: y\r\nContent-Length: 3\r\n\r\nabcmore", 1, 200, 1, "abc"},
                {OK "Transfer-Encoding: chunked\r\n\r\n1;x\r\na\r\n02\r\nbc\r\n0\r\nT: x\r\n\r\n", 1, 200, 0, "abc"},
                {"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" OK "Content-Length: 0\r\n\r\n", 1, 200, 0, ""},
                {"", 0, 0, 0, ""},
                {OK "X: y\n\r\n", 0, 0, 0, ""},
                {OK "X : y\r\n\r\n", 0, 0, 0, ""},
                {OK "Content-Length: 1\r\nContent-Length: 1\r\n\r\na", 0, 0, 0, ""},
                {OK "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", 0, 0, 0, ""},
                {"HTTP/1.1 600 No\r\n\r\n", 0, 0, 0, ""},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                for (size_t piece = 1; piece < 200; piece += 66) {
                        CHECK(take(rows[i].text, piece) == rows[i].whole, "answer %zu in pieces of %zu", i, piece);
                        if (rows[i].whole)
                                CHECK(said.status == rows[i].status && said.headers == rows[i].headers &&
                                              said.size == strlen(rows[i].body) &&
                                              memcmp(said.body, rows[i].body, said.size) == 0,
                                      "and what is passed on of it");
                }
}

int main(void)
{
        test_answers();
        return tap_done();
}
