/* Sandboxes: all of an engine, and one. */
#ifndef CLOCHE_SANDBOX_CORE_SANDBOXES_H
#define CLOCHE_SANDBOX_CORE_SANDBOXES_H

#include "box.h"
#include "request.h"
#include "sandbox/life/timer.h"
#include "sandbox/network/connections.h"

#include "engine/loop/channel.h"
#include "engine/loop/engine.h"

#define SANDBOX_NAME_MAX 64
#define WORKSPACE "/workspace"

enum sandbox_state {
        SANDBOX_STOPPED,
        SANDBOX_STARTING,
        SANDBOX_RUNNING,
        SANDBOX_PAUSING,  /* its processes are being frozen */
        SANDBOX_PAUSED,   /* they are all frozen */
        SANDBOX_RESUMING, /* they are being thawed */
        SANDBOX_STOPPING, /* its files are being saved */
        SANDBOX_DROPPING, /* its box is being dropped; nothing is saved any more */
        SANDBOX_STATES
};

enum sandbox_action { SANDBOX_ACTION_STOP, SANDBOX_ACTION_PAUSE, SANDBOX_ACTION_DELETE, SANDBOX_ACTIONS };

/* life/deadline.h */
struct deadline {
        enum sandbox_action idle_action, end_action;
        uint64_t end_ns;   /* monotonic; 0: none */
        uint64_t retry_ns; /* monotonic: no action before this */
};

/* A stop and its save happen in the next loop iteration, or when the sandbox has started. */
enum sandbox_plan { SANDBOX_STAYS, SANDBOX_STOPS, SANDBOX_SAVES /* and stops */ };

/* The first has the engine's own image, the others one of the store, or (POOL_OTHER) either with
 * variables or a network of its own, and with any kind of root. */
enum { POOL_OWN, POOL_STORE, POOL_OTHER, POOL_WRITABLE, POOL_ROOT, POOLS };

/* The options that all sandboxes of a pool have in common. */
struct sandbox_kind {
        struct image image;
        json_t *env, *network; /* NULL: none; the daemon's */
        int64_t principal;     /* of an image whose commands have run in the pooled ones; else 0 */
        int has_root, has_writable_root;
};

struct sandbox_pool {
        struct sandbox_kind kind; /* owned */
        int is_wanted;
        uint64_t wanted_ns; /* when a sandbox that a pool could have was last requested */
};

struct sandboxes {
        struct cloche_engine *engine;
        const struct sandbox_boxes *boxes;
        struct sandboxes_options options;
        char *state_dir, *preview_host;
        char boot_id[40]; /* of the host; "": unknown */
        json_t *network;  /* policy of sandboxes that are made without one */
        json_t *env;      /* variables of all programs */
        json_t *gemrc;    /* text of gem's configuration; NULL: none */
        int gemrc_fd;     /* the same as a sealed memory file; -EBADF: none */
        TAILQ_HEAD(package_jobs, package_job) package_jobs;
        TAILQ_HEAD(volume_list, sandbox_volume) volumes;
        TAILQ_HEAD(snapshot_list, snapshot) snapshots;
        int state_fd;             /* -EBADF: none */
        uint64_t layers_swept_ns; /* when layers of packages were last looked through; 0: not yet */
        int shell_fd, files_fd;   /* the builtin and the file program, sealed memory files; -errno */
        TAILQ_HEAD(sandbox_list, sandbox) list;
        struct sandbox_list pool; /* running, not yet assigned to a principal */
        struct sandbox_pool pools[POOLS];
        SLIST_HEAD(notebook_list, notebook) notebooks;
        uv_timer_t *refill_timer;
        TAILQ_HEAD(request_list, sandbox_request) requests; /* without a sandbox */
        TAILQ_HEAD(request_turns, sandbox_request) ended;   /* outcome to be delivered */
        TAILQ_HEAD(request_releases, sandbox_request) released;
        uv_timer_t *turn_timer, *tidy_timer;
        uv_check_t *turn_check;
        int wants_turn, has_put_off; /* a sandbox has work for sandbox_turn */
        unsigned running, request_count;
        uint64_t next_life;
        int is_stopping;
        void (*on_stopped)(void *data);
        void *stopped_data;
};

/* Looks, one a second, without a byte from the program that packs files. Looks, not time, are
 * counted: time passes while the machine sleeps or this process gets no processor. */
#define SANDBOX_STALLED_LOOKS 30

