/* HTTP of a guest: the first byte is the size of the pieces. For all sizes, the same bytes are
 * forwarded and the same hosts are checked. A head that is accepted is accepted with other headers. */
#include "helpers/egress/read/headers.h"
#include "helpers/egress/read/http.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct requested {
        uint32_t sum;
};

static int on_host(void *data, const struct http_host *host, int is_tunnel, const char **ret_why)
{
        struct requested *requested = data;

        if (host->is_name != (host->name[0] != '\0') || host->port > 65535)
                abort();
        for (const char *c = host->name; *c; c++)
                requested->sum = requested->sum * 31 + (unsigned char)*c;
        requested->sum = requested->sum * 31 + host->address + host->port + (uint32_t)is_tunnel + 1;
        *ret_why = "no";
        return strstr(host->name, "evil") ? -1 : 0;
}

static ssize_t read_all(const char *text, size_t size, size_t piece, struct requested *requested)
{
        const struct http_face face = {.check_host = on_host, .data = requested};
        struct http http = {.state = HTTP_AT_HEAD};
        size_t from = 0, have = 0;

        while (have < size) {
                const char *why = NULL;
                ssize_t n;

                have = have + piece < size ? have + piece : size;
                n = http_read(&http, text + from, have - from, &face, &why);
                if (n < 0 && !why)
                        abort();
                if (n < 0)
                        return -1;
                if ((size_t)n > have - from)
                        abort();
                from += (size_t)n;
        }
        return (ssize_t)from;
}

static int on_head(void *data, int is_trace, const char **ret_why)
{
        (void)data;
        (void)is_trace;
        (void)ret_why;
        return 1;
}

static void set_headers(const char *text, size_t size)
{
        static struct headers *headers;
        struct requested first = {0}, second = {0};
        struct http_face face = {.check_host = on_host, .check_head = on_head, .data = &first};
        struct http http = {.state = HTTP_AT_HEAD}, again = {.state = HTTP_AT_HEAD};
        const char *why = NULL;
        char head[HTTP_HEAD_MAX + 4096];
        ssize_t n = http_read(&http, text, size, &face, &why);
        json_t *json = headers ? NULL : json_pack("{s:{s:s, s:s}}", "a.test", "X-A", "v", "Cookie", "");
        struct cloche_err e;

        if (json && headers_load(json, &headers, &e) < 0)
                abort();
        json_decref(json);
        if (n <= 0 || http.edit_size == 0)
                return;
        size = headers_write(headers_find(headers, "a.test"), text + n - http.edit_size, http.edit_size, head,
                             sizeof(head));
        face = (struct http_face){.check_host = on_host, .data = &second};
        if (size == 0 || (size <= HTTP_HEAD_MAX && (http_read(&again, head, size, &face, &why) != (ssize_t)size ||
                                                    second.sum != first.sum || again.state != http.state)))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct requested whole = {0}, pieces = {0};
        struct http_host host;
        const char *text;
        ssize_t n;

        if (size < 2 || size > HTTP_HEAD_MAX)
                return 0;
        text = (const char *)data + 1;
        n = read_all(text, size - 1, size - 1, &whole);
        if (read_all(text, size - 1, data[0] + 1u, &pieces) != n || (n >= 0 && whole.sum != pieces.sum))
                abort();
        set_headers(text, size - 1);
        (void)http_guess(text, size - 1, data[0] & 1);
        (void)http_host_parse(text, size - 1, &host);
        return 0;
}
