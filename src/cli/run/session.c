/* One engine with one run: signals, progress, dropped rights.
 * Runs in: the CLI, as its user; a run that root started drops to a user of its own first. */
#include "session.h"
#include "cli/output/outcome.h"
#include "cli/output/progress.h"
#include "cli/output/signals.h"
#include "store.h"

#include "base/fd.h"
#include "base/privilege.h"
#include "engine/loop/engine.h"
#include "user/images-dir.h"
#include "user/notice.h"

#include <jansson.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A handler receives no argument of ours. cancelled: a signal may arrive before the run starts. */
static _Atomic(cloche_run *) current;
static atomic_int cancelled, at_once, passes_interrupt;

/* The first SIGINT goes to a script; a second one ends the run unconditionally. */
static void on_signal(int signal_number)
{
        cloche_run *run = atomic_load(&current);
        int is_passed = run && signal_number == SIGINT && atomic_exchange(&passes_interrupt, 0);

        signals_note(signal_number);
        if (atomic_load(&at_once))
                signals_exit(SIGNALS_CANCELLED);
        if (is_passed) {
                cloche_run_signal(run, SIGINT);
                return;
        }
        atomic_store(&cancelled, 1);
        if (run)
                cloche_run_cancel(run);
}

static void on_resized(int signal_number)
{
        cloche_run *run = atomic_load(&current);
        unsigned cols, rows;

        (void)signal_number;
        terminal_size(&cols, &rows);
        if (run)
                cloche_run_resize(run, cols, rows);
}

static void follow_size(void)
{
        const struct sigaction action = {.sa_handler = on_resized, .sa_flags = SA_RESTART};

        sigaction(SIGWINCH, &action, NULL);
        on_resized(SIGWINCH); /* it may have changed since the last check */
}

static void catch_signals(void)
{
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        sigaction(SIGHUP, &action, NULL);
        signal(SIGPIPE, SIG_IGN);
}

/* The keeper retains root's rights; this process needs none, and verifies that it cannot regain
 * them. */
int session_drop_privilege(struct cloche_err *e)
{
        return privilege_is_root() ? privilege_become(SESSION_ENGINE_UID, e) : privilege_gain_none(e);
}

int session_start(const struct cloche_engine_options *opt, cloche_engine **ret, struct cloche_err *e)
{
        struct cloche_engine_options own = *opt;
        char images_dir[4096];
        int r;

        catch_signals();
        if (privilege_is_root())
                own.becomes_uid = SESSION_ENGINE_UID;
        if (!own.images_dir)
                own.images_dir = images_dir_find(images_dir, sizeof(images_dir));
        progress_start("starting the engine");
        r = cloche_engine_new(&own, ret, e);
        progress_end();
        return r;
}

void session_end_by_signal(int yes)
{
        atomic_store(&at_once, yes);
        if (yes && atomic_load(&cancelled))
                signals_exit(SIGNALS_CANCELLED);
}

/* Guards named on the command line are known to the caller; JSON output is for programs. */
void session_notice(const struct cli_request *request, const cloche_engine *engine)
{
        _cleanup_fd_ int record_fd = -EBADF;
        char text[NOTICE_BYTES];

        if (request->engine.profile == CLOCHE_PROFILE_NONE || request->json)
                return;
        record_fd = notice_open(notice_missing(engine));
        if (notice_take(record_fd, notice_missing(engine), text))
                cli_bad("%s", text);
}

int session_open(const struct cli_request *request, cloche_engine **ret, struct cloche_err *e)
{
        cloche_engine *engine = NULL;
        int r = session_start(&request->engine, &engine, e);

        if (r < 0)
                return r;
        session_notice(request, engine);
        r = session_drop_privilege(e);
        if (r < 0) {
                cloche_engine_free(engine);
                return r;
        }
        *ret = engine;
        return 0;
}

static void print_stack(const char *failure)
{
        json_t *data = failure ? json_loads(failure, 0, NULL) : NULL;
        const char *stack = json_string_value(json_object_get(data, "stack"));

        if (stack && *stack)
                fprintf(stderr, "%s\n", stack);
        json_decref(data);
}

int session_set_up(struct cli_request *request, cloche_engine *engine, const struct cloche_prefix_options *opt,
                   cloche_prefix **ret)
{
        struct cloche_err e = {0};
        char *failure = NULL;
        int r;

        session_end_by_signal(1);
        progress_start("running the set-up that runs are forked from");
        r = cloche_prefix_new(engine, opt, ret, &failure, &e);
        progress_end();
        session_end_by_signal(0);
        print_stack(failure);
        free(failure);
        if (r == -CLOCHE_E_PREFIX || r == -CLOCHE_E_TEMPLATE)
                return cli_bad("the set-up failed: %s", e.msg), 1;
        return r < 0 ? options_refuse(request, &e) : 0;
}

static const char *phase_of_current(void)
{
        const cloche_run *run = atomic_load(&current);

        return run ? cloche_run_phase(run) : NULL;
}

int cli_session_run(cloche_engine *engine, const struct cloche_run_options *opt, cloche_result **ret,
                    struct cloche_err *e)
{
        cloche_run *run = NULL;
        int r = cloche_run_start(engine, opt, &run, e);

        if (r < 0)
                return r;
        atomic_store(&passes_interrupt, opt->kind == CLOCHE_SCRIPT);
        atomic_store(&current, run);
        if (opt->cols)
                follow_size();
        if (atomic_load(&cancelled))
                cloche_run_cancel(run);
        progress_watch(phase_of_current);
        r = cloche_run_wait(run, ret, e);
        progress_end();
        atomic_store(&current, NULL);
        cloche_run_free(run);
        return r;
}

/* Convert the rules to the engine's form. */
static int bind_network(struct cli_request *request)
{
        json_t *policy = sandbox_network(request);
        char *text = policy ? json_dumps(policy, JSON_COMPACT) : NULL;
        int bad = policy && !text ? cli_bad("out of memory") : sandbox_check_network(request);

        if (bad == 0 && !policy && request->sandbox.host_ports)
                bad = cli_bad("--host-port: expected --network with the rule host:NAME");
        json_decref(policy);
        if (bad || !text) {
                free(text);
                return bad;
        }
        request->run.network = text;
        return options_keep_text(request, text);
}

int session_whole(struct cli_request *request, int (*run_in)(cloche_engine *engine, struct cli_request *request))
{
        struct stored stored = {0};
        cloche_engine *engine = NULL;
        struct cloche_err e = {0};
        int code = request->prefix ? cli_store_load(request->prefix, &stored) : 0;

        if (code == 0)
                code = outcome_prepare(request);
        if (code == 0)
                code = bind_network(request);
        if (code == 0 && session_open(request, &engine, &e) < 0)
                code = cli_fail(&e);
        if (code == 0 && request->sandbox.host_ports)
                engine_set_network_names(engine, json_pack("{s:O}", "services", request->sandbox.host_ports));
        if (code == 0 && request->prefix)
                code = session_set_up(request, engine, &stored.prefix, &request->run.prefix);
        if (code == 0)
                code = run_in(engine, request);
        privileged_helper_cancel(&request->keeping);
        cloche_prefix_free(request->run.prefix);
        cloche_engine_free(engine);
        store_done(&stored);
        return code;
}
