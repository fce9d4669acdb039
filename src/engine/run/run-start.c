/* The start of a run: a box of its own, or one prepared on a template's; its files; its program.
 * Each step is a request to the keeper, to the box's init or to a mount's server, and the answer
 * starts the next. A run that ends meanwhile gets no answers. Runs in: the engine, on its loop. */
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/path.h"
#include "engine/loop/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLD_AT_ONCE (KEEPER_MAKING_MAX / 2) /* concurrent box requests of cold runs; the other half is for others */

static void leave_cold(struct cloche_run *run)
{
        struct cloche_engine *engine = run->engine;

        if (run->cold == COLD_WAITING) {
                TAILQ_REMOVE(&engine->cold_waiting, run, link);
                engine->cold_waiting_count--;
        } else if (run->cold == COLD_REQUESTED) {
                TAILQ_REMOVE(&engine->cold_requested, run, link);
                if (engine->cold_waiting_count > 0)
                        engine_awaits_boxes(engine);
        }
        run->cold = COLD_NOT;
}

void run_stop_start(struct cloche_run *run)
{
        leave_cold(run);
        if (run->template)
                template_dequeue_run(run->template, run); /* an instance may come in this turn of the loop */
        (void)keeper_detach(run->engine->keeper, run);    /* a box that is being made is dropped on arrival */
        seeding_stop(&run->seeding);
        run_stop_network(run);
        if (run->box.control)
                control_detach(run->box.control, run);
}

static void watch(struct cloche_run *run)
{
        struct cloche_err e = {0};

        if (run_watch(run, &e) < 0)
                run_failed(run, &e);
}

/* -- its program ------------------------------------------------------------------------------------------------ */

static void on_spawned(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        struct cloche_run *run = data;
        struct cloche_err missing;

        if (!e && run->has_terminal && streams_take_terminal(run, TAKE_FD(fd), &missing) < 0)
                e = &missing;
        fd_close(&fd);
        e = runtime_explain(run->runtime, e, &missing);
        if (e) {
                run_failed(run, e);
                return;
        }
        run->box.pid = answer->pid;
        watch(run);
}

/* Start the agent or the script in the run's own box. */
static int spawn(struct cloche_run *run, struct cloche_err *e)
{
        struct init_request request = {.op = INIT_SPAWN, .argc = run->argc, .envc = run->envc};
        struct stdio stdio = STDIO_NONE;
        int agent_fd = -EBADF, r;

        r = run->has_terminal ? 0 : stdio_open(&stdio, e);
        if (r == 0 && (run->kind == CLOCHE_CALL || (run->runtime->is_compiled && !run->has_terminal)))
                r = channel_open(&run->channel, run_answer_bytes_max(&run->limits), &agent_fd, e);
        run->started_ns = clock_now_ns();
        if (run->has_terminal) {
                request.flags = INIT_SPAWN_TERMINAL;
                stream_size(run, &request.cols, &request.rows);
        }
        if (r == 0) {
                size_t fd_count = run->has_terminal ? 0 : agent_fd >= 0 ? 4 : 3;
                int fds[] = {stdio.guest_fds[0], stdio.guest_fds[1], stdio.guest_fds[2], agent_fd};

                r = control_spawn(run->box.control, &request, run->strings.data, run->strings.size, fds, fd_count,
                                  on_spawned, run, e);
        }
        fd_close(&agent_fd);
        stdio_close_guest(&stdio);
        streams_take(run, &stdio);
        stdio_close(&stdio);
        buf_done(&run->strings);
        return r;
}

/* -- its files -------------------------------------------------------------------------------------------------- */

void run_go_on(struct cloche_run *run)
{
        struct cloche_err e = {0};

        if (run_awaits_network(run))
                return;
        if (run->parent_box)
                watch(run);
        else if (spawn(run, &e) < 0)
                run_failed(run, &e);
}

