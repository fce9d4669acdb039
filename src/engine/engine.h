/* What the files of the engine share. */
#ifndef CLOCHE_ENGINE_ENGINE_H
#define CLOCHE_ENGINE_ENGINE_H

#include "artifact.h"
#include "bridge.h"
#include "build.h"
#include "files.h"
#include "changeset.h"
#include "limits.h"
#include "mount.h"
#include "output.h"
#include "place.h"
#include "run-network.h"
#include "runtime.h"
#include "signature.h"
#include "template.h"
#include "values.h"
#include "jail/cgroup.h"

#include <cloche/cloche.h>
#include <jansson.h>
#include <stdatomic.h>
#include <uv.h>

TAILQ_HEAD(cold_runs, cloche_run);

struct cloche_engine {
        struct keeper *keeper;
        struct runtimes runtimes;
        char *image, *libexec_dir;
        /* Opened at the start, as the caller may give up the right to: the user it becomes need not reach the tree, below /root say. */
        int probe_fd; /* of selftest */
        int libexec_fd;
        int artifacts_fd; /* -errno: nothing is kept */
        struct mount_roots mount_roots;
        uint32_t optional_guards;
        uv_loop_t loop;
        uv_poll_t keeper_poll;
        uv_check_t ended_check; /* runs that ended are concluded and told of here, outside of everything else */
        unsigned runs; /* alive */
        struct {
                unsigned runs_max, queue_max, base_forks, spares;
                uint64_t templates_bytes;
        } options;
        TAILQ_HEAD(templates, template) templates;
        uint64_t turns;
        unsigned running, waiting; /* of the runs that come from templates */
        struct cold_runs cold_waiting, cold_asked; /* for their turn; for a box of their own, that the keeper was asked for */
        unsigned cold_waiting_count;
        uv_timer_t refill_timer, held_timer, tidy_timer;
        int lacks_seats; /* some were not asked for, because too many boxes were being made */
        int dispatching, dispatch_again, is_watching;
        int is_over;           /* the keeper is gone, or does not answer */
        int is_pinging;        /* it owes an answer */
        unsigned silent_turns; /* of the tidy timer, since it was asked */
        TAILQ_HEAD(ended_runs, cloche_run) ended;
};

/* Of a base template; a prefix has its set-up's. */
#define TEMPLATE_MEMORY_BYTES (512u << 20)
#define TEMPLATE_CHILDREN_BYTES (UINT64_C(2) << 30) /* some 0.4 MB each */
#define TEMPLATE_DISK_BYTES (64u << 20)
#define TEMPLATE_DISK_INODES 4096
#define TEMPLATE_PIDS 4096 /* a child is counted here until it is in its box */

/* Spares are made again, off the path of the run that took one. */
void engine_refill_later(struct cloche_engine *engine);
/* A seat was wanted while too many boxes were being made: runs take their turns again when there is room. */
void engine_lacks_seats(struct cloche_engine *engine);
/* Boxes that are being made may turn out to be stuck: runs_start_cold is called again then. */
void engine_awaits_boxes(struct cloche_engine *engine);

/* CLOCHE_E_QUEUE_FULL: no more runs may wait, warm or cold. */
CLOCHE_MUST_CHECK int engine_check_queue(const struct cloche_engine *engine, struct cloche_err *e);

/* Read from its groups what a box has used. 0: we may not read all of them, and the keeper has to be asked. */
int engine_read_usage(const struct cloche_engine *engine, uint32_t box, struct keeper_usage *ret);

/* Image, runtime and guards of this engine's boxes. */
int engine_box_spec(const struct cloche_engine *engine, const struct runtime *runtime, struct keeper_box_spec *ret,
                    struct cloche_err *e);

/* Why a run was ended by us. */
enum run_end { RUN_END_NONE, RUN_END_WALL, RUN_END_CPU, RUN_END_CANCELLED, RUN_END_PROTOCOL, RUN_END_BRIDGE, RUN_END_FAILED };

enum run_place { RUN_NOWHERE, RUN_WAITING, RUN_ACTIVE };

/* Between a run's end and its result: its files are looked at, of a run with mounts theirs collected, then it is measured, and the mounts are written. */
enum run_books { BOOKS_OPEN, BOOKS_LOOKING, BOOKS_COLLECTING, BOOKS_MEASURING, BOOKS_SYNCING, BOOKS_READY };

struct cloche_run {
        TAILQ_ENTRY(cloche_run) link, ended_link; /* link: of its template's lists, or of cold runs */
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
        int output_held;
        int is_live; /* its program was started, and is watched; before, it has nothing to be looked at */
        int is_queued, is_concluded, waited, is_freed;
        int code; /* these three once it is concluded */
        cloche_result *result;
        struct cloche_err error;

        char **collect; /* paths to be read back */
        size_t collect_count;
        json_t *collected;

