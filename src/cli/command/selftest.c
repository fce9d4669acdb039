/* cloche selftest: prove with attacking guests which guards protect a box here, and which rights
 * guest code has.
 * Runs in: the CLI, as its user; a run that root started drops to a user of its own first. */
#include "cli/options/options.h"
#include "cli/run/session.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

struct report {
        struct cloche_guard_report guards[CLOCHE_GUARD_COUNT];
        struct cloche_right_report rights[CLOCHE_RIGHT_COUNT];
        struct cloche_landlocked_report landlocked[CLOCHE_LANDLOCKED_COUNT];
        struct cloche_host_report host[CLOCHE_HOST_COUNT];
        uint32_t optional; /* guards: bit 1u << enum cloche_guard */
};

/* -- faults ----------------------------------------------------------------------------------------------------- */

/* Guards that are absent or degraded: bit 1u << enum cloche_guard. */
static uint32_t missing_in(const struct report *report)
{
        uint32_t missing = 0;

        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++)
                if (cloche_guard_is_missing(report->guards[g].state))
                        missing |= 1u << g;
        return missing;
}

/* A trial that shows a right which no code may have, or NULL. */
static const struct cloche_right_trial *excess_of(const struct cloche_right_report *right)
{
        for (int holder = 0; holder < CLOCHE_HOLDER_COUNT; holder++)
                if (right->trials[holder].is_open && !right->trials[holder].may)
                        return &right->trials[holder];
        return NULL;
}

/* These programs refuse to start if the kernel lacks Landlock. */
static int is_broken(const struct report *report, const struct cloche_landlocked_report *program)
{
        return report->host[CLOCHE_HOST_LANDLOCK].is_present && !program->is_enforced;
}

static int is_sound(const struct report *report)
{
        int sound = 1;

        for (int right = 0; right < CLOCHE_RIGHT_COUNT; right++)
                sound &= !excess_of(&report->rights[right]);
        for (int program = 0; program < CLOCHE_LANDLOCKED_COUNT; program++)
                sound &= !is_broken(report, &report->landlocked[program]);
        return sound;
}

/* -- JSON ------------------------------------------------------------------------------------------------------- */

static json_t *describe_guards(const struct report *report)
{
        json_t *list = json_array();

        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++)
                json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:s, s:b}", "name",
                                                      cloche_guard_name((enum cloche_guard)g), "state",
                                                      cloche_guard_state_name(report->guards[g].state), "proven",
                                                      report->guards[g].proven, "reason", report->guards[g].reason,
                                                      "optional", report->optional >> g & 1));
        return list;
}

static json_t *describe_trial(const struct cloche_right_trial *trial)
{
        return json_pack("{s:b, s:b, s:s}", "may", trial->may, "open", trial->is_open, "tried", trial->seen);
}

static json_t *describe_rights(const struct report *report)
{
        json_t *list = json_array();

        for (int right = 0; right < CLOCHE_RIGHT_COUNT; right++) {
                const struct cloche_right_report *row = &report->rights[right];

                json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:o, s:o}", "name", row->name, "about", row->doc,
                                                      "held", !excess_of(row), "setUp",
                                                      describe_trial(&row->trials[CLOCHE_HOLDER_SET_UP]), "context",
                                                      describe_trial(&row->trials[CLOCHE_HOLDER_CONTEXT])));
        }
        return list;
}

static json_t *describe_landlocked(const struct report *report)
{
        json_t *list = json_array();

        for (int program = 0; program < CLOCHE_LANDLOCKED_COUNT; program++) {
                const struct cloche_landlocked_report *row = &report->landlocked[program];

                json_array_append_new(list,
                                      json_pack("{s:s, s:s, s:s, s:s}", "name", row->name, "about", row->doc, "state",
                                                row->is_enforced ? "enforced" : "absent", "tried", row->seen));
        }
        return list;
}

static json_t *describe_host(const struct report *report)
{
        json_t *list = json_array();

        for (int f = 0; f < CLOCHE_HOST_COUNT; f++) {
                const struct cloche_host_report *row = &report->host[f];

                json_array_append_new(list, json_pack("{s:s, s:b, s:s, s:s, s:s}", "name", row->name, "present",
                                                      row->is_present, "since", row->since, "detail", row->detail,
                                                      "without", row->without));
        }
        return list;
}

static void print_json(const struct report *report)
{
        json_t *whole =
                json_pack("{s:o, s:o, s:o, s:o}", "guards", describe_guards(report), "rights", describe_rights(report),
                          "landlock", describe_landlocked(report), "host", describe_host(report));
        char *text = json_dumps(whole, JSON_COMPACT);

        printf("%s\n", text ? text : "{}");
        free(text);
        json_decref(whole);
}

/* -- text ------------------------------------------------------------------------------------------------------- */

static void print_guards(const struct report *report)
{
        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++)
                printf("%-18s %-9s %s%s\n", cloche_guard_name((enum cloche_guard)g),
                       cloche_guard_state_name(report->guards[g].state), report->guards[g].proven ? "tried: " : "",
                       report->guards[g].reason);
}

