/* Types and functions that the files of the engine share. */
#ifndef CLOCHE_ENGINE_LOOP_ENGINE_H
#define CLOCHE_ENGINE_LOOP_ENGINE_H

#include "engine/box/files.h"
#include "engine/box/image.h"
#include "engine/box/limits.h"
#include "engine/box/seed.h"
#include "engine/mounts/changeset.h"
#include "engine/mounts/mount.h"
#include "engine/run/bridge.h"
#include "engine/run/run-network.h"
#include "engine/run/signature.h"
#include "engine/run/values.h"
#include "engine/warm/artifact.h"
#include "engine/warm/build.h"
#include "engine/warm/runtime.h"
#include "engine/warm/template.h"
#include "jail/cgroup/cgroup.h"
#include "output.h"
#include "stream.h"

#include <cloche/cloche.h>
#include <jansson.h>
#include <stdatomic.h>
#include <uv.h>

TAILQ_HEAD(cold_runs, cloche_run);

struct cloche_engine {
        struct keeper *keeper;
        struct runtimes runtimes;
        char *image, *libexec_dir;
        int has_images; /* a store */
        struct image_settings_list image_settings;
        struct image_settings *own_settings; /* of the image above; NULL: none */
        /* Opened at start-up: the user that the caller becomes may not reach the tree, below /root
         * for example. */
        int probe_fd; /* cloche-probe, for the selftest */
        int libexec_fd;
        int artifacts_fd; /* -errno: builds are not cached */
        struct mount_roots mount_roots;
        uint32_t optional_guards;
        json_t *network_names; /* of the operator (box/network-names.h) */
        json_t *network_env;   /* variables of runs with a network: where packages come from; text by name */
        uv_loop_t loop;
        struct stream_turns streams;
        uv_poll_t keeper_poll;
        uv_check_t ended_check; /* finishes and reports ended runs, with nothing else on the stack */
        unsigned runs;          /* not yet freed */
        struct {
                unsigned runs_max, queue_max, base_forks, spares, boxes_ahead;
                uint64_t templates_bytes;
                unsigned templates_max; /* of a tenant, unused */
        } options;
        TAILQ_HEAD(templates, template) templates;
        uint64_t turns;
        unsigned running, waiting;                     /* runs from templates */
        struct cold_runs cold_waiting, cold_requested; /* waiting for a box; the keeper is making their box */
        unsigned cold_waiting_count;
        uv_timer_t refill_timer, held_timer, tidy_timer;
        int must_retry_instances; /* instances were wanted while too many boxes were being made */
        int dispatching, must_redispatch, is_watching;
        int is_keeper_lost;    /* the keeper is gone, or timed out */
        int is_pinging;        /* a ping is unanswered */
        unsigned silent_turns; /* ticks of the tidy timer since that ping */
        TAILQ_HEAD(ended_runs, cloche_run) ended;
        TAILQ_HEAD(runs_with_open_ends, cloche_run) with_open_ends; /* concluded, in an earlier turn of the loop */
};

/* Limits of a base template; a prefix has those of its set-up. */
#define TEMPLATE_MEMORY_BYTES (512u << 20)
#define TEMPLATE_CHILDREN_BYTES (UINT64_C(2) << 30) /* about 0.4 MB a child */
#define TEMPLATE_DISK_BYTES (64u << 20)
#define TEMPLATE_DISK_INODES 4096
#define TEMPLATE_PIDS 4096 /* a child counts here until it is in its box */

/* Give network policies the operator's names (box/network-names.h). Steals names. */
void engine_set_network_names(struct cloche_engine *engine, json_t *names);
void engine_set_network_env(struct cloche_engine *engine, json_t *env);
/* Fill the pools later, not on the path of the run that took an instance. */
void engine_schedule_refill(struct cloche_engine *engine);
/* Call it when an instance was wanted while too many boxes were being made; dispatch runs again
 * when there is room. */
void engine_retry_instances(struct cloche_engine *engine);
/* Boxes being made may be stuck: runs_start_cold is called again in that case. */
void engine_awaits_boxes(struct cloche_engine *engine);

/* CLOCHE_E_QUEUE_FULL: the queue of waiting runs, warm and cold, is full. */
CLOCHE_MUST_CHECK int engine_check_queue(const struct cloche_engine *engine, struct cloche_err *e);

