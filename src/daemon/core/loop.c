/* The daemon's event loop, and its end. Runs in: cloched-engine, with the rights of the daemon's
 * user once the engine exists. */
#include "loop.h"
#include "client.h"
#include "connection.h"
#include "daemon/images/commit.h"
#include "daemon/images/program.h"
#include "daemon/images/upload.h"
#include "daemon/jupyter/gateway.h"
#include "daemon/mcp/mcp.h"
#include "daemon/preview/preview.h"
#include "daemon/run/changes.h"
#include "daemon/run/prefix.h"
#include "daemon/run/run.h"
#include "daemon/start/idle.h"
#include "daemon/start/listen.h"
#include "daemon/start/on-demand.h"
#include "daemon/start/supervised.h"
#include "daemon/web/sandbox-socket.h"
#include "daemon/web/socket.h"
#include "daemon/web/web.h"
#include "log.h"
#include "packages.h"
#include "sandbox-request.h"
#include "state.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/peer.h"
#include "base/state.h"
#include "daemon/http/server.h"
#include "engine/loop/engine.h"
#include "sandbox/core/sandbox.h"

#include <cloche/cloche.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SWEEP_MS 1000
#define CONTEXTS_FREE_KIB (1024u << 10) /* must be free to prewarm interpreters by default */
#define ALIVE_NS (UINT64_C(1000000) * SWEEP_MS)
#define LAST_WORDS_MS 3000 /* for callers to read their last answers */
#define SAVE_MS 60000      /* for saving sandboxes */
#define FREE_MIB_MAX 4     /* of the allocator */

static const unsigned transitions[DAEMON_STATES] = {
        [DAEMON_RUNNING] = STATE_TO(DAEMON_STOPPING),
        [DAEMON_STOPPING] = STATE_TO(DAEMON_SAVING) | STATE_TO(DAEMON_SAVED),
        [DAEMON_SAVING] = STATE_TO(DAEMON_SAVED),
        [DAEMON_SAVED] = STATE_TO(DAEMON_LEAVING),
};

static void set_state(struct daemon *d, enum daemon_state state)
{
        STATE_CHECK(transitions, d->state, state);
        d->state = state;
}

/* -- iterations ----------------------------------------------------------------------------------------------- */

static void on_nothing(uv_timer_t *timer)
{
        (void)timer;
}

static void on_engine(uv_poll_t *poll, int status, int events)
{
        (void)poll;
        (void)status;
        (void)events;
}

static void flush_all(struct daemon *d)
{
        struct client *client;

        while ((client = TAILQ_FIRST(&d->unsent))) {
                TAILQ_REMOVE(&d->unsent, client, unsent_link);
                client->is_unsent = 0;
                client->carrier->flush(client);
        }
}

/* Before each wait: pass requests to the engine and answers to the callers, and set the timeout. */
static void on_turn(uv_prepare_t *prepare)
{
        struct daemon *d = prepare->data;
        int timeout_ms;

        cloche_engine_turn(d->engine);
        if (cloche_engine_is_over(d->engine) && d->state == DAEMON_RUNNING) {
                d->exit_code = 1;
                daemon_stop(d, 0, "the keeper is gone");
        }
        prefix_reap(d);
        changes_reap(d);
        images_reap(d);
        flush_all(d);
        http_server_turn(d->http);
        run_free_ended(d);
        connections_tidy(d);
        daemon_check_stop(d);
        timeout_ms = cloche_engine_timeout_ms(d->engine);
        if (timeout_ms >= 0)
                uv_timer_start(&d->engine_timer, on_nothing, (uint64_t)timeout_ms, 0);
        else
                uv_timer_stop(&d->engine_timer);
}

/* Return free memory to the system, but not between two large messages in a row. glibc keeps up to
 * 64 MiB after large allocations (mallopt(3), M_TRIM_THRESHOLD: the dynamic threshold). A lower
 * threshold costs page faults at each message: a fifth of the processor time. */
