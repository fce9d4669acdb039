/* Hosts in HTTP/1.x requests. Runs in: cloche-egress, on bytes of the guest; pure. */
#include "http.h"

#include "address.h"

#include <http_parser.h>
#include <string.h>
#include <strings.h>

#define METHOD_MAX 32
#define TRAILERS_MAX 8192
#define CHUNK_DIGITS_MAX 15

/* -- recognizing HTTP -------------------------------------------------------------------------------------------- */

static int is_token_byte(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               (c && strchr("!#$%&'*+-.^_`|~", c));
}

static int is_blank(char c)
{
        return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static int has_version(const char *line, size_t size)
{
        for (size_t i = 0; i + 5 <= size; i++)
                if (strncasecmp(line + i, "HTTP/", 5) == 0)
                        return 1;
        return 0;
}

/* Be generous, because anything recognized as HTTP must pass the strict parser: a word, a blank,
 * and "HTTP/" somewhere on that line. */
enum http_guess http_guess(const char *bytes, size_t size, int is_all)
{
        size_t at = 0, word;

        while (at < size && is_blank(bytes[at]))
                at++;
        for (word = at; at < size && is_token_byte(bytes[at]); at++)
                ;
        if (at - word > METHOD_MAX)
                return HTTP_GUESS_OTHER;
        if (at == size)
                return is_all ? HTTP_GUESS_OTHER : size < HTTP_HEAD_MAX ? HTTP_GUESS_OPEN : HTTP_GUESS_HTTP;
        if (at == word || (bytes[at] != ' ' && bytes[at] != '\t'))
                return HTTP_GUESS_OTHER;
        for (; at < size && bytes[at] != '\n'; at++)
                if ((unsigned char)bytes[at] < ' ' && !is_blank(bytes[at]))
                        return HTTP_GUESS_OTHER;
        if (at == size && !is_all)
                return size < HTTP_HEAD_MAX ? HTTP_GUESS_OPEN : HTTP_GUESS_HTTP;
        return has_version(bytes + word, at - word) ? HTTP_GUESS_HTTP : HTTP_GUESS_OTHER;
}

/* -- hosts ------------------------------------------------------------------------------------------------------- */

int http_host_parse(const char *text, size_t size, struct http_host *ret)
{
        const char *colon = memchr(text, ':', size), *end = text + size;
        size_t host_size = colon ? (size_t)(colon - text) : size;

        *ret = (struct http_host){.is_name = 0};
        if (address_parse(text, host_size, &ret->address) < 0) {
                ret->is_name = 1;
                if (host_name(text, host_size, ret->name) < 0)
                        return -1;
        }
        if (!colon)
                return 0;
        for (colon++; colon < end; colon++) {
                if (*colon < '0' || *colon > '9' || ret->port > 6553)
                        return -1;
                ret->port = ret->port * 10 + (unsigned)(*colon - '0');
        }
        return ret->port >= 1 && ret->port <= 65535 ? 0 : -1;
}

/* -- one head ---------------------------------------------------------------------------------------------------- */

struct text {
        const char *at;
        size_t size;
};

struct head {
        struct text url, name; /* the field name for the next value */
        struct text host, length, coding, upgrade;
        int is_doubled, is_two; /* a single-use field came twice; HTTP/2 settings */
};

static const struct {
        const char *name;
        size_t offset;
} fields[] = {
        {"host", offsetof(struct head, host)},
        {"content-length", offsetof(struct head, length)},
        {"transfer-encoding", offsetof(struct head, coding)},
        {"upgrade", offsetof(struct head, upgrade)},
};

static int is_text(const struct text *text, const char *word)
{
        return text->size == strlen(word) && strncasecmp(text->at, word, text->size) == 0;
}

static int on_url(http_parser *parser, const char *at, size_t size)
{
        ((struct head *)parser->data)->url = (struct text){at, size};
        return 0;
}

static int on_field(http_parser *parser, const char *at, size_t size)
{
        ((struct head *)parser->data)->name = (struct text){at, size};
        return 0;
}

static int on_value(http_parser *parser, const char *at, size_t size)
{
        struct head *head = parser->data;

        head->is_two |= is_text(&head->name, "http2-settings");
        for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
                struct text *field = (struct text *)((char *)head + fields[i].offset);

                if (!is_text(&head->name, fields[i].name))
                        continue;
                head->is_doubled |= field->at != NULL;
                while (size > 0 && is_blank(at[size - 1]))
                        size--;
                *field = (struct text){at, size};
        }
        return 0;
}

