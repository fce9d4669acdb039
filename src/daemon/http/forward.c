/* Runs in: cloched, on its loop. */
#include "forward.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PORT_DIGITS_MAX 5

/* -- names ---------------------------------------------------------------------------------------------------- */

size_t forward_host_size(const char *host)
{
        if (!host)
                return 0;
        return host[0] == '[' ? strcspn(host, "]") + (strchr(host, ']') != NULL) : strcspn(host, ":");
}

const char *preview_label(const char *host, const char *base, size_t *ret_size)
{
        size_t size = forward_host_size(host), base_size = forward_host_size(base);

        if (base_size == 0 || size < base_size + 1 || strncasecmp(host + size - base_size, base, base_size) != 0 ||
            host[size - base_size - 1] != '.')
                return NULL;
        *ret_size = size - base_size - 1;
        return host;
}

static int copy_lower(const char *from, size_t size, char *to, size_t room)
{
        if (size == 0 || size >= room)
                return -1;
        for (size_t i = 0; i < size; i++) {
                if (!isalnum((unsigned char)from[i]) && from[i] != '-' && from[i] != '_')
                        return -1;
                to[i] = (char)tolower((unsigned char)from[i]);
        }
        to[size] = '\0';
        return 0;
}

int preview_name_parse(const char *label, size_t size, struct preview_name *ret)
{
        const char *first = memchr(label, '-', size), *last = memrchr(label, '-', size);
        size_t digits = first ? (size_t)(first - label) : 0;
        unsigned long port;

        if (digits == 0 || digits > PORT_DIGITS_MAX || first == last || strspn(label, "0123456789") != digits ||
            label[0] == '0')
                return -1;
        port = strtoul(label, NULL, 10);
        ret->port = (unsigned)port;
        if (port > 65535 || copy_lower(first + 1, (size_t)(last - first - 1), ret->sandbox, sizeof(ret->sandbox)) < 0)
                return -1;
        return copy_lower(last + 1, size - (size_t)(last + 1 - label), ret->token, sizeof(ret->token));
}

/* -- headers -------------------------------------------------------------------------------------------------- */

/* The next item of a list, without surrounding spaces; 0: none. */
static size_t next_item(const char **list, const char *end_marks, const char **ret)
{
        size_t size;

        while (**list && (strchr(" \t", **list) || strchr(end_marks, **list)))
                ++*list;
        *ret = *list;
        size = strcspn(*list, end_marks);
        *list += size;
        while (size > 0 && strchr(" \t", (*ret)[size - 1]))
                size--;
        return size;
}

int forward_has_item(const char *list, const char *item)
{
        const char *at;
        size_t size;

        while (list && (size = next_item(&list, ",", &at)) > 0)
                if (size == strlen(item) && strncasecmp(at, item, size) == 0)
                        return 1;
        return 0;
}

int forward_is_hop(const char *name, const char *connection)
{
        static const char *const hops[] = {"Connection",
                                           "Keep-Alive",
                                           "Proxy-Authenticate",
                                           "Proxy-Authorization",
                                           "Proxy-Connection",
                                           "TE",
                                           "Trailer",
                                           "Transfer-Encoding",
                                           "Upgrade"};

        for (size_t i = 0; i < sizeof(hops) / sizeof(hops[0]); i++)
                if (strcasecmp(name, hops[i]) == 0)
                        return 1;
        return forward_has_item(connection, name);
}

int forward_is_clean(const char *value)
{
        for (; *value; value++)
                if (((unsigned char)*value < ' ' && *value != '\t') || *value == 0x7f)
                        return 0;
        return 1;
}

int forward_is_own_cookie(const char *set_cookie, const char *host, size_t host_size)
{
        const char *at = strchr(set_cookie, ';'), *attribute;
        size_t size;

        while (at && (size = next_item(&at, ";", &attribute)) > 0) {
                const char *equals = memchr(attribute, '=', size), *value;
                size_t name_size = equals ? (size_t)(equals - attribute) : size;

                while (name_size > 0 && strchr(" \t", attribute[name_size - 1]))
                        name_size--;
                if (!equals || name_size != 6 || strncasecmp(attribute, "domain", 6) != 0)
                        continue;
                value = equals + 1 + strspn(equals + 1, " \t");
                value += *value == '.';
                size -= (size_t)(value - attribute) < size ? (size_t)(value - attribute) : size;
                if (size != host_size || strncasecmp(value, host, size) != 0)
                        return 0;
        }
        return 1;
}
