/* Processes: commands of exec, git and process.start, with their output and input. */
#ifndef CLOCHE_SANDBOX_PROCESS_PROCESS_H
#define CLOCHE_SANDBOX_PROCESS_PROCESS_H

#include "engine/loop/stream.h"
#include "sandbox/core/sandboxes.h"
#include "sandbox/session/session.h"
#include "spool.h"

#define SANDBOX_PROCESSES_MAX 1000          /* kept */
#define SANDBOX_OUTPUTS_MAX 64              /* of exec, kept */
#define PROCESS_INPUT_BYTES_MAX (64u << 20) /* in the queue of a process */
/* All output that a sandbox keeps; beyond it the oldest outputs of exec are dropped. */
#define SANDBOX_SPOOL_BYTES (UINT64_C(512) << 20)

struct process;
struct process_wait;
struct killing_row;

enum stream_index { STREAM_OUT, STREAM_ERR, STREAMS };
extern const char *const stream_names[];

struct stream_of {
        struct stream stream;
        struct spool spool;
        struct process *process;
        int is_mute; /* bytes are read and dropped */
};

/* A request that follows the output of a process. */
struct follower {
        TAILQ_ENTRY(follower) link;
        struct sandbox_request *request;
        struct process *process;
        uint64_t at[STREAMS];                 /* bytes sent */
        void (*complete)(struct follower *f); /* called once: the process has ended and all output was sent */
};

enum process_state {
        PROCESS_STARTING,
        PROCESS_CANCELLED, /* starting, and killed as soon as it has a pid */
        PROCESS_RUNNING,
        PROCESS_TERMINATING, /* SIGTERM was sent; SIGKILL follows after grace_ns */
        PROCESS_ENDED,
        PROCESS_SWEEPING, /* ended; the processes it left behind are being killed */
        PROCESS_STATES
};

struct input_piece;
struct process {
        TAILQ_ENTRY(process) link;
        struct sandbox *sandbox;
        struct session *session;
        char *id, *command;
        size_t command_size;
        int is_hidden; /* of exec or git: not in lists */
        int is_foreground, is_terminal, is_spawned, auto_cleanup, keeps_input;
        int is_paced, was_followed; /* output waits for followers, the first one included */
        struct control *control;    /* of its PID 1 */
        int32_t pid;                /* 0: not started */
        enum process_state state;   /* set by process_set_state */
        int exit_code, signal, timed_out, session_ended;
        uint64_t started_ms, ended_ms, started_ns, ended_ns;
        uint64_t denials_since;
        json_t *denials; /* NULL: none, or it has not ended */
        struct shell_command shell;
        int has_shell_command; /* session_detach is due */
        json_t *env;
        char *cwd;
        int status_fd;
        struct watch *status_watch;
        struct stream_of streams[STREAMS];
        int input_fd; /* or the terminal */
        struct watch *input_watch;
        STAILQ_HEAD(input_pieces, input_piece) input;
        size_t input_bytes; /* in the queue */
        uint64_t timeout_ms;
        struct sandbox_timer *timer, *grace_timer, *sweep_timer;
        int32_t supervisor_pid;
        uint64_t grace_ns;
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
        int is_removed;
};

struct process_options {
        const char *session, *id, *command, *cwd;
        size_t command_size;
        const json_t *env;
        uint64_t timeout_ms;
        int is_foreground, is_hidden, keeps_input, auto_cleanup, is_paced;
        const void *stdin_data;
        size_t stdin_size;
        uint32_t cols, rows; /* both not 0: a terminal */
        enum spool_keep keep;
        uint64_t keep_bytes;
        void (*on_begin)(struct process *p, const struct cloche_err *e);
        void (*on_end)(struct process *p);
        void *data;
};

static inline int process_is_ended(const struct process *p)
{
        return p->state == PROCESS_ENDED || p->state == PROCESS_SWEEPING;
}

int process_start(struct sandbox *s, const struct process_options *opt, struct process **ret, struct cloche_err *e);
struct process *process_find(struct sandbox *s, const char *id, struct cloche_err *e);
const struct process *process_find_output(const struct sandbox *s, const char *id);
/* signal 0: SIGTERM, then SIGKILL after grace_ms. */
int process_kill(struct process *p, int signal, int tree, uint64_t grace_ms, struct cloche_err *e);
void process_remove(struct process *p); /* must have ended; freed after the last reader */
void process_pin(struct process *p);
void process_unpin(struct process *p);
void process_detach(struct process *p); /* its owner gets no callback; it is killed and removed */
json_t *process_signal_json(int signal);
json_t *process_json(const struct process *p);
int process_write(struct process *p, const void *data, size_t size, int end, void (*done)(void *data, int code),
                  void *done_data, struct cloche_err *e);
int process_resize(struct process *p, uint32_t cols, uint32_t rows, struct cloche_err *e);
/* -- process-stream.c: its output */
void process_streams_init(struct process *p, enum spool_keep keep, uint64_t keep_bytes);
/* The process has ended: read the bytes that are in the pipes now. is_last: drop all that come
 * later. */
void process_streams_drain(struct process *p, int is_last);
void process_streams_close(struct process *p);
/* f belongs to the caller, until unfollow. from: offset in each stream; UINT64_MAX: only new
 * bytes. */
void process_follow(struct follower *f, struct process *p, struct sandbox_request *request, uint64_t from,
                    void (*complete)(struct follower *f));
void process_unfollow(struct follower *f);
/* Send it the output since f->at, unless its request is held. */
void process_follower_feed(struct follower *f);
void process_followers_feed(struct process *p);
/* -- process-input.c */
void process_input_close(struct process *p);
/* Drop the callback with this done_data. */
void process_unwrite(struct process *p, const void *done_data);
void process_drains_close(struct sandbox *s);
void processes_exited(struct sandbox *s, struct control *control, const struct init_answer *exit);
void processes_on_box_closed(struct sandbox *s);
unsigned processes_running(const struct sandbox *s);

#endif