int run_is_root_mounted(const struct cloche_run *run)
{
        const char *below;

        return mounts_find(run->mounts, FILES_ROOT "/", &below) != NULL;
}

static void on_listed(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        struct cloche_run *run = data;
        struct cloche_err missing;

        (void)answer;
        if (!e && fd < 0) {
                err_set(&missing, CLOCHE_E_PROTOCOL, "the box's init sent no list of files");
                e = &missing;
        }
        if (e) {
                run_failed(run, e);
                return;
        }
        run->before_fd = fd; /* compared after the run, beside the loop */
        run_go_on(run);
}

/* The files of the box are known if it is empty, or was recorded and got none of the run's own. */
static int are_files_known(const struct cloche_run *run)
{
        return run->own_files.count == 0 && !run->mounts && (!run->parent_box || run->box.is_recorded);
}

/* Mounts report their changes themselves. */
static void on_seeded(void *data, const struct cloche_err *error)
{
        struct init_request request = {.op = INIT_LIST};
        struct cloche_run *run = data;
        struct cloche_err e = {0};

        if (error)
                run_failed(run, error);
        else if (run->omit_changes || run_is_root_mounted(run) || are_files_known(run))
                run_go_on(run);
        else if (control_request_path(run->box.control, &request, FILES_ROOT, NULL, 0, on_listed, run, &e) < 0)
                run_failed(run, &e);
}

/* -- a box of its own ------------------------------------------------------------------------------------------- */

static void on_box(void *data, struct keeper_reply *reply)
{
        struct cloche_run *run = data;
        struct cloche_engine *engine = run->engine;
        struct cloche_err e = {0};
        int r;

        leave_cold(run);
        if (reply->error) {
                run_failed(run, reply->error);
                runs_start_cold(engine);
                return;
        }
        r = box_adopt(&run->box, engine->keeper, reply, &engine->loop, &e);
        if (r == 0 && run->mounts)
                r = mounts_serve(run->mounts, run->box.keeper, run->box.id, &e);
        if (r == 0 && run->network.policy)
                r = run_start_network(run, &e);
        if (r < 0)
                run_failed(run, &e);
        else
                seeding_start(&run->seeding, &run->box, run->mounts, &run->own_files, on_seeded, run);
        runs_start_cold(engine);
}

static int request_box(struct cloche_run *run, struct cloche_err *e)
{
        struct keeper_box_spec *spec = calloc(1, sizeof(*spec));
        int r;

        if (!spec)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a box");
        spec->limits = limits_of_box(&run->limits);
        spec->is_sandbox = run->has_terminal || run->network.policy;
        r = engine_box_spec(run->engine, &run->image,
                            run->kind == CLOCHE_CALL || run->runtime->script_needs_folder ? run->runtime : NULL, spec,
                            e);
        if (r == 0 && run->mounts)
                mounts_describe(run->mounts, spec);
        if (r == 0)
                r = keeper_box_make_async(run->engine->keeper, spec, on_box, run, e);
        free(spec);
        return r;
}

/* of: count only its tenant's; NULL: all. */
static unsigned count_asked(const struct cloche_engine *engine, const struct cloche_run *of, uint64_t now_ns)
{
        const struct cloche_run *run;
        unsigned count = 0;

        TAILQ_FOREACH (run, &engine->cold_requested, link)
                count += now_ns - run->requested_ns < KEEPER_STUCK_NS && (!of || run->tenant == of->tenant);
        return count;
}

/* Return the oldest run of the tenant with the fewest boxes being made. */
static struct cloche_run *next_cold(const struct cloche_engine *engine, uint64_t now_ns)
{
        struct cloche_run *run, *next = NULL;
        unsigned least = COLD_AT_ONCE;

        TAILQ_FOREACH (run, &engine->cold_waiting, link) {
                unsigned count = count_asked(engine, run, now_ns);

                if (count < least) {
                        least = count;
                        next = run;
                }
                if (count == 0)
                        break;
        }
        return next;
}

