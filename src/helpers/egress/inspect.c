/* The guest's first bytes select the protocol. TLS names a server, each HTTP request a host; both
 * names are checked. Other protocols pass, since their host was allowed on that port. No byte
 * passes before inspection.
 * Runs in: cloche-egress, without capabilities and files, filtered. */
#include "connection.h"

#include "helpers/egress/read/address.h"
#include "helpers/egress/read/headers.h"

#include <string.h>

#define TOLD "" /* the reason is already reported */

static int cut(struct egress_connection *c, const char *kind, const char *why)
{
        connection_report(c, 0, kind, c->name, NULL, NULL, why);
        return -1;
}

static void pass(struct egress_connection *c, size_t size)
{
        c->out.passed += size;
}

/* port: of a tunnel's target, or the connection's. -1: not allowed. */
static int report_verdict(struct egress_connection *c, const struct policy_verdict *verdict, const char *kind,
                          const char *host, const char *address, unsigned port)
{
        report_decision(&c->egress->report, &(struct decision){.kind = kind,
                                                               .host = host,
                                                               .address = address,
                                                               .rule = verdict->rule,
                                                               .why = verdict->why,
                                                               .port = port,
                                                               .allowed = verdict->allowed});
        return verdict->allowed ? 0 : -1;
}

/* Check a name used inside the connection. -1: not allowed, reported. */
static int check_name(struct egress_connection *c, const char *kind, const char *name, unsigned port)
{
        struct policy_verdict verdict = policy_name(c->egress->policy, name, port);

        if (report_verdict(c, &verdict, kind, name, NULL, port) < 0)
                return -1;
        strcpy(c->announced, name);
        c->announced_port = port;
        return 0;
}

static int has_headers(const struct egress_connection *c, const char *name)
{
        return policy_headers(c->egress->policy, name) != NULL;
}

/* -- TLS --------------------------------------------------------------------------------------------------------- */

static int read_hello(struct egress_connection *c)
{
        size_t size = flow_held_size(&c->out), used;

        switch (client_hello_read((const unsigned char *)flow_held(&c->out), size, c->hello.name, &used)) {
        case CLIENT_HELLO_MORE:
                return size < FLOW_BYTES ? 0 : cut(c, "tls", "a greeting of TLS that is too long");
        case CLIENT_HELLO_MALFORMED:
                return cut(c, "tls", "a malformed greeting of TLS");
        case CLIENT_HELLO_NAMED:
                if (check_name(c, "tls", c->hello.name, c->inner_port) < 0)
                        return -1;
                break;
        case CLIENT_HELLO_NAMELESS: /* the name or address of the connection itself then decides */
                break;
        }
        if (has_headers(c, c->name) || has_headers(c, c->hello.name))
                return cut(c, "tls", "headers are set for this host, and TLS hides requests: use http");
        pass(c, used);
        c->protocol = PROTOCOL_TLS_NAMED;
        return 1;
}

static int follow_tls(struct egress_connection *c)
{
        ssize_t n = client_hello_follow(&c->hello, (const unsigned char *)flow_held(&c->out), flow_held_size(&c->out));

        if (n < 0 || (n == 0 && flow_held_size(&c->out) == FLOW_BYTES))
                return cut(c, "tls", "a second greeting of TLS names another server");
        pass(c, (size_t)n);
        return 0;
}

/* -- HTTP -------------------------------------------------------------------------------------------------------- */

static int check_address(struct egress_connection *c, uint32_t address, unsigned port)
{
        struct sockaddr_in in = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = htonl(address)};
        struct policy_verdict verdict =
                policy_address(c->egress->policy, address, port, dial_is_own((const struct sockaddr *)&in, sizeof(in)));
        char text[ADDRESS_TEXT_MAX];

        address_print(address, text);
        return report_verdict(c, &verdict, "http", NULL, text, port);
}

static int on_host(void *data, const struct http_host *host, int is_tunnel, const char **ret_why)
{
        struct egress_connection *c = data;
        unsigned port = is_tunnel ? host->port : c->inner_port;

        if (!is_tunnel && host->port && host->port != c->inner_port) {
                *ret_why = "a request names another port than it goes to";
                return -1;
        }
        *ret_why = TOLD;
        if (host->is_name && strcmp(host->name, c->name) == 0)
                c->names_itself = 1;
        else
                c->names_other = 1;
        c->sets_headers |= !is_tunnel && host->is_name && has_headers(c, host->name);
        return host->is_name ? check_name(c, "http", host->name, port) : check_address(c, host->address, port);
}

/* The headers of a host go to that host alone: to the connection that its name was resolved for,
 * and in requests that name no other one. A server answers TRACE with the request. */
static int on_head(void *data, int is_trace, const char **ret_why)
{
        struct egress_connection *c = data;
        int is_own = has_headers(c, c->name), is_about = c->sets_headers || (is_own && !c->is_tunnel),
            is_clear = is_own && !c->is_tunnel && c->names_itself && !c->names_other;

        c->names_itself = c->names_other = c->sets_headers = 0;
        if (!is_about)
                return 0;
        if (is_clear && !is_trace)
                return 1;
        *ret_why = is_trace && is_clear
                           ? "headers are set for this host, and TRACE would show them"
                           : "headers are set for this host, and the request or its connection names another";
        return -1;
}

