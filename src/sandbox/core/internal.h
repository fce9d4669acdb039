/* The structs and functions that the files of this folder share. */
#ifndef CLOCHE_SANDBOX_CORE_INTERNAL_H
#define CLOCHE_SANDBOX_CORE_INTERNAL_H

#include "proto/shell.h"
#include "sandbox.h"
#include "sandbox/process/spool.h"

#include "engine/box/network.h"
#include "engine/loop/channel.h"
#include "engine/loop/engine.h"

#include <sys/queue.h>

#define SANDBOX_NAME_MAX 64
#define SANDBOX_ENV_MAX 4096 /* variables of one request */
#define SANDBOX_SESSIONS_MAX 256
#define SANDBOX_PROCESSES_MAX 1000 /* kept */
#define SANDBOX_OUTPUTS_MAX 64     /* of exec, kept */
#define SANDBOX_ASKS_MAX 4096      /* under way in one sandbox */
/* All output that a sandbox keeps; beyond it the oldest outputs of exec are dropped. */
#define SANDBOX_SPOOL_BYTES (UINT64_C(512) << 20)
#define DEFAULT_SESSION "default"
#define WORKSPACE "/workspace"

struct sandbox;
struct session;
struct process;
struct method;
struct context;

/* -- requests (request.c) ----------------------------------------------------------------------------------------- */

struct sandbox_ask {
        TAILQ_ENTRY(sandbox_ask) link;      /* in the list of its sandbox, or of those without one */
        TAILQ_ENTRY(sandbox_ask) turn_link; /* in waiting of its sandbox, in ended or in released */
        struct sandboxes *all;
        struct sandbox *sandbox; /* or NULL */
        const struct method *method;
        int64_t principal;
        json_t *params;
        struct buf attachments;
        const struct sandbox_face *face;
        void *data;
        /* For the handler. cancel frees state; it may be NULL. */
        void *state;
        void (*cancel)(struct sandbox_ask *ask);
        void (*flush)(struct sandbox_ask *ask);   /* may be NULL */
        void (*release)(struct sandbox_ask *ask); /* the client accepts events again; may be NULL */
        int is_held, is_waiting, is_over, is_to_release;
        /* The outcome, until it is delivered. */
        json_t *outcome;
        struct buf outcome_attachments;
        struct cloche_err error;
};

/* The sandbox that a method needs: none; an existing one; a running one, made on first use. */
enum method_needs { METHOD_PLAIN, METHOD_FINDS, METHOD_RUNS };

struct method {
        const char *name;
        /* Begin the request. 0: ask_result or ask_fail delivers the outcome, now or later.
         * Negative: it did not begin, with e. */
        int (*begin)(struct sandbox_ask *ask, struct cloche_err *e);
};

/* Begin, or fail, the requests that waited for the sandbox to run; end those under way when it has
 * ended. */
void asks_begin(struct sandbox *s);
void asks_refuse(struct sandbox *s, const struct cloche_err *e);
void asks_end(struct sandbox *s, const struct cloche_err *e);

/* result is stolen; NULL: no memory. attachments: moved, or NULL. */
void ask_result(struct sandbox_ask *ask, json_t *result, struct buf *attachments);
/* about is stolen; it may be NULL. */
void ask_fail(struct sandbox_ask *ask, const struct cloche_err *e, json_t *about);
/* about is stolen. */
void ask_event(struct sandbox_ask *ask, const char *event, json_t *about, const struct buf *attachments);

/* Send the event "output", for exec and similar methods. */
void ask_output(struct sandbox_ask *ask, const char *stream, const char *data, size_t size);

/* Call its release in the next loop iteration. */
void ask_release_soon(struct sandbox_ask *ask);