/* Pause at the end of the head; otherwise the parser continues into the body. */
static int on_head(http_parser *parser)
{
        http_parser_pause(parser, 1);
        return 0;
}

/* Lines end with CR LF, and neither byte stands elsewhere. No line is folded, and the first has two
 * blanks. After this check no two servers disagree about line ends. */
static const char *check_lines(const char *bytes, size_t size)
{
        size_t blanks = 0, line = 0;

        for (size_t i = 0; i < size; i++) {
                unsigned char c = (unsigned char)bytes[i];

                if (c == '\r' && bytes[i + 1] == '\n') { /* the head ends with CR LF, so i + 1 is valid */
                        if (line == 0 && blanks != 2)
                                return "a request line of HTTP/1 has three parts with one blank between them";
                        line = ++i + 1;
                } else if ((c < ' ' && c != '\t') || c == 0x7f)
                        return "a control character in a request's head";
                else if (i == line && (c == ' ' || c == '\t'))
                        return "a line of a request's head begins with a blank";
                else if (line == 0 && (c == ' ' || c == '\t'))
                        blanks += c == ' ' ? 1 : 3;
        }
        return NULL;
}

static const char *parse(const char *bytes, size_t size, http_parser *parser, struct head *ret)
{
        static const http_parser_settings settings = {
                .on_url = on_url,
                .on_header_field = on_field,
                .on_header_value = on_value,
                .on_headers_complete = on_head,
        };
        const char *wrong = check_lines(bytes, size);

        if (wrong)
                return wrong;
        http_parser_init(parser, HTTP_REQUEST);
        parser->data = ret;
        http_parser_execute(parser, &settings, bytes, size);
        if (HTTP_PARSER_ERRNO(parser) != HPE_PAUSED)
                return "a malformed request";
        if (parser->http_major != 1 || parser->http_minor > 1)
                return "HTTP/2 without TLS, or another version than HTTP/1";
        return NULL;
}

/* -- meaning of a head ------------------------------------------------------------------------------------------- */

static const char *read_framing(struct http *http, const http_parser *parser, const struct head *head)
{
        http->state = HTTP_AT_HEAD;
        if (head->is_doubled)
                return "Host, Content-Length, Transfer-Encoding or Upgrade twice in a request";
        if (head->length.at && head->coding.at)
                return "Content-Length beside Transfer-Encoding";
        if (head->coding.at) {
                if (!is_text(&head->coding, "chunked") || parser->http_minor == 0)
                        return "a Transfer-Encoding other than chunked";
                http->state = HTTP_IN_CHUNKS;
                http->chunk_state = 0;
        }
        if (head->length.at) {
                if (strspn(head->length.at, "0123456789") < head->length.size || head->length.size == 0)
                        return "a Content-Length that is not a number";
                http->body_left = parser->content_length;
                http->state = http->body_left > 0 ? HTTP_IN_BODY : HTTP_AT_HEAD;
        }
        return NULL;
}

static const char *check_host(const struct http_face *face, const struct http_host *host, int is_tunnel)
{
        const char *why = NULL;

        if (face->check_host(face->data, host, is_tunnel, &why) == 0)
                return NULL;
        return why ? why : "it is not allowed"; /* refused without a reason */
}

/* http://host:port/…: the server uses this host. */
static const char *check_target(const struct head *head, const struct http_face *face)
{
        struct http_parser_url url;
        struct http_host host;
        const char *authority;

        http_parser_url_init(&url);
        if (http_parser_parse_url(head->url.at, head->url.size, 0, &url) != 0 || (url.field_set & 1 << UF_USERINFO) ||
            !(url.field_set & 1 << UF_HOST))
                return "a request's target that is not a URL";
        if (url.field_data[UF_SCHEMA].len != 4 || strncasecmp(head->url.at, "http", 4) != 0)
                return "a request's target with another scheme than http";
        authority = head->url.at + url.field_data[UF_HOST].off;
        if (http_host_parse(authority, url.field_data[UF_HOST].len, &host) < 0)
                return "a request's target without a host's name or address";
        host.port = url.field_set & 1 << UF_PORT ? url.port : 80;
        return check_host(face, &host, 0);
}

static const char *check_tunnel(struct http *http, const struct head *head, const struct http_face *face)
{
        if (http_host_parse(head->url.at, head->url.size, &http->target) < 0 || http->target.port == 0)
                return "CONNECT without a host and a port";
        http->is_tunnel = 1;
        return check_host(face, &http->target, 1);
}