static void return_memory(struct daemon *d)
{
        size_t free_mib = mallinfo2().fordblks >> 20; /* also memory that was returned, within the heap */

        if (free_mib >= FREE_MIB_MAX && free_mib == d->free_mib && free_mib != d->trimmed_mib) {
                malloc_trim(0);
                free_mib = d->trimmed_mib = mallinfo2().fordblks >> 20;
        }
        d->free_mib = free_mib;
}

static void on_sweep(uv_timer_t *timer)
{
        struct daemon *d = timer->data;
        uint64_t now_ns = clock_now_ns();

        listen_sweep(d);
        connections_sweep(d, now_ns);
        http_server_sweep(d->http, now_ns);
        web_sockets_sweep(d, now_ns);
        prefix_tidy(d, now_ns);
        changes_tidy(d, now_ns);
        proxies_sweep(d, now_ns);
        images_sweep(d, now_ns);
        image_uploads_sweep(d, now_ns);
        sandbox_sockets_sweep(d, now_ns);
        gateway_sweep(d, now_ns);
        idle_sweep(d, now_ns);
        peer_discard(NULL, 0);
        supervised_send(&d->options, d->state_sent, NULL);
        on_demand_tidy_log(&d->options);
        return_memory(d);
}

/* -- stopping ------------------------------------------------------------------------------------------------- */

static void on_last_words(uv_timer_t *timer)
{
        uv_stop(timer->loop);
}

static void on_grace(uv_timer_t *timer)
{
        struct daemon *d = timer->data;

        log_event(LEVEL_WARNING, "grace-over", "{s:i}", "runs", (int)d->stats.runs_now);
        d->is_hurried = 1;
        run_cancel_all(d);
        daemon_check_stop(d);
}

/* The sandbox's files are lost with the daemon, or stay in its box until they can be saved. */
static void on_unsaved(void *data, int64_t principal, const char *name, const struct cloche_err *e)
{
        struct daemon *d = data;

        log_event(LEVEL_ERROR, "sandbox-not-saved", "{s:s, s:I, s:s, s:s}", "sandbox", name, "principal",
                  (json_int_t)principal, "error", cloche_code_name(e->code), "message", e->msg);
        if (d->state != DAEMON_RUNNING && !d->is_discarding)
                d->exit_code = 1;
}

static void on_lost(void *data, int64_t principal, const char *name, uint64_t from_ms, uint64_t to_ms)
{
        (void)data;
        log_event(LEVEL_ERROR, "sandbox-changes-lost", "{s:s, s:I, s:I, s:I}", "sandbox", name, "principal",
                  (json_int_t)principal, "fromMs", (json_int_t)from_ms, "toMs", (json_int_t)to_ms);
}

static void on_load(void *data)
{
        struct daemon *d = data;
        uint64_t now_ns = clock_now_ns();

        if (now_ns - d->sent_ns < ALIVE_NS)
                return;
        d->sent_ns = now_ns;
        supervised_send(&d->options, MESSAGE_ALIVE, NULL);
}

static void discard_sandboxes(struct daemon *d, const char *why)
{
        struct cloche_err e;

        err_set(&e, CLOCHE_E_STOPPING, "%s", why);
        sandboxes_report_unsaved(d->sandboxes, &e);
}

static void on_sandboxes_saved(void *data)
{
        struct daemon *d = data;

        if (d->state != DAEMON_SAVING) /* a second signal has ended that */
                return;
        set_state(d, DAEMON_SAVED);
        uv_timer_stop(&d->grace_timer);
        daemon_check_stop(d);
}

static void on_save_timeout(uv_timer_t *timer)
{
        struct daemon *d = timer->data;

        log_event(LEVEL_WARNING, "save-over", "{s:i}", "seconds", SAVE_MS / 1000);
        discard_sandboxes(d, "the time to save sandboxes at the daemon's end is over");
        on_sandboxes_saved(d);
}