const char *ask_text(const struct sandbox_ask *ask, const char *name); /* NULL: absent */
uint64_t ask_count(const struct sandbox_ask *ask, const char *name, uint64_t absent);
int ask_flag(const struct sandbox_ask *ask, const char *name, int absent);
/* Text or bytes; NULL: absent. Borrowed from the request. */
const char *ask_bytes(const struct sandbox_ask *ask, const char *name, size_t *ret_size);
/* Add data as text if it is UTF-8, else as bytes in attachments. Returns 0 or -ENOMEM. */
int put_bytes(json_t *object, const char *name, const void *data, size_t size, struct buf *attachments);
/* The same, always as bytes. */
int put_raw(json_t *object, const char *name, const void *data, size_t size, struct buf *attachments);
json_t *time_json(uint64_t real_ms);

/* -- sandboxes (sandbox.c, registry.c) ------------------------------------------------------------------------ */

enum sandbox_state { SANDBOX_STOPPED, SANDBOX_STARTING, SANDBOX_RUNNING, SANDBOX_STOPPING };

struct port {
        TAILQ_ENTRY(port) link;
        unsigned number;
        char token[17], *name;
        uint64_t exposed_at_ms;
};

struct sandboxes {
        struct cloche_engine *engine;
        struct sandboxes_options options;
        char *state_dir, *preview_host;
        json_t *network;        /* policy of sandboxes that are made without one */
        int state_fd;           /* -EBADF: none */
        int shell_fd, files_fd; /* the builtin and the file program, sealed memory files; -errno */
        TAILQ_HEAD(sandbox_list, sandbox) list;
        struct sandbox_list spares; /* running, not yet assigned to a principal */
        unsigned spare_count;
        int wants_spares;
        SLIST_HEAD(notebook_list, notebook) notebooks;
        uint64_t made_ns; /* when a sandbox was last requested */
        uv_timer_t *refill_timer;
        TAILQ_HEAD(ask_list, sandbox_ask) asks;   /* without a sandbox */
        TAILQ_HEAD(ask_turns, sandbox_ask) ended; /* outcome to be delivered */
        TAILQ_HEAD(ask_releases, sandbox_ask) released;
        uv_timer_t *turn_timer, *tidy_timer;
        uv_check_t *turn_check;
        int wants_turn, has_put_off; /* a sandbox has work for sandbox_turn */
        unsigned running, ask_count;
        int is_stopping;
        void (*on_stopped)(void *data);
        void *stopped_data;
};

struct sandbox {
        TAILQ_ENTRY(sandbox) link;
        struct sandboxes *all;
        char name[SANDBOX_NAME_MAX];
        int64_t principal;
        enum sandbox_state state;
        int is_deleted, is_dirty, is_spare;
        int wants_stop, wants_save;             /* in the next loop iteration, or when it has started */
        int is_dropping;                        /* its box is being dropped; nothing is saved any more */
        uint64_t created_ms, used_ms, saved_ms; /* real time */
        uint64_t lost_from_ms, lost_to_ms; /* real time; the last changes that were lost fell between these; 0: none */
        uint64_t used_ns;                  /* monotonic */
        /* The options it was made with. */
        struct cloche_limits limits, asked_limits;
        json_t *env, *network_policy, *labels;
        uint64_t idle_ms;
        /* While it runs. */
        uint32_t box;
        int has_box;
        int pidfd;
        struct control control;
        STAILQ_HEAD(update_list, update) updates;
        struct keeper_usage usage;   /* the keeper's last report, if we may not read its groups */
        int has_usage, is_measuring; /* a report came; a request for one is under way */
        struct network *network;
        int network_is_over;
        json_t *decisions;
        uint64_t decision_count;
        TAILQ_HEAD(session_list, session) sessions;
        TAILQ_HEAD(process_list, process) processes; /* oldest first; also those of exec */
        TAILQ_HEAD(drain_list, drain) drains;
        TAILQ_HEAD(tool_list, tool) tools;
        TAILQ_HEAD(sandbox_asks, sandbox_ask) asks;
        TAILQ_HEAD(sandbox_waiting, sandbox_ask) waiting; /* until it runs */
        TAILQ_HEAD(port_list, port) ports;
        TAILQ_HEAD(dial_list, sandbox_dial) dials;
        TAILQ_HEAD(probe_list, probe) probes;
        TAILQ_HEAD(context_list, context) contexts;
        struct ahead *ahead; /* a prewarmed interpreter, or NULL */
        TAILQ_HEAD(copy_list, copy) copies;
        TAILQ_HEAD(cell_outputs, cell_output) outputs; /* of cells */
        struct port_watch *port_watch;
        struct store_job *store_job;
        struct cloche_err start_error;
        char save_error[256];   /* of the last failed save, or "" */
        int is_unsaved;         /* on_unsaved was called since the last save */
        uint64_t kept_ns;       /* monotonic: the last save, or the start */
        uint64_t save_again_ns; /* monotonic: no automatic save before this */
        unsigned ask_count, process_count, output_count;
        unsigned context_count, cell_output_count;
        uint64_t next_process, next_session, next_output, next_context, next_question;
};

