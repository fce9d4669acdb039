/* Parse and evaluate the rules for connections. Runs in: cloche-egress and the engine; pure. */
#include "policy.h"

#include "address.h"
#include "headers.h"

#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RULE_BYTES_MAX 300
#define PORT_MAX 65535u

enum host_kind { HOST_NAMED, HOST_BELOW, HOST_ANY, HOST_ADDRESS, HOST_SERVICE };

struct rule {
        enum host_kind kind;
        char *text;                         /* as given */
        char name[HOST_NAME_MAX_BYTES + 1]; /* HOST_NAMED, HOST_BELOW, HOST_SERVICE */
        uint32_t network;                   /* HOST_ADDRESS */
        unsigned bits;
        unsigned first, last; /* ports */
};

struct rules {
        struct rule *rows;
        size_t count;
};

struct policy {
        struct rules allow, deny;
        struct headers *headers; /* NULL: none */
        int dns;
};

/* -- reading rules ---------------------------------------------------------------------------------------------- */

static int is_label_byte(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* The URL standard's test for a host that ends in a number. */
static int is_number(const char *label)
{
        size_t size = strlen(label);

        if (strspn(label, "0123456789") == size)
                return 1;
        return strncmp(label, "0x", 2) == 0 && strspn(label + 2, "0123456789abcdef") == size - 2;
}

int host_name(const char *text, size_t size, char ret[HOST_NAME_MAX_BYTES + 1])
{
        size_t label = 0, last = 0;

        if (size > 0 && text[size - 1] == '.')
                size--;
        if (size == 0 || size > HOST_NAME_MAX_BYTES)
                return -1;
        for (size_t i = 0; i < size; i++) {
                char c = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] + 32) : text[i];

                if (c == '.' ? label == 0 : !is_label_byte(c) || ++label > 63)
                        return -1;
                if (c == '.') {
                        label = 0;
                        last = i + 1;
                }
                ret[i] = c;
        }
        ret[size] = '\0';
        return label == 0 || is_number(ret + last) ? -1 : 0;
}

static int read_number(const char **at, const char *end, unsigned max, unsigned *ret)
{
        const char *from = *at;
        unsigned value = 0;

        for (; *at < end && **at >= '0' && **at <= '9' && *at - from < 6; (*at)++)
                value = value * 10 + (unsigned)(**at - '0');
        *ret = value;
        return *at == from || value > max ? -1 : 0;
}

static int read_ports(const char *text, struct rule *rule, struct cloche_err *e)
{
        const char *end = text + strlen(text);

        if (read_number(&text, end, PORT_MAX, &rule->first) < 0 || rule->first == 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "expected a port from 1 to 65535 behind the colon");
        rule->last = rule->first;
        if (*text == '-') {
                text++;
                if (read_number(&text, end, PORT_MAX, &rule->last) < 0 || rule->last < rule->first)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "expected a port from %u to 65535 behind the hyphen", rule->first);
        }
        return text == end ? 0 : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "expected HOST, HOST:PORT or HOST:FIRST-LAST");
}

static int read_address(const char *text, size_t size, struct rule *rule, struct cloche_err *e)
{
        const char *slash = memchr(text, '/', size), *end = text + size, *at = slash ? slash + 1 : end;

        rule->kind = HOST_ADDRESS;
        rule->bits = 32;
        if (address_parse(text, (size_t)((slash ? slash : end) - text), &rule->network) < 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "an IPv4 address is four decimal numbers from 0 to 255 without leading zeros");
        if (slash && (read_number(&at, end, 32, &rule->bits) < 0 || at != end))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "expected a number from 0 to 32 behind the slash");
        if (rule->network & ~address_mask(rule->bits))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the address has bits beyond the first %u", rule->bits);
        return 0;
}

