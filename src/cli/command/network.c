/* cloche ports, net: the reachable ports of a sandbox and its rules for connections.
 * Runs in: the CLI, as its user. */
#include "cli/options/options.h"
#include "cli/output/print.h"
#include "cli/output/table.h"

#include <stdio.h>

/* -- ports ---------------------------------------------------------------------------------------------------- */

static void make_kind(FILE *out, const json_t *port, int is_plain)
{
        (void)is_plain;
        fputs(json_object_get(port, "token") ? "exposed" : "listener", out);
}

static void make_open(FILE *out, const json_t *port, int is_plain)
{
        const json_t *is_open = json_object_get(port, "open");

        (void)is_plain;
        fputs(json_is_false(is_open) ? "closed" : "open", out);
}

static const struct table_column port_columns[] = {
        {"PORT", CELL_COUNT, "port", 0, NULL},     {"KIND", CELL_NAME, NULL, 0, make_kind},
        {"STATE", CELL_STATE, NULL, 0, make_open}, {"ADDRESS", CELL_NAME, "address", 0, NULL},
        {"NAME", CELL_NAME, "name", 8, NULL},      {"TOKEN", CELL_NAME, "token", 0, NULL},
        {"URL", CELL_NAME, "url", 0, NULL},
};

/* Exposed ones, then those with a listener. */
static void print_ports(const json_t *answer)
{
        json_t *rows = json_array();

        json_array_extend(rows, json_object_get(answer, "exposed"));
        json_array_extend(rows, json_object_get(answer, "open"));
        TABLE_PRINT(port_columns, rows, 0);
        json_decref(rows);
}

static int list_ports(struct cli_request *request)
{
        json_t *answer = NULL;
        int code = sandbox_request_once(request, "port.list", sandbox_params(request), &answer);

        if (code == 0 && request->json)
                sandbox_print_json(answer);
        if (code == 0 && !request->json)
                print_ports(answer);
        json_decref(answer);
        return code;
}

static int expose(struct cli_request *request)
{
        json_t *params = json_pack("{s:s, s:I, s:s*}", "sandbox", request->positional[0], "port",
                                   (json_int_t)request->sandbox.expose, "name", request->sandbox.word);
        json_t *answer = NULL;
        int code = sandbox_request_once(request, "port.expose", params, &answer);
        const char *url = sandbox_text(answer, "url");

        if (code == 0 && request->json)
                sandbox_print_json(answer);
        else if (code == 0)
                printf("%s\n", *url ? url : sandbox_text(answer, "token"));
        json_decref(answer);
        return code;
}

static int unexpose(struct cli_request *request)
{
        json_t *answer = NULL, *params = json_pack("{s:s, s:I}", "sandbox", request->positional[0], "port",
                                                   (json_int_t)request->sandbox.unexpose);
        int code = sandbox_request_once(request, "port.unexpose", params, &answer);
        int was = json_is_true(json_object_get(answer, "exposed"));

        if (code == 0 && request->json)
                sandbox_print_json(answer);
        json_decref(answer);
        if (code == 0 && !was)
                return cli_bad("port %d of '%s' was not exposed", (int)request->sandbox.unexpose,
                               request->positional[0]);
        return code;
}

static int ports(struct cli_request *request)
{
        const struct sandbox_options *options = &request->sandbox;

        if (options->expose && options->unexpose)
                return cli_bad("--expose and --unexpose exclude each other: use two commands");
        if (options->word && !options->expose)
                return cli_bad("--name: expected --expose PORT");
        return options->expose ? expose(request) : options->unexpose ? unexpose(request) : list_ports(request);
}

/* -- net ------------------------------------------------------------------------------------------------------ */

static void print_rules(const json_t *network, const char *name)
{
        const json_t *rule;
        size_t i;

        json_array_foreach (json_object_get(network, name), i, rule)
                printf("%-5s %s\n", name, json_string_value(rule));
}

static void print_policy(const json_t *sandbox, int json)
{
        const json_t *network = json_object_get(sandbox, "network");

        if (json) {
                sandbox_print_json(network ? network : json_null());
                return;
        }
        print_rules(network, "allow");
        print_rules(network, "deny");
        if (json_array_size(json_object_get(network, "allow")) == 0)
                printf("nowhere\n");
}

static void make_target(FILE *out, const json_t *of, int is_plain)
{
        const char *host = sandbox_text(of, "host"), *address = sandbox_text(of, "address");
        json_int_t port = json_integer_value(json_object_get(of, "port"));

        (void)is_plain;
        print_name(out, *host ? host : *address ? address : "connections");
        if (port)
                fprintf(out, ":%lld", (long long)port);
        if (*host && *address)
                fprintf(out, " (%s)", address);
}

static const struct table_column decision_columns[] = {
        {"TIME", CELL_NAME, "time", 0, NULL}, {"VERDICT", CELL_STATE, "verdict", 0, NULL},
        {"KIND", CELL_NAME, "kind", 0, NULL}, {"TARGET", CELL_NAME, NULL, 24, make_target},
        {"WHY", CELL_NAME, "why", 20, NULL},  {"RULE", CELL_NAME, "rule", 12, NULL},
};

static int print_log(struct cli_request *request)
{
        json_t *answer = NULL;
        int code = sandbox_request_once(request, "network.log", sandbox_params(request), &answer);

        if (code == 0)
                TABLE_PRINT(decision_columns, json_object_get(answer, "decisions"), request->json);
        json_decref(answer);
        return code;
}

static int check_net(const struct cli_request *request)
{
        const struct sandbox_options *options = &request->sandbox;
        int replaces = options->allow || options->deny, adds = options->add || options->add_deny;

        if (options->none && (replaces || adds))
                return cli_bad("--none and --allow, --deny, --add or --add-deny exclude each other");
        if (adds && replaces)
                return cli_bad("--add and --add-deny keep the previous rules, --allow and --deny replace them: use two "
                               "commands");
        if (options->log && (replaces || adds || options->none))
                return cli_bad("--log excludes options that change rules: use two commands");
        return sandbox_check_network(request);
}

static int net(struct cli_request *request)
{
        json_t *policy, *add, *params, *sandbox = NULL;
        int code = check_net(request), changes;

        if (code)
                return code;
        if (request->sandbox.log)
                return print_log(request);
        policy = sandbox_network(request);
        add = json_pack("{s:O*, s:O*}", "allow", request->sandbox.add, "deny", request->sandbox.add_deny);
        params = sandbox_params(request);
        if (policy)
                json_object_set_new(params, "network", policy);
        changes = policy || json_object_size(add) > 0;
        if (json_object_size(add) > 0)
                json_object_set(params, "addNetwork", add);
        json_decref(add);
        code = sandbox_request_once(request, changes ? "sandbox.update" : "sandbox.get", params, &sandbox);
        if (code == 0)
                print_policy(sandbox, request->json);
        json_decref(sandbox);
        return code;
}

const struct cli_handler command_ports = {
        .run = ports,
        .of_existing = 1,
        .expected = "a sandbox",
        .positional_min = 1,
        .positional_max = 1,
};

const struct cli_handler command_net = {
        .run = net,
        .expected = "a sandbox",
        .positional_min = 1,
        .positional_max = 1,
};
