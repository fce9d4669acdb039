/* Access checks over HTTP. Runs in: cloched-engine, on its loop, with the rights of the daemon's
 * user. */
#include "access.h"
#include "daemon/core/auth.h"

#include "base/err.h"
#include "daemon/http/forward.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define JSON_TYPE "application/json"
#define PROTOCOL "cloche"
#define TOKEN_PROTOCOL "cloche.token."

static int is_address(const char *host, size_t size)
{
        return host[0] == '[' || strspn(host, "0123456789.") >= size;
}

/* Protect against DNS rebinding: a page of a site whose name resolves to us sends that name in
 * Host, so only our own names are served. */
int web_check_host(const struct daemon_options *o, const char *host, struct cloche_err *e)
{
        size_t size = forward_host_size(host);

        if (size == 0)
                return err_set(e, CLOCHE_E_FORBIDDEN,
                               "the header Host is missing: send HOST:PORT of the request's URL in it");
        if (is_address(host, size) || (size == 9 && strncasecmp(host, "localhost", 9) == 0))
                return 0;
        for (unsigned i = 0; i < o->hosts.count; i++)
                if (strlen(o->hosts.names[i]) == size && strncasecmp(host, o->hosts.names[i], size) == 0)
                        return 0;
        return err_set(e, CLOCHE_E_FORBIDDEN,
                       "the host \"%.*s\" is not one of this daemon's (cloched --allow-host adds one)",
                       (int)(size < 80 ? size : 80), host);
}

/* Origin names the page that sends the request; only browsers send it. */
int web_check_origin(const struct daemon_options *o, struct http_request *request, struct cloche_err *e)
{
        const char *origin = http_request_header(request, "Origin");

        if (!origin)
                return 0;
        for (unsigned i = 0; i < o->origins.count; i++)
                if (strcmp(origin, o->origins.names[i]) == 0) {
                        http_add_header(request, "Access-Control-Allow-Origin", o->origins.names[i]);
                        http_add_header(request, "Vary", "Origin");
                        return 0;
                }
        return err_set(e, CLOCHE_E_FORBIDDEN,
                       "pages of \"%.80s\" may not send requests here (cloched --allow-origin permits it)", origin);
}

/* Get the next item of a comma-separated list, without spaces around it. 0: none. */
static size_t next_item(const char **list, const char **ret)
{
        size_t size;

        *list += strspn(*list, " \t,");
        *ret = *list;
        size = strcspn(*list, ",");
        *list += size;
        while (size > 0 && strchr(" \t", (*ret)[size - 1]))
                size--;
        return size;
}

static int is_token_item(const char *item, size_t size)
{
        return size > sizeof(TOKEN_PROTOCOL) - 1 && strncmp(item, TOKEN_PROTOCOL, sizeof(TOKEN_PROTOCOL) - 1) == 0;
}

static int has_token_protocol(const struct daemon_options *o, const char *list)
{
        const char *item;
        size_t size;

        while ((size = next_item(&list, &item)) > 0)
                if (is_token_item(item, size) &&
                    auth_is_token_text(o, item + sizeof(TOKEN_PROTOCOL) - 1, size - (sizeof(TOKEN_PROTOCOL) - 1)))
                        return 1;
        return 0;
}

int web_has_token(const struct daemon_options *o, const struct http_request *request)
{
        const char *text = http_request_header(request, "Authorization"),
                   *protocols = http_request_header(request, "Sec-WebSocket-Protocol");

        if (text)
                return strncasecmp(text, "Bearer ", 7) == 0 && auth_is_token_text(o, text + 7, strlen(text + 7));
        return protocols && http_request_header(request, "Upgrade") && has_token_protocol(o, protocols);
}

/* Choose the protocol with the token only if no other was offered. */
void web_choose_protocol(struct http_request *request)
{
        const char *list = http_request_header(request, "Sec-WebSocket-Protocol"), *item;
        char chosen[TOKEN_BYTES_MAX + 32] = "";
        size_t size;

        while (list && (size = next_item(&list, &item)) > 0)
                if (size < sizeof(chosen) &&
                    (!*chosen || (size == sizeof(PROTOCOL) - 1 && strncmp(item, PROTOCOL, size) == 0)))
                        snprintf(chosen, sizeof(chosen), "%.*s", (int)size, item);
        if (*chosen)
                http_add_header(request, "Sec-WebSocket-Protocol", chosen);
}

int web_check_token(const struct connection *c, const struct http_request *request, const struct operation *operation,
                    struct cloche_err *e)
{
        /* A WebSocket of frames may bring the token in hello. */
        if (!c->is_tcp || operation->symbol == OPERATION_HEALTH || operation->symbol == OPERATION_RPC ||
            web_has_token(&c->daemon->options, request))
                return 0;
        return err_set(e, CLOCHE_E_UNAUTHORIZED,
                       "the header Authorization must be Bearer TOKEN, with the daemon's token");
}

/* A form on any page can post text; only a permitted script can post JSON. */
int web_check_type(const struct http_request *request, const struct operation *operation, struct cloche_err *e)
{
        const char *type = http_request_header(request, "Content-Type");

        if (!operation_has_json(operation) || (type && strncasecmp(type, JSON_TYPE, 16) == 0 && strchr("; ", type[16])))
                return 0;
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the header Content-Type must be application/json");
}