static void stop_sandboxes(struct daemon *d)
{
        set_state(d, DAEMON_SAVING);
        uv_timer_start(&d->grace_timer, on_save_timeout, SAVE_MS, 0);
        sandboxes_stop(d->sandboxes, on_sandboxes_saved, d);
}

/* Running jobs end first, within their grace; then sandboxes are saved, then answers are read. */
void daemon_check_stop(struct daemon *d)
{
        if (d->state == DAEMON_RUNNING || !TAILQ_EMPTY(&d->jobs) || !TAILQ_EMPTY(&d->syncs))
                return;
        if (d->state == DAEMON_STOPPING && (d->is_hurried || !sandbox_jobs_are_busy(d))) {
                if (d->options.is_state_temporary)
                        set_state(d, DAEMON_SAVED);
                else
                        stop_sandboxes(d);
        }
        if (d->state == DAEMON_SAVED) {
                set_state(d, DAEMON_LEAVING);
                uv_timer_start(&d->grace_timer, on_last_words, LAST_WORDS_MS, 0);
        }
        if (d->state == DAEMON_LEAVING && connections_are_idle(d))
                uv_stop(&d->loop);
}

int daemon_check_work(const struct daemon *d, struct cloche_err *e)
{
        return d->state != DAEMON_RUNNING
                       ? err_set(e, CLOCHE_E_STOPPING,
                                 "the daemon is about to end and takes no new work: try again when it runs again")
                       : 0;
}

void daemon_stop(struct daemon *d, uint64_t grace_ms, const char *why)
{
        if (d->state == DAEMON_RUNNING) {
                log_event(LEVEL_INFO, "stopping", "{s:s, s:i}", "why", why, "runs", (int)d->stats.runs_now);
                /* Without its keeper the end is a crash: the supervisor restarts the engine. */
                d->state_sent = cloche_engine_is_over(d->engine) ? MESSAGE_ALIVE : MESSAGE_STOPPING;
                supervised_send(&d->options, d->state_sent, NULL);
                set_state(d, DAEMON_STOPPING);
                listen_stop(d);
                mcp_leave(d);
        }
        if (grace_ms == 0 || d->is_hurried) {
                d->is_hurried = 1;
                run_cancel_all(d);
        } else if (d->state == DAEMON_STOPPING)
                uv_timer_start(&d->grace_timer, on_grace, grace_ms, 0);
        daemon_check_stop(d);
}

void loop_signal(struct daemon *d, int number)
{
        /* A second signal: sandboxes that are not saved yet are discarded. */
        if (d->state == DAEMON_STOPPING || d->state == DAEMON_SAVING) {
                d->is_discarding = 1;
                discard_sandboxes(d, "the daemon received a second signal to end");
                set_state(d, DAEMON_SAVED);
                uv_timer_stop(&d->grace_timer);
        }
        daemon_stop(d, d->state != DAEMON_RUNNING ? 0 : d->options.grace_ms,
                    number == SIGTERM  ? "SIGTERM"
                    : number == SIGINT ? "SIGINT"
                                       : "SIGHUP");
}

/* pkill(1) signals both processes, and the supervisor forwards its signals: an engine with a
 * supervisor ignores direct ones. SIG_IGN would be inherited by the keeper. */
static void on_signal(uv_signal_t *handle, int number)
{
        struct daemon *d = handle->data;

        if (d->options.link_fd < 0)
                loop_signal(d, number);
}

/* -- life ----------------------------------------------------------------------------------------------------- */

/* Return 0 if the kernel does not report the memory. See proc_meminfo(5). */
static int has_memory(void)
{
        _cleanup_fd_ int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
        char text[1024];
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        const char *line;

        if (n < 0)
                return 0;
        text[n] = '\0';
        line = strstr(text, "MemAvailable:");
        return line && strtoull(line + 13, NULL, 10) >= CONTEXTS_FREE_KIB;
}