/* Set the limits in asked; 0 stands for the default of sandboxes. */
int sandbox_set_limits(struct sandbox *s, const struct cloche_limits *asked, struct cloche_err *e);
/* connections.c: set up the box's network for the policy. It is in force when connections_ready is
 * called. */
int connections_open(struct sandbox *s, const json_t *policy, struct cloche_err *e);
void connections_again(struct sandbox *s); /* restart it after it ended by itself */
void connections_close(struct sandbox *s);
/* Write one line: why programs in it may not connect, and how the operator can allow it. */
void sandbox_explain_network(const struct sandbox *s, char *ret, size_t size);
/* sandbox.c: called once after connections_open for a box that had no network. */
void connections_ready(struct sandbox *s, const struct cloche_err *e);
void box_forget(const struct sandboxes *all, uint32_t box);
void sandbox_delete(struct sandbox *s);
/* End it at once, without saving and without callbacks of its requests. */
void sandbox_end(struct sandbox *s);
/* Allocate a sandbox that is in no list. */
struct sandbox *sandbox_alloc(struct sandboxes *all, struct cloche_err *e);
/* spare.c: return a pooled sandbox that runs already, or NULL. */
struct sandbox *spare_take(struct sandboxes *all, int64_t principal, const char *name);
unsigned spares_running(const struct sandboxes *all);
void spares_fill(struct sandboxes *all);
void spares_tidy(struct sandboxes *all, uint64_t now_ns);
void spare_runs(struct sandbox *s);
void spare_failed(struct sandbox *s);
/* Do the scheduled work; it may free s. */
void sandbox_turn(struct sandbox *s);
void sandbox_turn_soon(struct sandbox *s);
extern const char *const limits_of_runs[]; /* names; NULL-terminated */
void registry_turn(struct sandboxes *all);
int sandbox_name_check(const char *name, struct cloche_err *e);
struct sandbox *sandbox_find(const struct sandboxes *all, int64_t principal, const char *name);
/* Fail with -CLOCHE_E_QUEUE_FULL if the principal may not have one more. */
int sandbox_check_count(const struct sandboxes *all, int64_t principal, struct cloche_err *e);
struct sandbox *sandbox_new(struct sandboxes *all, int64_t principal, const char *name, struct cloche_err *e);
/* Start it; the requests in waiting begin, or fail with the reason. */
void sandbox_start(struct sandbox *s);
/* Stop it in the next loop iteration. save: save it first, if there is a state directory; if that
 * fails it goes on running. Requests in waiting start it again. */
void sandbox_stop(struct sandbox *s, int save);
void sandbox_free(struct sandbox *s);   /* must be stopped */
void sandbox_touch(struct sandbox *s);  /* a request came */
void sandbox_change(struct sandbox *s); /* the same, and its files may have changed */
int sandbox_is_busy(const struct sandbox *s);
/* The box ended unexpectedly. */
void sandbox_collapse(struct sandbox *s, const struct cloche_err *why);
json_t *sandbox_json(struct sandbox *s);
void sandbox_tell(struct sandbox *s, const char *event,
                  json_t *about); /* event for followers of sandbox.events; about is stolen */
