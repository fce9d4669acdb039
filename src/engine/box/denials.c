/* Merge denials. Runs in: the engine, on its loop, on decisions of cloche-egress; pure. */
#include "denials.h"
#include "network-names.h"

#include "helpers/egress/read/address.h"
#include "helpers/egress/read/policy.h"

#include <stdio.h>
#include <string.h>

static const char *const compared[] = {"kind", "host", "address", "port", "why", "rule"};

static int is_same(const json_t *row, const json_t *decision)
{
        for (size_t i = 0; i < sizeof(compared) / sizeof(compared[0]); i++) {
                const json_t *a = json_object_get(row, compared[i]), *b = json_object_get(decision, compared[i]);

                if (a != b && !json_equal(a, b))
                        return 0;
        }
        return 1;
}

int denials_is_one(const json_t *decision)
{
        const char *verdict = json_string_value(json_object_get(decision, "verdict"));

        return verdict && strcmp(verdict, "denied") == 0;
}

uint64_t denials_add(json_t *rows, const json_t *decision)
{
        json_int_t count = json_integer_value(json_object_get(decision, "count"));
        json_t *row;
        size_t i;

        if (!denials_is_one(decision))
                return 0;
        json_array_foreach (rows, i, row)
                if (is_same(row, decision)) {
                        count += json_integer_value(json_object_get(row, "count"));
                        json_object_set_new(row, "count", json_integer(count));
                        return 0;
                }
        row = json_array_size(rows) < DENIALS_MAX ? json_pack("{s:I}", "count", count) : NULL;
        if (!row)
                return (uint64_t)count;
        for (i = 0; i < sizeof(compared) / sizeof(compared[0]); i++)
                if (json_object_get(decision, compared[i]))
                        json_object_set(row, compared[i], json_object_get(decision, compared[i]));
        json_array_append_new(rows, row);
        return 0;
}

/* -- rules that permit ----------------------------------------------------------------------------------------- */

/* The verdicts on the name and on the address of a denied act; one that is not part of it is
 * allowed. */
struct verdicts {
        struct policy_verdict name, address;
};

/* The address may be this machine's own, which only a rule for itself opens. */
static struct verdicts decide(const struct policy *policy, const char *host, const char *text, unsigned port)
{
        struct verdicts ret = {.name = {.allowed = 1}, .address = {.allowed = 1}};
        uint32_t address = 0;

        if (host)
                ret.name = port ? policy_name(policy, host, port) : policy_resolves(policy, host);
        if (text && address_parse(text, strlen(text), &address) < 0)
                ret.address = (struct policy_verdict){0};
        else if (text)
                ret.address = host ? policy_leads(policy, address, port, 1) : policy_address(policy, address, port, 1);
        return ret;
}

static int is_final(const struct policy_verdict *verdict)
{
        return !verdict->allowed && !verdict->is_curable;
}

static void add_rule(json_t *rules, const char *rule, unsigned port)
{
        json_array_append_new(rules, port ? json_sprintf("%s:%u", rule, port) : json_string(rule));
}

/* A preset that the policy lacks and that has a rule for it; NULL: none. */
static const char *preset_for(json_t *names, const json_t *policy, const char *host, unsigned port)
{
        const char *preset = network_names_preset(names, host, port);
        const json_t *rule;
        size_t i;

        json_array_foreach (json_object_get(policy, "allow"), i, rule)
                if (preset && strcmp(json_string_value(rule), preset) == 0)
                        return NULL;
        return preset;
}

/* As given and as cloche-egress has it. */
struct policies {
        json_t *names;
        const json_t *given;
        struct policy *loaded;
};

/* 0: only the operator of the daemon could open it. */
static int permit(const struct policies *p, json_t *rules, const char *host, unsigned port)
{
        char service[NETWORK_SERVICE_MAX + 1], rule[NETWORK_SERVICE_MAX + sizeof(POLICY_SERVICE)];
        const char *preset;

        if (network_names_service(p->names, host, port, service)) {
                snprintf(rule, sizeof(rule), POLICY_SERVICE "%s", service);
                add_rule(rules, rule, 0);
                return 1;
        }
        if (policy_is_service(host))
                return 0;
        preset = preset_for(p->names, p->given, host, port);
        add_rule(rules, preset ? preset : host, preset ? 0 : port);
        return 1;
}

/* Names are of a guest's choice, and the rules go into an operator's shell: only text in the
 * form of a host's name or of an address is in them. */
static json_t *rules_for(const struct policies *p, const json_t *denied)
{
        const char *kind = json_string_value(json_object_get(denied, "kind")),
                   *host = json_string_value(json_object_get(denied, "host")),
                   *address = json_string_value(json_object_get(denied, "address"));
        unsigned port =
                kind && strcmp(kind, "dns") != 0 ? (unsigned)json_integer_value(json_object_get(denied, "port")) : 0;
        char name[HOST_NAME_MAX_BYTES + 1];
        struct verdicts verdicts;
        json_t *ret;

        if (host && host_name(host, strlen(host), name) < 0)
                return NULL;
        verdicts = decide(p->loaded, host ? name : NULL, address, port);
        if (is_final(&verdicts.name) || is_final(&verdicts.address) ||
            (verdicts.name.allowed && verdicts.address.allowed)) /* refused for another reason */
                return NULL;
        ret = json_array();
        if ((verdicts.name.allowed || permit(p, ret, name, port)) &&
            (verdicts.address.allowed || permit(p, ret, address, port)))
                return ret;
        json_decref(ret);
        return NULL;
}

static int load(struct policies *p)
{
        struct cloche_err e;
        json_t *expanded;
        int r = network_names_expand(p->names, p->given, &expanded, &e);

        if (r < 0)
                return r;
        r = policy_load(expanded, &p->loaded, &e);
        json_decref(expanded);
        return r;
}

void denials_set_rules(json_t *rows, json_t *names, const json_t *policy)
{
        struct policies p = {.names = names, .given = policy};
        json_t *row;
        size_t i;

        if (json_array_size(rows) == 0 || load(&p) < 0)
                return;
        json_array_foreach (rows, i, row) {
                json_t *rules = rules_for(&p, row);

                if (rules)
                        json_object_set_new(row, "allow", rules);
        }
        policy_free(p.loaded);
}
