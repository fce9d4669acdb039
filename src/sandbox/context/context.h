/* Contexts: interpreters that stay, in boxes of their own that share the sandbox's files
 * (spec/sandbox.md, spec/agent.md). Work for a context waits in a queue of tasks; the agent has one
 * request at a time. */
#ifndef CLOCHE_SANDBOX_CONTEXT_CONTEXT_H
#define CLOCHE_SANDBOX_CONTEXT_CONTEXT_H

#include "notebook.h"
#include "sandbox/process/process.h"

#define CONTEXTS_MAX 256
#define CONTEXT_TASKS_MAX 1000
#define CONTEXT_PREFIX_MAX 65
#define INTERPRETER_MAX 128
#define CONTEXT_FRAME_BYTES (64u << 20) /* of one message of an agent */
#define CONTEXT_COLD_WHY_MAX 256
#define CONTEXT_LIVES_MAX 32                  /* boxes nest less deep */
#define CONTEXT_STORE_BYTES (8u << 20)        /* of one display; a larger one stays in a file of the sandbox */
#define CONTEXT_QUESTION_BYTES (1u << 20)     /* of code that is only looked at */
#define CONTEXT_INSPECTION_BYTES (128u << 10) /* of one form of an inspection */
#define CONTEXT_INDENT_BYTES 256
#define CONTEXT_HISTORY_CELLS 1000
#define CONTEXT_HISTORY_BYTES (256u << 10) /* of all cells that are kept */
#define CONTEXT_HISTORY_CELL_BYTES (64u << 10)

enum context_state { CONTEXT_ENDED, CONTEXT_STARTING, CONTEXT_LIVE, CONTEXT_STATES };

struct context_stream {
        struct context *context;
        struct stream stream;
        struct spool spool;  /* output of the cell that runs, or for the next one */
        uint64_t sent_bytes; /* bytes sent as events */
};

struct context {
        TAILQ_ENTRY(context) link;
        struct sandbox *sandbox;
        char name[SANDBOX_NAME_MAX], forked_from[SANDBOX_NAME_MAX];
        const struct runtime *runtime;
        struct template *set_up;         /* of the caller's prefix, which this context uses; NULL: the notebook's */
        char prefix[CONTEXT_PREFIX_MAX]; /* the name that the caller gave it; "": none */
        char *cwd;
        json_t *env;
        uint64_t timeout_ms, created_ms, used_ms;
        uint64_t count;  /* number of cells in this life */
        json_t *history; /* entries of context.history, also of earlier lives; shared with forks */
        size_t history_bytes;
        int is_forkable, is_doomed, is_queued;
        int is_apart; /* forked, with files of its own */
        /* Its interpreter was started from the sandbox's files, for this reason; "": it was
         * forked. */
        char cold_why[CONTEXT_COLD_WHY_MAX];
        unsigned setups_left; /* of its interpreter, before it may open */
        int is_held;          /* stopped while it is forked: its queue does not move */
        /* The starts of other sandboxes whose contexts it was forked from, one from another: it
         * ends with each of these boxes, for they are beneath its own. */
        uint64_t lives[CONTEXT_LIVES_MAX];
        unsigned life_count;
        struct context_fork *fork; /* the fork that uses or makes it, or NULL */
        /* For a checkpoint: its context, and a copy of the workspace (-EBADF: not kept). A
         * checkpoint is in no list of contexts. */
        struct context *of;
        int files_fd;
        enum context_state state; /* set by context_set_state */
        char why[256];            /* why it ended */
        /* While it lives. */
        struct template_wait wait;
        struct instance *instance;
        struct instance *next_fork; /* a prewarmed box for its next fork, or NULL */
        struct control control;     /* of the PID 1 of its box */
        struct connections connections;
        struct channel channel;
        struct context_stream streams[STREAMS];
        int32_t pid;                       /* in its box, as the agent reported it */
        char interpreter[INTERPRETER_MAX]; /* name and version, as the agent reported them; "": not reported */
        int has_status, was_killed;        /* was_killed: it had closed its channel */
        int wait_status;                   /* valid with has_status */
        uint64_t oom_kills;                /* of the sandbox, when the last cell began */
        struct sandbox_timer *end_timer;
        unsigned signals_in_flight;   /* sent by context_signal, not yet answered by PID 1 */
        struct context_task *current; /* the first of the queue, once it was sent to the agent */
        TAILQ_HEAD(context_tasks, context_task) tasks;
        unsigned task_count;
        uint64_t next_checkpoint, next_fork_name; /* numbers of the last names made up */
};

