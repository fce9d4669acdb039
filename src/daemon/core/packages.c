/* Where tools in sandboxes install packages from, as the operator's options say. Runs in: the
 * supervisor and cloched-engine, at their start, with the rights of their starter. */
#include "packages.h"

#include "engine/box/network-names.h"
#include "sandbox/core/sandbox.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define URL_BYTES_MAX 2048
#define PRESET_NAME_MAX 40
/* Without blanks, quotes, backslashes and control characters: a URL needs no escape in
 * a variable, nor in YAML. */
#define URL_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/?#[]@!$&()*+,;=%"

/* The preset of a tool's index in network policies, and the variables that the tool
 * reads (spec/packages.def). */
static const struct kind {
        const char *name, *preset, *first,
                *others;     /* others: further indexes, with blanks between; NULL: there is only one */
        const char *trusted; /* hosts that may be without TLS */
        const char *proxies[3];
} kinds[] = {
#define CLOCHE_PACKAGES(kind, preset, program, install, index, more, trusted, proxy, tls_proxy) \
        {kind, preset, index, more, trusted, {proxy, tls_proxy}},
#define CLOCHE_SYSTEM_PACKAGES(...)
#include <cloche/packages.def>
#undef CLOCHE_PACKAGES
#undef CLOCHE_SYSTEM_PACKAGES
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* -- reading ------------------------------------------------------------------------------------------------------ */

static const struct kind *kind_of(const char *index)
{
        size_t size = strcspn(index, "=");

        for (size_t i = 0; i < KINDS; i++)
                if (strlen(kinds[i].name) == size && strncmp(kinds[i].name, index, size) == 0)
                        return &kinds[i];
        return NULL;
}

static const char *url_of(const char *index)
{
        return strchr(index, '=') + 1;
}

static int is_url(const char *text)
{
        json_t *rules = json_array();
        int is_valid = strlen(text) <= URL_BYTES_MAX && text[strspn(text, URL_CHARACTERS)] == '\0' &&
                       network_names_add_url(rules, text) == 0;

        json_decref(rules);
        return is_valid;
}

/* It is each sandbox's own, where nothing answers. */
static int is_loopback(const char *url)
{
        size_t size;
        const char *host = network_names_authority(url, &size);

        return host && (strncmp(host, "127.", 4) == 0 ||
                        (strncasecmp(host, "localhost", 9) == 0 && (size == 9 || host[9] == ':')));
}

#define NO_LOOPBACK                                                                                               \
        "a URL that sandboxes can reach, 127.0.0.1 is their own; for a port of this host name it by --host-port " \
        "NAME=PORT, write http://NAME.host.internal:PORT, and permit the rule host:NAME"

const char *packages_check_index(const struct daemon_options *o, const char *value)
{
        const struct kind *kind = kind_of(value);

        if (!kind || !value[strcspn(value, "=")] || !is_url(url_of(value)))
                return "pip=URL, npm=URL or gem=URL, where URL begins with https:// or http://";
        if (is_loopback(url_of(value)))
                return NO_LOOPBACK;
        for (unsigned i = 0; !kind->others && i < o->package_indexes.count; i++)
                if (kind_of(o->package_indexes.names[i]) == kind)
                        return "one URL for npm, which has a single registry";
        return NULL;
}

const char *packages_check_proxy(const char *value)
{
        if (!is_url(value))
                return "a URL that begins with http:// or https://";
        return is_loopback(value) ? NO_LOOPBACK : NULL;
}

/* -- the environment ---------------------------------------------------------------------------------------------- */

/* Append a word to the text of that name. */
static int add_word(json_t *env, const char *name, const char *word, size_t size)
{
        const char *old = json_string_value(json_object_get(env, name));

        return json_object_set_new(env, name,
                                   json_sprintf("%s%s%.*s", old ? old : "", old ? " " : "", (int)size, word));
}

static int add_index(json_t *env, const struct kind *kind, const char *url)
{
        int is_first = !json_object_get(env, kind->first);
        const char *host;
        size_t size;
        int r = add_word(env, is_first ? kind->first : kind->others, url, strlen(url));

        if (r == 0 && kind->trusted && strncasecmp(url, "http:", 5) == 0) {
                host = network_names_authority(url, &size);
                r = add_word(env, kind->trusted, host, size);
        }
        return r;
}

json_t *packages_env(const struct daemon_options *o)
{
        json_t *env = json_object();
        int r = env ? 0 : -1, has_gemrc = 0;

        for (unsigned i = 0; r == 0 && i < o->package_indexes.count; i++) {
                const struct kind *kind = kind_of(o->package_indexes.names[i]);

                if (kind->first)
                        r = add_index(env, kind, url_of(o->package_indexes.names[i]));
                has_gemrc |= !kind->first;
        }
        for (size_t i = 0; o->package_proxy && i < KINDS; i++)
                for (const char *const *name = kinds[i].proxies; r == 0 && *name; name++)
                        r = json_object_set_new(env, *name, json_string(o->package_proxy));
        if (r == 0 && (has_gemrc || o->package_proxy))
                r = json_object_set_new(env, "GEMRC", json_string(SANDBOX_GEMRC));
        if (r == 0)
                return env;
        json_decref(env);
        return NULL;
}

json_t *packages_env_of_runs(const json_t *env)
{
        json_t *copy = json_copy((json_t *)env);

        json_object_del(copy, "GEMRC");
        return copy;
}

int packages_gemrc(const struct daemon_options *o, char **ret)
{
        const char *const *names = o->package_indexes.names;
        int is_needed = o->package_proxy != NULL, has_sources = 0;
        size_t size;
        FILE *file = open_memstream(ret, &size);

        if (!file)
                return -ENOMEM;
        for (unsigned i = 0; i < o->package_indexes.count; i++)
                if (!kind_of(names[i])->first) {
                        fprintf(file, "%s- \"%s\"\n", has_sources ? "" : ":sources:\n", url_of(names[i]));
                        is_needed = has_sources = 1;
                }
        if (o->package_proxy) /* versions of gem look it up by either key */
                fprintf(file, "http_proxy: \"%s\"\n:http_proxy: \"%s\"\n", o->package_proxy, o->package_proxy);
        if (fclose(file) != 0) {
                free(*ret);
                *ret = NULL;
                return -ENOMEM;
        }
        if (!is_needed) {
                free(*ret);
                *ret = NULL;
        }
        return 0;
}

/* -- names of networks ------------------------------------------------------------------------------------------- */

const char *packages_check_preset(const char *value)
{
        size_t size = strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789-");

        return size == 0 || size > PRESET_NAME_MAX || value[size] != '=' || !value[size + 1]
                       ? "NAME=HOST or NAME=HOST:PORT, with further rules after commas, and a name of a to z, 0 to 9 "
                         "and -"
                       : NULL;
}

static json_t *services_of(const struct daemon_options *o)
{
        json_t *services = json_object();

        for (unsigned i = 0; i < o->host_ports.count; i++)
                (void)network_names_add_service(services, o->host_ports.names[i]); /* each was checked */
        return services;
}

const char *packages_check_port(const struct daemon_options *o, const char *value)
{
        json_t *services = services_of(o), *alone = json_object();
        const char *expected = network_names_add_service(alone, value) < 0      ? NETWORK_SERVICE_EXPECTED
                               : network_names_add_service(services, value) < 0 ? "given once for each name"
                                                                                : NULL;

        json_decref(services);
        json_decref(alone);
        return expected;
}

/* The array of that name, made if it is missing; NULL: no memory. */
static json_t *rules_of(json_t *presets, const char *name, size_t size)
{
        if (!json_object_getn(presets, name, size))
                json_object_setn_new(presets, name, size, json_array());
        return json_object_getn(presets, name, size);
}

/* The rules themselves are checked with the policies that name the preset. */
static int add_preset(json_t *presets, const char *option)
{
        const char *at = strchr(option, '=') + 1;
        json_t *rules = rules_of(presets, option, (size_t)(at - 1 - option));
        int r = rules ? 0 : -1;

        while (r == 0 && *at) {
                size_t size = strcspn(at, ",");

                r = json_array_append_new(rules, json_stringn(at, size));
                at += size + (at[size] == ',');
        }
        return r;
}

json_t *packages_network_names(const struct daemon_options *o)
{
        json_t *presets = json_object(), *proxy = json_array();
        int r = presets && proxy ? 0 : -1;

        for (unsigned i = 0; r == 0 && i < o->package_indexes.count; i++) {
                const char *preset = kind_of(o->package_indexes.names[i])->preset;

                r = network_names_add_url(rules_of(presets, preset, strlen(preset)),
                                          url_of(o->package_indexes.names[i]));
        }
        for (unsigned i = 0; r == 0 && i < o->network_presets.count; i++)
                r = add_preset(presets, o->network_presets.names[i]);
        if (r == 0 && o->package_proxy)
                r = network_names_add_url(proxy, o->package_proxy);
        if (r == 0)
                return json_pack("{s:o, s:o, s:o}", "presets", presets, "proxy", proxy, "services", services_of(o));
        json_decref(presets);
        json_decref(proxy);
        return NULL;
}