struct sandbox {
        TAILQ_ENTRY(sandbox) link;
        struct sandboxes *all;
        char name[SANDBOX_NAME_MAX];
        int64_t principal;
        enum sandbox_state state;
        int is_deleted, is_dirty, is_pooled;
        unsigned pool;    /* while it is pooled; POOLS: it will be stopped */
        int is_untried;   /* sandbox.create or sandbox.fork made it, and it has not run yet */
        int awaits_files; /* that another one is saving for it: until then no definition is written, and it does not run
                           */
        struct sandbox **holder;           /* set to NULL when it is freed; or NULL */
        void (*on_box)(struct sandbox *s); /* with a holder: its box is made, and waits for its files; or NULL */
        int given_fd; /* without a state directory: the archive of files that it begins with; -EBADF: none */
        enum sandbox_plan plan;
        const char *cause;   /* of the stop or the pause that is under way, for its log; NULL: a request */
        json_t *log;         /* without a state directory; NULL: no line yet */
        unsigned log_missed; /* lines that could not be written */
        /* It is paused and will have, or has, no memory any more: told as paused while it has no
         * box. Kept in its definition. */
        int has_files_only;
        uint64_t created_ms, used_ms, saved_ms; /* real time */
        uint64_t paused_ms;                     /* real time: since when it is paused; 0: it is not */
        uint64_t lost_from_ms, lost_to_ms; /* real time; the last changes that were lost fell between these; 0: none */
        uint64_t used_ns;                  /* monotonic */
        /* The options it was made with. */
        struct cloche_limits limits, requested_limits;
        struct image image;
        json_t *env, *network_policy, *labels;
        json_t *image_name; /* by which its image was found; NULL: by the digest */
        json_t *commands;   /* its own start and ready command; NULL: those of the image */
        json_t *packages;   /* that it began with; NULL: none */
        json_t *mount;      /* as a run's; NULL: none */
        int has_caller;     /* each start needs the socket of the user who made it, whose rights its mounts have */
        json_t *volumes;    /* as they were given; NULL: none */
        int has_writable_root, has_root;     /* the second only with the first */
        uint64_t sent_bytes, received_bytes; /* of its connections since it was started */
        struct sandbox_identity identity;
        uint64_t idle_ms;
        struct deadline deadline;
        /* While it runs. */
        uint32_t box;
        int has_box;
        uint64_t life;    /* number of this start among those of all sandboxes */
        int is_restoring; /* the saved files, while it starts: a change of the policy does not begin it again */
        int pidfd;
        struct control control;
        LIST_HEAD(timer_list, sandbox_timer) timers;
        int are_timers_held; /* it is paused */
        uv_timer_t *freeze_timer;
        uint64_t freeze_since_ns, freeze_retry_ms;
        int is_saving_to_pause;        /* it runs, and is paused after the save */
        int is_wanted;                 /* somebody connects to it: let it go on once it is paused */
        struct cloche_err pause_error; /* while it resumes: why it could not be paused */
        STAILQ_HEAD(update_list, update) updates;
        struct update_list settling;     /* updates whose policy is not in force everywhere */
        struct keeper_usage usage;       /* the keeper's last report, if we may not read its groups */
        int has_usage, is_measuring;     /* a report came; a request for one is under way */
        struct mounts *mounts;           /* or NULL */
        int has_mounts;                  /* all are served and attached */
        struct mounts_sync *mounts_sync; /* that the next stop shall do; or NULL */
        struct volume_uses *volume_uses; /* or NULL */
        int waits_for_volumes;           /* its box is made when they are open */
        json_t *synced;                  /* the outcome of the last one, or NULL */
        struct connections connections;
        json_t *decisions;
        uint64_t decision_count;
        TAILQ_HEAD(session_list, session) sessions;
        TAILQ_HEAD(process_list, process) processes; /* oldest first; also those of exec */
        TAILQ_HEAD(drain_list, drain) drains;
        TAILQ_HEAD(tool_list, tool) tools;
        TAILQ_HEAD(sandbox_requests, sandbox_request) requests;
        TAILQ_HEAD(sandbox_waiting, sandbox_request) waiting; /* until it runs */
        TAILQ_HEAD(port_list, port) ports;
        TAILQ_HEAD(dial_list, sandbox_dial) dials;
        TAILQ_HEAD(probe_list, probe) probes;
        TAILQ_HEAD(context_list, context) contexts;
        struct metrics *metrics; /* or NULL */
        struct prewarm *prewarm; /* a prewarmed interpreter, or NULL */
        TAILQ_HEAD(copy_list, copy) copies;
        TAILQ_HEAD(cell_outputs, cell_output) outputs; /* of cells */
        struct port_watch *port_watch;
        struct store_job *store_job;
        struct cloche_err start_error;
        struct startup *startup; /* the commands of its image, while it runs; NULL: none */
        char startup_error[sizeof(((struct cloche_err *)0)->msg)]; /* why they failed at its last start, or "" */
        char save_error[256];                                      /* of the last failed save, or "" */
        int is_unsaved;                                            /* on_unsaved was called since the last save */
        uint64_t kept_ns;                                          /* monotonic: the last save, or the start */
        uint64_t save_retry_ns;                                    /* monotonic: no automatic save before this */
        unsigned request_count, process_count, output_count;
        unsigned context_count, cell_output_count;
        uint64_t next_process, next_session, next_output, next_context, next_question;
};

