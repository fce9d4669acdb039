/* A run: from checked options to a result, driven by the engine's loop. Everything that can fail for the caller's sake
 * fails before the box is made; from then on whatever the guest does becomes a result. */
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "engine.h"
#include "limits.h"
#include "wire/rpc.h"
#include "wire/value.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define FRAME_OVERHEAD (1u << 20) /* of an answer beside its value: names, a stack */
#define CPU_LOOK_MIN_MS 5
#define CPU_LOOK_MAX_MS 50

/* -- handles on the loop -------------------------------------------------------------------------------------- */

int loop_poll_init(struct cloche_run *run, uv_poll_t *poll, int fd, struct cloche_err *e)
{
        /* libuv makes the descriptor nonblocking, and the caller's open files are not ours to change. */
        int flags = fcntl(fd, F_GETFL), r = uv_poll_init(&run->engine->loop, poll, fd);

        if (flags >= 0)
                fcntl(fd, F_SETFL, flags);
        if (r < 0) {
                poll->data = NULL; /* never opened: not closed either */
                return err_os(e, CLOCHE_E_RESOURCE, -r, "watch descriptor %d", fd);
        }
        poll->data = run;
        run->handles++;
        return 0;
}

static void on_closed(uv_handle_t *handle)
{
        struct cloche_run *run = handle->data;

        run->handles--;
}

static void close_handle(uv_handle_t *handle)
{
        if (handle->data && !uv_is_closing(handle))
                uv_close(handle, on_closed);
}

static void close_handles(struct cloche_run *run)
{
        uv_handle_t *all[] = {
                (uv_handle_t *)&run->streams[0].poll, (uv_handle_t *)&run->streams[0].sink_poll,
                (uv_handle_t *)&run->streams[1].poll, (uv_handle_t *)&run->streams[1].sink_poll,
                (uv_handle_t *)&run->input.guest_poll, (uv_handle_t *)&run->input.source_poll,
                (uv_handle_t *)&run->channel_poll, (uv_handle_t *)&run->control_poll,
                (uv_handle_t *)&run->wall_timer, (uv_handle_t *)&run->cpu_timer,
        };

        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
                close_handle(all[i]);
}

/* -- how a run ends ------------------------------------------------------------------------------------------- */

static void end(struct cloche_run *run, enum run_end why)
{
        if (run->ended)
                return;
        run->ended = 1;
        run->end = why;
        run->ended_ns = clock_now_ns();
        uv_stop(&run->engine->loop);
}

static void on_wall(uv_timer_t *timer)
{
        end(timer->data, RUN_END_WALL);
}

static void on_cancel(uv_async_t *async)
{
        struct cloche_run *run = async->data;

        if (atomic_load(&run->cancelled))
                end(run, RUN_END_CANCELLED);
}

/* The box's own clock is asked, ever sooner as the limit comes near: all processors at full speed cannot cross it by
 * more than one look. */
static void on_cpu(uv_timer_t *timer)
{
        struct cloche_run *run = timer->data;
        struct keeper_usage usage;
        uint64_t left_ms;

        if (keeper_box_usage(run->box.keeper, run->box.id, &usage, NULL) < 0 || !usage.cpu_known)
                return;
        if (usage.cpu_ns / 1000000 >= run->limits.cpu_ms) {
                end(run, RUN_END_CPU);
                return;
        }
        left_ms = run->limits.cpu_ms - usage.cpu_ns / 1000000;
        left_ms = left_ms < CPU_LOOK_MIN_MS ? CPU_LOOK_MIN_MS : left_ms > CPU_LOOK_MAX_MS ? CPU_LOOK_MAX_MS : left_ms;
        uv_timer_start(timer, on_cpu, left_ms, 0);
}

/* -- the agent's channel -------------------------------------------------------------------------------------- */

static void guest_broke_protocol(struct cloche_run *run, const struct cloche_err *e)
{
        run->problem = *e;
        end(run, RUN_END_PROTOCOL);
}

static int keep_result(struct cloche_run *run, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        json_t *value = NULL, *source;
        int r;

        if (!json_is_object(m->result) || !json_object_get(m->result, "value"))
                return err_set(e, CLOCHE_E_PROTOCOL, "the agent's result has no \"value\"");
        r = value_to_text(json_object_get(m->result, "value"), f->attachments, f->attachments_size, &value, e);
        if (r < 0)
                return r;
        source = json_object_get(m->result, "signatureSource");
        run->answer = json_pack("{s:o, s:O}", "value", value, "signatureSource", json_is_string(source) ? source : json_null());
        return run->answer ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "keep the result");
}

