/* Network rules of sandboxes, as the API's clients state them. Runs in: cloched-engine, on its
 * loop, with the rights of the daemon's user. */
#include "vault.h"

#include "base/err.h"
#include "daemon/core/loop.h"
#include "wire/json.h"

#include <stdlib.h>
#include <string.h>

static int is_everywhere(const json_t *rules)
{
        for (size_t i = 0; i < json_array_size(rules); i++) {
                const char *rule = json_string_value(json_array_get(rules, i));

                if (rule && (strcmp(rule, "0.0.0.0/0") == 0 || strcmp(rule, "*") == 0))
                        return 1;
        }
        return 0;
}

json_t *e2b_network(const struct daemon *d)
{
        json_t *own = daemon_network(d);

        return own ? own : json_pack("{s:[s]}", "allow", "*");
}

static int is_host_mask(const json_t *mask)
{
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.:[]",
                          port[] = "${PORT}";
        const char *text = json_string_value(mask), *at = text ? strstr(text, port) : NULL;
        size_t size = text ? strlen(text) : 0, first = text ? strspn(text, letters) : 0;

        if (!mask || json_is_null(mask))
                return 1;
        if (!text || size == 0 || size > 255 || size != json_string_length(mask))
                return 0;
        return first == size ||
               (at == text + first && at[sizeof(port) - 1 + strspn(at + sizeof(port) - 1, letters)] == '\0');
}

/* The headers of a host's rules, in their order. NULL: e says why. */
static json_t *headers_of(const struct daemon *d, const json_t *rules, struct cloche_err *e)
{
        json_t *headers = json_object(), *value, *text;
        const char *name;

        for (size_t i = 0; i < json_array_size(rules); i++)
                json_object_foreach (json_object_get(json_object_get(json_array_get(rules, i), "transform"), "headers"),
                                     name, value) {
                        text = json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value)
                                       ? e2b_secrets_fill(d, json_string_value(value), e)
                                       : NULL;
                        if (!text) {
                                if (!e->code)
                                        err_set(e, CLOCHE_E_INVALID_ARGUMENT, "header '%.60s' must be text", name);
                                json_decref(headers);
                                return NULL;
                        }
                        json_object_set_new(headers, name, text);
                }
        return headers;
}

/* Add network.rules. policy: stolen; NULL if the request was refused. */
static json_t *with_rules(struct e2b_request *q, const json_t *network, json_t *policy, int *ret_refused)
{
        json_t *all = json_object(), *rules, *headers;
        struct cloche_err e = {0};
        const char *host;

        json_object_foreach (json_object_get(network, "rules"), host, rules) {
                headers = headers_of(q->door.daemon, rules, &e);
                if (!headers) {
                        json_decref(all);
                        json_decref(policy);
                        e2b_refuse(q, 400, "invalid_argument", "'network.rules': '%.60s': %s", host, e.msg);
                        *ret_refused = 1;
                        return NULL;
                }
                if (json_object_size(headers) > 0)
                        json_object_set(all, host, headers);
                json_decref(headers);
        }
        if (json_object_size(all) > 0)
                json_object_set(policy, "headers", all);
        json_decref(all);
        return policy;
}

/* The policy of the core. There denials win, here permissions do: both lists together can be
 * had only if one of them denies everything. Without denials the daemon's own rules count
 * (--network). NULL, with *ret_refused: the request was refused. */
json_t *e2b_policy_of(struct e2b_request *q, const json_t *network, int has_internet, int *ret_refused)
{
        static const char *const absent[] = {"egressProxy", "httpsPorts"};
        json_t *allow = json_object_get(network, "allowOut"), *deny = json_object_get(network, "denyOut");
        int is_closed = !has_internet || is_everywhere(deny);

        *ret_refused = 0;
        for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++)
                if (json_object_get(network, absent[i]) && !json_is_null(json_object_get(network, absent[i]))) {
                        e2b_refuse(q, 400, "invalid_argument",
                                   "'network.%s' is not supported here (docs/e2b.md): leave it out", absent[i]);
                        *ret_refused = 1;
                        return NULL;
                }
        if (!is_host_mask(json_object_get(network, "maskRequestHost"))) {
                e2b_refuse(q, 400, "invalid_argument",
                           "'network.maskRequestHost' must be a host name, perhaps with a port, which ${PORT} stands "
                           "for");
                *ret_refused = 1;
                return NULL;
        }
        if (!is_closed && json_array_size(allow) > 0 && json_array_size(deny) > 0) {
                e2b_refuse(q, 400, "invalid_argument",
                           "'network.allowOut' beside 'network.denyOut' is supported only if that denies 0.0.0.0/0");
                *ret_refused = 1;
                return NULL;
        }
        return with_rules(q, network,
                          is_closed ? json_pack("{s:O*}", "allow", json_array_size(allow) > 0 ? allow : NULL)
                          : json_array_size(deny) == 0 ? e2b_network(q->door.daemon)
                                                       : json_pack("{s:[s], s:O}", "allow", "*", "deny", deny),
                          ret_refused);
}

/* A value without a placeholder may be a secret itself: labels, which answers and snapshots have,
 * are without it. */
json_t *e2b_network_shown(const json_t *network)
{
        json_t *shown = json_deep_copy(network), *rules, *value, *headers;
        const char *host, *name, *text;

        json_object_foreach (json_object_get(shown, "rules"), host, rules)
                for (size_t i = 0; i < json_array_size(rules); i++) {
                        headers = json_object_get(json_object_get(json_array_get(rules, i), "transform"), "headers");
                        json_object_foreach (headers, name, value) {
                                text = json_string_value(value);
                                if (!text || !strstr(text, "${e2b.secrets."))
                                        json_object_set_new(headers, name, json_null());
                        }
                }
        return shown;
}

/* -- requests ---------------------------------------------------------------------------------------------------- */

static json_t *change_network(struct e2b_request *q, const json_t *described)
{
        json_t *labels = json_deep_copy(json_object_get(described, "labels")), *options = e2b_options(described),
               *params = NULL;
        int has_internet = !json_is_false(json_object_get(q->body, "allow_internet_access")), is_refused;
        json_t *policy = e2b_policy_of(q, q->body, has_internet, &is_refused);
        char *text;

        if (!is_refused) {
                json_object_set_new(options, "internet", json_boolean(has_internet));
                json_object_set_new(options, "network", e2b_network_shown(q->body));
                text = json_dump_text(options, JSON_COMPACT);
                door_put(labels, E2B_LABEL_OPTIONS, text ? json_string(text) : NULL);
                params = json_pack("{s:O, s:o}", "labels", labels, "network", policy);
                free(text);
        }
        json_decref(labels);
        json_decref(options);
        return params;
}

static void on_changed(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        e2b_answer_empty(q);
}

static void network_found(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        e2b_labels_change(q, change_network, on_changed);
}

void e2b_on_network(struct e2b_request *q)
{
        e2b_find(q, network_found);
}