void sandboxes_turn_soon(struct sandboxes *all);
int asks_watch(struct sandboxes *all);

/* -- programs in the box (spawn.c) ---------------------------------------------------------------------------- */

struct spawn {
        struct control *control;
        const char *cwd;
        const char *const *argv; /* NULL-terminated */
        const char *const *env;  /* NULL-terminated, NAME=VALUE */
        const int *fds;
        size_t fd_count;
        uint32_t flags, cols, rows;
};
int spawn_ask(const struct spawn *spawn, control_done done, void *data, struct cloche_err *e);
/* Start the file program with this command line (NULL-terminated); in_fd, out_fd: borrowed, or
 * negative for none. */
int files_ask(struct sandbox *s, struct control *control, const char *const *argv, int in_fd, int out_fd,
              control_done done, void *data, struct cloche_err *e);
int kill_ask(struct control *control, int32_t pid, int signal, uint32_t flags, const int32_t *spared,
             size_t spared_count, control_done done, void *data, struct cloche_err *e);
/* Return the environment for a program: ours, the sandbox's, then more (both objects of text, null:
 * unset; more may be NULL). Free it with env_free(). */
char **env_list(const struct sandbox *s, const json_t *more);
/* The same, on top of the variables that a shell had exported. */
char **env_from(char *const *exported, const json_t *more);
void env_free(char **env);
int env_is_name(const char *name);
int env_check(const json_t *env, struct cloche_err *e);
/* For env of a sandbox or session, which apply to all programs. */
int env_check_of_all(const json_t *env, struct cloche_err *e);

/* -- sessions (session.c) ------------------------------------------------------------------------------------- */

struct shell_command {
        TAILQ_ENTRY(shell_command) link;
        const char *command;
        size_t command_size;
        const char *cwd;   /* NULL: the session's */
        const json_t *env; /* object, or NULL */
        int fds[3];        /* owned until sent, then closed */
        int is_fork, is_export;
        int status_fd; /* for a fork: the write end, owned likewise */
        /* Called once: the command was sent to the shell. For a fork: pid, or negative errno. */
        void (*on_begin)(void *data, int32_t pid);
        int32_t supervisor_pid; /* for a fork, once it has begun */
        /* For all but forks, called once: the command has ended. session_ended: with the shell. */
        void (*on_end)(void *data, int exit_code, int signal, int session_ended, int interrupted);
        /* Called instead of both. */
        void (*on_fail)(void *data, const struct cloche_err *e);
        void *data;
        uint32_t serial;
        int is_sent, is_killed;
};

struct session {
        TAILQ_ENTRY(session) link;
        struct sandbox *sandbox;
        char name[SANDBOX_NAME_MAX];
        char *start_cwd;
        json_t *env;
        uint64_t created_ms, timeout_ms;
        int is_isolated;
        /* An isolated session has its own box beside the sandbox's. */
        uint32_t box;
        int has_box;
        struct control own_control;
        struct control *control;
        enum { SHELL_NONE, SHELL_STARTING, SHELL_IDLE, SHELL_BUSY, SHELL_SETTLING, SHELL_GONE } state;
        int shell_fd;
        uv_poll_t *poll;
        uv_timer_t *stuck_timer;
        int32_t pid;
        struct shell_answer last_answer; /* while settling */
        char *cwd;                       /* as last reported */
        char **exported;                 /* likewise, or NULL */
        int32_t jobs[SHELL_JOBS_MAX];
        uint32_t job_count, next_serial;
        TAILQ_HEAD(shell_commands, shell_command) commands; /* the first is under way while busy */
        int is_closing, is_ready;
        struct shell_command stand_in; /* takes the place of a detached command that was under way */
        unsigned users;                /* number of processes that point here */
};