static int keep_answer(struct cloche_run *run, const struct frame *f, struct cloche_err *e)
{
        struct rpc_message m;
        int r = rpc_parse(f, &m, e);

        if (r < 0)
                return r;
        if ((m.kind == RPC_RESULT || m.kind == RPC_ERROR) && json_integer_value(m.id) != REQUEST_CALL_ID) {
                r = err_set(e, CLOCHE_E_PROTOCOL, "an answer to a request that nobody made");
        } else if (m.kind == RPC_RESULT) {
                r = keep_result(run, &m, f, e);
        } else if (m.kind == RPC_ERROR) {
                run->answer = json_incref(m.error);
                run->answer_is_error = 1;
        } else {
                r = err_set(e, CLOCHE_E_PROTOCOL, "the agent called \"%.60s\", which nobody offers", m.method);
        }
        rpc_message_done(&m);
        return r;
}

/* Everything that is there; ends the run with the first answer. */
static void read_channel(struct cloche_run *run)
{
        struct cloche_err e = {0};
        struct frame frame;

        while (!run->ended) {
                size_t room;
                char *to = frame_reader_room(&run->reader, &room);
                ssize_t n = to ? recv(run->channel_fd, to, room, MSG_DONTWAIT) : -1;
                int r;

                if (n <= 0) {
                        if (n == 0 || !to || (errno != EAGAIN && errno != EINTR))
                                uv_poll_stop(&run->channel_poll); /* its exit will tell */
                        return;
                }
                frame_reader_filled(&run->reader, (size_t)n);
                r = frame_reader_next(&run->reader, &frame, &e);
                if (r > 0)
                        r = keep_answer(run, &frame, &e);
                if (r < 0)
                        guest_broke_protocol(run, &e);
                else if (run->answer)
                        end(run, RUN_END_NONE);
        }
}

static void write_channel(struct cloche_run *run)
{
        ssize_t n = send(run->channel_fd, run->to_agent.data, run->to_agent.size, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n > 0)
                buf_consume(&run->to_agent, (size_t)n);
        else if (n < 0 && errno != EAGAIN && errno != EINTR)
                buf_consume(&run->to_agent, run->to_agent.size); /* the agent is gone; its exit will tell */
}

static void on_channel(uv_poll_t *poll, int status, int events)
{
        struct cloche_run *run = poll->data;

        if (run->ended)
                return;
        if (run->to_agent.size > 0 && (events & UV_WRITABLE)) {
                write_channel(run);
                if (run->to_agent.size == 0)
                        uv_poll_start(poll, UV_READABLE, on_channel);
        }
        if (status < 0 || (events & UV_READABLE))
                read_channel(run);
}

static void on_control(uv_poll_t *poll, int status, int events)
{
        struct cloche_run *run = poll->data;
        int r;

        (void)status;
        (void)events;
        if (run->ended)
                return;
        r = box_hear(&run->box, NULL);
        if (r < 0)
                uv_poll_stop(poll);
        if (r == 0 && !run->box.exited)
                return;
        /* The result may have come with the last breath. */
        if (run->kind == CLOCHE_CALL)
                read_channel(run);
        end(run, RUN_END_NONE);
}

/* -- starting ------------------------------------------------------------------------------------------------- */

/* All that is missing, in the words that permit it. */
static int check_guards(const cloche_engine *engine, struct cloche_err *e)
{
        char names[160] = "";
        size_t size = 0;

        for (int g = 0; g < CLOCHE_GUARD_COUNT && size < sizeof(names); g++)
                if (cloche_engine_guard(engine, (enum cloche_guard)g, NULL) != CLOCHE_GUARD_ENFORCED &&
                    !(engine->optional_guards & 1u << g))
                        size += (size_t)snprintf(names + size, sizeof(names) - size, "%s%s", size ? "," : "",
                                                 cloche_guard_name((enum cloche_guard)g));
        if (size == 0)
                return 0;
        return err_set(e, CLOCHE_E_GUARD_MISSING, "guards missing: %s (cloche selftest tells why; --optional permits it)", names);
}

