/* Sessions: a name, a directory, an environment, a shell. */
#ifndef CLOCHE_SANDBOX_SESSION_SESSION_H
#define CLOCHE_SANDBOX_SESSION_SESSION_H

#include "proto/shell.h"
#include "sandbox/core/sandboxes.h"

#define SANDBOX_SESSIONS_MAX 256
#define DEFAULT_SESSION "default"

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

enum shell_state {
        SHELL_NONE,
        SHELL_STARTING, /* also while the box of an isolated session is being made */
        SHELL_IDLE,
        SHELL_BUSY,
        SHELL_SETTLING, /* the command has ended; the processes it left behind are being killed */
        SHELL_LOST,     /* the process is no longer our shell, until the report of its exit */
        SHELL_STATES
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
        enum shell_state state; /* set by shell_set_state */
        int shell_fd;
        struct watch *watch;
        struct sandbox_timer *stuck_timer;
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
/* Queue the command. The caller keeps it until on_end, on_fail or session_detach; a fork until
 * on_begin. */
void session_run(struct session *session, struct shell_command *command);
/* Kill the command and the processes it started; on_end follows, at once if it has not begun. */
void session_kill(struct session *session, struct shell_command *command);
/* Detach the command: no callback is called; it is killed if it is under way. */
void session_detach(struct session *session, struct shell_command *command);
int session_is_busy(const struct session *session);
/* True if a fork would have to wait for guest code; other forks take the shell a
 * fraction of a millisecond each. */
int session_delays_forks(const struct session *session);
void session_close(struct session *session); /* and kill its processes; it is freed when no process points to it */
void session_unuse(struct session *session);
void sessions_exited(struct sandbox *s, const struct init_answer *exit);
/* Record the directories and exported variables of the shells, with which their sessions will start
 * again. */
void sessions_remember(struct sandbox *s);
/* False while a box of one is being made. */
int sessions_are_settled(const struct sandbox *s);
/* The sandbox runs again: begin commands that waited. */
void sessions_take_up(struct sandbox *s);
/* The sandbox has ended: drop the shells, keep the definitions. */
void sessions_on_box_closed(struct sandbox *s);

#endif