/* Find the session of that name; NULL: the default one, which is made if it does not exist. Returns
 * NULL with e. */
struct session *session_find(struct sandbox *s, const char *name, struct cloche_err *e);
struct session *session_look_up(struct sandbox *s, const char *name);
struct session *session_new(struct sandbox *s, const char *name, const char *cwd, json_t *env, int isolated,
                            uint64_t timeout_ms, struct cloche_err *e);
/* Queue the command. The caller keeps it until on_end, on_fail or session_forget; a fork until
 * on_begin. */
void session_run(struct session *session, struct shell_command *command);
/* Kill the command and the processes it started; on_end follows, at once if it has not begun. */
void session_kill(struct session *session, struct shell_command *command);
/* Detach the command: no callback is called; it is killed if it is under way. */
void session_forget(struct session *session, struct shell_command *command);
/* True if a fork would have to wait for a command. */
int session_is_busy(const struct session *session);
void session_close(struct session *session); /* and kill its processes; it is freed when no process points to it */
void session_unuse(struct session *session);
void sessions_exited(struct sandbox *s, const struct init_answer *exit);
/* Record the directories and exported variables of the shells, with which their sessions will start
 * again. */
void sessions_remember(struct sandbox *s);
/* The sandbox has ended: drop the shells, keep the definitions. */
void sessions_gone(struct sandbox *s);

/* -- processes (process.c) ------------------------------------------------------------------------------------ */

enum stream_index { STREAM_OUT, STREAM_ERR, STREAMS };
extern const char *const stream_names[];

struct stream_of {
        int fd; /* -EBADF: at its end */
        uv_poll_t *poll;
        struct spool spool;
        struct process *process;
        int is_paused;
        int is_mute; /* bytes are read and dropped */
};

/* A request that follows the output of a process. */
struct follower {
        TAILQ_ENTRY(follower) link;
        struct sandbox_ask *ask;
        struct process *process;
        uint64_t at[STREAMS];                 /* bytes sent */
        void (*complete)(struct follower *f); /* called once: the process has ended and all output was sent */
};

/* A pipe whose writers outlive its owner. It is read so that they do not fail, and the bytes are
 * dropped. */
struct drain {
        TAILQ_ENTRY(drain) link;
        struct sandbox *sandbox;
        int fd;
        uv_poll_t *poll;
};

enum process_status { PROCESS_RUNNING, PROCESS_COMPLETED, PROCESS_FAILED, PROCESS_KILLED };

struct input_piece;
struct process {
        TAILQ_ENTRY(process) link;
        struct sandbox *sandbox;
        struct session *session;
        char *id, *command;
        size_t command_size;
        int is_hidden; /* of exec or git: not in lists */
        int is_foreground, is_terminal, is_spawned, auto_cleanup, keeps_input;
        struct control *control; /* of its PID 1 */
        int32_t pid;             /* 0: not started */
        enum process_status status;
        int exit_code, signal, timed_out, session_ended, is_ended, is_stopping;
        uint64_t started_ms, ended_ms, started_ns, ended_ns;
        struct shell_command shell;
        int has_shell_command; /* session_forget is due */
        json_t *env;
        char *cwd;
        int status_fd;
        uv_poll_t *status_poll;
        struct stream_of streams[STREAMS];
        int input_fd; /* or the terminal */
        uv_poll_t *input_poll;
        STAILQ_HEAD(input_pieces, input_piece) input;
        size_t input_bytes; /* in the queue */
        uint64_t timeout_ms;
        uv_timer_t *timer, *grace_timer, *sweep_timer;
        int32_t supervisor_pid;
        int is_terminating, is_sweeping; /* SIGTERM was sent; also to the processes it left behind */
        uint64_t grace_ns;               /* SIGKILL follows after this */
        TAILQ_HEAD(followers, follower) followers;
        TAILQ_HEAD(process_waits, process_wait) waits;
        TAILQ_HEAD(process_killings, killing_row) killings;
        uint32_t cols, rows;
        /* Callbacks of the owner, each called once. */
        void (*on_begin)(struct process *p,
                         const struct cloche_err *e); /* e: it was not started, and is freed after the call */
        void (*on_end)(struct process *p);
        void *data;
        unsigned pins; /* number of readers */
        int is_forgotten;
};