static int read_host(const char *text, size_t size, struct rule *rule, struct cloche_err *e)
{
        int is_below = size > 2 && memcmp(text, "*.", 2) == 0;
        uint32_t ignored;

        if (size == 1 && text[0] == '*') {
                rule->kind = HOST_ANY;
                return 0;
        }
        if (memchr(text, '/', size) || address_parse(text, size, &ignored) == 0)
                return read_address(text, size, rule, e);
        /* Names with a hyphen in front exist below domains; alone it is a mistyped option. */
        if (text[0] == '-' && !memchr(text, '.', size))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a host's name does not begin with a hyphen");
        rule->kind = is_below ? HOST_BELOW : HOST_NAMED;
        if (host_name(text + 2 * is_below, size - 2 * (size_t)is_below, rule->name) < 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "expected a host's name (letters, digits, hyphens; others in their xn-- form), *.name, "
                               "*, an IPv4 address or CIDR");
        return 0;
}

/* A rule is about connections, which have no scheme and no path. */
static int refuse_url(const char *text, struct cloche_err *e)
{
        const char *host = strstr(text, "://") + 3;
        int size = (int)strcspn(host, "/?#");
        const char *port = memchr(host, ':', (size_t)size)   ? ""
                           : strncmp(text, "https:", 6) == 0 ? ":443"
                           : strncmp(text, "http:", 5) == 0  ? ":80"
                                                             : "";

        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a rule has no scheme and no path; expected '%.*s%s'", size, host,
                       port);
}

const char *policy_service_of(const char *rule)
{
        size_t size = sizeof(POLICY_SERVICE) - 1;

        return strncmp(rule, POLICY_SERVICE, size) == 0 && !(rule[size] >= '0' && rule[size] <= '9') ? rule + size
                                                                                                     : NULL;
}

/* service: NAME:PORT. */
static int read_service(const char *service, struct rule *rule, struct cloche_err *e)
{
        const char *colon = strchr(service, ':');
        char whole[RULE_BYTES_MAX + sizeof("." POLICY_SERVICES)];
        int size = snprintf(whole, sizeof(whole), "%.*s." POLICY_SERVICES, (int)(colon - service), service);

        rule->kind = HOST_SERVICE;
        return host_name(whole, (size_t)size, rule->name) < 0
                       ? err_set(e, CLOCHE_E_INVALID_ARGUMENT, "expected host:NAME:PORT, with a label as name")
                       : read_ports(colon + 1, rule, e);
}

static int keep_text(const char *text, struct rule *rule, struct cloche_err *e)
{
        rule->text = strdup(text);
        return rule->text ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "keep the rule");
}

static int read_rule(const char *text, size_t size, struct rule *rule, struct cloche_err *e)
{
        const char *colon, *service;
        int r;

        if (size > RULE_BYTES_MAX || strlen(text) != size)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a rule has at most %d bytes, and no NUL", RULE_BYTES_MAX);
        if (strstr(text, "://"))
                return refuse_url(text, e);
        service = policy_service_of(text);
        if (service && strchr(service, ':')) {
                r = read_service(service, rule, e);
                return r == 0 ? keep_text(text, rule, e) : r;
        }
        colon = strchr(text, ':');
        if (colon && (strchr(colon + 1, ':') || text[0] == '['))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "there are no rules for IPv6 addresses; expected HOST, HOST:PORT or HOST:FIRST-LAST");
        rule->first = 1;
        rule->last = PORT_MAX;
        r = read_host(text, colon ? (size_t)(colon - text) : size, rule, e);
        if (r == 0 && colon)
                r = read_ports(colon + 1, rule, e);
        return r == 0 ? keep_text(text, rule, e) : r;
}

static int read_rules(const json_t *json, const char *list, struct rules *ret, struct cloche_err *e)
{
        size_t count = json_array_size(json);

        if (!json)
                return 0;
        if (!json_is_array(json) || count > POLICY_RULES_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "network.%s: expected an array of at most %d rules", list,
                               POLICY_RULES_MAX);
        ret->rows = calloc(count + 1, sizeof(*ret->rows));
        if (!ret->rows)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "keep the rules");
        for (; ret->count < count; ret->count++) {
                const json_t *item = json_array_get(json, ret->count);

                if (!json_is_string(item))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "network.%s[%zu]: expected a string", list,
                                       ret->count);
                if (read_rule(json_string_value(item), json_string_length(item), &ret->rows[ret->count], e) < 0)
                        return err_wrap(e, "network.%s[%zu]: '%.60s'", list, ret->count, json_string_value(item));
        }
        return 0;
}