/* Read a box's usage from its control groups. 0: this process may not read all of them, so the
 * keeper has to. */
int engine_read_usage(const struct cloche_engine *engine, uint32_t box, struct keeper_usage *ret);
void engine_read_present(const struct cloche_engine *engine, uint32_t box, struct cgroup_present *ret);
/* The same for a box that is measured more than once: its files stay open until box_drop. */
int engine_measure_box(const struct cloche_engine *engine, struct box *box, struct keeper_usage *ret);

/* Fill in the image, runtime and guards of this engine's boxes. */
int engine_box_spec(const struct cloche_engine *engine, const struct image *image, const struct runtime *runtime,
                    struct keeper_box_spec *ret, struct cloche_err *e);

/* The reason why the engine ended a run. */
enum run_end {
        RUN_END_NONE,
        RUN_END_WALL,
        RUN_END_CPU,
        RUN_END_CANCELLED,
        RUN_END_PROTOCOL,
        RUN_END_BRIDGE,
        RUN_END_FAILED
};

enum run_place { RUN_NOWHERE, RUN_WAITING, RUN_ACTIVE };

/* The life of a run, in order; run.c has the legal transitions. */
enum run_state {
        RUN_STARTING,   /* its program was not started: there is nothing to compare */
        RUN_RUNNING,    /* its program is watched */
        RUN_ENDED,      /* it ran; from here on events are ignored */
        RUN_COMPARING,  /* its files, in a thread */
        RUN_COLLECTING, /* the changes of its mounts */
        RUN_MEASURING,
        RUN_SYNCING,   /* writing the mounts' changes */
        RUN_READY,     /* for its result */
        RUN_CONCLUDED, /* code, result and error are valid */
        RUN_FREED,     /* by the caller; handles or a thread still use it */
        RUN_STATES
};

struct cloche_run {
        TAILQ_ENTRY(cloche_run) link, ended_link; /* link: in a list of its template, or of cold runs */
        TAILQ_ENTRY(cloche_run) open_ends_link;
        struct cloche_engine *engine;
        const struct runtime *runtime;
        enum cloche_run_kind kind;
        struct cloche_limits limits;
        int omit_changes, omit_contents, omit_denied;
        struct box box;
        uint64_t started_ns, ended_ns;
        void (*on_end)(void *data, cloche_run *run);
        void (*on_output)(void *data, cloche_run *run, int stream, const void *bytes, size_t size);
        void *data;
        enum run_state state; /* set by run_set_state */
        int had_program;      /* it was RUN_RUNNING */
        int is_queued, was_waited_for, has_open_ends;
        int code; /* these three are valid from RUN_CONCLUDED on */
        cloche_result *result;
        struct cloche_err error;

        char **collect; /* paths to read back */
        size_t collect_count;
        json_t *collected;

        /* Start (run-start.c). */
        enum { COLD_NOT, COLD_WAITING, COLD_REQUESTED } cold; /* the engine's list that holds it */
        int64_t tenant;
        struct image image;
        uint64_t requested_ns; /* when its box was requested */
        struct seeding seeding;
        struct buf strings; /* of its program, if the run has a box of its own */
        uint32_t argc, envc;
        int before_fd; /* a list of the box's files before the run; -EBADF: that of the recorded box, if any */

        /* End. */
        struct aside *aside; /* thread that compares files, or NULL */
        struct cloche_err aside_error;
        json_t *own_changes; /* changes of the box's own files */
        struct init_answer quiet;
        struct keeper_usage usage;
        struct cloche_err usage_error; /* of measuring or of comparing files: the run has no result then */

        /* Only of a run with mounts. */
        struct mounts *mounts; /* NULL: no mounts */
        cloche_file_handler on_file_event;
        void *file_event_data;
        unsigned file_events;
        cloche_changeset *changeset;
        cloche_sync *sync;
        int may_sync;
        json_t *synced; /* the sync's result */

        struct run_network network;

        /* Only of a run forked from a template. */
        int is_forked;
        int is_output_lost; /* writing to the caller's descriptor failed, and not by EPIPE */
        int has_texts;      /* the caller reads JSON text of bridge calls and of the result */
        struct template *template;
        enum run_place place;
        struct parent_box *parent_box;
        uint32_t fork;
        struct keeper_usage before;
        int in_used_box;
        struct kept_files own_files; /* to seed its box with */