static const char *check_host_line(const http_parser *parser, const struct head *head, const struct http_face *face)
{
        struct http_host host;

        if (!head->host.at)
                return parser->http_minor == 0 ? NULL : "a request without Host";
        if (http_host_parse(head->host.at, head->host.size, &host) < 0)
                return "a Host that is neither a name nor an address";
        return check_host(face, &host, 0);
}

/* Bytes after a switch are not inspected. So the server must agree first, and its answer must
 * belong to this request. */
static const char *read_switch(struct http *http, const http_parser *parser, const struct head *head)
{
        int is_connect = parser->method == HTTP_CONNECT;

        if (head->is_two || (head->upgrade.at && !is_text(&head->upgrade, "websocket")))
                return "an upgrade to another protocol than WebSocket";
        if (!head->upgrade.at && !is_connect)
                return NULL;
        if (http->requests > 0 || http->state != HTTP_AT_HEAD)
                return "a switch of protocols behind another request, or with a body";
        http->state = HTTP_IS_SWITCHING;
        return NULL;
}

static const char *check_head(struct http *http, const http_parser *parser, size_t size, const struct http_face *face)
{
        const char *why = NULL;
        int r = face->check_head ? face->check_head(face->data, parser->method == HTTP_TRACE, &why) : 0;

        http->edit_size = r > 0 ? size : 0;
        return r < 0 ? (why ? why : "it is not allowed") : NULL;
}

static const char *read_head(struct http *http, const char *bytes, size_t size, const struct http_face *face)
{
        struct head head = {.is_doubled = 0};
        http_parser parser;
        const char *wrong = parse(bytes, size, &parser, &head);

        if (!wrong)
                wrong = read_framing(http, &parser, &head);
        if (!wrong && parser.method == HTTP_CONNECT)
                wrong = check_tunnel(http, &head, face);
        else if (!wrong) {
                wrong = check_host_line(&parser, &head, face);
                if (!wrong && head.url.at[0] != '/' && !(head.url.size == 1 && head.url.at[0] == '*'))
                        wrong = check_target(&head, face);
        }
        if (!wrong)
                wrong = read_switch(http, &parser, &head);
        if (!wrong)
                wrong = check_head(http, &parser, size, face);
        http->requests++;
        return wrong;
}

/* -- bodies ------------------------------------------------------------------------------------------------------ */

enum chunk_state {
        CHUNK_SIZE,
        CHUNK_SIZE_MORE,
        CHUNK_SIZE_LF,
        CHUNK_DATA,
        CHUNK_DATA_CR,
        CHUNK_DATA_LF,
        TRAILER_BEGIN,
        TRAILER,
        TRAILER_LF,
        LAST_LF
};

static int hex(char c)
{
        return c >= '0' && c <= '9'   ? c - '0'
               : c >= 'a' && c <= 'f' ? c - 'a' + 10
               : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                      : -1;
}

static int expect(struct http *http, char c, char expected, enum chunk_state next)
{
        http->chunk_state = next;
        return c == expected ? 0 : -1;
}

static int take_size(struct http *http, char c)
{
        int digit = hex(c);

        if (digit < 0 && http->chunk_state == CHUNK_SIZE_MORE)
                return expect(http, c, '\r', CHUNK_SIZE_LF);
        if (http->chunk_state == CHUNK_SIZE) {
                http->body_left = 0;
                http->trailer_size = 0; /* counts the digits for now */
        }
        http->body_left = http->body_left << 4 | (uint64_t)(digit & 15);
        http->chunk_state = CHUNK_SIZE_MORE;
        return digit < 0 || ++http->trailer_size > CHUNK_DIGITS_MAX ? -1 : 0;
}

static int take_trailer(struct http *http, char c)
{
        if (++http->trailer_size > TRAILERS_MAX)
                return -1;
        if (c == '\r') {
                http->chunk_state = http->chunk_state == TRAILER_BEGIN ? LAST_LF : TRAILER_LF;
                return 0;
        }
        if (((unsigned char)c < ' ' && c != '\t') || (http->chunk_state == TRAILER_BEGIN && !is_token_byte(c)))
                return -1;
        http->chunk_state = TRAILER;
        return 0;
}

