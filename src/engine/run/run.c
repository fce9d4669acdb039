/* A run: from checked options to a result, driven by the engine's loop. Errors of the caller are
 * found before the box is made; from then on every act of the guest becomes a result. Runs in: the
 * engine, on its loop. */
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/state.h"
#include "engine/loop/aside.h"
#include "engine/loop/console.h"
#include "engine/loop/engine.h"
#include "engine/warm/prefix.h"
#include "wire/rpc.h"
#include "wire/value.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define FRAME_OVERHEAD (1u << 20) /* of an answer beside its value: names, a stack */
#define CPU_LOOK_MIN_MS 5
#define CPU_LOOK_MAX_MS 50
#define EXIT_PATIENCE_MS 2000 /* between a child's end and its template's report of it */

/* -- handles on the loop ---------------------------------------------------------------------------------------- */

static void finish(struct cloche_run *run);

static void on_closed(uv_handle_t *handle)
{
        struct cloche_run *run = handle->data;

        if (--run->handles == 0 && run->state == RUN_FREED)
                finish(run);
}

static void close_handle(uv_handle_t *handle)
{
        if (handle->data && !uv_is_closing(handle))
                uv_close(handle, on_closed);
}

static void close_handles(struct cloche_run *run)
{
        uv_handle_t *all[] = {
                (uv_handle_t *)&run->wall_timer,
                (uv_handle_t *)&run->cpu_timer,
                (uv_handle_t *)&run->exit_timer,
        };

        streams_close_relays(run);
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
                close_handle(all[i]);
}

/* -- how a run ends --------------------------------------------------------------------------------------------- */

static const unsigned transitions[RUN_STATES] = {
        [RUN_STARTING] = STATE_TO(RUN_RUNNING) | STATE_TO(RUN_READY) | STATE_TO(RUN_FREED),
        [RUN_RUNNING] = STATE_TO(RUN_ENDED) | STATE_TO(RUN_READY) | STATE_TO(RUN_FREED),
        [RUN_ENDED] = STATE_TO(RUN_COMPARING) | STATE_TO(RUN_MEASURING) | STATE_TO(RUN_FREED),
        [RUN_COMPARING] = STATE_TO(RUN_COLLECTING) | STATE_TO(RUN_MEASURING) | STATE_TO(RUN_FREED),
        [RUN_COLLECTING] = STATE_TO(RUN_MEASURING) | STATE_TO(RUN_FREED),
        [RUN_MEASURING] = STATE_TO(RUN_SYNCING) | STATE_TO(RUN_READY) | STATE_TO(RUN_FREED),
        [RUN_SYNCING] = STATE_TO(RUN_READY) | STATE_TO(RUN_FREED),
        [RUN_READY] = STATE_TO(RUN_CONCLUDED) | STATE_TO(RUN_FREED),
        [RUN_CONCLUDED] = STATE_TO(RUN_FREED),
};

void run_set_state(struct cloche_run *run, enum run_state state)
{
        STATE_CHECK(transitions, run->state, state);
        run->state = state;
}

int run_has_ended(const struct cloche_run *run)
{
        return run->state >= RUN_ENDED;
}

static void end(struct cloche_run *run, enum run_end why)
{
        if (run_has_ended(run))
                return;
        run_set_state(run, !run->had_program || why == RUN_END_FAILED ? RUN_READY : RUN_ENDED);
        run->end = why;
        run->ended_ns = clock_now_ns();
        if (!run->started_ns)
                run->started_ns = run->ended_ns;
        if (!run->had_program)
                run_stop_start(run);
        run->is_queued = 1;
        TAILQ_INSERT_TAIL(&run->engine->ended, run, ended_link);
        uv_stop(&run->engine->loop);
}

static void on_wall(uv_timer_t *timer)
{
        end(timer->data, RUN_END_WALL);
}

/* 0: the run has no process to signal. */
static int signal_program(struct cloche_run *run, int signal)
{
        const struct init_request request = {.op = INIT_KILL,
                                             .pid = run->box.pid,
                                             .signal = (uint32_t)signal,
                                             .flags = INIT_KILL_TREE};

        if (run->kind != CLOCHE_SCRIPT || run->parent_box || run->state != RUN_RUNNING || run->box.pid <= 0)
                return 0;
        return control_request(run->box.control, &request, NULL, 0, NULL, run, NULL) == 0;
}

static void on_cancel(uv_async_t *async)
{
        struct cloche_run *run = async->data;
        int signal = atomic_exchange(&run->signal, 0);

        if (run->has_terminal && !run_has_ended(run))
                stream_resize(run);
        if (signal && !run_has_ended(run) && !signal_program(run, signal))
                atomic_store(&run->cancelled, 1);
        if (!atomic_load(&run->cancelled))
                return;
        if (run->mounts)
                run_cancel_sync(run);
        end(run, RUN_END_CANCELLED);
}

static void on_cpu(uv_timer_t *timer);

static void judge_cpu(struct cloche_run *run, const struct keeper_usage *usage)
{
        uint64_t used_ms = (usage->cpu_ns - run->before.cpu_ns) / 1000000, left_ms;

        if (!usage->cpu_known)
                return;
        if (used_ms >= run->limits.cpu_ms) {
                end(run, RUN_END_CPU);
                return;
        }
        left_ms = run->limits.cpu_ms - used_ms;
        left_ms = left_ms < CPU_LOOK_MIN_MS ? CPU_LOOK_MIN_MS : left_ms > CPU_LOOK_MAX_MS ? CPU_LOOK_MAX_MS : left_ms;
        uv_timer_start(&run->cpu_timer, on_cpu, left_ms, 0);
}