        /* The channel to the agent. */
        struct channel channel;
        struct buf request;
        struct build build; /* of a compiled language, cold */
        struct translation_use translation;
        struct bridge bridge;

        struct run_stream {
                struct cloche_run *run;
                struct stream output;
                int relayed; /* to sink_fd, our copy of the caller's; else captured */
                int sink_fd; /* -EBADF once it fails; output is closed then, too */
                uint64_t relay_bytes_max;
                struct output kept;
                struct buf pending;       /* read, but not yet written to the sink */
                struct watch *sink_watch; /* NULL: not relayed, closed, or a file, which cannot be watched */
        } streams[2];
        struct {
                int source_fd; /* our copy of the caller's descriptor */
                int guest_fd;  /* write end of the guest's stdin, nonblocking */
                struct buf pending;
                struct watch *source_watch, *guest_watch; /* source_watch is NULL for a file */
        } input;

        uv_timer_t wall_timer, cpu_timer, exit_timer;
        uv_async_t cancel_async;
        atomic_int cancelled;
        atomic_int signal; /* to send to its program; 0: none */
        int has_terminal;
        _Atomic uint32_t terminal_size; /* columns and rows, 16 bits each */
        unsigned handles;               /* open on the loop */
        enum run_end end;

        const struct values *values; /* only while it starts */
        json_t *schema;              /* from the caller, or NULL */
        json_t *answer;              /* the result or error member of the agent's answer, values held */
        int answer_is_error;
        struct cloche_err problem; /* the error of RUN_END_PROTOCOL, _BRIDGE, _FAILED */
        json_t *warnings;
        struct {
                json_t *lines;
                uint64_t total, kept, memory;
        } console[2];            /* only CLOCHE_EVALUATE */
        json_int_t lines_number; /* of the last message with many lines */
        double began_cpu_ms;     /* agent's CPU time when its code began; 0: it did not begin */
};

#define REQUEST_CALL_ID 1 /* a run sends its agent one request */

/* Fail if a guard is missing; the error names all of them and the option that permits it. */
int engine_check_guards(const struct cloche_engine *engine, struct cloche_err *e);

/* request.c: a source without its byte order mark. */
struct source {
        const char *text; /* borrowed */
        size_t size;
};
struct source request_source(const char *code, size_t size); /* size 0: strlen(code) */

/* request.c: check all options before a box is made. */
int request_check(const struct cloche_run_options *opt, const struct values *values, const struct runtime *runtime,
                  struct cloche_err *e);
/* Bind the arguments of a call. Returns 1 with *m filled if they do not fit the schema. */
int request_bind(const struct values *values, struct arguments *ret, struct schema_error *m, struct cloche_err *e);
/* Make the request to the agent, as a frame. arguments: only of a call. translation: held, or
 * NULL. */
int request_build(const struct cloche_run_options *opt, const struct values *values, const struct runtime *runtime,
                  const struct cloche_limits *limits, const struct arguments *arguments, const json_t *translation,
                  struct buf *ret, struct cloche_err *e);
/* The method of that request. */
const char *request_method(const struct cloche_run_options *opt);
/* Make the `prepare` request, as a frame. function: the one that runs will call, or NULL. */
int request_prepare(const struct cloche_prefix_options *opt, const struct values *values, const char *function,
                    const struct runtime *runtime, struct buf *ret, struct cloche_err *e);
/* Make the strings for control_spawn. */
int request_strings(const struct cloche_run_options *opt, const struct image *image, const json_t *network_env,
                    const struct runtime *runtime, struct buf *ret, uint32_t *ret_argc, uint32_t *ret_envc,
                    struct cloche_err *e);
/* Return the name of the code in stacks: its own, or main.<extension> written to ret. */
const char *request_filename(const struct cloche_run_options *opt, const struct runtime *runtime, char *ret,
                             size_t size);
/* Write the script's path in the box. */
void request_script_path(const struct cloche_run_options *opt, const struct runtime *runtime, char *ret, size_t size);

/* result.c: makes results of runs whose box is quiet or gone. */
/* Convert a denial of cloche-fs to the contract's form. */
json_t *result_denial(const struct changeset_row *row, const json_t *denial);
enum cloche_status result_status(const struct cloche_run *run, const struct keeper_usage *usage);
int result_make(struct cloche_run *run, const struct keeper_usage *usage, const struct init_answer *quiet,
                json_t *changes, cloche_result **ret, struct cloche_err *e);