struct process_options {
        const char *session, *id, *command, *cwd;
        size_t command_size;
        const json_t *env;
        uint64_t timeout_ms;
        int is_foreground, is_hidden, keeps_input, auto_cleanup;
        const void *stdin_data;
        size_t stdin_size;
        uint32_t cols, rows; /* both not 0: a terminal */
        enum spool_keep keep;
        uint64_t keep_bytes;
        void (*on_begin)(struct process *p, const struct cloche_err *e);
        void (*on_end)(struct process *p);
        void *data;
};

int process_start(struct sandbox *s, const struct process_options *opt, struct process **ret, struct cloche_err *e);
struct process *process_find(struct sandbox *s, const char *id, struct cloche_err *e);
const struct process *process_find_output(const struct sandbox *s, const char *id);
/* signal 0: SIGTERM, then SIGKILL after grace_ms. */
int process_kill(struct process *p, int signal, int tree, uint64_t grace_ms, struct cloche_err *e);
void process_forget(struct process *p); /* must have ended; freed after the last reader */
void process_pin(struct process *p);
void process_unpin(struct process *p);
void process_abandon(struct process *p); /* its owner gets no callback; it is killed and removed */
json_t *signal_json(int signal);
json_t *process_json(const struct process *p);
int process_write(struct process *p, const void *data, size_t size, int end, void (*done)(void *data, int code),
                  void *done_data, struct cloche_err *e);
int process_resize(struct process *p, uint32_t cols, uint32_t rows, struct cloche_err *e);
/* -- process-stream.c: its output */
/* Take over our end of a pipe or terminal. */
int stream_open(struct process *p, enum stream_index index, int fd, struct cloche_err *e);
/* The process has ended: read the bytes that are in the pipes now. is_last: drop all that come
 * later. */
void streams_drain(struct process *p, int is_last);
void streams_close(struct process *p);
/* f belongs to the caller, until unfollow. from: offset in each stream; UINT64_MAX: only new
 * bytes. */
void follow(struct follower *f, struct process *p, struct sandbox_ask *ask, uint64_t from,
            void (*complete)(struct follower *f));
void unfollow(struct follower *f);
/* Send it the output since f->at, unless its request is held. */
void follower_feed(struct follower *f);
void followers_feed(struct process *p);
/* -- process-input.c */
void input_close(struct process *p);
/* Drop the callback with this done_data. */
void process_unwrite(struct process *p, const void *done_data);
void drains_gone(struct sandbox *s);
void processes_exited(struct sandbox *s, struct control *control, const struct init_answer *exit);
void processes_gone(struct sandbox *s);
unsigned processes_running(const struct sandbox *s);
/* sandbox/process/process-request.c: the process and all that it started have ended; or this cannot be determined. */
void killings_ended(struct process *p);
void killings_failed(struct process *p, const struct cloche_err *e);
/* exec.c: add a page of output, cut between characters. Returns 0 or -ENOMEM. */
int put_page(json_t *answer, const char *name, const struct spool *spool, uint64_t offset, uint64_t most,
             struct buf *attachments, uint64_t *ret_next);
/* Return the maximum of bytes of each stream in the answer. */
uint64_t output_most(const struct sandbox_ask *ask);
/* cell-output.c: find output for output.read. NULL: unknown, or dropped. */
const struct spool *output_find(struct sandbox *s, const char *id, enum stream_index index);
/* Take over both spools of a cell; return the output's id, or NULL without memory. */
const char *output_keep(struct sandbox *s, struct spool *out, struct spool *err);
uint64_t outputs_bytes(const struct sandbox *s);
void outputs_free(struct sandbox *s);
/* wait.c: bytes came; the process ended. */
void waits_bytes(struct process *p, enum stream_index stream, const char *data, size_t size);
void waits_ended(struct process *p);

