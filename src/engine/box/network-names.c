/* Names in network policies. Runs in: the engine, on its loop. It reads files of /etc that
 * everybody may read, with the rights that are left to it. */
#include "network-names.h"

#include "base/err.h"
#include "base/fd.h"
#include "helpers/egress/read/address.h"
#include "helpers/egress/read/policy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX (64u << 10)
#define FILES_MAX 64 /* of a directory */
#define RULE_BYTES 300
#define WORDS_END " \t\r\n\"'<>,"

/* No host of an ecosystem is named here. files: configuration of the tools on the host, read
 * when the operator's options say nothing; a directory stands for the files in it. */
static const struct preset {
        const char *name, *option; /* the option that names its hosts, beside --network-preset; or NULL */
        const char *const files[3];
        int is_proxied;
} presets[] = {
        {"python", "--package-index pip=URL", {"/etc/pip.conf", "/etc/xdg/pip/pip.conf"}, 1},
        {"node", "--package-index npm=URL", {"/etc/npmrc"}, 1},
        {"ruby", "--package-index gem=URL", {"/etc/gemrc"}, 1},
        {"debian", NULL, {"/etc/apt/sources.list", "/etc/apt/sources.list.d"}, 0},
        {"git", NULL, {NULL}, 0},
};
#define PRESETS (sizeof(presets) / sizeof(presets[0]))

/* -- URLs
 * -----------------------------------------------------------------------------------------------------------
 * */

static size_t scheme_size(const char *url)
{
        return strncasecmp(url, "https://", 8) == 0 ? 8 : strncasecmp(url, "http://", 7) == 0 ? 7 : 0;
}

const char *network_names_authority(const char *url, size_t *ret_size)
{
        const char *at = url + scheme_size(url), *user;
        size_t size = at == url ? 0 : strcspn(at, "/?#" WORDS_END);

        user = memrchr(at, '@', size);
        if (user) {
                size -= (size_t)(user + 1 - at);
                at = user + 1;
        }
        *ret_size = size;
        return size > 0 ? at : NULL;
}

static int is_host(const char *text, size_t size)
{
        char name[HOST_NAME_MAX_BYTES + 1];
        uint32_t address;

        return address_parse(text, size, &address) == 0 || host_name(text, size, name) == 0;
}

static int holds(const json_t *rules, const char *rule)
{
        const json_t *item;
        size_t i;

        json_array_foreach (rules, i, item)
                if (json_is_string(item) && strcmp(json_string_value(item), rule) == 0)
                        return 1;
        return 0;
}

int network_names_add_url(json_t *rules, const char *url)
{
        size_t size, host, digits;
        const char *at = network_names_authority(url, &size);
        const char *port = scheme_size(url) == 8 ? "443" : "80";
        char rule[RULE_BYTES];

        if (!at || size > HOST_NAME_MAX_BYTES + sizeof(":65535") - 1)
                return -1;
        host = strcspn(at, ":/?#" WORDS_END);
        digits = host < size ? size - host - 1 : 0;
        if (!is_host(at, host) ||
            (host < size && (digits == 0 || digits > 5 || strspn(at + host + 1, "0123456789") < digits)))
                return -1;
        if (digits)
                snprintf(rule, sizeof(rule), "%.*s", (int)size, at);
        else
                snprintf(rule, sizeof(rule), "%.*s:%s", (int)host, at, port);
        return holds(rules, rule) ? 0 : json_array_append_new(rules, json_string(rule));
}

/* -- files of the host
 * ----------------------------------------------------------------------------------------------
 * */

/* Each URL in a line that is no comment: of an index, another source, a proxy. */
static void scan_lines(json_t *rules, char *text)
{
        char *rest = text, *line;

        while ((line = strsep(&rest, "\n"))) {
                line += strspn(line, " \t");
                if (*line == '#' || *line == ';')
                        continue;
                for (char *at = line; (at = strcasestr(at, "http")); at += 4)
                        (void)network_names_add_url(rules, at);
        }
}