static void on_cpu_usage(void *data, struct keeper_reply *reply)
{
        struct cloche_run *run = data;

        if (!reply->error && !run_has_ended(run))
                judge_cpu(run, &reply->answer->usage);
}

/* Check the box's CPU time, more often near the limit: with all processors at full speed it can
 * exceed the limit by one interval at most. */
static void on_cpu(uv_timer_t *timer)
{
        struct cloche_run *run = timer->data;
        struct keeper_usage usage;

        if (engine_measure_box(run->engine, &run->box, &usage))
                judge_cpu(run, &usage);
        else if (keeper_box_usage_async(run->engine->keeper, run->box.id, on_cpu_usage, run, NULL) < 0)
                return; /* the keeper is gone, and the box with it */
}

/* -- the agent's channel ---------------------------------------------------------------------------------------- */

static void guest_broke_protocol(struct cloche_run *run, const struct cloche_err *e)
{
        run->problem = *e;
        end(run, RUN_END_PROTOCOL);
}

/* The caller's value, or the function's, does not fit: report it like an error of the code. */
static int keep_schema_error(struct cloche_run *run, const struct schema_error *m, struct cloche_err *e)
{
        json_t *message = json_sprintf("%s%s%s", m->where, m->where[0] ? ": " : "", m->what);

        run->answer = json_pack("{s:O, s:{s:s, s:o}}", "message", message, "data", "type",
                                runtime_argument_error(run->runtime, m->is_value), "message", message);
        run->answer_is_error = 1;
        return run->answer ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "report the schema error");
}

static int keep_result(struct cloche_run *run, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        static const char *const measured[] = {"cpuMs", "heapBytes"};
        const char *name = run->kind == CLOCHE_EVALUATE ? "exports" : "value";
        json_t *value = NULL, *source;
        struct schema_error schema_error;
        int r;

        if (!json_is_object(m->result) || !json_object_get(m->result, name))
                return err_set(e, CLOCHE_E_PROTOCOL, "the agent's result has no \"%s\"", name);
        r = value_read(json_object_get(m->result, name), VALUE_FRAME, f->attachments, f->attachments_size, &value, e);
        if (r < 0)
                return r;
        r = run->schema ? signature_check_output(run->schema, value, &schema_error) : 0;
        if (r != 0) {
                json_decref(value);
                return r > 0 ? keep_schema_error(run, &schema_error, e)
                             : err_os(e, CLOCHE_E_RESOURCE, -r, "check the result");
        }
        source = json_object_get(m->result, "signatureSource");
        run->answer = json_pack("{s:o, s:O}", "value", value, "signatureSource",
                                json_is_string(source) ? source : json_null());
        for (size_t i = 0; i < sizeof(measured) / sizeof(measured[0]); i++)
                if (json_is_number(json_object_get(m->result, measured[i])))
                        json_object_set(run->answer, measured[i], json_object_get(m->result, measured[i]));
        if (json_is_object(json_object_get(m->result, "late")))
                json_object_set(run->answer, "late", json_object_get(m->result, "late"));
        return run->answer ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "keep the result");
}

static int keep_message(struct cloche_run *run, const struct rpc_message *m, const struct frame *f,
                        struct cloche_err *e)
{
        int is_build = run->build.is_requested && m->id && json_integer_value(m->id) == BUILD_ID;
        json_t *thrown;

        if (m->kind == RPC_RESULT && is_build)
                return build_on_answer(run->engine, &run->build, m, f, e);
        if ((m->kind == RPC_RESULT || m->kind == RPC_ERROR) && json_integer_value(m->id) != REQUEST_CALL_ID &&
            !is_build)
                return err_set(e, CLOCHE_E_PROTOCOL, "an answer without a request");
        if (m->kind == RPC_REQUEST)
                return bridge_receive(run, m, f, e);
        if (m->kind == RPC_RESULT)
                return keep_result(run, m, f, e);
        if (m->kind == RPC_NOTIFICATION && run->translation.is_requested && strcmp(m->method, "translated") == 0)
                return translation_on_told(&run->template->translations, &run->translation, m, f, e);
        if (m->kind == RPC_NOTIFICATION && run->kind == CLOCHE_EVALUATE &&
            (strcmp(m->method, "console") == 0 || strcmp(m->method, "lines") == 0))
                return console_receive(run, m, f, e);
        if (m->kind == RPC_NOTIFICATION && run->kind == CLOCHE_EVALUATE && strcmp(m->method, "began") == 0 &&
            run->began_cpu_ms == 0) {
                run->began_cpu_ms = json_number_value(json_object_get(m->params, "cpuMs"));
                return 0;
        }
        if (m->kind == RPC_NOTIFICATION)
                return err_set(e, CLOCHE_E_PROTOCOL, "the notification \"%.60s\", which was not requested", m->method);
        run->answer_is_error = 1;
        run->answer = json_copy(m->error);
        thrown = json_object_get(m->error, "data");
        if (json_is_object(thrown)) {
                thrown = value_failure_read(thrown, VALUE_FRAME, f->attachments, f->attachments_size);
                json_object_set_new(run->answer, "data", thrown);
        }
        return run->answer ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "keep an error");
}