static int make_box(struct cloche_run *run, struct cloche_err *e)
{
        struct keeper_box_spec *spec = calloc(1, sizeof(*spec));
        int r;

        if (!spec)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a box");
        spec->limits = limits_of_box(&run->limits);
        spec->optional_guards = run->engine->optional_guards;
        spec->parent = KEEPER_NO_BOX;
        if (strlen(run->engine->image) >= sizeof(spec->image) || strlen(run->runtime->directory) >= sizeof(spec->runtime_dir)) {
                free(spec);
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the path of the image or of the runtime is too long");
        }
        strcpy(spec->image, run->engine->image);
        if (run->kind == CLOCHE_CALL)
                strcpy(spec->runtime_dir, run->runtime->directory);
        r = box_make(&run->box, run->engine->keeper, spec, e);
        free(spec);
        return r;
}

static int place_script(struct cloche_run *run, const struct cloche_run_options *opt, struct cloche_err *e)
{
        char path[INIT_PATH_MAX];
        _cleanup_fd_ int fd = -EBADF;

        request_script_path(opt, run->runtime, path, sizeof(path));
        fd = fd_from_bytes("script", opt->code, opt->code_size ? opt->code_size : strlen(opt->code));
        if (fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -fd, "hold the script");
        return box_put(&run->box, path, fd, 0644, e);
}

static int place_files(struct cloche_run *run, const struct cloche_run_options *opt, struct cloche_err *e)
{
        int r = files_place(&run->box, opt, e);

        if (r == 0 && run->kind == CLOCHE_SCRIPT)
                r = place_script(run, opt, e);
        if (r == 0 && !run->omit_changes && (opt->file_count > 0 || run->kind == CLOCHE_SCRIPT))
                r = files_list(&run->box, &run->files, e);
        return r;
}

static int open_channel(struct cloche_run *run, int *ret_guest_fd, struct cloche_err *e)
{
        int pair[2];

        if (run->kind != CLOCHE_CALL)
                return 0;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make the agent's channel");
        run->channel_fd = pair[0];
        *ret_guest_fd = pair[1];
        return 0;
}

static int spawn(struct cloche_run *run, const struct cloche_run_options *opt, struct cloche_err *e)
{
        _cleanup_buf_ struct buf strings = {0};
        int guest_fds[4] = {-EBADF, -EBADF, -EBADF, -EBADF}, r;
        uint32_t argc, envc;

        r = request_strings(opt, run->runtime, &strings, &argc, &envc, e);
        if (r == 0)
                r = streams_open(run, opt, guest_fds, e);
        if (r == 0)
                r = open_channel(run, &guest_fds[3], e);
        run->started_ns = clock_now_ns();
        if (r == 0)
                r = box_spawn(&run->box, strings.data, strings.size, argc, envc, guest_fds, guest_fds[3] >= 0 ? 4 : 3, e);
        for (int i = 0; i < 4; i++)
                fd_close(&guest_fds[i]);
        if (r == -CLOCHE_E_SPAWN && e && e->os_errno == ENOENT) {
                struct cloche_err cause = *e;

                return err_set(e, CLOCHE_E_MISSING_RUNTIME, "the image has no interpreter for %s (%.120s)", run->runtime->name, cause.msg);
        }
        return r;
}

static int start_timer(struct cloche_run *run, uv_timer_t *timer, uv_timer_cb callback, uint64_t after_ms)
{
        uv_timer_init(&run->engine->loop, timer);
        timer->data = run;
        run->handles++;
        return uv_timer_start(timer, callback, after_ms, 0);
}

static int watch(struct cloche_run *run, struct cloche_err *e)
{
        int r = streams_start(run, e);

        if (r == 0)
                r = loop_poll_init(run, &run->control_poll, run->box.control_fd, e);
        if (r == 0 && run->kind == CLOCHE_CALL)
                r = loop_poll_init(run, &run->channel_poll, run->channel_fd, e);
        if (r < 0)
                return r;
        uv_update_time(&run->engine->loop);
        uv_poll_start(&run->control_poll, UV_READABLE, on_control);
        if (run->kind == CLOCHE_CALL)
                uv_poll_start(&run->channel_poll, UV_READABLE | UV_WRITABLE, on_channel);
        if (run->limits.wall_ms != CLOCHE_UNLIMITED)
                start_timer(run, &run->wall_timer, on_wall, run->limits.wall_ms);
        if (run->limits.cpu_ms != CLOCHE_UNLIMITED)
                start_timer(run, &run->cpu_timer, on_cpu, CPU_LOOK_MIN_MS);
        return 0;
}