/* Take one framing byte of a chunked body; extensions are refused. 0 or -1. */
static int take_chunk_byte(struct http *http, char c)
{
        switch ((enum chunk_state)http->chunk_state) {
        case CHUNK_SIZE:
        case CHUNK_SIZE_MORE:
                return take_size(http, c);
        case CHUNK_SIZE_LF:
                http->trailer_size = 0;
                return expect(http, c, '\n', http->body_left > 0 ? CHUNK_DATA : TRAILER_BEGIN);
        case CHUNK_DATA_CR:
                return expect(http, c, '\r', CHUNK_DATA_LF);
        case CHUNK_DATA_LF:
                return expect(http, c, '\n', CHUNK_SIZE);
        case TRAILER_BEGIN:
        case TRAILER:
                return take_trailer(http, c);
        case TRAILER_LF:
                return expect(http, c, '\n', TRAILER_BEGIN);
        case LAST_LF:
                http->state = HTTP_AT_HEAD;
                return c == '\n' ? 0 : -1;
        case CHUNK_DATA:
                break;
        }
        return -1;
}

static size_t take_data(struct http *http, size_t size)
{
        size_t taken = size < http->body_left ? size : (size_t)http->body_left;

        http->body_left -= taken;
        return taken;
}

static ssize_t take_chunks(struct http *http, const char *bytes, size_t size)
{
        size_t at = 0;

        while (at < size && http->state == HTTP_IN_CHUNKS) {
                if (http->chunk_state == CHUNK_DATA) {
                        at += take_data(http, size - at);
                        if (http->body_left == 0)
                                http->chunk_state = CHUNK_DATA_CR;
                } else if (take_chunk_byte(http, bytes[at++]) < 0)
                        return -1;
        }
        return (ssize_t)at;
}

/* -- a connection ------------------------------------------------------------------------------------------------ */

static ssize_t take_head(struct http *http, const char *bytes, size_t size, const struct http_face *face,
                         const char **ret_why)
{
        const char *end = memmem(bytes, size, "\r\n\r\n", 4);
        size_t head = end ? (size_t)(end - bytes) + 4 : size;

        *ret_why = NULL;
        if (bytes[0] == '\r' || bytes[0] == '\n')
                *ret_why = "an empty line before a request";
        else if (head > HTTP_HEAD_MAX || (!end && size >= HTTP_HEAD_MAX))
                *ret_why = "the head of a request is too long";
        else if (end)
                *ret_why = read_head(http, bytes, head, face);
        else
                return 0;
        return *ret_why ? -1 : (ssize_t)head;
}

static ssize_t take(struct http *http, const char *bytes, size_t size, const struct http_face *face,
                    const char **ret_why)
{
        ssize_t n;

        switch (http->state) {
        case HTTP_AT_HEAD:
                return take_head(http, bytes, size, face, ret_why);
        case HTTP_IN_BODY:
                n = (ssize_t)take_data(http, size);
                if (http->body_left == 0)
                        http->state = HTTP_AT_HEAD;
                return n;
        case HTTP_IN_CHUNKS:
                *ret_why = "a malformed chunk, or one with extensions";
                return take_chunks(http, bytes, size);
        case HTTP_IS_SWITCHING:
                return 0;
        case HTTP_IS_SWITCHED:
                return (ssize_t)size;
        case HTTP_IS_CUT:
                break;
        }
        return -1;
}

ssize_t http_read(struct http *http, const char *bytes, size_t size, const struct http_face *face, const char **ret_why)
{
        size_t at = 0;

        http->edit_size = 0;
        while (at < size && http->edit_size == 0) {
                ssize_t n = take(http, bytes + at, size - at, face, ret_why);

                if (n < 0) {
                        http->state = HTTP_IS_CUT;
                        return -1;
                }
                if (n == 0)
                        break;
                at += (size_t)n;
        }
        return (ssize_t)at;
}

int egress_http_answer(struct http *http, const char *bytes, size_t size)
{
        static const char beginning[] = "HTTP/1.";
        size_t known = size < sizeof(beginning) - 1 ? size : sizeof(beginning) - 1;
        int switched;

        if (memcmp(bytes, beginning, known) == 0 && size < 12)
                return -1;
        switched = size >= 12 && memcmp(bytes, beginning, known) == 0 && bytes[8] == ' ' &&
                   (http->is_tunnel ? bytes[9] == '2' : memcmp(bytes + 9, "101", 3) == 0);
        http->state = switched ? HTTP_IS_SWITCHED : HTTP_AT_HEAD;
        return switched;
}