/* The first answer ends the run. */
static int on_message(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        struct cloche_run *run = data;
        int r;

        if (run_has_ended(run))
                return 0;
        r = keep_message(run, m, f, e);
        if (run->answer)
                end(run, RUN_END_NONE);
        return r;
}

static void on_exit_unknown(uv_timer_t *timer)
{
        end(timer->data, RUN_END_NONE);
}

static int start_timer(struct cloche_run *run, uv_timer_t *timer, uv_timer_cb callback, uint64_t after_ms);

/* The agent has ended and so closed the channel. Its init or its template reports the exit. */
static void on_channel_end(void *data, const struct cloche_err *e)
{
        struct cloche_run *run = data;

        if (run_has_ended(run))
                return;
        if (e)
                guest_broke_protocol(run, e);
        else if (run->parent_box && run->parent_box->is_dead)
                end(run, RUN_END_NONE);
        else if (run->parent_box)
                start_timer(run, &run->exit_timer, on_exit_unknown, EXIT_PATIENCE_MS);
}

static void on_program_exit(void *data, const struct init_answer *exit)
{
        struct cloche_run *run = data;

        box_keep_exit(&run->box, exit);
        if (run_has_ended(run) || !run->box.exited)
                return;
        /* The program may have sent its result just before it ended. */
        channel_drain(&run->channel);
        end(run, RUN_END_NONE);
}

static void on_init_end(void *data, const struct cloche_err *e)
{
        struct cloche_run *run = data;

        (void)e;
        if (run->state != RUN_RUNNING)
                return; /* open requests of its start fail, and end the run */
        channel_drain(&run->channel);
        end(run, RUN_END_NONE);
}

/* -- starting --------------------------------------------------------------------------------------------------- */

/* Fail if a guard is missing; the error names all of them and the option that permits it. */
int engine_check_guards(const cloche_engine *engine, struct cloche_err *e)
{
        char names[160] = "";
        size_t size = 0;

        for (int g = 0; g < CLOCHE_GUARD_COUNT && size < sizeof(names); g++)
                if (cloche_guard_is_missing(cloche_engine_guard(engine, (enum cloche_guard)g, NULL)) &&
                    !(engine->optional_guards & 1u << g))
                        size += (size_t)snprintf(names + size, sizeof(names) - size, "%s%s", size ? "," : "",
                                                 cloche_guard_name((enum cloche_guard)g));
        if (size == 0)
                return 0;
        return err_set(e, CLOCHE_E_GUARD_MISSING,
                       "guards missing: %s (cloche selftest shows why; --optional permits runs without them)", names);
}

int engine_box_spec(const struct cloche_engine *engine, const struct image *image, const struct runtime *runtime,
                    struct keeper_box_spec *ret, struct cloche_err *e)
{
        const char *root = image->name[0] ? image->name : engine->image, *directory = runtime ? runtime->directory : "";

        ret->parent = KEEPER_NO_BOX;
        ret->shared_with = KEEPER_NO_BOX;
        ret->optional_guards = engine->optional_guards;
        if (strlen(root) >= sizeof(ret->image) || strlen(directory) >= sizeof(ret->runtime_dir))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the path of the image or of the runtime is too long");
        ret->user = image_runs_as(image);
        strcpy(ret->image, root);
        strcpy(ret->runtime_dir, directory);
        return 0;
}

uint64_t run_answer_bytes_max(const struct cloche_limits *limits)
{
        return limits->result_bytes > FRAME_BYTES_MAX - FRAME_OVERHEAD ? FRAME_BYTES_MAX
                                                                       : limits->result_bytes + FRAME_OVERHEAD;
}

static int start_timer(struct cloche_run *run, uv_timer_t *timer, uv_timer_cb callback, uint64_t after_ms)
{
        uv_timer_init(&run->engine->loop, timer);
        timer->data = run;
        run->handles++;
        return uv_timer_start(timer, callback, after_ms, 0);
}

static int watch_channel(struct cloche_run *run, struct cloche_err *e)
{
        run->channel.on_message = on_message;
        run->channel.on_end = on_channel_end;
        run->channel.data = run;
        channel_limit_frames(&run->channel, run_answer_bytes_max(&run->limits));
        if (buf_append(channel_out(&run->channel), run->request.data, run->request.size) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "send the call");
        buf_done(&run->request);
        channel_flush(&run->channel); /* first: what is sent at once needs no event */
        return channel_watch(&run->channel, &run->engine->loop, e);
}

/* Start the count at the request for the module, for the fork before is not its cost. Other kinds
 * of run skip this read of the groups' files. */
static void count_from_here(struct cloche_run *run)
{
        struct keeper_usage now;

        if (run->kind != CLOCHE_EVALUATE || !engine_measure_box(run->engine, &run->box, &now))
                return;
        if (now.cpu_known && now.cpu_ns > run->before.cpu_ns)
                run->before.cpu_ns = now.cpu_ns;
}

