/* cloche ports, net: the reachable ports of a sandbox and its rules for connections.
 * Runs in: the CLI, as its user. */
#include "cli/options/options.h"
#include "cli/output/print.h"

#include <stdio.h>

/* -- ports ---------------------------------------------------------------------------------------------------- */

static void print_exposed(const json_t *port)
{
        const char *url = sandbox_text(port, "url");

        printf("%5lld  exposed  %-7s token %s", (long long)json_integer_value(json_object_get(port, "port")),
               json_is_true(json_object_get(port, "open")) ? "open" : "closed", sandbox_text(port, "token"));
        if (*sandbox_text(port, "name")) {
                fputs("  ", stdout);
                print_name(stdout, sandbox_text(port, "name"));
        }
        printf("%s%s\n", *url ? "  " : "", url);
}

static void print_open(const json_t *port)
{
        printf("%5lld  open     %s\n", (long long)json_integer_value(json_object_get(port, "port")),
               sandbox_text(port, "address"));
}

static int list_ports(struct cli_request *request)
{
        json_t *answer = NULL;
        int code = sandbox_request_once(request, "port.list", sandbox_params(request), &answer);

        if (code == 0 && request->json)
                sandbox_print_json(answer);
        if (code == 0 && !request->json) {
                print_rows(json_object_get(answer, "exposed"), 0, print_exposed);
                print_rows(json_object_get(answer, "open"), 0, print_open);
        }
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

static void print_decision(const json_t *of)
{
        const char *host = sandbox_text(of, "host"), *address = sandbox_text(of, "address");
        json_int_t port = json_integer_value(json_object_get(of, "port"));

        printf("%s  %-7s %-4s ", sandbox_text(of, "time"), sandbox_text(of, "verdict"), sandbox_text(of, "kind"));
        print_name(stdout, *host ? host : *address ? address : "connections");
        if (port)
                printf(":%lld", (long long)port);
        if (*host && *address)
                printf(" (%s)", address);
        fputs("  ", stdout);
        print_name(stdout, sandbox_text(of, "why"));
        if (*sandbox_text(of, "rule"))
                printf(" [%s]", sandbox_text(of, "rule"));
        putchar('\n');
}

static int print_log(struct cli_request *request)
{
        json_t *answer = NULL;
        int code = sandbox_request_once(request, "network.log", sandbox_params(request), &answer);

        if (code == 0)
                print_rows(json_object_get(answer, "decisions"), request->json, print_decision);
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
