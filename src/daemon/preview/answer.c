/* A guest's answer to a forwarded request: parsed, limited, and sent on. Runs in: cloched-engine,
 * on its loop, with the rights of the daemon's user. */
#include "answer.h"

#include "base/err.h"
#include "daemon/http/forward.h"

#include <string.h>
#include <strings.h>

#define HEADERS_MAX 100
#define HEADER_BYTES_MAX (32u << 10)
#define INFORMATIONAL_MAX 16
#define STATUS_MAX 599

/* -- headers -------------------------------------------------------------------------------------------------- */

static int add_text(struct answer *a, const char *text, size_t size)
{
        return buf_append(&a->headers, text, size) < 0 ? -1 : 0;
}

/* Names and values come in pieces; a NUL ends each of them. */
static int on_field(http_parser *parser, const char *text, size_t size)
{
        struct answer *a = parser->data;

        if (a->is_in_value || a->headers.size == 0) {
                if ((a->is_in_value && add_text(a, "", 1) < 0) || ++a->header_count > HEADERS_MAX)
                        return -1;
                a->is_in_value = 0;
        }
        return add_text(a, text, size);
}

static int on_value(http_parser *parser, const char *text, size_t size)
{
        struct answer *a = parser->data;

        if (!a->is_in_value && add_text(a, "", 1) < 0)
                return -1;
        a->is_in_value = 1;
        return add_text(a, text, size);
}

static int on_begin(http_parser *parser)
{
        struct answer *a = parser->data;

        a->headers.size = 0;
        a->header_count = 0;
        a->is_in_value = 0;
        return 0;
}

static const char *next_header(const struct answer *a, size_t *at, const char **ret_value)
{
        const char *name;

        if (*at >= a->headers.size)
                return NULL;
        name = a->headers.data + *at;
        *ret_value = name + strlen(name) + 1;
        *at += strlen(name) + strlen(*ret_value) + 2;
        return name;
}

static const char *find_header(const struct answer *a, const char *wanted)
{
        const char *name, *value;
        size_t at = 0;

        while ((name = next_header(a, &at, &value)))
                if (strcasecmp(name, wanted) == 0)
                        return value;
        return NULL;
}

/* Our own HTTP server sets the length and the date. A guest may not announce other servers. */
static int is_own_header(const char *name)
{
        return strcasecmp(name, "Content-Length") == 0 || strcasecmp(name, "Alt-Svc") == 0 ||
               strcasecmp(name, "Date") == 0;
}

static int is_passed_on(const struct answer *a, const char *name, const char *value, const char *connection)
{
        if (!forward_is_clean(value) || is_own_header(name))
                return 0;
        if (forward_is_hop(name, connection))
                return a->is_upgrade && strcasecmp(name, "Upgrade") == 0;
        return strcasecmp(name, "Set-Cookie") != 0 || !a->host ||
               forward_is_own_cookie(value, a->host, forward_host_size(a->host));
}

static void pass_headers_on(const struct answer *a)
{
        const char *connection = find_header(a, "Connection"), *name, *value;
        size_t at = 0;

        http_set_foreign(a->request);
        while ((name = next_header(a, &at, &value)))
                if (is_passed_on(a, name, value, connection))
                        http_add_header(a->request, name, value);
}

/* -- answers -------------------------------------------------------------------------------------------------- */

static int64_t length_of(const struct answer *a)
{
        if ((a->parser.flags & F_CHUNKED) || a->parser.content_length > INT64_MAX)
                return -1;
        return (int64_t)a->parser.content_length;
}

/* Returns 1: no body follows. 2: no further answer either. */
static int on_head(http_parser *parser)
{
        struct answer *a = parser->data;
        unsigned status = parser->status_code;

        if (a->headers.size > 0 && add_text(a, "", 1) < 0)
                return -1;
        if (status == 101 && a->wants_upgrade) {
                a->is_upgrade = 1;
                pass_headers_on(a);
                return 2;
        }
        if (status < 200 && status != 101)
                return ++a->informational > INFORMATIONAL_MAX || status < 100 ? -1 : 0;
        if (status == 101 || status > STATUS_MAX)
                return -1;
        pass_headers_on(a);
        a->is_begun = 1;
        http_stream_raw(a->request, status, NULL, length_of(a));
        return a->is_head;
}

static int on_body(http_parser *parser, const char *bytes, size_t size)
{
        struct answer *a = parser->data;

        return http_stream_write(a->request, bytes, size) < 0 ? -1 : 0;
}

static int on_complete(http_parser *parser)
{
        struct answer *a = parser->data;

        if (!a->is_begun)
                return 0; /* end of an informational answer */
        a->is_done = 1;
        http_parser_pause(parser, 1);
        return 0;
}

void answer_init(struct answer *a, struct http_request *request, const char *host, int is_head, int wants_upgrade)
{
        *a = (struct answer){
                .request = request,
                .host = host,
                .is_head = is_head,
                .wants_upgrade = wants_upgrade,
                .headers = BUF_INIT(HEADER_BYTES_MAX),
        };
        framing_init(&a->framing, FRAMING_ANSWERS);
        a->framing.is_head_request = is_head;
        http_parser_init(&a->parser, HTTP_RESPONSE);
        a->parser.data = a;
}

void answer_done(struct answer *a)
{
        buf_done(&a->headers);
}

int answer_take(struct answer *a, char *bytes, size_t *size, struct cloche_err *e)
{
        static const http_parser_settings settings = {
                .on_message_begin = on_begin,
                .on_header_field = on_field,
                .on_header_value = on_value,
                .on_headers_complete = on_head,
                .on_body = on_body,
                .on_message_complete = on_complete,
        };
        enum http_errno wrong;
        int is_end = *size == 0;

        *size = framing_filter(&a->framing, bytes, 1, *size, *size + 1);
        if (a->framing.fault)
                return err_set(e, CLOCHE_E_PROTOCOL, "the port's answer is not valid HTTP: %s",
                               framing_message(a->framing.fault));
        if (is_end || *size > 0) /* size 0 is the end of file for the parser */
                a->read = http_parser_execute(&a->parser, &settings, bytes, *size);
        if (a->is_upgrade || a->is_done)
                return 0;
        wrong = HTTP_PARSER_ERRNO(&a->parser);
        if (wrong != HPE_OK)
                return err_set(e, CLOCHE_E_PROTOCOL, "the port's answer is not valid HTTP: %s",
                               http_errno_description(wrong));
        return is_end ? err_set(e, CLOCHE_E_PROTOCOL,
                                "the program at the port closed its connection before its answer was complete")
                      : 0;
}
