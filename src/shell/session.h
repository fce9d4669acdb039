/* The parts of cloche-session.so: a loadable builtin with which a live bash serves a session of a sandbox (sandbox/shell-protocol.h).
 * Code of the guest runs in the same process, so nothing here is a wall; what is kept is that no command breaks the next by accident.
 * The main thread is the shell's; a second one only waits for SIGINT (interrupt.c). */
#ifndef CLOCHE_SHELL_SESSION_H
#define CLOCHE_SHELL_SESSION_H

#include "loadable.h"

#include "sandbox/shell-protocol.h"

#include <stddef.h>
#include <sys/types.h>

/* -- request.c: what a request brings -------------------------------------------------------------------------- */

#define REQUEST_FDS_MAX 5

struct request {
        struct shell_request head;
        int fds[REQUEST_FDS_MAX]; /* owned */
        size_t fd_count;
        char *strings; /* owned: the memory file; the command is terminated */
        const char *cwd;   /* NULL: none. Into strings, as what follows */
        const char *env;   /* head.env_count strings */
};

/* Whether one came; else the session is over. A request that does not keep to the protocol is said on stderr, and ends the session. */
int request_receive(int socket_fd, struct request *ret);
void request_done(struct request *request);

/* -- own.c: descriptors that are ours -------------------------------------------------------------------------- */

enum own_fd { OWN_SOCKET, OWN_SIGNALS, OWN_NULL, OWN_DIRECTORY, OWN_COUNT };

/* Takes fd, moves it out of the way of code, and closes it in whatever the shell forks. */
void own_keep(enum own_fd which, int fd);
int own_fd(enum own_fd which); /* -EBADF: none */
void own_drop(enum own_fd which);
/* Whether this process is the shell itself, not a fork of it. */
int own_is_shell(void);
/* 0, or -errno. */
int own_start(void);

/* -- interrupt.c: abandoning a command ------------------------------------------------------------------------- */

enum abandoned { ABANDONED_NOT, ABANDONED_BY_INTERRUPT, ABANDONED_BY_PIPE };

/* 0, or -errno. */
int interrupt_start(void);
/* Between these two SIGINT abandons what runs: it jumps to top_level. The second says whether, and nothing jumps any more. */
void interrupt_arm(void);
enum abandoned interrupt_disarm(void);
/* In a fork of the shell: SIGINT and SIGPIPE are as in any. */
void interrupt_forget(void);

/* -- live.c: a shell that runs one piece of code after another --------------------------------------------------- */

/* An interrupt undoes everything down to the shell's top level. That is to be here: the command that called us is left for good. */
void live_become_top_level(void);
/* As whoever types commands one by one expects: aliases last, and `exec` of what is not there does not end the shell. */
void live_begin(void);
/* Before each piece: `set -n` and `set -t` would make it the last that does anything. */
void live_get_ready(void);
/* After each: what a jump out of the middle leaves behind. */
void live_clean_up(void);

/* -- overlay.c: directory and variables of one command --------------------------------------------------------- */

/* Both may jump (loadable_guard). 0, or -1 after a message on stderr. What was set until then is in force. */
int overlay_apply(const struct request *request);
/* Everything as before overlay_apply. */
void overlay_undo(void);
/* SHELL_EXPORT: for good. */
int overlay_export(const struct request *request);

/* -- report.c: what is told about the shell -------------------------------------------------------------------- */

/* 0, or -1 after a message: there is no /proc. */
int report_start(void);
/* Where it is, and its living children. */
void report_state(struct shell_answer *answer);
/* A memory file of the exported variables when they are others than last time, owned by the caller; else -EBADF. */
int report_environment(void);

/* -- command.c: running one ------------------------------------------------------------------------------------ */

/* In this shell. Does not return when the command ends the shell. */
void command_run(struct request *request, struct shell_answer *answer);
/* In a fork of the shell, which ends with it. */
_Noreturn void command_run_and_exit(struct request *request);
/* SHELL_EXPORT. */
void command_export(struct request *request, struct shell_answer *answer);
/* Nothing of a command's descriptors stays: 0, 1, 2 lead nowhere. */
void command_close(void);

/* -- copy.c: SHELL_FORK ---------------------------------------------------------------------------------------- */

/* The pid of the copy, or -errno. */
pid_t copy_run(struct request *request, pid_t *ret_supervisor);

#endif