void runs_start_cold(struct cloche_engine *engine)
{
        uint64_t now_ns = clock_now_ns();
        struct cloche_run *run;

        while (count_asked(engine, NULL, now_ns) < COLD_AT_ONCE && (run = next_cold(engine, now_ns))) {
                struct cloche_err e = {0};

                leave_cold(run);
                if (request_box(run, &e) < 0) {
                        run_failed(run, &e);
                        continue;
                }
                run->requested_ns = now_ns;
                run->cold = COLD_REQUESTED;
                TAILQ_INSERT_TAIL(&engine->cold_requested, run, link);
        }
        if (engine->cold_waiting_count > 0)
                engine_awaits_boxes(engine);
}

static int wait_for_turn(struct cloche_run *run, struct cloche_err *e)
{
        struct cloche_engine *engine = run->engine;
        int r = engine_check_queue(engine, e);

        if (r < 0)
                return r;
        run->started_ns = clock_now_ns(); /* set again when its program starts */
        run->cold = COLD_WAITING;
        TAILQ_INSERT_TAIL(&engine->cold_waiting, run, link);
        engine->cold_waiting_count++;
        runs_start_cold(engine);
        return 0;
}

static int keep_script(struct cloche_run *run, const struct cloche_run_options *opt, struct cloche_err *e)
{
        struct source source = request_source(opt->code, opt->code_size);
        char path[INIT_PATH_MAX];

        request_script_path(opt, run->runtime, path, sizeof(path));
        return files_keep_more(&run->own_files, path, source.text, source.size, e);
}

/* The directory must be in a writable place of the box, or in a mount. */
static int check_workdir(const struct cloche_run *run, const struct cloche_run_options *opt, struct cloche_err *e)
{
        char path[INIT_PATH_MAX];
        int r = opt->workdir && run->mounts ? files_normalise(opt->workdir, FILES_ROOT, path, sizeof(path), e) : 1;

        for (size_t i = 0; r == 0 && i < run->mounts->options.count; i++)
                if (path_is_at_or_below(path, run->mounts->options.rows[i].target))
                        r = 1;
        if (r == 0)
                r = files_resolve(opt->workdir, FILES_ROOT, path, sizeof(path), e);
        return r < 0 ? err_wrap(e, "working directory") : 0;
}

int run_start_cold(struct cloche_run *run, const struct cloche_run_options *opt, struct cloche_err *e)
{
        int r = check_workdir(run, opt, e);

        if (r == 0)
                r = files_keep(opt->files, opt->file_count, opt->workdir, run->mounts, &run->own_files, e);
        if (r == 0 && run->kind == CLOCHE_SCRIPT)
                r = keep_script(run, opt, e);
        if (r == 0)
                r = request_strings(opt, &run->image, opt->network ? run->engine->network_env : NULL, run->runtime,
                                    &run->strings, &run->argc, &run->envc, e);
        return r < 0 ? r : wait_for_turn(run, e);
}

/* -- from a template -------------------------------------------------------------------------------------------- */

void run_start_in_instance(struct cloche_run *run, struct instance *instance)
{
        run->box = box_move(&instance->box);
        run->parent_box = instance->parent_box;
        run->fork = instance->fork;
        run->before = instance->before;
        run->in_used_box = instance->is_used;
        run->channel = instance->channel;
        if (run->kind == CLOCHE_EVALUATE)
                run->channel.takes = S_IFREG;
        instance->parent_box = NULL;
        instance->channel = (struct channel){.fd = -EBADF};
        streams_take(run, &instance->stdio);
        instance_free(instance);
        run->started_ns = clock_now_ns();
        if (run->mounts && run->mounts->error.code)
                run_failed(run, &run->mounts->error);
        else
                seeding_start(&run->seeding, &run->box, run->mounts, &run->own_files, on_seeded, run);
}