static int set_headers(struct egress_connection *c)
{
        const struct host_headers *host = policy_headers(c->egress->policy, c->name);
        char head[FLOW_BYTES];
        size_t size = headers_write(host, flow_held(&c->out), c->http.edit_size, head, sizeof(head));

        if (size == 0 || flow_replace(&c->out, c->http.edit_size, head, size) < 0)
                return cut(c, "http", "the head of a request is too long with the headers that are set");
        pass(c, size);
        return 1;
}

static int read_http(struct egress_connection *c)
{
        const struct http_face face = {.check_host = on_host, .check_head = on_head, .data = c};
        const char *why = TOLD;
        ssize_t n = http_read(&c->http, flow_held(&c->out), flow_held_size(&c->out), &face, &why);

        if (n < 0)
                return strcmp(why, TOLD) == 0 ? -1 : cut(c, "http", why);
        if (n > 0)
                c->held_ns = 0; /* each head has its own timeout */
        pass(c, (size_t)n - c->http.edit_size);
        return c->http.edit_size > 0 ? set_headers(c) : 0;
}

/* -- the first bytes --------------------------------------------------------------------------------------------- */

/* Classify the held bytes, preceded by those already passed. */
static enum http_guess guess_protocol(const struct egress_connection *c)
{
        char bytes[WORD_MAX + FLOW_BYTES];

        memcpy(bytes, c->word, c->word_size);
        memcpy(bytes + c->word_size, flow_held(&c->out), flow_held_size(&c->out));
        return http_guess(bytes, c->word_size + flow_held_size(&c->out), c->out.is_ended);
}

/* A server that speaks first serves neither TLS nor HTTP. */
static int recognize(struct egress_connection *c)
{
        if (c->host_spoke)
                c->protocol = PROTOCOL_OTHER;
        else if (c->word_size == 0 &&
                 client_hello_begins((const unsigned char *)flow_held(&c->out), flow_held_size(&c->out)))
                c->protocol = PROTOCOL_TLS;
        else
                switch (guess_protocol(c)) {
                case HTTP_GUESS_OPEN:
                        return 0;
                case HTTP_GUESS_OTHER:
                        c->protocol = PROTOCOL_OTHER;
                        break;
                case HTTP_GUESS_HTTP:
                        if (c->word_size > 0)
                                return cut(c, "http", "a request whose first word came long before the rest");
                        c->protocol = PROTOCOL_HTTP;
                        break;
                }
        return 1;
}

int inspect_word(struct egress_connection *c)
{
        const char *bytes = flow_held(&c->out);
        size_t size = flow_held_size(&c->out);

        if (c->protocol != PROTOCOL_OPEN || c->word_size + size > WORD_MAX)
                return 0;
        for (size_t i = 0; i < size; i++)
                if (bytes[i] == ' ' || bytes[i] == '\t' || bytes[i] == '\r' || bytes[i] == '\n')
                        return 0;
        memcpy(c->word + c->word_size, bytes, size);
        c->word_size += size;
        pass(c, size);
        return 1;
}

/* 1: call it again. */
static int step(struct egress_connection *c)
{
        switch (c->protocol) {
        case PROTOCOL_OPEN:
                return recognize(c);
        case PROTOCOL_OTHER:
                pass(c, flow_held_size(&c->out));
                return 0;
        case PROTOCOL_TLS:
                return read_hello(c);
        case PROTOCOL_TLS_NAMED:
                return follow_tls(c);
        case PROTOCOL_HTTP:
                return read_http(c);
        }
        return -1;
}

int inspect(struct egress_connection *c)
{
        int r = 1;

        while (r > 0 && flow_held_size(&c->out) > 0)
                r = step(c);
        if (r == 0 && c->out.is_ended && flow_held_size(&c->out) > 0 && c->http.state != HTTP_IS_SWITCHING)
                return cut(c, c->protocol == PROTOCOL_TLS ? "tls" : "http",
                           "it ended in the middle of what was to be read");
        return r < 0 ? -1 : 0;
}

/* After CONNECT inspection starts over, for the requested name. */
static void start_tunnel(struct egress_connection *c)
{
        c->protocol = PROTOCOL_OPEN;
        c->is_tunnel = 1;
        c->inner_port = c->http.target.port;
        c->http = (struct http){.state = HTTP_AT_HEAD};
        c->hello = (struct client_hello_watch){.is_over = 0};
}

void inspect_answer(struct egress_connection *c)
{
        int switched;

        if (c->protocol == PROTOCOL_OPEN && !c->is_tunnel)
                c->host_spoke = 1;
        if (c->protocol != PROTOCOL_HTTP || c->http.state != HTTP_IS_SWITCHING) {
                c->in.passed = c->in.size;
                return;
        }
        switched = c->in.total > 0 ? 0 : egress_http_answer(&c->http, c->in.data + c->in.start, c->in.size);
        if (switched < 0 && !c->in.is_ended)
                return;
        if (c->in.total > 0)
                c->http.state = HTTP_AT_HEAD;
        c->in.passed = c->in.size;
        if (switched > 0 && c->http.is_tunnel)
                start_tunnel(c);
}