static const char *may(const struct cloche_right_trial *trial)
{
        return trial->is_open ? "may" : "may not";
}

/* The holders that an open right must be refused to: a right that set-up code lacks, a context
 * lacks too. */
static const char *whom(const struct cloche_right_report *right)
{
        return right->trials[CLOCHE_HOLDER_SET_UP].may ? "contexts" : "both";
}

static void print_rights(const struct report *report)
{
        printf("\nrights of set-up code of a prefix, and of code of a context that can be forked\n");
        for (int right = 0; right < CLOCHE_RIGHT_COUNT; right++) {
                const struct cloche_right_report *row = &report->rights[right];
                const struct cloche_right_trial *set_up = &row->trials[CLOCHE_HOLDER_SET_UP], *excess = excess_of(row);

                printf("%-18s %-9s %-9s ", row->name, may(set_up), may(&row->trials[CLOCHE_HOLDER_CONTEXT]));
                if (excess)
                        printf("open, and must be refused to %s: %s\n", whom(row), excess->seen);
                else
                        printf("tried: %s\n", set_up->seen);
        }
}

static void print_landlocked(const struct report *report)
{
        printf("\nprograms that confine themselves with Landlock\n");
        for (int program = 0; program < CLOCHE_LANDLOCKED_COUNT; program++) {
                const struct cloche_landlocked_report *row = &report->landlocked[program];

                printf("%-18s %-9s %s%s\n", row->name, row->is_enforced ? "enforced" : "absent",
                       row->is_enforced ? "tried: " : "", row->seen);
        }
}

static void print_host(const struct report *report)
{
        struct utsname kernel;

        printf("\nthis host: %s\n", uname(&kernel) == 0 ? kernel.release : "unknown");
        for (int f = 0; f < CLOCHE_HOST_COUNT; f++) {
                const struct cloche_host_report *row = &report->host[f];

                if (row->is_present)
                        printf("%-18s present   %s\n", row->name, row->detail);
                else
                        printf("%-18s absent    %s%s. %s\n", row->name, row->detail[0] ? "" : "since Linux ",
                               row->detail[0] ? row->detail : row->since, row->without);
        }
        printf("\n");
}

static void print_faults(const struct report *report)
{
        const char *before = "rights are open that must be refused: ";

        for (int right = 0; right < CLOCHE_RIGHT_COUNT; right++)
                if (excess_of(&report->rights[right])) {
                        printf("%s%s", before, report->rights[right].name);
                        before = ", ";
                }
        if (strcmp(before, ", ") == 0)
                printf("\n");
        for (int program = 0; program < CLOCHE_LANDLOCKED_COUNT; program++)
                if (is_broken(report, &report->landlocked[program]))
                        printf("the rules of %s are not in force\n", report->landlocked[program].name);
}

/* Print the last line: if runs start here, and how to change that. */
static void print_verdict(const struct report *report, enum cloche_profile profile)
{
        uint32_t missing = missing_in(report);

        print_faults(report);
        if (missing & ~report->optional)
                printf("runs are refused: a guard is missing that is not optional\n");
        else if (!is_sound(report))
                printf("runs start although something is open that must be refused: do not run "
                       "untrusted code on this host\n");
        else if (!missing)
                printf("every guard is enforced\n");
        else
                printf("runs start although guards are missing: %s\n",
                       profile == CLOCHE_PROFILE_USER ? "an ordinary user may lack these (--strict refuses)"
                                                      : "they were named optional");
}

static void print_text(const struct report *report, enum cloche_profile profile)
{
        print_guards(report);
        print_rights(report);
        print_landlocked(report);
        print_host(report);
        print_verdict(report, profile);
}

/* -- the command ------------------------------------------------------------------------------------------------ */

static int try_everything(cloche_engine *engine, struct report *report, struct cloche_err *e)
{
        int r = cloche_engine_selftest(engine, report->guards, e);

        if (r == 0)
                r = cloche_engine_rights(engine, report->rights, e);
        return r < 0 ? r : cloche_engine_landlock(engine, report->landlocked, e);
}

static int run(struct cli_request *request)
{
        static struct report report;
        cloche_engine *engine = NULL;
        struct cloche_err e = {0};
        int r = session_start(&request->engine, &engine, &e);

        if (r == 0) {
                cloche_engine_host(engine, report.host); /* while this user can open the keeper's devices */
                r = session_drop_privilege(&e);
        }
        if (r == 0) {
                report.optional = cloche_engine_optional(engine);
                r = try_everything(engine, &report, &e);
        }
        cloche_engine_free(engine);
        if (r < 0)
                return cli_fail(&e);
        if (request->json)
                print_json(&report);
        else
                print_text(&report, request->engine.profile);
        return missing_in(&report) & ~report.optional || !is_sound(&report) ? 1 : 0;
}

const struct cli_handler command_selftest = {
        .run = run,
};