/* Call it when a cell or a set-up begins: if the kernel kills a process for memory after this,
 * it may be the interpreter. */
void context_note_memory(struct context *c);

/* A request for the agent. Exactly one of answered and failed is called; then the owner frees the
 * task. */
struct context_task {
        TAILQ_ENTRY(context_task) link;
        struct context *context; /* NULL: in no queue */
        const struct context_task_kind *kind;
        int is_detached; /* its owner has gone; kind->release is called instead */
};

struct context_task_kind {
        const char
                *method; /* NULL: the agent gets no request; answered is called when the task is first in the queue */
        /* Make the parameters when the task is first in the queue; NULL: no memory. */
        json_t *(*params)(struct context_task *task);
        void (*answered)(struct context_task *task, const struct rpc_message *m, const struct frame *f);
        void (*failed)(struct context_task *task, const struct cloche_err *e);
        /* Free a detached task. */
        void (*release)(struct context_task *task);
        int is_short;         /* runs no cell: the agent must answer within a time limit */
        int is_interruptible; /* likewise, and SIGINT ends it */
};

/* -- context.c: its life */

void contexts_on_box_closed(struct sandbox *s);
unsigned contexts_count(const struct sandbox *s);
/* No box of a context is being made. */
int contexts_are_settled(const struct sandbox *s);
void contexts_turn(struct sandbox *s); /* begins queued tasks, and frees contexts of context_schedule_free */
/* Return NULL, with an error, if there is no context of that name. */
struct context *context_find(struct sandbox *s, const char *name, struct cloche_err *e);
struct context *context_look_up(struct sandbox *s, const char *name);
/* Find the context that the request names. NULL with e. */
struct context *context_of(struct sandbox_request *request, struct cloche_err *e);
/* Make a context that is not started; cwd NULL: /workspace. Returns NULL with e. */
struct context *context_new(struct sandbox *s, const char *name, const char *language, const char *cwd, json_t *env,
                            struct cloche_err *e);
/* Let it start from a caller's prefix, after context_prefix_check, instead of the notebook. */
int context_use_prefix(struct context *c, const char *name, const cloche_prefix *prefix, struct cloche_err *e);
/* Make a context with the options of c in this sandbox, to be forked from it or from its
 * checkpoint. */
struct context *context_like(struct sandbox *s, const struct context *c, const char *name, struct cloche_err *e);
/* Contexts of other sandboxes were forked from those of this one, and live. */
int contexts_have_forks(const struct sandbox *s);
int context_name_check(const char *name, struct cloche_err *e);
/* Start to use the control socket of the PID 1 of its box. */
int context_take_control(struct context *c, struct instance *instance, struct cloche_err *e);
/* The transition must be legal. */
void context_set_state(struct context *c, enum context_state state);
/* Start the interpreter; tasks wait until it lives, and fail if it cannot start. */
void context_start(struct context *c);
/* Kill the interpreter; tasks fail with e. The context may be started again. */
void context_end(struct context *c, const struct cloche_err *e);
void context_free(struct context *c); /* ends it */
/* Free it in the next loop iteration; until then no lookup finds it. */
void context_schedule_free(struct context *c);
json_t *context_json(const struct context *c);
/* Send SIGINT to the interpreter. No task begins until the signal was delivered, or it could
 * interrupt the next cell. */
void context_signal(struct context *c);
/* Use an instance that is ready: its agent gets a request of that method ("open", "enter"), and
 * lives after the answer. */
int context_adopt(struct context *c, struct instance *instance, const char *method, struct cloche_err *e);

/* -- cold.c: an interpreter that is started, not forked */

/* Why the prepared interpreter cannot be used in this sandbox, whatever its programs did; NULL: it
 * can be. */