int run_watch(struct cloche_run *run, struct cloche_err *e)
{
        struct control *control = run->box.control;
        int r = streams_start(run, e);

        count_from_here(run);
        if (r == 0 && run->channel.fd >= 0)
                r = watch_channel(run, e);
        if (r < 0)
                return r;
        run_set_state(run, RUN_RUNNING);
        run->had_program = 1;
        control->on_exit = on_program_exit;
        control->on_end = on_init_end;
        control->data = run;
        uv_update_time(&run->engine->loop);
        if (run->limits.wall_ms != CLOCHE_UNLIMITED)
                start_timer(run, &run->wall_timer, on_wall, run->limits.wall_ms);
        if (run->limits.cpu_ms != CLOCHE_UNLIMITED)
                start_timer(run, &run->cpu_timer, on_cpu, CPU_LOOK_MIN_MS);
        if (control->fd < 0) /* init ended before it was watched */
                on_init_end(run, NULL);
        return 0;
}

/* -- from a template -------------------------------------------------------------------------------------------- */

void run_exited(struct cloche_run *run, const struct init_answer *exit)
{
        if (run_has_ended(run)) /* the engine killed it to compare its files */
                return;
        run->box.exited = 1;
        run->box.exit = *exit;
        channel_drain(&run->channel);
        end(run, RUN_END_NONE);
}

/* The template is this run's own program, and failed to start: report the same as for a cold
 * run. */
static enum run_end own_failure(struct cloche_run *run)
{
        const struct template *t = run->template;

        if (t->failure) {
                run->answer = json_pack("{s:O}", "data", t->failure);
                run->answer_is_error = 1;
                return RUN_END_NONE;
        }
        if (t->parent->state == TEMPLATE_BROKEN || template_failed_by_host(t))
                return RUN_END_FAILED;
        return t->error.code == CLOCHE_E_PREFIX ? RUN_END_WALL : RUN_END_NONE;
}

void run_failed(struct cloche_run *run, const struct cloche_err *e)
{
        if (run_has_ended(run))
                return;
        run->problem = *e;
        if (run->template && run->template->setup && run->template->setup->is_code &&
            run->template->state == TEMPLATE_BROKEN)
                end(run, own_failure(run));
        else
                end(run, RUN_END_FAILED);
}

void run_out_of_memory(struct cloche_run *run)
{
        if (!run_has_ended(run))
                end(run, RUN_END_NONE);
}

void run_template_died(struct cloche_run *run)
{
        if (!run_has_ended(run) && uv_is_active((uv_handle_t *)&run->exit_timer))
                end(run, RUN_END_NONE);
}

void run_broke_bridge(struct cloche_run *run, const struct cloche_err *e)
{
        run->problem = *e;
        end(run, RUN_END_BRIDGE);
}

static int find_template(struct cloche_run *run, const struct cloche_run_options *opt, struct cloche_err *e)
{
        if (opt->prefix)
                run->template = opt->prefix->template;
        else if (run->runtime->is_compiled && run->kind == CLOCHE_CALL)
                return prefix_of_code(run->engine, run->runtime, opt, run->values, &run->template, e);
        else
                return template_base(run->engine, run->runtime, &run->image, opt->tenant, &run->template, e);
        return 0;
}

static int request_of_child(struct cloche_run *run, const struct cloche_run_options *opt,
                            const struct arguments *arguments, struct cloche_err *e)
{
        struct source source = request_source(opt->code, opt->code_size);
        char name[256];
        int r = 0;

        if (run->runtime->is_translated)
                r = translation_use(&run->template->translations, request_method(opt),
                                    request_filename(opt, run->runtime, name, sizeof(name)), source.text, source.size,
                                    &run->translation, e);
        if (r == 0)
                r = request_build(opt, run->values, run->runtime, &run->limits, arguments, run->translation.param,
                                  &run->request, e);
        translation_use_done(&run->translation);
        return r;
}

static int queue_run(struct cloche_run *run, const struct cloche_run_options *opt, const struct arguments *arguments,
                     struct cloche_err *e)
{
        int r = engine_check_queue(run->engine, e);

        if (r == 0)
                r = find_template(run, opt, e);
        if (r == 0)
                r = request_of_child(run, opt, arguments, e);
        if (r == 0)
                r = files_keep(opt->files, opt->file_count, opt->workdir, run->mounts, &run->own_files, e);
        if (r < 0) {
                run->template = NULL;
                return r;
        }
        run->template->users++;
        run->started_ns = clock_now_ns(); /* set again when it has its instance */
        template_queue_run(run->template, run);
        return 0;
}

static struct cloche_run *run_new(cloche_engine *engine, const struct cloche_run_options *opt,
                                  const struct runtime *runtime, const struct cloche_limits *limits)
{
        struct cloche_run *run = calloc(1, sizeof(*run));

        if (!run)
                return NULL;
        run->engine = engine;
        run->runtime = runtime;
        run->kind = opt->kind;
        run->limits = *limits;
        run->omit_changes = opt->omit_changes;
        run->omit_contents = opt->omit_contents;
        run->omit_denied = opt->omit_denied;
        run->tenant = opt->tenant;
        run->has_terminal = opt->cols > 0;
        atomic_store(&run->terminal_size, opt->cols << 16 | opt->rows);
        run->on_end = opt->on_end;
        run->on_file_event = opt->on_file_event;
        run->file_event_data = opt->file_event_data;
        run->file_events = opt->on_file_event ? opt->file_events : 0;
        run->on_output = opt->on_output;
        run->data = opt->data;
        run->channel.fd = -EBADF;
        run->box = BOX_NONE;
        run->before_fd = -EBADF;
        streams_init(run);
        run->request = BUF_INIT(FRAME_BYTES_MAX);
        bridge_init(&run->bridge, opt->on_bridge || !opt->prefix ? opt->on_bridge : opt->prefix->on_bridge,
                    opt->on_bridge || !opt->prefix ? opt->bridge_data : opt->prefix->bridge_data);
        run->warnings = json_array();
        for (int i = 0; i < 2; i++)
                run->console[i].lines = json_array();
        uv_async_init(&engine->loop, &run->cancel_async, on_cancel);
        run->cancel_async.data = run;
        engine->runs++;
        return run;
}

