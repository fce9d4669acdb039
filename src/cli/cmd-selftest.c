/* cloche selftest: what protects a box here, proven by a guest that tries. */
#include "options.h"
#include "session.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const state_names[] = {
        [CLOCHE_GUARD_ABSENT] = "absent",
        [CLOCHE_GUARD_DEGRADED] = "degraded",
        [CLOCHE_GUARD_ENFORCED] = "enforced",
};

static void print_json(const struct cloche_guard_report *reports)
{
        json_t *list = json_array();
        char *text;

        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++)
                json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:s}", "name", cloche_guard_name((enum cloche_guard)g), "state",
                                                      state_names[reports[g].state], "proven", reports[g].proven, "reason",
                                                      reports[g].reason));
        text = json_dumps(list, JSON_COMPACT);
        printf("%s\n", text ? text : "[]");
        free(text);
        json_decref(list);
}

static void print_table(const struct cloche_guard_report *reports)
{
        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++)
                printf("%-18s %-9s %s%s\n", cloche_guard_name((enum cloche_guard)g), state_names[reports[g].state],
                       reports[g].proven ? "tried: " : "", reports[g].reason);
}

static int verdict(const struct cloche_guard_report *reports, uint32_t optional)
{
        int code = 0;

        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++)
                if (reports[g].state != CLOCHE_GUARD_ENFORCED && !(optional & 1u << g))
                        code = 1;
        return code;
}

static int run(struct cli_request *request)
{
        struct cloche_guard_report reports[CLOCHE_GUARD_COUNT];
        cloche_engine *engine = NULL;
        struct cloche_err e = {0};
        int r = session_open(request, &engine, &e);

        if (r == 0)
                r = cloche_engine_selftest(engine, reports, &e);
        cloche_engine_free(engine);
        if (r < 0)
                return cli_fail(&e);
        if (request->json)
                print_json(reports);
        else
                print_table(reports);
        return verdict(reports, request->engine.optional_guards);
}

static const struct cli_option *const tables[] = {options_json, options_box, NULL};

const struct cli_command command_selftest = {
        .tables = tables,
        .run = run,
};