static void scan_file(json_t *rules, int dir_fd, const char *path)
{
        _cleanup_fd_ int fd = openat(dir_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        char text[FILE_BYTES_MAX + 1];
        struct stat st;
        ssize_t n = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? pread(fd, text, FILE_BYTES_MAX, 0) : 0;

        if (n <= 0)
                return;
        text[n] = '\0';
        scan_lines(rules, text);
}

static int is_source(const char *name)
{
        const char *dot = strrchr(name, '.');

        return dot && (strcmp(dot, ".list") == 0 || strcmp(dot, ".sources") == 0);
}

/* 0: it is no directory. */
static int scan_directory(json_t *rules, const char *path)
{
        DIR *dir = opendir(path);
        const struct dirent *entry;

        if (!dir)
                return 0;
        for (int i = 0; i < FILES_MAX && (entry = readdir(dir));)
                if (is_source(entry->d_name)) {
                        scan_file(rules, dirfd(dir), entry->d_name);
                        i++;
                }
        closedir(dir);
        return 1;
}

/* Read once: what is in force then does not depend on when a policy was made. */
static json_t *find_on_host(json_t *names, const struct preset *preset)
{
        json_t *found = json_object_get(names, "found"), *rules = json_object_get(found, preset->name);

        if (rules)
                return rules;
        if (!found) {
                json_object_set_new(names, "found", json_object());
                found = json_object_get(names, "found");
        }
        rules = json_array();
        for (const char *const *path = preset->files; *path; path++)
                if (!scan_directory(rules, *path))
                        scan_file(rules, AT_FDCWD, *path);
        json_object_set_new(found, preset->name, rules);
        return json_object_get(found, preset->name);
}

/* -- presets
 * ----------------------------------------------------------------------------------------------------------
 * */

static const struct preset *find_preset(const char *name)
{
        for (size_t i = 0; i < PRESETS; i++)
                if (strcmp(presets[i].name, name) == 0)
                        return &presets[i];
        return NULL;
}

/* Return its rules, borrowed; NULL: there is no preset of that name. */
static json_t *rules_of(json_t *names, const char *name)
{
        json_t *rules = json_object_get(json_object_get(names, "presets"), name);
        const struct preset *preset = find_preset(name);

        return rules || !preset ? rules : find_on_host(names, preset);
}

static int is_about(const char *rule, const char *host, unsigned port)
{
        size_t size = strlen(host);
        char text[8];

        snprintf(text, sizeof(text), "%u", port);
        return strncasecmp(rule, host, size) == 0 &&
               (rule[size] == '\0' || (rule[size] == ':' && (port == 0 || strcmp(rule + size + 1, text) == 0)));
}

static int has_rule_about(const json_t *rules, const char *host, unsigned port)
{
        const json_t *rule;
        size_t i;

        json_array_foreach (rules, i, rule)
                if (is_about(json_string_value(rule), host, port))
                        return 1;
        return 0;
}

const char *network_names_preset(json_t *names, const char *host, unsigned port)
{
        const char *name;
        json_t *rules;

        for (size_t i = 0; i < PRESETS; i++)
                if (has_rule_about(rules_of(names, presets[i].name), host, port))
                        return presets[i].name;
        json_object_foreach (json_object_get(names, "presets"), name, rules)
                if (has_rule_about(rules, host, port))
                        return name;
        return NULL;
}

/* -- ports of the host
 * ------------------------------------------------------------------------------------------------
 * */

static int expand_service(const json_t *names, json_t *list, size_t at, const char *name, struct cloche_err *e)
{
        const json_t *port = json_object_get(json_object_get(names, "services"), name);

        if (!port)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "no port of the host is open under this name: expected a name of the option "
                               "--host-port NAME=PORT");
        return json_array_set_new(list, at,
                                  json_sprintf(POLICY_SERVICE "%s:%lld", name, (long long)json_integer_value(port))) < 0
                       ? err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "keep the rules")
                       : 0;
}