static int check_origin(const struct cloche_run_options *opt, const struct values *values, const struct image *image,
                        const struct runtime *runtime, struct cloche_err *e)
{
        if (opt->kind == CLOCHE_EVALUATE &&
            (!runtime->has_realm || (!opt->prefix && !opt->warm) || (opt->prefix && !opt->prefix->bare)))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "modules are evaluated in JavaScript only, with warm or with a bare prefix");
        if (opt->kind != CLOCHE_EVALUATE && opt->prefix && opt->prefix->bare)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "a bare prefix only evaluates modules: a call or script needs another prefix");
        if (!opt->prefix && !opt->warm)
                return 0;
        if (runtime->is_cold_only)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "%s cannot be forked from a template: leave out prefix and warm", runtime->name);
        if (opt->env_count || opt->workdir)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "a run that is forked from a template has its environment and working directory: leave "
                               "out env and workdir");
        if (opt->prefix && opt->prefix->template->runtime != runtime)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the prefix is for %s, not for %s",
                               opt->prefix->template->runtime->name, runtime->name);
        if (opt->prefix && image->name[0] && strcmp(image->name, opt->prefix->template->image.name) != 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "the prefix has another image: leave the image out of the run");
        if (opt->prefix && (values->globals || values->imports))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "globals and imports are declared by the prefix: leave them out of the run");
        return 0;
}

/* Put the build request before the call. */
static int append_build_request(struct cloche_run *run, const struct cloche_run_options *opt, struct cloche_err *e)
{
        int r = build_describe(run->engine, run->runtime, opt, run->values->build, &run->build, e);

        return r < 0 ? r : build_request(run->engine, &run->build, &run->request, e);
}

static int start(struct cloche_run *run, const struct cloche_run_options *opt, const struct arguments *arguments,
                 struct cloche_err *e)
{
        int r = 0;

        if (run->runtime->is_compiled && run->kind == CLOCHE_CALL && !run->is_forked)
                r = append_build_request(run, opt, e);
        if (r == 0 && run->kind != CLOCHE_SCRIPT && !run->is_forked)
                r = request_build(opt, run->values, run->runtime, &run->limits, arguments, NULL, &run->request, e);
        if (r < 0)
                return r;
        return run->is_forked ? queue_run(run, opt, arguments, e) : run_start_cold(run, opt, e);
}

/* Arguments that do not fit need no box: the run ends at once. */
static int start_bound(struct cloche_run *run, const struct cloche_run_options *opt, struct cloche_err *e)
{
        struct arguments arguments = {0};
        struct schema_error schema_error;
        int r = run->kind == CLOCHE_CALL ? request_bind(run->values, &arguments, &schema_error, e) : 0;

        if (r == 0)
                r = start(run, opt, &arguments, e);
        else if (r > 0 && (r = keep_schema_error(run, &schema_error, e)) == 0)
                end(run, RUN_END_NONE);
        arguments_done(&arguments);
        return r;
}

static int keep_collect(struct cloche_run *run, const struct cloche_run_options *opt, struct cloche_err *e)
{
        char path[INIT_PATH_MAX];

        run->collect = calloc(opt->collect_count + 1, sizeof(char *));
        for (size_t i = 0; run->collect && i < opt->collect_count; i++) {
                int r = files_normalise(opt->collect[i], opt->workdir ? opt->workdir : FILES_ROOT, path, sizeof(path),
                                        e);

                if (r < 0)
                        return r;
                run->collect[i] = strdup(path);
                if (!run->collect[i])
                        break;
                run->collect_count++;
        }
        return run->collect && run->collect_count == opt->collect_count
                       ? 0
                       : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "keep the paths to collect");
}

static int run_start(cloche_engine *engine, const struct cloche_run_options *opt, const struct values *values,
                     int has_texts, cloche_run **ret, struct cloche_err *e)
{
        const struct runtime *runtime;
        struct cloche_limits limits;
        struct cloche_run *run;
        struct image image;
        int r = runtimes_find(&engine->runtimes, opt->language, &runtime, e);

        if (r == 0)
                r = image_take(engine, opt->image, opt->image_settings, &image, e);
        if (r == 0)
                r = check_origin(opt, values, &image, runtime, e);
        if (r == 0)
                r = request_check(opt, values, runtime, e);
        if (r == 0)
                r = limits_resolve(&opt->limits, &limits, e);
        if (r == 0)
                r = engine_check_guards(engine, e);
        if (r < 0)
                return r;
        run = run_new(engine, opt, runtime, &limits);
        if (!run)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start a run");
        run->image = opt->prefix ? opt->prefix->template->image : image;
        image_hold(&run->image);
        run->is_forked = opt->prefix || opt->warm;
        run->has_texts = has_texts;
        run->values = values;
        run->bridge.has_bodies = values->has_bodies;
        run->schema = opt->kind == CLOCHE_CALL ? json_incref(values->schema) : NULL;
        r = opt->network ? run_take_network(run, opt, e) : 0;
        if (r == 0)
                r = keep_collect(run, opt, e);
        if (r == 0 && opt->mount)
                r = run_take_mounts(run, opt, e);
        if (r == 0)
                r = streams_keep(run, opt, e);
        if (r == 0)
                r = start_bound(run, opt, e);
        run->values = NULL;
        if (r < 0) {
                run->on_end = NULL;
                cloche_run_free(run);
                return r;
        }
        *ret = run;
        return 0;
}

