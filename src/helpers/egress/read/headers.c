/* Parse the headers of hosts, and write them into heads. Runs in: cloche-egress, on bytes of the
 * guest, and the engine; pure. */
#include "headers.h"

#include "policy.h"

#include "base/err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HOSTS_MAX 100
#define HEADERS_MAX 32 /* of a host */

struct header {
        const char *name, *value; /* of the JSON */
};

struct host_headers {
        char name[HOST_NAME_MAX_BYTES + 1];
        int is_below; /* *.name */
        struct header *rows;
        size_t count;
};

struct headers {
        json_t *json;
        struct host_headers *hosts;
        size_t count;
};

/* -- reading ----------------------------------------------------------------------------------------------------- */

static int is_token(const char *name)
{
        return *name &&
               name[strspn(name, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")] ==
                       '\0';
}

/* They frame a request, or belong to one connection. */
static int is_framing(const char *name)
{
        static const char *const names[] = {"host",       "content-length", "transfer-encoding",
                                            "connection", "upgrade",        "trailer",
                                            "te",         "keep-alive",     "http2-settings"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (strcasecmp(names[i], name) == 0)
                        return 1;
        return strncasecmp(name, "proxy-", 6) == 0;
}

/* One line of visible characters and blanks. */
static int is_value(const json_t *value)
{
        const char *text = json_string_value(value);

        if (!text || strlen(text) != json_string_length(value))
                return 0;
        for (const char *at = text; *at; at++)
                if (((unsigned char)*at < ' ' && *at != '\t') || (unsigned char)*at >= 0x7f)
                        return 0;
        return 1;
}

static int read_headers(const char *host, const json_t *json, struct host_headers *ret, struct cloche_err *e)
{
        const size_t count = json_object_size(json);
        size_t bytes = 0;
        const char *name;
        json_t *value;

        if (!json_is_object(json) || count > HEADERS_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "network.headers: '%.60s': expected an object of at most %d headers", host, HEADERS_MAX);
        ret->rows = calloc(count + 1, sizeof(*ret->rows));
        if (!ret->rows)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "keep the headers");
        json_object_foreach ((json_t *)(uintptr_t)json, name, value) {
                if (!is_token(name) || is_framing(name))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "network.headers: '%.60s': '%.60s' is no name of a header that can be set", host,
                                       name);
                if (!is_value(value))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "network.headers: '%.60s': the value of '%.60s' must be text of one line, in "
                                       "ASCII",
                                       host, name);
                bytes += strlen(name) + json_string_length(value) + 4;
                ret->rows[ret->count++] = (struct header){name, json_string_value(value)};
        }
        return bytes <= HEADERS_BYTES_MAX
                       ? 0
                       : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "network.headers: '%.60s': more than %u bytes", host,
                                 HEADERS_BYTES_MAX);
}

static int read_host(const char *text, const json_t *json, struct host_headers *ret, struct cloche_err *e)
{
        ret->is_below = strncmp(text, "*.", 2) == 0;
        text += 2 * ret->is_below;
        return host_name(text, strlen(text), ret->name) < 0
                       ? err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                 "network.headers: '%.60s': expected a host's name, or *.name, without a port", text)
                       : read_headers(text, json, ret, e);
}

int headers_load(const json_t *json, struct headers **ret, struct cloche_err *e)
{
        struct headers *headers;
        const char *host;
        json_t *own, *value;
        int r = 0;

        *ret = NULL;
        if (!json)
                return 0;
        if (!json_is_object(json) || json_object_size(json) > HOSTS_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "network.headers: expected an object of at most %d hosts",
                               HOSTS_MAX);
        own = json_deep_copy(json);
        headers = calloc(1, sizeof(*headers));
        if (headers)
                *headers = (struct headers){.json = own,
                                            .hosts = calloc(json_object_size(json) + 1, sizeof(*headers->hosts))};
        if (!own || !headers || !headers->hosts)
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "keep the headers");
        json_object_foreach (own, host, value)
                r = r < 0 ? r : read_host(host, value, &headers->hosts[headers->count++], e);
        if (r < 0 && !headers)
                json_decref(own);
        else if (r < 0)
                headers_free(headers);
        else
                *ret = headers;
        return r;
}

void headers_free(struct headers *headers)
{
        if (!headers)
                return;
        for (size_t i = 0; i < headers->count; i++)
                free(headers->hosts[i].rows);
        free(headers->hosts);
        json_decref(headers->json);
        free(headers);
}

const struct host_headers *headers_find(const struct headers *headers, const char *name)
{
        const struct host_headers *found = NULL;
        const size_t size = strlen(name);

        for (size_t i = 0; headers && i < headers->count; i++) {
                const struct host_headers *host = &headers->hosts[i];
                const size_t parent = strlen(host->name);

                if (!host->is_below && strcmp(host->name, name) == 0)
                        return host;
                if (host->is_below && size > parent + 1 && name[size - parent - 1] == '.' &&
                    strcmp(name + size - parent, host->name) == 0 && (!found || strlen(found->name) < parent))
                        found = host;
        }
        return found;
}

/* -- writing ----------------------------------------------------------------------------------------------------- */

struct out {
        char *at;
        size_t size, room;
};

static void put(struct out *out, const char *bytes, size_t size)
{
        if (out->room - out->size < size) {
                out->room = 0; /* nothing fits any more */
                out->size = 0;
                return;
        }
        memcpy(out->at + out->size, bytes, size);
        out->size += size;
}

/* Servers differ about blanks before the colon. */
static int is_set(const struct host_headers *host, const char *line, size_t size)
{
        const char *colon = memchr(line, ':', size);
        size_t name = colon ? (size_t)(colon - line) : 0;

        while (name > 0 && (line[name - 1] == ' ' || line[name - 1] == '\t'))
                name--;
        for (size_t i = 0; i < host->count; i++)
                if (strlen(host->rows[i].name) == name && strncasecmp(host->rows[i].name, line, name) == 0)
                        return 1;
        return 0;
}

size_t headers_write(const struct host_headers *host, const char *head, size_t size, char *ret, size_t room)
{
        struct out out = {.at = ret, .room = room};
        size_t at = 0;

        while (at + 2 < size) { /* the empty line ends it */
                const char *end = memchr(head + at, '\n', size - at);
                const size_t line = end ? (size_t)(end - head) + 1 - at : size - at;

                if (at == 0 || !is_set(host, head + at, line))
                        put(&out, head + at, line);
                at += line;
        }
        for (size_t i = 0; i < host->count; i++) {
                put(&out, host->rows[i].name, strlen(host->rows[i].name));
                put(&out, ": ", 2);
                put(&out, host->rows[i].value, strlen(host->rows[i].value));
                put(&out, "\r\n", 2);
        }
        put(&out, "\r\n", 2);
        return out.size;
}