static int check_members(const json_t *json, struct cloche_err *e)
{
        static const char *const known[] = {"allow", "deny", "dns", "headers"};
        const size_t count = sizeof(known) / sizeof(known[0]);
        const json_t *dns = json_object_get(json, "dns");
        const char *name;
        json_t *value;

        if (!json_is_object(json))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "network: expected an object {allow, deny, dns, headers}");
        json_object_foreach ((json_t *)(uintptr_t)json, name, value) {
                size_t i = 0;

                while (i < count && strcmp(known[i], name) != 0)
                        i++;
                if (i == count)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "network: there is no '%.60s'; expected allow, deny, dns or headers", name);
        }
        return dns && !json_is_boolean(dns)
                       ? err_set(e, CLOCHE_E_INVALID_ARGUMENT, "network.dns: expected true or false")
                       : 0;
}

int policy_load(const json_t *json, struct policy **ret, struct cloche_err *e)
{
        int r = check_members(json, e);
        struct policy *policy = r == 0 ? calloc(1, sizeof(*policy)) : NULL;

        if (r < 0)
                return r;
        if (!policy)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "keep the rules");
        policy->dns = !json_is_false(json_object_get(json, "dns"));
        r = read_rules(json_object_get(json, "allow"), "allow", &policy->allow, e);
        if (r == 0)
                r = read_rules(json_object_get(json, "deny"), "deny", &policy->deny, e);
        if (r == 0)
                r = headers_load(json_object_get(json, "headers"), &policy->headers, e);
        if (r < 0)
                policy_free(policy);
        else
                *ret = policy;
        return r;
}

static void free_rules(struct rules *rules)
{
        for (size_t i = 0; i < rules->count; i++)
                free(rules->rows[i].text);
        free(rules->rows);
}

void policy_free(struct policy *policy)
{
        if (!policy)
                return;
        free_rules(&policy->allow);
        free_rules(&policy->deny);
        headers_free(policy->headers);
        free(policy);
}

/* -- evaluating -------------------------------------------------------------------------------------------------- */

static int is_below(const char *name, const char *parent)
{
        size_t size = strlen(name), parent_size = strlen(parent);

        return size > parent_size + 1 && name[size - parent_size - 1] == '.' &&
               strcmp(name + size - parent_size, parent) == 0;
}

static int is_about_name(const struct rule *rule, const char *name)
{
        return rule->kind == HOST_ANY ||
               ((rule->kind == HOST_NAMED || rule->kind == HOST_SERVICE) && strcmp(rule->name, name) == 0) ||
               (rule->kind == HOST_BELOW && is_below(name, rule->name));
}

static int is_about_address(const struct rule *rule, uint32_t address)
{
        return rule->kind == HOST_ADDRESS && (address & address_mask(rule->bits)) == rule->network;
}

static int is_on_port(const struct rule *rule, unsigned port)
{
        return port >= rule->first && port <= rule->last;
}

static struct policy_verdict deny_by(const struct rule *rule)
{
        return (struct policy_verdict){.rule = rule->text, .why = "a rule denies it"};
}

static struct policy_verdict deny_without(const char *why)
{
        return (struct policy_verdict){.is_curable = 1, .why = why};
}

static struct policy_verdict allow(const struct rule *rule)
{
        return (struct policy_verdict){.allowed = 1, .rule = rule ? rule->text : NULL, .why = "a rule allows it"};
}

static const struct rule *find_name(const struct rules *rules, const char *name, unsigned port)
{
        for (size_t i = 0; i < rules->count; i++)
                if (is_on_port(&rules->rows[i], port) && is_about_name(&rules->rows[i], name))
                        return &rules->rows[i];
        return NULL;
}

int policy_is_service(const char *name)
{
        return is_below(name, POLICY_SERVICES) || strcmp(name, POLICY_SERVICES) == 0;
}

/* A rule of allow opens a service of this machine only if it is about that service. */
static int allows_name(const struct rule *rule, const char *name)
{
        return is_about_name(rule, name) && (rule->kind == HOST_SERVICE || !policy_is_service(name));
}

