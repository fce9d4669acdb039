/* A run's network: starts cloche-egress for its box before its program, and adds its decisions
 * to the result. Runs in: the engine, on its loop. */
#include "run-network.h"

#include "base/err.h"
#include "engine/box/denials.h"
#include "engine/box/network.h"
#include "engine/loop/engine.h"
#include "wire/json.h"

#include <string.h>

int run_take_network(struct cloche_run *run, const struct cloche_run_options *opt, struct cloche_err *e)
{
        int r = json_load_text(opt->network, strlen(opt->network), &run->network.policy, e);

        if (r < 0)
                return err_wrap(e, "network");
        if (opt->prefix || opt->warm)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "network: a run that is forked from a template has none: leave out %s",
                               opt->prefix ? "the prefix" : "'warm'");
        run->network.denied = json_array();
        return network_policy_check(run->engine->network_names, run->network.policy, e);
}

static void on_decision(void *data, const json_t *decision)
{
        struct cloche_run *run = data;

        run->network.lost += denials_add(run->network.denied, decision);
}

/* -- life ------------------------------------------------------------------------------------------------------ */

static void on_ready(void *data)
{
        struct cloche_run *run = data;

        run->network.is_ready = 1;
        if (run->network.is_awaited)
                run_go_on(run);
}

/* Without its egress program the box's network leads nowhere: connections fail at once. */
static void on_end(void *data, const struct cloche_err *e)
{
        struct cloche_run *run = data;

        if (run->network.is_ready)
                run_warn(run, e->msg);
        else
                run_failed(run, e);
}

int run_start_network(struct cloche_run *run, struct cloche_err *e)
{
        const struct network_face face = {.on_ready = on_ready,
                                          .on_decision = on_decision,
                                          .on_end = on_end,
                                          .data = run};

        return network_start(run->engine->keeper, run->engine->network_names, run->box.id, &run->engine->loop,
                             run->network.policy, &face, &run->network.egress, e);
}

int run_awaits_network(struct cloche_run *run)
{
        run->network.is_awaited = run->network.policy && !run->network.is_ready;
        return run->network.is_awaited;
}

void run_stop_network(struct cloche_run *run)
{
        if (run->network.egress && run->network.is_ready)
                network_drain(run->network.egress);
        network_stop(run->network.egress);
        run->network.egress = NULL;
}

static int has_words(const json_t *text)
{
        return json_is_string(text) && network_words_find(json_string_value(text), json_string_length(text));
}

static int is_of_prefix(const struct cloche_run *run)
{
        const struct setup *setup = run->template ? run->template->setup : NULL;

        return setup && !setup->is_code;
}

void run_explain_network(struct cloche_run *run)
{
        const json_t *failure = run->answer_is_error ? json_object_get(run->answer, "data") : NULL;

        if (run->network.policy || run->kind == CLOCHE_EVALUATE)
                return;
        if (run->network.words.is_found || has_words(json_object_get(failure, "message")) ||
            has_words(json_object_get(failure, "stack")))
                run_warn(run, is_of_prefix(run)
                                      ? "the code of this run used the network, which a run that is forked from a "
                                        "prefix cannot have: leave out the prefix, and give it rules (network; "
                                        "--network HOST:PORT instead of --prefix on the command line)"
                                      : "the code of this run used the network, which it does not have: rules permit "
                                        "connections (network; --network HOST:PORT on the command line)");
}

void run_network_done(struct cloche_run *run)
{
        run_stop_network(run);
        json_decref(run->network.policy);
        json_decref(run->network.denied);
}