/* Set the requested limits; 0 stands for the default of sandboxes. */
int sandbox_set_limits(struct sandbox *s, const struct cloche_limits *requested, struct cloche_err *e);
void sandbox_drop_box(const struct sandboxes *all, uint32_t box);
void sandbox_delete(struct sandbox *s);
/* End it at once, without saving and without callbacks of its requests. */
void sandbox_end(struct sandbox *s);
/* Hold the object in place of the member's; NULL: leave the member. */
void sandbox_replace(json_t **member, json_t *by);
/* image: its own, with other commands. */
void sandbox_use_commands(struct sandbox *s, const struct image *image, json_t *startup);
/* Allocate a sandbox that is in no list. */
struct sandbox *sandbox_alloc(struct sandboxes *all, struct cloche_err *e);
/* pool.c: return a pooled sandbox of this kind that runs already, or NULL. kind: NULL: that of
 * POOL_OWN; its objects are borrowed. */
struct sandbox *sandbox_pool_take(struct sandboxes *all, const struct sandbox_kind *kind, unsigned pool,
                                  int64_t principal, const char *name);
void sandbox_pool_init(struct sandboxes *all);
void sandbox_pool_done(struct sandboxes *all);
unsigned sandbox_pool_running(const struct sandboxes *all);
void sandbox_pool_fill(struct sandboxes *all);
void sandbox_pool_tidy(struct sandboxes *all, uint64_t now_ns);
void sandbox_pool_started(struct sandbox *s);
void sandbox_pool_failed(struct sandbox *s);
/* Do the scheduled work; it may free s. */
void sandbox_turn(struct sandbox *s);
void sandbox_schedule_turn(struct sandbox *s);
extern const char *const limits_of_runs[]; /* names; NULL-terminated */
void sandbox_registry_turn(struct sandboxes *all);
int sandbox_name_check(const char *name, struct cloche_err *e);
/* The same of another kind of object, for the message: "sandbox". */
int sandbox_name_check_of(const char *kind, const char *name, struct cloche_err *e);
/* "KIND-" and digits; another each time. */
#define SANDBOX_MADE_UP_SIZE 24
void sandbox_make_up_name(const char *kind, char ret[SANDBOX_MADE_UP_SIZE]);
struct sandbox *sandbox_find(const struct sandboxes *all, int64_t principal, const char *name);
/* Fail with -CLOCHE_E_QUEUE_FULL if the principal may not have so many more sandboxes and
 * snapshots. */
int sandbox_check_count(const struct sandboxes *all, int64_t principal, unsigned more, struct cloche_err *e);
/* Where its programs begin unless the caller names a directory. */
static inline const char *sandbox_directory(const struct sandbox *s)
{
        return s->image.settings && s->image.settings->directory ? s->image.settings->directory : WORKSPACE;
}

struct sandbox *sandbox_new(struct sandboxes *all, int64_t principal, const char *name, struct cloche_err *e);
/* Start it; the requests in waiting begin, or fail with the reason. */
void sandbox_start(struct sandbox *s);
/* The commands of its image are done: its requests begin. */
void sandbox_started(struct sandbox *s);
/* It could not be started: end it. A sandbox that never ran is removed. about: further members of
 * the error, borrowed, or NULL. */
void sandbox_start_failed(struct sandbox *s, const struct cloche_err *e, json_t *output);
/* The files that it awaited are there. */
void sandbox_on_files(struct sandbox *s);
/* Stop it in the next loop iteration. save: save it first, if there is a state directory; if that
 * fails it goes on running. Requests in waiting start it again. */
void sandbox_stop(struct sandbox *s, int save);
/* Its mounts are served, or with e one of them no longer is. */
void sandbox_on_mounts(struct sandbox *s, const struct cloche_err *e);
/* One of its volumes is open, or with e could not be opened. */
void sandbox_on_volumes(struct sandbox *s, const struct cloche_err *e);
void sandbox_touch(struct sandbox *s);  /* a request came */
void sandbox_change(struct sandbox *s); /* the same, and its files may have changed */
int sandbox_is_busy(const struct sandbox *s);
/* Its box is there and has programs, perhaps frozen. */
static inline int sandbox_is_live(const struct sandbox *s)
{
        return s->state >= SANDBOX_RUNNING && s->state <= SANDBOX_RESUMING;
}

/* life/state.h. The transition must be legal. Followers of sandbox.events get the new state. */
void sandbox_set_state(struct sandbox *s, enum sandbox_state state);
/* Its box ended, or is of no more use. */
void sandbox_collapse(struct sandbox *s, const struct cloche_err *why);
json_t *sandbox_json(struct sandbox *s);
void sandbox_send_event(struct sandbox *s, const char *event,
                        json_t *about); /* event for followers of sandbox.events; about is stolen */
void sandboxes_schedule_turn(struct sandboxes *all);
int sandbox_requests_watch(struct sandboxes *all);

#endif