/* -- files (tool.c) ------------------------------------------------------------------------------------------- */

/* Forward a file.* or archive.* request to the file program, with params without "sandbox". */
int tool_begin(struct sandbox_ask *ask, struct cloche_err *e);
/* The same for our own use. on_done: result or e. Cancel it with tool_cancel. */
struct tool_job;
int tool_ask(struct sandbox *s, const char *method, json_t *params, const struct buf *attachments,
             void (*on_done)(void *data, const json_t *result, const struct buf *attachments,
                             const struct cloche_err *e),
             void *data, struct tool_job **ret, struct cloche_err *e);
void tool_cancel(struct tool_job *job);
void tools_exited(struct sandbox *s, const struct init_answer *exit);
void tools_gone(struct sandbox *s);

/* -- contexts (context.c) ------------------------------------------------------------------------------------- */

void contexts_gone(struct sandbox *s);
unsigned contexts_count(const struct sandbox *s);
void contexts_turn(struct sandbox *s); /* begins queued tasks, and frees contexts of context_free_soon */

/* -- ports (port.c, dial.c), saving (store.c) ----------------------------------------------------------------- */

void ports_gone(struct sandbox *s); /* the sandbox stopped: connections and watches end, exposed ports stay */
void ports_free(struct sandbox *s);
void dials_hang_up(struct sandbox *s, unsigned port); /* connections of previews */
void dials_gone(struct sandbox *s);
void port_watch_need(struct sandbox *s); /* start or stop it, as there are followers of port events or not */
json_t *port_json(const struct sandbox *s, const struct port *port);
/* Wait until a port accepts connections and answers GET path with a status in range. done is called
 * once, never from within. */
struct probe;
int probe_start(struct sandbox *s, unsigned port, const char *path, int first, int last, uint64_t timeout_ms,
                void (*done)(void *data, int status, const struct cloche_err *e), void *data, struct probe **ret,
                struct cloche_err *e);
void probe_cancel(struct probe *probe);
void probes_gone(struct sandbox *s);

/* Write the definition; 0 without a state directory. */
int store_define(struct sandbox *s, struct cloche_err *e);
int store_load(struct sandboxes *all, struct cloche_err *e);
void store_remove(struct sandbox *s);
/* Report the changes since the last save as lost, and record that in the definition. */
void store_lost(struct sandbox *s);
/* Save the files; done is called once, also without a state directory. store_restore does the
 * reverse, into a new box. */
void store_save(struct sandbox *s, void (*done)(void *data, const struct cloche_err *e), void *data);
/* Drop the callbacks of waiters with this data. */
void store_forget(struct sandbox *s, const void *data);
void store_restore(struct sandbox *s, void (*done)(void *data, const struct cloche_err *e), void *data);
/* Fail with -CLOCHE_E_RESOURCE if this many bytes of files would not fit. It does not disturb
 * programs in the box. */
int store_check_room(const struct sandbox *s, uint64_t bytes, struct cloche_err *e);
/* Record a failed save, and report it once. */
void store_failed(struct sandbox *s, const struct cloche_err *e);
void store_gone(struct sandbox *s);
void stores_exited(struct sandbox *s, const struct init_answer *exit);

/* -- handlers of methods, a file each area -------------------------------------------------------------------- */

#define SANDBOX_OPERATION(symbol, method, verb, path, success, kind, ...) \
        int begin_##symbol(struct sandbox_ask *ask, struct cloche_err *e);
#define SANDBOX_FIELD(symbol, name, type, need, doc)
#include <cloche/sandbox.def>
#undef SANDBOX_OPERATION
#undef SANDBOX_FIELD

#endif