static const struct rule *find_allowed(const struct rules *rules, const char *name, unsigned port)
{
        for (size_t i = 0; i < rules->count; i++)
                if (is_on_port(&rules->rows[i], port) && allows_name(&rules->rows[i], name))
                        return &rules->rows[i];
        return NULL;
}

static struct policy_verdict deny_name(const char *name, const char *why)
{
        return deny_without(policy_is_service(name) ? "a service of the host needs a rule host:NAME, and has one port"
                                                    : why);
}

const struct host_headers *policy_headers(const struct policy *policy, const char *name)
{
        return headers_find(policy->headers, name);
}

/* bits: the minimum prefix length. */
static const struct rule *find_address(const struct rules *rules, uint32_t address, unsigned port, unsigned bits)
{
        for (size_t i = 0; i < rules->count; i++)
                if (is_on_port(&rules->rows[i], port) && is_about_address(&rules->rows[i], address) &&
                    rules->rows[i].bits >= bits)
                        return &rules->rows[i];
        return NULL;
}

/* In deny, * covers addresses too. In allow it covers names only; their addresses are checked
 * separately. */
static const struct rule *find_address_denied(const struct rules *rules, uint32_t address, unsigned port)
{
        for (size_t i = 0; i < rules->count; i++)
                if (is_on_port(&rules->rows[i], port) &&
                    (rules->rows[i].kind == HOST_ANY || is_about_address(&rules->rows[i], address)))
                        return &rules->rows[i];
        return NULL;
}

static const struct rule *find_covering(const struct rules *rules, const char *name, const struct rule *other)
{
        for (size_t i = 0; i < rules->count; i++)
                if (rules->rows[i].first <= other->first && rules->rows[i].last >= other->last &&
                    is_about_name(&rules->rows[i], name))
                        return &rules->rows[i];
        return NULL;
}

struct policy_verdict policy_resolves(const struct policy *policy, const char *name)
{
        static const struct rule every_port = {.first = 1, .last = PORT_MAX};
        const struct rule *denied = find_covering(&policy->deny, name, &every_port);

        if (!policy->dns)
                return (struct policy_verdict){.why = "names are not answered"};
        if (denied) /* no rule in allow prevails over it */
                return deny_by(denied);
        for (size_t i = 0; i < policy->allow.count; i++) {
                const struct rule *rule = &policy->allow.rows[i];

                if (!allows_name(rule, name))
                        continue;
                if (!find_covering(&policy->deny, name, rule))
                        return allow(rule);
        }
        return deny_name(name, "no rule allows this name");
}

struct policy_verdict policy_name(const struct policy *policy, const char *name, unsigned port)
{
        const struct rule *rule = find_name(&policy->deny, name, port);

        if (rule)
                return deny_by(rule);
        rule = find_allowed(&policy->allow, name, port);
        return rule ? allow(rule) : deny_name(name, "no rule allows this name on this port");
}

/* A rule opens a closed range only if it lies within it: 0.0.0.0/0 opens none. The machine's own
 * addresses outside 127.0.0.0/8 are opened one by one: they carry its services, while the rest of
 * the range is other hosts. */
static unsigned bits_needed(uint32_t address, int own)
{
        const struct address_range *range = address_closed(address);

        return own && address >> 24 != 127 ? 32 : range ? range->bits : 0;
}

struct policy_verdict policy_address(const struct policy *policy, uint32_t address, unsigned port, int own)
{
        const struct rule *rule = find_address_denied(&policy->deny, address, port);

        if (rule)
                return deny_by(rule);
        rule = find_address(&policy->allow, address, port, bits_needed(address, own));
        return rule ? allow(rule) : deny_without("no rule allows this address on this port");
}

struct policy_verdict policy_leads(const struct policy *policy, uint32_t address, unsigned port, int own)
{
        struct policy_verdict verdict = policy_address(policy, address, port, own);

        if (verdict.allowed || verdict.rule)
                return verdict;
        if (bits_needed(address, own) == 0)
                return allow(NULL);
        return deny_without(own ? "the name leads to this machine's own address"
                                : "the name leads into a closed range");
}