int engine_run_start(cloche_engine *engine, const struct cloche_run_options *opt, const struct values *values,
                     cloche_run **ret, struct cloche_err *e)
{
        return run_start(engine, opt, values, 0, ret, e);
}

int cloche_run_start(cloche_engine *engine, const struct cloche_run_options *opt, cloche_run **ret,
                     struct cloche_err *e)
{
        struct values values;
        int r = values_read(opt, &values, e);

        if (r == 0)
                r = run_start(engine, opt, &values, 1, ret, e);
        values_done(&values);
        return r;
}

/* -- ending ----------------------------------------------------------------------------------------------------- */

void run_warn(struct cloche_run *run, const char *text)
{
        json_array_append_new(run->warnings, json_string(text));
}

static int compare_files(struct cloche_run *run, struct cloche_err *e)
{
        struct files before = {0}, after = {0};
        int before_fd = run->before_fd < 0 ? run->box.files_fd : run->before_fd;
        int r = before_fd < 0 ? 0 : files_parse_fd(before_fd, &before, e);

        if (r == 0 && !run_is_root_mounted(run))
                r = files_list(&run->box, &after, e);
        if (r == 0)
                r = files_compare(&run->box, &before, &after, run->omit_contents, &run->own_changes, e);
        files_done(&before);
        files_done(&after);
        return r;
}

/* Compare the box's own files after all of its processes were killed. This runs in a thread:
 * leftovers of the run may delay the box's init, and a run can leave a million files. */
static void look(void *data)
{
        struct cloche_run *run = data;

        if (box_waiter_new(&run->box, &run->aside_error) < 0)
                return;
        if (box_quiesce(&run->box, &run->quiet, &run->aside_error) == 0) {
                if (run->collect_count > 0)
                        run->collected = files_collect(&run->box, run->collect, run->collect_count);
                if (!run->omit_changes)
                        (void)compare_files(run, &run->aside_error);
        }
        box_waiter_free(&run->box);
}

static void finish_free(struct cloche_run *run);

static void on_looked(void *data)
{
        struct cloche_run *run = data;

        run->aside = NULL;
        if (run->state == RUN_FREED) {
                finish_free(run);
                return;
        }
        if (run->aside_error.code)
                run_warn(run, run->aside_error.code == CLOCHE_E_RESOURCE ||
                                              (run->quiet.op == INIT_QUIESCE && !run->quiet.err.code)
                                      ? "the files could not be compared"
                                      : "the box did not survive the run: changes of files are not known");
        if (run->mounts)
                run_collect_mounts(run);
        else
                run_measure(run);
}

/* Subtract the box's usage before the run. */
static void take_before(struct cloche_run *run)
{
        struct keeper_usage *usage = &run->usage;

        usage->cpu_ns -= run->before.cpu_ns < usage->cpu_ns ? run->before.cpu_ns : usage->cpu_ns;
        usage->oom_kills -= run->before.oom_kills;
        usage->pids_refused -= run->before.pids_refused;
        if (run->in_used_box) /* the kernel cannot reset this count */
                usage->pids_peak = usage->pids_known = 0;
        /* Version 2 has no reset of the memory peak either, so a peak not above the old one may be
         * an earlier run's. (Since Linux 6.12 a write resets it for one descriptor.) */
        if (run->in_used_box && keeper_groups(run->engine->keeper)->places[CGROUP_MEMORY].version == 2 &&
            usage->memory_peak_bytes <= run->before.memory_peak_bytes)
                usage->memory_peak_bytes = usage->memory_known = 0;
}

static void measured(struct cloche_run *run)
{
        if (!run->usage_error.code) {
                take_before(run);
                if (run->mounts && run_start_sync(run))
                        return;
        }
        run_set_state(run, RUN_READY);
        run_schedule_conclude(run);
}

static void on_measured(void *data, struct keeper_reply *reply)
{
        struct cloche_run *run = data;

        if (reply->error)
                run->usage_error = *reply->error;
        else
                run->usage = reply->answer->usage;
        measured(run);
}

void run_measure(struct cloche_run *run)
{
        run_set_state(run, RUN_MEASURING);
        if (engine_measure_box(run->engine, &run->box, &run->usage) ||
            keeper_box_usage_async(run->engine->keeper, run->box.id, on_measured, run, &run->usage_error) < 0)
                measured(run);
}

static void compare_aside(struct cloche_run *run)
{
        box_take_control(&run->box);
        if (aside_start(&run->engine->loop, run->box.control_fd, look, on_looked, run, &run->aside, &run->aside_error) <
            0) {
                run->usage_error = run->aside_error; /* without its changes the run has no result */
                on_looked(run);
        }
}

/* A box as it was recorded has no changed file. Of another one the files are compared, and init,
 * which has killed everything, has nothing left to kill. */
