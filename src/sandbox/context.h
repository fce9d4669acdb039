/* Contexts: interpreters that stay, in boxes of their own that share the sandbox's files (spec/sandbox.md, spec/agent.md). What they are to do waits in a queue
 * of tasks; the agent is asked one at a time. */
#ifndef CLOCHE_SANDBOX_CONTEXT_H
#define CLOCHE_SANDBOX_CONTEXT_H

#include "internal.h"
#include "notebook.h"

#define CONTEXTS_MAX 256
#define CONTEXT_TASKS_MAX 1000
#define INTERPRETER_MAX 128
#define CONTEXT_FRAME_BYTES (64u << 20) /* of what an agent may say at once */
#define CONTEXT_STORE_BYTES (8u << 20)  /* of one display; what is larger stays in a file of the sandbox */

enum context_state { CONTEXT_ENDED, CONTEXT_STARTING, CONTEXT_LIVE };

struct context_stream {
        struct context *context;
        int fd; /* -EBADF: at its end */
        uv_poll_t *poll;
        struct spool spool; /* of the cell that runs, or the next one */
        uint64_t told;      /* as events, up to here */
};

struct context {
        TAILQ_ENTRY(context) link;
        struct sandbox *sandbox;
        char name[SANDBOX_NAME_MAX], forked_from[SANDBOX_NAME_MAX];
        const struct runtime *runtime;
        char *cwd;
        json_t *env;
        uint64_t timeout_ms, created_ms, used_ms;
        uint64_t count; /* of cells, in this life */
        int is_forkable, is_doomed, is_asked;
        int is_apart; /* with files of its own: it was forked */
        int is_held;  /* it stands still and is forked: what waits goes on waiting */
        struct branching *branching; /* that it is forked, or made, by; NULL: none */
        /* Of a checkpoint: whose, and the workspace as it was (-EBADF: not kept). It is in no list of contexts. */
        struct context *of;
        int files_fd;
        enum context_state state;
        char why[256]; /* of an ended one */
        /* Its life. */
        struct template_wait wait;
        struct template_child child;
        struct seat *seat;
        struct seat *spare; /* a box for the next fork of it, or NULL */
        struct control control; /* of its box's PID 1 */
        struct channel channel;
        struct context_stream streams[STREAMS];
        int32_t pid; /* in its box, as it says itself */
        char interpreter[INTERPRETER_MAX]; /* name and version, as it says itself; "": it did not */
        int has_status;
        int wait_status; /* how it ended, once told */
        uint64_t oom_kills; /* of the sandbox, when its last cell began */
        uv_timer_t *end_timer;
        json_int_t next_id;
        struct context_task *current; /* the first of the queue, which the agent was asked */
        TAILQ_HEAD(context_tasks, context_task) tasks;
        unsigned task_count;
        uint64_t next_checkpoint;
};

/* A cell begins: processes killed for want of memory later may be its interpreter. */
void context_note_memory(struct context *c);

/* One thing to be asked. The agent's answer or a failure is told once; then it is the owner's to free. */
struct context_task {
        TAILQ_ENTRY(context_task) link;
        struct context *context; /* NULL: in no queue */
        const struct context_task_kind *kind;
        json_int_t id;
        int is_abandoned; /* nobody waits for the answer; freed with it */
};

struct context_task_kind {
        const char *method; /* NULL: nothing is asked; answered when its turn has come */
        /* The agent's parameters, when its turn has come; NULL: no memory. */
        json_t *(*params)(struct context_task *task);
        void (*answered)(struct context_task *task, const struct rpc_message *m, const struct frame *f);
        void (*failed)(struct context_task *task, const struct cloche_err *e);
        /* Of one that is abandoned. */
        void (*release)(struct context_task *task);
        int is_short; /* no cell: an agent that does not answer for long is given up */
};

/* -- context.c: its life */

/* The context of that name; NULL with e. */
struct context *context_find(struct sandbox *s, const char *name, struct cloche_err *e);
struct context *context_look_up(struct sandbox *s, const char *name);
/* Whom the request names. NULL with e. */
struct context *context_of(struct sandbox_ask *ask, struct cloche_err *e);
/* One that does not live yet; cwd NULL: /workspace. NULL with e. */
struct context *context_new(struct sandbox *s, const char *name, const char *language, const char *cwd, json_t *env, struct cloche_err *e);
/* One like that, which is to be forked from it, or from a checkpoint of it. */
struct context *context_like(const struct context *c, const char *name, struct cloche_err *e);
int context_name_check(const char *name, struct cloche_err *e);
/* Its box's PID 1 can be asked from now on. */
int context_take_control(struct context *c, struct seat *seat, struct cloche_err *e);
/* Begin its life; tasks wait for it. Failure is told to those who wait. */
void context_start(struct context *c);
/* Kill the interpreter; tasks fail with e; it may start again. */
void context_end(struct context *c, const struct cloche_err *e);
void context_free(struct context *c); /* ends it */
/* The same in the next turn; until then nobody finds it. */
void context_free_soon(struct context *c);
json_t *context_json(const struct context *c);
/* SIGINT to the interpreter. */
void context_signal(struct context *c);
/* A seat of its own is there: it is asked with that method first ("open", "enter"), and lives. */
int context_adopt(struct context *c, struct seat *seat, const char *method, struct cloche_err *e);

/* -- context-task.c: what it is asked and what it says */

int context_ask(struct context *c, struct context_task *task, const struct context_task_kind *kind, struct cloche_err *e);
/* Nobody waits for it any more: taken out of the queue, or kind->release is called when the agent has answered. */
void context_task_abandon(struct context_task *task);
void context_tasks_begin(struct context *c);
/* All fail; is_current: the one that is under way too. */
void context_tasks_fail(struct context *c, const struct cloche_err *e);
int context_watch(struct context *c, struct cloche_err *e);
/* The agent's own error, as one of ours. */
void context_read_error(const struct rpc_message *m, struct cloche_err *ret);

/* -- context-stream.c: what it prints */

int context_streams_open(struct context *c, struct stdio *stdio, struct cloche_err *e);
/* What it holds is forgotten. */
void context_stream_renew(struct context_stream *s);
/* What is in the pipes now. */
void context_streams_take(struct context *c);
void context_streams_pause(struct context *c, int is_paused);
void context_streams_close(struct context *c);

/* -- cell.c: context.run */

struct cell;
/* The cell that runs, or NULL. */
struct cell *cell_of(const struct context *c);
void cell_bytes(struct cell *cell, enum stream_index index, const char *data, size_t size);
/* A notification or request of the agent while a cell runs; -CLOCHE_E_PROTOCOL. */
int cell_hear(struct cell *cell, const struct rpc_message *m, const struct frame *f, struct cloche_err *e);
/* context.input: 0, or -CLOCHE_E_NOT_FOUND. value NULL: there is none. */
int cell_input(struct cell *cell, uint64_t number, const char *value, struct cloche_err *e);
int cell_interrupt(struct cell *cell);

/* -- context-branch.c: forks, checkpoints */

/* It is one of those that take part: it lives; it has ended. */
void branching_opened(struct branching *b, struct context *c);
void branching_abort(struct branching *b, struct context *c, const struct cloche_err *e);
/* The context told that it could not be forked. */
void branching_failed(struct branching *b, const json_t *about);
void checkpoints_free(struct context *c);
unsigned checkpoints_count(const struct context *c);

#endif