        /* Its beginning (run-start.c). */
        enum { COLD_NOT, COLD_WAITING, COLD_ASKED } cold; /* in which list of the engine it is */
        int64_t tenant;
        uint64_t asked_ns; /* for its box */
        struct placing placing;
        struct buf strings; /* its program's, of a run with a box of its own */
        uint32_t argc, envc;
        int before_fd; /* a list of the box's files as they were, or -EBADF: there were none */

        /* Its end. */
        struct aside *aside; /* or NULL */
        struct cloche_err aside_error;
        enum run_books books;
        json_t *own_changes; /* of the box's own files */
        struct init_answer quiet;
        struct keeper_usage usage;
        struct cloche_err usage_error; /* of measuring it, or of looking at its files: the run has no result then */

        /* Of a run with mounts. */
        struct mounts *mounts; /* NULL: none */
        cloche_file_handler on_file_event;
        void *file_event_data;
        unsigned file_events;
        cloche_changeset *changeset;
        cloche_sync *sync;
        int may_sync;
        json_t *synced;           /* what the sync came to */

        struct run_network network;

        /* Of a run that is forked from a template. */
        int is_forked;
        int is_output_lost; /* the caller's descriptor took no more, and nobody had left */
        int has_texts; /* of calls of the bridge and of the result: its caller reads JSON text */
        struct template *template;
        enum run_place place;
        struct trunk *trunk;
        uint32_t fork;
        struct keeper_usage before;
        int in_used_box;
        struct kept_files own_files; /* to be placed when it has a box */

        /* The wire to the agent. */
        struct channel channel;
        struct buf request;
        struct build build; /* of a compiled language, started cold */
        struct bridge bridge;

        struct stream {
                struct cloche_run *run;
                int fd;      /* read end of the guest's stream, nonblocking */
                int relayed; /* to sink_fd, our copy of the caller's; else kept */
                int sink_fd; /* -EBADF once it takes no more; so is fd then */
                int sink_pollable;
                uint64_t relay_bytes_max;
                struct output kept;
                struct buf pending; /* read and not yet written to the sink */
                uv_poll_t poll, sink_poll;
        } streams[2];
        struct {
                int source_fd; /* our copy of the caller's */
                int guest_fd;  /* write end of the guest's stdin, nonblocking */
                int pollable;
                struct buf pending;
                uv_poll_t source_poll, guest_poll;
        } input;

        uv_timer_t wall_timer, cpu_timer, exit_timer;
        uv_async_t cancel_async;
        atomic_int cancelled;
        atomic_int signal; /* to be sent to its program; 0: none */
        int has_terminal;
        _Atomic uint32_t terminal_size; /* columns and rows, 16 bits each */
        unsigned handles; /* open on the loop */
        int ended;        /* no further event counts */
        enum run_end end;

        const struct values *values; /* while it starts */
        json_t *schema;              /* the caller's, or NULL */
        json_t *answer;            /* the agent's result or error member, values held */
        int answer_is_error;
        struct cloche_err problem; /* RUN_END_PROTOCOL, _BRIDGE, _FAILED: what was wrong */
        json_t *warnings;
        struct {
                json_t *lines;
                uint64_t total, kept, memory;
        } console[2]; /* of CLOCHE_EVALUATE */
        json_int_t lines_number; /* of the last message with many lines */
        double began_cpu_ms;     /* by its agent's clock, when its code began; 0: it did not */
};

#define REQUEST_CALL_ID 1 /* a run asks its agent once */

/* All that is missing, in the words that permit it. */
int engine_check_guards(const struct cloche_engine *engine, struct cloche_err *e);

/* request.c: a source without the byte order mark it may begin with. */
struct source {
        const char *text; /* borrowed */
        size_t size;
};
struct source request_source(const char *code, size_t size); /* size 0: strlen(code) */

/* request.c: everything that can be wrong with options, before a box is made. */
int request_check(const struct cloche_run_options *opt, const struct values *values, const struct runtime *runtime, struct cloche_err *e);
/* The arguments of a call; 1 with *m filled when they do not fit the schema. */
int request_bind(const struct values *values, struct arguments *ret, struct misfit *m, struct cloche_err *e);
/* The request to the agent, as a frame; arguments: of a call. */
int request_build(const struct cloche_run_options *opt, const struct values *values, const struct runtime *runtime, const struct cloche_limits *limits,
                  const struct arguments *arguments, struct buf *ret, struct cloche_err *e);
/* The `prepare` request as a frame; function: which one the runs will call, or NULL. */
int request_prepare(const struct cloche_prefix_options *opt, const struct values *values, const char *function, const struct runtime *runtime, struct buf *ret,
                    struct cloche_err *e);
/* Strings for control_spawn. */
int request_strings(const struct cloche_run_options *opt, const struct runtime *runtime, struct buf *ret, uint32_t *ret_argc,
                    uint32_t *ret_envc, struct cloche_err *e);