static void on_checked(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        static const struct files none;
        struct cloche_run *run = data;

        fd_close(&fd);
        if (!e)
                run->box.check = answer->is_clean == 1 ? BOX_CLEAN : BOX_CHANGED;
        if (e) {
                run->aside_error = *e;
                on_looked(run);
        } else if (run->box.check == BOX_CHANGED) {
                compare_aside(run);
        } else {
                run->quiet = *answer;
                (void)files_compare(&run->box, &none, &none, 1, &run->own_changes, &run->aside_error);
                on_looked(run);
        }
}

/* Most runs change no file, which the clean-check of their box shows without a thread and a
 * list. */
static int may_be_unchanged(const struct cloche_run *run)
{
        return run->parent_box && run->box.is_recorded && run->end == RUN_END_NONE && !run->mounts &&
               run->own_files.count == 0 && run->collect_count == 0;
}

/* 0: run_schedule_conclude follows. */
static int open_books(struct cloche_run *run)
{
        if (run->state != RUN_ENDED)
                return run->state == RUN_READY;
        streams_stop(run);
        run_stop_network(run);
        if (!run->mounts && run->parent_box && run->omit_changes && run->collect_count == 0) {
                run_measure(run);
                return 0;
        }
        close_handles(run);
        /* The guest is killed now: the ends of its pipes and of its channel are no news. */
        streams_unwatch(run);
        channel_unwatch(&run->channel);
        run_set_state(run, RUN_COMPARING);
        if (!may_be_unchanged(run) || box_check_clean(&run->box, on_checked, run, NULL) < 0)
                compare_aside(run);
        return 0;
}

/* The template is held until here, so that the box can be given back. */
static void let_go(struct cloche_run *run)
{
        if (!run->template)
                return;
        template_leave(run->template, run);
        run->template->users--;
        run->template = NULL;
}

/* A run that got no box, because its template failed, ends with an error of the host or the
 * prefix. */
static int give_up(struct cloche_run *run, struct cloche_err *e)
{
        if (e)
                *e = run->problem;
        return -(int)run->problem.code;
}

/* Only the box of a run that ended well is worth a clean-check, unless one has found changes. */
static void give_box_back(struct cloche_run *run)
{
        struct keeper_box_limits limits = limits_of_box(&run->limits);
        const struct keeper_usage *usage = &run->usage;

        if (run->usage_error.code || run->mounts || run->end != RUN_END_NONE || run->own_files.count > 0 ||
            usage->oom_kills > 0 || usage->pids_refused > 0 || !run->answer || run->box.check == BOX_CHANGED) {
                (void)box_drop(&run->box, NULL, NULL);
                return;
        }
        template_reuse(run->template, &limits, &run->box, run->parent_box);
        run->parent_box = NULL;
}

static void close_ends(struct cloche_run *run)
{
        if (run->has_open_ends)
                TAILQ_REMOVE(&run->engine->with_open_ends, run, open_ends_link);
        run->has_open_ends = 0;
        channel_close(&run->channel);
        streams_done(run);
}

/* Our ends of the channel and of the pipes: nothing is read from them any more, and closing them is
 * not worth the caller's time. cloche_run_free closes them, or the loop's next turn. */
static void leave_ends_open(struct cloche_run *run)
{
        channel_ignore(&run->channel);
        run->has_open_ends = 1;
        TAILQ_INSERT_TAIL(&run->engine->with_open_ends, run, open_ends_link);
}

void runs_close_ends(struct cloche_engine *engine)
{
        struct cloche_run *run;

        while ((run = TAILQ_FIRST(&engine->with_open_ends)))
                close_ends(run);
}

/* The interpreter ended before our agent in it had read the request: no code of the caller has
 * run, and the reason is in the image. (Code that called the host may have left the host's
 * answer unread.) Returns the error, or 0. */
static int explain_start(struct cloche_run *run, struct cloche_err *e)
{
        _cleanup_buf_ struct buf text = BUF_INIT(SIZE_MAX / 2);

        if (run->kind == CLOCHE_SCRIPT || run->is_forked || run->end != RUN_END_NONE || run->answer ||
            run->bridge.calls > 0 || !run->channel.is_unread || !run->box.exited ||
            !WIFEXITED(run->box.exit.wait_status))
                return 0;
        /* A loader and an interpreter that lack a file say so; one that lacks memory may end
         * without a word. */
        if (output_text(&run->streams[1].kept, &text) < 0 || text.size == 0)
                return 0;
        runtime_explain_end(run->runtime, text.data, text.size, e);
        return -(int)e->code;
}

static int close_books(struct cloche_run *run, cloche_result **ret, struct cloche_err *e)
{
        json_t *list = run->own_changes;
        struct cloche_err own = {0};

        run->own_changes = NULL;
        close_handles(run);
        console_take_rest(run);
        leave_ends_open(run);
        bridge_done(&run->bridge);
        /* The caller need not wait until the box is gone. */
        if (run->parent_box)
                give_box_back(run);
        else
                (void)box_drop(&run->box, NULL, NULL);
        if (run->usage_error.code) {
                json_decref(list);
                *e = run->usage_error;
                return -(int)e->code;
        }
        if (explain_start(run, &own) < 0) {
                json_decref(list);
                *e = own;
                return -(int)e->code;
        }
        return result_make(run, &run->usage, &run->quiet, list, ret, e);
}

static int close_run(struct cloche_run *run, cloche_result **ret, struct cloche_err *e)
{
        if (run->end == RUN_END_FAILED)
                return give_up(run, e);
        if (!run->had_program)
                return result_make(run, &(struct keeper_usage){0}, &(struct init_answer){0}, NULL, ret, e);
        return close_books(run, ret, e);
}