int network_names_add_service(json_t *services, const char *text)
{
        size_t size = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");
        const char *port = text + size + 1;

        if (size == 0 || size > NETWORK_SERVICE_MAX || text[size] != '=' || text[0] < 'a' || text[0] > 'z' ||
            text[size - 1] == '-' || !*port || strlen(port) > 5 || port[strspn(port, "0123456789")] || atoi(port) < 1 ||
            atoi(port) > 65535 || json_object_getn(services, text, size))
                return -1;
        return json_object_setn_new(services, text, size, json_integer(atoi(port)));
}

const char *network_names_service(const json_t *names, const char *host, unsigned port,
                                  char ret[NETWORK_SERVICE_MAX + 1])
{
        size_t size = strcspn(host, ".");
        const json_t *known;

        if (size > NETWORK_SERVICE_MAX || strcasecmp(host + size, "." POLICY_SERVICES) != 0)
                return NULL;
        memcpy(ret, host, size);
        ret[size] = '\0';
        known = json_object_get(json_object_get(names, "services"), ret);
        return known && (port == 0 || json_integer_value(known) == port) ? ret : NULL;
}

/* -- policies
 * ---------------------------------------------------------------------------------------------------------
 * */

/* The first rule takes the place of the name and the others come last, so that errors of the other
 * rules name their places. */
static int put_rules(json_t *list, size_t at, const json_t *rules)
{
        int r = json_array_set(list, at, json_array_get(rules, 0));

        for (size_t i = 1; r == 0 && i < json_array_size(rules); i++)
                r = json_array_append(list, json_array_get(rules, i));
        return r;
}

/* proxy: NULL in a list that denies, since the proxy leads to the hosts of other presets too. */
static int expand_preset(const json_t *proxy, json_t *list, size_t at, const char *name, const json_t *rules,
                         struct cloche_err *e)
{
        const struct preset *preset = find_preset(name);

        if (json_array_size(rules) == 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "no hosts are known for this preset: expected the daemon's option %s%s"
                               "--network-preset %s=HOST, or HOST:PORT instead of the preset",
                               preset->option ? preset->option : "", preset->option ? " or " : "", name);
        if (put_rules(list, at, rules) < 0 ||
            (preset && preset->is_proxied && proxy && json_array_extend(list, (json_t *)(uintptr_t)proxy) < 0))
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "keep the rules");
        return 0;
}

/* NULL: no text, or one with NUL, which policy_load refuses. */
static const char *text_of(const json_t *item)
{
        const char *text = json_string_value(item);

        return text && strlen(text) == json_string_length(item) ? text : NULL;
}

static int expand_list(json_t *names, const json_t *policy, const char *key, json_t *ret, struct cloche_err *e)
{
        const json_t *given = json_object_get(policy, key);
        const json_t *proxy = strcmp(key, "allow") == 0 ? json_object_get(names, "proxy") : NULL;
        json_t *list;

        if (!json_is_array(given))
                return 0; /* policy_load refuses it, or it is absent */
        list = json_copy((json_t *)(uintptr_t)given);
        if (json_object_set_new(ret, key, list) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "keep the rules");
        for (size_t i = 0; i < json_array_size(given); i++) {
                const char *name = text_of(json_array_get(given, i));
                const json_t *rules = name ? rules_of(names, name) : NULL;

                if (rules && expand_preset(proxy, list, i, name, rules, e) < 0)
                        return err_wrap(e, "network.%s[%zu]: '%s'", key, i, name);
        }
        for (size_t i = 0; i < json_array_size(list); i++) { /* those of presets too */
                const char *rule = text_of(json_array_get(list, i));
                const char *service = rule ? policy_service_of(rule) : NULL;

                if (service && expand_service(names, list, i, service, e) < 0)
                        return err_wrap(e, "network.%s[%zu]: '%.300s'", key, i, rule);
        }
        return 0;
}

int network_names_expand(json_t *names, const json_t *policy, json_t **ret, struct cloche_err *e)
{
        json_t *expanded = json_copy((json_t *)(uintptr_t)policy);
        int r = expanded ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "keep the rules");

        if (r == 0)
                r = expand_list(names, policy, "allow", expanded, e);
        if (r == 0)
                r = expand_list(names, policy, "deny", expanded, e);
        if (r < 0)
                json_decref(expanded);
        else
                *ret = expanded;
        return r;
}