const char *context_cold_reason(const struct sandbox *s);
/* Refuse options that such an interpreter cannot have. */
int context_cold_check(const struct context *c, const char *why, struct cloche_err *e);
/* Start it; if that cannot be, the context ends. */
void context_start_cold(struct context *c, const char *why);
/* The agent is there: send the set-ups. Its answers go to context_setup_answered. */
int context_begin_setups(struct context *c, struct cloche_err *e);
void context_setup_answered(struct context *c, const struct rpc_message *m);
/* Say more about the end of an interpreter that was not ready yet, from its last words. */
void context_explain_cold_end(struct context *c, struct cloche_err *e);
/* context.c: the set-ups ran. */
int context_open(struct context *c, struct cloche_err *e);

/* -- context-task.c: requests to the agent, and its messages */

int context_request(struct context *c, struct context_task *task, const struct context_task_kind *kind,
                    struct cloche_err *e);
/* Detach the task from its owner: it leaves the queue, or, if the agent has it, kind->release is
 * called after the answer. */
void context_task_detach(struct context_task *task);
void context_tasks_begin(struct context *c);
/* Fail all tasks, also the current one. */
void context_tasks_fail(struct context *c, const struct cloche_err *e);
int context_watch(struct context *c, struct cloche_err *e);
/* Convert the agent's error to one of ours. */
void context_read_error(const struct rpc_message *m, struct cloche_err *ret);

/* -- context-stream.c: its output */

void context_streams_init(struct context *c);
int context_streams_open(struct context *c, struct stdio *stdio, struct cloche_err *e);
/* Drop the kept output. */
void context_stream_renew(struct context_stream *s);
/* Read the bytes that are in the pipes now. */
void context_streams_take(struct context *c);
void context_streams_pause(struct context *c, int is_paused);
void context_streams_close(struct context *c);

/* -- history.c: context.history */

void context_history_add(struct context *c, uint64_t count, json_t *code);
/* The history of a new context is that of its original. */
void context_history_share(struct context *to, const struct context *from);

/* -- cell.c: context.run */

struct cell;
/* Return the cell that runs, or NULL. */
struct cell *context_cell_of(const struct context *c);
/* A cell runs or waits. */
int context_has_cells(const struct context *c);
void context_cell_bytes(struct cell *cell, enum stream_index index, const char *data, size_t size);
/* Handle a notification or request of the agent while a cell runs. -CLOCHE_E_PROTOCOL. */
int context_cell_on_message(struct cell *cell, const struct rpc_message *m, const struct frame *f,
                            struct cloche_err *e);
/* context.input: 0, or -CLOCHE_E_NOT_FOUND. value NULL: the caller has no input. */
int context_cell_input(struct cell *cell, uint64_t number, const char *value, struct cloche_err *e);
int context_cell_interrupt(struct cell *cell);

/* -- fork.c: forks, checkpoints */

/* A context of the fork lives, or has ended. */
void context_fork_opened(struct context_fork *fork, struct context *c);
void context_fork_abort(struct context_fork *fork, struct context *c, const struct cloche_err *e);
/* The context reported that it could not be forked. */
void context_fork_failed(struct context_fork *fork, const json_t *about);
/* Fork a live context into other sandboxes. context_branch_begin stops it, as soon as it is
 * idle; prepared is called then. context_branch_go forks it into these sandboxes, whose boxes
 * are there; the copies stand still until context_branch_enter, when the files are in place.
 * done follows, once, unless context_branch_cancel is called, and also if it could not be
 * prepared. None is called from within a function of this header. The context goes on when all
 * forks are made and context_branch_packed was called, or at the end. */
struct context_branch_owner {
        void (*prepared)(void *data);
        void (*done)(void *data, const struct cloche_err *e);
        void *data;
};
/* NULL with e. */
struct context_fork *context_branch_begin(struct context *c, unsigned count, const struct context_branch_owner *owner,
                                          struct cloche_err *e);
/* A failure ends the fork: done is not called. */
CLOCHE_MUST_CHECK int context_branch_go(struct context_fork *fork, struct sandbox *const *to, struct cloche_err *e);
void context_branch_packed(struct context_fork *fork);
CLOCHE_MUST_CHECK int context_branch_enter(struct context_fork *fork, struct cloche_err *e);
void context_branch_cancel(struct context_fork *fork);
void context_checkpoints_free(struct context *c);
unsigned context_checkpoints_count(const struct context *c);

#endif