/* What code is called in stacks: its own name, or main.<extension> written to ret. */
const char *request_filename(const struct cloche_run_options *opt, const struct runtime *runtime, char *ret, size_t size);
/* Where the script lies in the box. */
void request_script_path(const struct cloche_run_options *opt, const struct runtime *runtime, char *ret, size_t size);

/* result.c: closes the books of a run whose box is quiet or gone. */
/* A denial of cloche-fs in the contract's words. */
json_t *result_denial(const struct changeset_row *row, const json_t *denial);
enum cloche_status result_status(const struct cloche_run *run, const struct keeper_usage *usage);
int result_make(struct cloche_run *run, const struct keeper_usage *usage, const struct init_answer *quiet, json_t *changes,
                cloche_result **ret, struct cloche_err *e);

/* The result that cloche_result_json is the text of, held (wire/value.h); borrowed. */
json_t *result_root(cloche_result *result);

/* run.c, prefix.c: cloche_run_start and cloche_prefix_start of values that are held already. The texts of opt are not read. Calls of
 * the bridge and the result of such a run have no texts, but bridge_call_args, bridge_call_kwargs and result_root. */
int engine_run_start(cloche_engine *engine, const struct cloche_run_options *opt, const struct values *values, cloche_run **ret, struct cloche_err *e);
int engine_prefix_start(cloche_engine *engine, const struct cloche_prefix_options *opt, const struct values *values, cloche_prefix **ret, struct cloche_err *e);

/* stream.c */
/* The caller's descriptors, before there is a box. */
int streams_keep(struct cloche_run *run, const struct cloche_run_options *opt, struct cloche_err *e);
/* Our ends of the guest's pipes. */
void streams_take(struct cloche_run *run, struct stdio *stdio);
/* Our end of the guest's terminal, in place of them; taken, also on failure. */
int streams_take_terminal(struct cloche_run *run, int master_fd, struct cloche_err *e);
void stream_size(const struct cloche_run *run, uint32_t *ret_cols, uint32_t *ret_rows);
void stream_resize(struct cloche_run *run); /* to that size */
int streams_start(struct cloche_run *run, struct cloche_err *e);
/* No more events; what is in the pipes is taken, as the program has ended. */
void streams_stop(struct cloche_run *run);
void streams_done(struct cloche_run *run);

/* run.c: a handle of the run on the engine's loop; its data is the run, which counts it until it is closed. */
int loop_poll_init(struct cloche_run *run, uv_poll_t *poll, int fd, struct cloche_err *e);
/* Before its descriptor is closed: libuv would otherwise drop whoever has the number next. */
void loop_poll_close(uv_poll_t *poll);
/* Close the books of a run that has ended, and give its place and its box to others; then tell the caller, if nobody did. */
void run_conclude(struct cloche_run *run);
void run_tell(struct cloche_run *run);
void run_warn(struct cloche_run *run, const char *text);
/* What was put off is done: to be concluded now. */
void run_end_again(struct cloche_run *run);
/* Its program runs, or its child waits for the call: events count from now on. */
int run_watch(struct cloche_run *run, struct cloche_err *e);
uint64_t run_answer_bytes_max(const struct cloche_limits *limits);
/* Nothing moves in its box any more: run_start_sync follows for a run with mounts, then run_end_again. */
void run_measure(struct cloche_run *run);
/* run-start.c */
void run_go_on(struct cloche_run *run); /* its program starts; all it waits for is there */
int run_start_cold(struct cloche_run *run, const struct cloche_run_options *opt, struct cloche_err *e);
/* Ask for boxes for the cold runs whose turn it is. */
void runs_start_cold(struct cloche_engine *engine);
/* Forget all requests that were made for its start. */
void run_stop_start(struct cloche_run *run);
int run_is_root_mounted(const struct cloche_run *run);
/* run-mounts.c */
int run_take_mounts(struct cloche_run *run, const struct cloche_run_options *opt, struct cloche_err *e);
/* Collect the changes in the mounts of a run whose own files were looked at. run_measure follows, perhaps from here. */
void run_collect_mounts(struct cloche_run *run);
/* Write them, when the run went well and nobody wants to decide. 1: it goes on later, with run_end_again. */
int run_start_sync(struct cloche_run *run);
void run_cancel_sync(struct cloche_run *run);
/* What a template has to say to its runs. */
void run_seated(struct cloche_run *run, struct seat *seat); /* the seat is taken over */
void run_exited(struct cloche_run *run, const struct init_answer *exit);
void run_failed(struct cloche_run *run, const struct cloche_err *e);
void run_out_of_memory(struct cloche_run *run);
void run_template_died(struct cloche_run *run);
/* A limit of the bridge was crossed. */
void run_broke_bridge(struct cloche_run *run, const struct cloche_err *e);

#endif