static void leave_queue(struct cloche_run *run)
{
        if (run->is_queued)
                TAILQ_REMOVE(&run->engine->ended, run, ended_link);
        run->is_queued = 0;
}

void run_schedule_conclude(struct cloche_run *run)
{
        run->is_queued = 1;
        TAILQ_INSERT_TAIL(&run->engine->ended, run, ended_link);
        uv_stop(&run->engine->loop);
}

/* Finish a run that has ended: make its result, release its place and its box. */
static void run_conclude(struct cloche_run *run)
{
        leave_queue(run);
        if (!open_books(run))
                return;
        run_set_state(run, RUN_CONCLUDED);
        run->code = close_run(run, &run->result, &run->error);
        (void)box_drop(&run->box, NULL, NULL); /* of a run that failed, or ended before it began */
        let_go(run);
}

void run_report(struct cloche_run *run)
{
        int is_news = run->is_queued;

        run_conclude(run);
        if (is_news && run->state == RUN_CONCLUDED && run->on_end)
                run->on_end(run->data, run);
}

int cloche_run_wait(cloche_run *run, cloche_result **ret, struct cloche_err *e)
{
        if (run->was_waited_for)
                return err_set(e, CLOCHE_E_STATE, "cloche_run_wait was called before for this run: call it once");
        while (run->state != RUN_CONCLUDED) {
                if (!run_has_ended(run) && atomic_load(&run->cancelled))
                        end(run, RUN_END_CANCELLED);
                else if (run->is_queued)
                        run_report(run);
                else
                        uv_run(&run->engine->loop, UV_RUN_ONCE);
        }
        run_report(run);
        run->was_waited_for = 1;
        if (run->code < 0) {
                if (e)
                        *e = run->error;
                return run->code;
        }
        *ret = run->result;
        run->result = NULL;
        return 0;
}

void cloche_run_cancel(cloche_run *run)
{
        atomic_store(&run->cancelled, 1);
        uv_async_send(&run->cancel_async); /* async-signal-safe (libuv documentation, uv_async_send) */
}

void cloche_run_signal(cloche_run *run, int signal)
{
        atomic_store(&run->signal, signal);
        uv_async_send(&run->cancel_async);
}

void cloche_run_resize(cloche_run *run, unsigned cols, unsigned rows)
{
        if (cols < 1 || cols > UINT16_MAX || rows < 1 || rows > UINT16_MAX)
                return;
        atomic_store(&run->terminal_size, cols << 16 | rows);
        uv_async_send(&run->cancel_async);
}

static const char *phase_before(const struct cloche_run *run)
{
        if (run->cold == COLD_WAITING)
                return "waiting for a box";
        if (run->cold == COLD_REQUESTED)
                return "making the box";
        if (run->is_forked && !run->parent_box)
                return "bringing up the interpreter that runs are forked from";
        return "putting files into the box";
}

/* The compiler of a script has the channel, but the program does not. */
static int is_compiling(const struct cloche_run *run)
{
        return run->build.is_requested ||
               (run->kind == CLOCHE_SCRIPT && run->channel.fd >= 0 && !run->channel.is_ended && !run->is_forked);
}

const char *cloche_run_phase(const cloche_run *run)
{
        if (run_has_ended(run) && run->sync)
                return "writing changes to the host";
        if (run_has_ended(run))
                return run->state == RUN_CONCLUDED ? NULL : "looking at what the run left";
        if (run->state == RUN_STARTING)
                return phase_before(run);
        return is_compiling(run) ? "compiling" : NULL;
}

/* All handles are closed, so nothing refers to the run any more. */
static void finish(struct cloche_run *run)
{
        run->engine->runs--;
        image_drop(&run->image);
        free(run);
}

/* Free the members that the thread uses. The keeper may be freed already and is not called. */
static void finish_free(struct cloche_run *run)
{
        (void)box_drop(&run->box, NULL, NULL);
        mounts_unref(run->mounts);
        fd_close(&run->before_fd);
        json_decref(run->own_changes);
        for (size_t i = 0; i < run->collect_count; i++)
                free(run->collect[i]);
        free(run->collect);
        json_decref(run->collected);
        uv_close((uv_handle_t *)&run->cancel_async, on_closed);
}

void cloche_run_free(cloche_run *run)
{
        if (!run)
                return;
        run_set_state(run, RUN_FREED);
        leave_queue(run);
        run_stop_start(run);
        cloche_result_free(run->result);
        cloche_sync_free(run->sync);
        if (run->mounts)
                mounts_close(run->mounts);
        bridge_done(&run->bridge);
        run->handles++;     /* cancel_async */
        close_handles(run); /* before their descriptors */
        close_ends(run);
        run_network_done(run);
        let_go(run);
        parent_box_unref(run->parent_box);
        kept_files_done(&run->own_files);
        buf_done(&run->request);
        buf_done(&run->strings);
        build_done(&run->build);
        cloche_changeset_free(run->changeset);
        json_decref(run->synced);
        json_decref(run->schema);
        json_decref(run->answer);
        json_decref(run->warnings);
        for (int i = 0; i < 2; i++)
                json_decref(run->console[i].lines);
        box_kill(&run->box); /* the thread may wait for a mount's server, which dies with the box */
        if (run->aside)
                aside_cut_short(run->aside);
        else
                finish_free(run);
}