int loop_new(struct daemon *d, struct cloche_err *e)
{
        int r = uv_loop_init(&d->loop);

        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "make a loop");
        TAILQ_INIT(&d->connections);
        TAILQ_INIT(&d->unsent);
        TAILQ_INIT(&d->jobs);
        TAILQ_INIT(&d->ended_jobs);
        TAILQ_INIT(&d->prefixes);
        TAILQ_INIT(&d->changesets);
        TAILQ_INIT(&d->syncs);
        TAILQ_INIT(&d->web_sockets);
        TAILQ_INIT(&d->sandbox_jobs);
        TAILQ_INIT(&d->sandbox_sockets);
        TAILQ_INIT(&d->proxies);
        TAILQ_INIT(&d->image_programs);
        TAILQ_INIT(&d->image_uploads);
        TAILQ_INIT(&d->image_imports);
        TAILQ_INIT(&d->listeners);
        d->state_lock_fd = d->users_fd = d->notice_fd = -EBADF;
        stats_begin(&d->stats);
        d->has_memory = has_memory(); /* confine.h denies /proc/meminfo later */
        return 0;
}

/* Clients of the container API cannot set an option, and their server keeps these interpreters
 * ready. An image without them is no error. */
static int warm_by_default(struct daemon *d, struct cloche_err *e)
{
        struct cloche_err missing = {0};

        if (sandboxes_warm(d->sandboxes, PRINCIPAL_TOKEN, "javascript,typescript", &missing) < 0 &&
            missing.code != CLOCHE_E_UNKNOWN_LANGUAGE && missing.code != CLOCHE_E_MISSING_RUNTIME) {
                *e = missing;
                return -(int)e->code;
        }
        return 0;
}

/* Prewarm for the likely callers: for a unix socket that is the user who started the daemon. */
static int warm_contexts(struct daemon *d, struct cloche_err *e)
{
        const struct listener *l;
        int r = 0;

        if (!d->options.contexts && d->options.container_count > 0 && d->has_memory)
                return warm_by_default(d, e);
        if (!d->options.contexts)
                return 0;
        if (d->options.connect_fd >= 0)
                r = sandboxes_warm(d->sandboxes, getuid(), d->options.contexts, e);
        TAILQ_FOREACH (l, &d->listeners, link)
                if (r == 0)
                        r = sandboxes_warm(d->sandboxes, l->is_tcp ? PRINCIPAL_TOKEN : (int64_t)l->own_uid,
                                           d->options.contexts, e);
        return r;
}

/* The rules themselves are checked with the policy. */
json_t *daemon_network(const struct daemon *d)
{
        json_t *allow, *deny;

        if (!d->options.network)
                return NULL;
        allow = json_array();
        deny = json_array();
        for (const char *at = d->options.network; *at;) {
                size_t size = strcspn(at, ",");
                int denies = *at == '!';

                json_array_append_new(denies ? deny : allow, json_stringn(at + denies, size - (size_t)denies));
                at += size + (at[size] == ',');
        }
        return json_pack("{s:o, s:o}", "allow", allow, "deny", deny);
}