static struct cloche_run *run_new(cloche_engine *engine, const struct cloche_run_options *opt, const struct runtime *runtime,
                                  const struct cloche_limits *limits)
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
        run->channel_fd = run->input.source_fd = run->input.guest_fd = -EBADF;
        run->box.control_fd = run->box.pidfd = -EBADF;
        for (int i = 0; i < 2; i++) {
                run->streams[i].run = run;
                run->streams[i].fd = run->streams[i].sink_fd = -EBADF;
                output_init(&run->streams[i].kept, limits->output_bytes);
        }
        frame_reader_init(&run->reader, limits->result_bytes > FRAME_BYTES_MAX - FRAME_OVERHEAD
                                                ? FRAME_BYTES_MAX
                                                : (size_t)limits->result_bytes + FRAME_OVERHEAD);
        run->to_agent = BUF_INIT(FRAME_BYTES_MAX);
        run->warnings = json_array();
        uv_async_init(&engine->loop, &run->cancel_async, on_cancel);
        run->cancel_async.data = run;
        engine->runs++;
        return run;
}

int cloche_run_start(cloche_engine *engine, const struct cloche_run_options *opt, cloche_run **ret, struct cloche_err *e)
{
        const struct runtime *runtime;
        struct cloche_limits limits;
        struct cloche_run *run;
        int r = runtimes_find(&engine->runtimes, opt->language, &runtime, e);

        if (r == 0)
                r = request_check(opt, e);
        if (r == 0)
                r = limits_resolve(&opt->limits, &limits, e);
        if (r == 0)
                r = check_guards(engine, e);
        if (r < 0)
                return r;
        run = run_new(engine, opt, runtime, &limits);
        if (!run)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start a run");
        if (run->kind == CLOCHE_CALL)
                r = request_build(opt, runtime, &limits, &run->to_agent, e);
        if (r == 0)
                r = make_box(run, e);
        if (r == 0)
                r = place_files(run, opt, e);
        if (r == 0)
                r = spawn(run, opt, e);
        if (r == 0)
                r = watch(run, e);
        if (r < 0) {
                cloche_run_free(run);
                return r;
        }
        *ret = run;
        return 0;
}

/* -- ending --------------------------------------------------------------------------------------------------- */

static void warn(struct cloche_run *run, const char *text)
{
        json_array_append_new(run->warnings, json_string(text));
}

/* What the run did to the files, once nothing moves them any more. */
static json_t *changes(struct cloche_run *run, struct init_answer *ret_quiet)
{
        struct files after = {0};
        json_t *list = NULL;

        if (box_quiesce(&run->box, ret_quiet, NULL) < 0) {
                warn(run, "the box did not survive the run: changes of files are not known");
                return NULL;
        }
        if (run->omit_changes)
                return NULL;
        if (files_list(&run->box, &after, NULL) < 0 ||
            files_compare(&run->box, &run->files, &after, run->omit_contents, &list, NULL) < 0)
                warn(run, "the files could not be compared");
        files_done(&after);
        return list;
}

int cloche_run_wait(cloche_run *run, cloche_result **ret, struct cloche_err *e)
{
        struct init_answer quiet = {0};
        struct keeper_usage usage = {0};
        json_t *list;
        int r;

        if (!run->box.made)
                return err_set(e, CLOCHE_E_STATE, "this run was waited for already");
        while (!run->ended) {
                if (atomic_load(&run->cancelled))
                        end(run, RUN_END_CANCELLED);
                else
                        uv_run(&run->engine->loop, UV_RUN_ONCE);
        }
        streams_stop(run);
        list = changes(run, &quiet);
        close_handles(run);
        r = box_drop(&run->box, &usage, e);
        if (r < 0) {
                json_decref(list);
                return r;
        }
        return result_make(run, &usage, &quiet, list, ret, e);
}

void cloche_run_cancel(cloche_run *run)
{
        atomic_store(&run->cancelled, 1);
        uv_async_send(&run->cancel_async); /* async-signal-safe (libuv documentation, uv_async_send) */
}

void cloche_run_free(cloche_run *run)
{
        if (!run)
                return;
        close_handles(run);
        run->handles++;
        uv_close((uv_handle_t *)&run->cancel_async, on_closed);
        while (run->handles > 0)
                uv_run(&run->engine->loop, UV_RUN_ONCE);
        (void)box_drop(&run->box, NULL, NULL);
        fd_close(&run->channel_fd);
        streams_done(run);
        frame_reader_done(&run->reader);
        buf_done(&run->to_agent);
        files_done(&run->files);
        json_decref(run->answer);
        json_decref(run->warnings);
        run->engine->runs--;
        free(run);
}
