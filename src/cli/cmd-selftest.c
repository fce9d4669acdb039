/* cloche selftest: what protects a box here, proven by a guest that tries. */
#include "options.h"
#include "session.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>

static json_t *describe_host(const struct cloche_host_report *rows)
{
        json_t *list = json_array();

        for (int f = 0; f < CLOCHE_HOST_COUNT; f++)
                json_array_append_new(list, json_pack("{s:s, s:b, s:s, s:s, s:s}", "name", rows[f].name, "present", rows[f].is_present, "since", rows[f].since,
                                                      "detail", rows[f].detail, "without", rows[f].without));
        return list;
}

static void print_json(const struct cloche_guard_report *reports, uint32_t optional, const struct cloche_host_report *host)
{
        json_t *list = json_array(), *whole;
        char *text;

        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++)
                json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:s, s:b}", "name", cloche_guard_name((enum cloche_guard)g), "state",
                                                      cloche_guard_state_name(reports[g].state), "proven", reports[g].proven, "reason",
                                                      reports[g].reason, "optional", optional >> g & 1));
        whole = json_pack("{s:o, s:o}", "guards", list, "host", describe_host(host));
        text = json_dumps(whole, JSON_COMPACT);
        printf("%s\n", text ? text : "{}");
        free(text);
        json_decref(whole);
}

static void print_table(const struct cloche_guard_report *reports)
{
        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++)
                printf("%-18s %-9s %s%s\n", cloche_guard_name((enum cloche_guard)g), cloche_guard_state_name(reports[g].state),
                       reports[g].proven ? "tried: " : "", reports[g].reason);
}

static void print_host(const struct cloche_host_report *rows)
{
        struct utsname kernel;

        printf("\nthis host: %s\n", uname(&kernel) == 0 ? kernel.release : "unknown");
        for (int f = 0; f < CLOCHE_HOST_COUNT; f++)
                if (rows[f].is_present)
                        printf("%-18s present   %s\n", rows[f].name, rows[f].detail);
                else
                        printf("%-18s absent    %s%s. %s\n", rows[f].name, rows[f].detail[0] ? "" : "since Linux ", rows[f].detail[0] ? rows[f].detail : rows[f].since,
                               rows[f].without);
        printf("\n");
}

/* Those that are absent or degraded: bit 1u << enum cloche_guard. */
static uint32_t missing_in(const struct cloche_guard_report *reports)
{
        uint32_t missing = 0;

        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++)
                if (cloche_guard_is_missing(reports[g].state))
                        missing |= 1u << g;
        return missing;
}

/* The last line: whether runs start here, and what would change that. */
static void print_verdict(uint32_t missing, uint32_t optional, enum cloche_profile profile)
{
        if (!missing)
                printf("every guard is enforced\n");
        else if (missing & ~optional)
                printf("runs are refused: a guard is missing that is not optional\n");
        else
                printf("runs start although guards are missing: %s\n",
                       profile == CLOCHE_PROFILE_USER ? "an ordinary user may lack these (--strict refuses)" : "they were named optional");
}

static int run(struct cli_request *request)
{
        struct cloche_guard_report reports[CLOCHE_GUARD_COUNT];
        struct cloche_host_report host[CLOCHE_HOST_COUNT];
        cloche_engine *engine = NULL;
        struct cloche_err e = {0};
        uint32_t optional = 0, missing;
        int r = session_start(&request->engine, &engine, &e);

        if (r == 0) {
                cloche_engine_host(engine, host); /* while this user may open the devices that the keeper uses */
                r = session_drop_privilege(&e);
        }
        if (r == 0)
                optional = cloche_engine_optional(engine);
        if (r == 0)
                r = cloche_engine_selftest(engine, reports, &e);
        cloche_engine_free(engine);
        if (r < 0)
                return cli_fail(&e);
        missing = missing_in(reports);
        if (request->json) {
                print_json(reports, optional, host);
        } else {
                print_table(reports);
                print_host(host);
                print_verdict(missing, optional, request->engine.profile);
        }
        return missing & ~optional ? 1 : 0;
}

static const struct cli_option *const tables[] = {options_json, options_box, NULL};

const struct cli_command command_selftest = {
        .tables = tables,
        .run = run,
};