static int start_sandboxes(struct daemon *d, struct cloche_err *e)
{
        json_t *network = daemon_network(d), *env = packages_env(&d->options);
        json_t *names = packages_network_names(&d->options);
        char *gemrc = NULL;
        int r = env && names && packages_gemrc(&d->options, &gemrc) == 0
                        ? 0
                        : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "set up the sandboxes");
        const struct sandboxes_options opt = {
                .engine = d->engine,
                .state_dir = d->state_dir,
                .preview_host = d->options.preview_host,
                .preview_is_tls = d->options.tls_key != NULL,
                .reach = d->options.connect_fd >= 0 ? SANDBOXES_BY_OPERATION : SANDBOXES_BY_COMMAND,
                .token_reach = listen_needs_token(d) ? SANDBOXES_BY_OPERATION : SANDBOXES_OUT_OF_REACH,
                .images = &images_of_sandboxes,
                .images_data = d,
                .env = env,
                .gemrc = gemrc,
                .network = network,
                .save_every_ms = d->options.save_every_ms,
                .sandboxes_max = (unsigned)d->options.sandboxes_max,
                .saved_max = (unsigned)d->options.saved_max,
                .volumes_max = (unsigned)d->options.volumes_max,
                .volume_bytes_max = d->options.volume_bytes_max,
                .has_layers_on_disk = d->options.has_layers_on_disk,
                .on_unsaved = on_unsaved,
                .on_lost = on_lost,
                .on_load = on_load,
                .events_data = d,
        };

        engine_set_network_names(d->engine, names);
        engine_set_network_env(d->engine, packages_env_of_runs(env));
        if (r == 0)
                r = sandboxes_new(&opt, &d->sandboxes, e);
        json_decref(network);
        json_decref(env);
        free(gemrc);
        return r < 0 ? r : warm_contexts(d, e);
}

int loop_start(struct daemon *d, struct cloche_err *e)
{
        static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
        int r = start_sandboxes(d, e);

        callers_init(&d->callers, (unsigned)d->options.connections_max, (uint64_t)d->options.auth_ms * 1000000,
                     connection_drop);
        if (r == 0)
                r = mcp_start(d, e);
        if (r == 0 && d->options.is_jupyter)
                r = gateway_start(d, e);
        if (r == 0)
                r = web_start(d, e);
        if (r < 0)
                return r;
        r = uv_poll_init(&d->loop, &d->engine_poll, cloche_engine_fd(d->engine));
        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "watch the engine");
        uv_poll_start(&d->engine_poll, UV_READABLE, on_engine);
        uv_timer_init(&d->loop, &d->engine_timer);
        uv_timer_init(&d->loop, &d->sweep_timer);
        uv_timer_init(&d->loop, &d->grace_timer);
        uv_prepare_init(&d->loop, &d->turn);
        d->turn.data = d->sweep_timer.data = d->grace_timer.data = d;
        uv_prepare_start(&d->turn, on_turn);
        uv_timer_start(&d->sweep_timer, on_sweep, SWEEP_MS, SWEEP_MS);
        for (int i = 0; i < 3; i++) {
                uv_signal_init(&d->loop, &d->signals[i]);
                d->signals[i].data = d;
                uv_signal_start(&d->signals[i], on_signal, numbers[i]);
        }
        return supervised_start(d, e);
}

int loop_run(struct daemon *d)
{
        log_event(LEVEL_INFO, "ready", "{s:s}", "version", CLOCHE_VERSION);
        d->state_sent = MESSAGE_READY;
        supervised_send(&d->options, d->state_sent, NULL);
        uv_run(&d->loop, UV_RUN_DEFAULT);
        log_event(LEVEL_INFO, "end", NULL);
        return d->exit_code;
}

static void close_handle(uv_handle_t *handle, void *data)
{
        (void)data;
        if (!uv_is_closing(handle))
                uv_close(handle, NULL);
}

void loop_free(struct daemon *d)
{
        web_stop(d);
        connections_close_all(d);
        gateway_stop(d);
        mcp_stop(d);
        prefix_drop_all(d);
        /* These runs were cancelled just now, by an end that did not wait for them. */
        while (d->engine && !TAILQ_EMPTY(&d->jobs) && !cloche_engine_is_over(d->engine))
                cloche_engine_turn(d->engine);
        run_free_ended(d);
        changes_drop_all(d);
        sandboxes_free(d->sandboxes);
        if (d->engine)
                images_stop(d);
        cloche_engine_free(d->engine);
        listen_stop(d);
        uv_walk(&d->loop, close_handle, NULL);
        while (uv_run(&d->loop, UV_RUN_NOWAIT))
                ;
        uv_loop_close(&d->loop);
        languages_done(&d->languages);
        free(d->listen_names);
        state_close(d);
}