/* Return the object whose text cloche_result_json returns, held (wire/value.h); borrowed. */
json_t *result_root(cloche_result *result);

/* run.c, prefix.c: start with held values instead of the texts of opt, which are ignored. Bridge
 * calls and the result have no texts then: use bridge_call_args, bridge_call_kwargs and
 * result_root. */
int engine_run_start(cloche_engine *engine, const struct cloche_run_options *opt, const struct values *values,
                     cloche_run **ret, struct cloche_err *e);
int engine_prefix_start(cloche_engine *engine, const struct cloche_prefix_options *opt, const struct values *values,
                        cloche_prefix **ret, struct cloche_err *e);

/* run-stream.c */
void streams_init(struct cloche_run *run); /* with its limits */
/* Copy the caller's descriptors, before there is a box. */
int streams_keep(struct cloche_run *run, const struct cloche_run_options *opt, struct cloche_err *e);
/* Take our ends of the guest's pipes, and their watches. */
void streams_take(struct cloche_run *run, struct stdio *stdio);
/* Take our end of the guest's terminal instead of pipes. Takes master_fd, also on failure. */
int streams_take_terminal(struct cloche_run *run, int master_fd, struct cloche_err *e);
void stream_size(const struct cloche_run *run, uint32_t *ret_cols, uint32_t *ret_rows);
void stream_resize(struct cloche_run *run); /* to terminal_size */
int streams_start(struct cloche_run *run, struct cloche_err *e);
/* Stop events after the program has ended, and read the rest in the pipes. */
void streams_stop(struct cloche_run *run);
void streams_unwatch(struct cloche_run *run); /* after streams_stop */
/* Close the watches of the caller's descriptors and of the guest's input. */
void streams_close_relays(struct cloche_run *run);
void streams_done(struct cloche_run *run);

/* run.c */
void run_set_state(struct cloche_run *run, enum run_state state);
int run_has_ended(const struct cloche_run *run);
/* Finish a run that has ended, and call on_end once. */
void run_report(struct cloche_run *run);
/* Close the channels and pipes that concluded runs left open. */
void runs_close_ends(struct cloche_engine *engine);
void run_warn(struct cloche_run *run, const char *text);
/* Continue the conclusion after a step that was waited for. */
void run_schedule_conclude(struct cloche_run *run);
/* Watch the run: its program runs, or its child waits for the call. Events count from now on. */
int run_watch(struct cloche_run *run, struct cloche_err *e);
uint64_t run_answer_bytes_max(const struct cloche_limits *limits);
/* Measure the box, in which nothing runs any more. With mounts run_start_sync follows, then
 * run_schedule_conclude. */
void run_measure(struct cloche_run *run);
/* run-start.c */
void run_go_on(struct cloche_run *run); /* start its program; all the rest is in place */
int run_start_cold(struct cloche_run *run, const struct cloche_run_options *opt, struct cloche_err *e);
/* Request boxes for the next cold runs in turn. */
void runs_start_cold(struct cloche_engine *engine);
/* Cancel all requests made for its start. */
void run_stop_start(struct cloche_run *run);
int run_is_root_mounted(const struct cloche_run *run);
/* run-mounts.c */
int run_take_mounts(struct cloche_run *run, const struct cloche_run_options *opt, struct cloche_err *e);
/* Collect the changes of the mounts, after the run's own files were compared. run_measure follows,
 * perhaps from here. */
void run_collect_mounts(struct cloche_run *run);
/* Write the changes if the run succeeded and the caller does not decide about them. 1:
 * run_schedule_conclude follows. */
int run_start_sync(struct cloche_run *run);
void run_cancel_sync(struct cloche_run *run);
/* Callbacks of a template. */
void run_start_in_instance(struct cloche_run *run, struct instance *instance); /* takes instance */
void run_exited(struct cloche_run *run, const struct init_answer *exit);
void run_failed(struct cloche_run *run, const struct cloche_err *e);
void run_out_of_memory(struct cloche_run *run);
void run_template_died(struct cloche_run *run);
/* Called when a limit of the bridge was crossed. */
void run_broke_bridge(struct cloche_run *run, const struct cloche_err *e);

#endif
