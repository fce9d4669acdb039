/* The parts of cloche-session.so: a loadable builtin with which a live bash serves a session of a
 * sandbox (proto/shell.h). Code of the guest runs in the same process, so nothing here
 * is a wall; it only ensures that no command breaks the next by accident. The main thread is the
 * shell's; a second one only waits for SIGINT (interrupt.c). */
#ifndef CLOCHE_BOX_SHELL_SESSION_H
#define CLOCHE_BOX_SHELL_SESSION_H

#include "loadable.h"

#include "proto/shell.h"

#include <stddef.h>
#include <sys/types.h>

/* -- request.c: parsing a request ------------------------------------------------------------------------------ */

#define REQUEST_FDS_MAX 5

struct session_request {
        struct shell_request head;
        int fds[REQUEST_FDS_MAX]; /* owned */
        size_t fd_count;
        char *strings;   /* owned: the memory file; the command is terminated */
        const char *cwd; /* NULL: none. Points into strings, as env does */
        const char *env; /* head.env_count strings */
};

/* True if a request came; otherwise the session is over. A request that violates the protocol is
 * reported on stderr, and ends the session. */
int request_receive(int socket_fd, struct session_request *ret);
void shell_request_done(struct session_request *request);

/* -- fds.c: descriptors that are ours -------------------------------------------------------------------------- */

enum fds_kept { FDS_SOCKET, FDS_SIGNALS, FDS_NULL, FDS_DIRECTORY, FDS_COUNT };

/* Take fd, move it away from the numbers that code uses, and close it in each fork of the shell. */
void fds_keep(enum fds_kept which, int fd);
int fds_get(enum fds_kept which); /* -EBADF: none */
void fds_drop(enum fds_kept which);
/* True if this process is the shell itself, not a fork of it. */
int fds_is_shell(void);
/* Returns 0 or -errno. */
int fds_start(void);

/* -- interrupt.c: abandoning a command ------------------------------------------------------------------------- */

enum abandoned { ABANDONED_NOT, ABANDONED_BY_INTERRUPT, ABANDONED_BY_PIPE };

/* Returns 0 or -errno. */
int interrupt_start(void);
/* Between these two SIGINT abandons the running code: it jumps to top_level. The second returns
 * whether that happened; afterwards nothing jumps. */
void interrupt_arm(void);
enum abandoned interrupt_disarm(void);
/* In a fork of the shell: SIGINT and SIGPIPE work as in any shell. */
void interrupt_reset_in_fork(void);

/* -- hooks.c: a shell that runs one piece of code after another --------------------------------------------------- */

/* An interrupt undoes everything down to the shell's top level. This makes our caller that level:
 * the shell never returns to the command above it. */
void hooks_become_top_level(void);
/* Set the behaviour of a shell to which commands are typed: aliases last, and `exec` of a missing
 * program does not end the shell. */
void hooks_start(void);
/* Call it before each piece: with `set -n` or `set -t` no later piece would run. */
void hooks_before_command(void);
/* Call it after each: removes leftovers of a jump out of the code. */
void hooks_after_command(void);

/* -- overlay.c: directory and variables of one command --------------------------------------------------------- */

/* Both may jump (loadable_guard). Return 0, or -1 after a message on stderr; the settings made
 * until then stay in force. */
int overlay_apply(const struct session_request *request);
/* Restore the state before overlay_apply. */
void overlay_undo(void);
/* SHELL_EXPORT: for good. */
int overlay_export(const struct session_request *request);

/* -- export.c: the state of the shell -------------------------------------------------------------------------- */

/* Returns 0, or -1 after a message: there is no /proc. */
int export_start(void);
/* Report its directory and its live children. */
void export_state(struct shell_answer *answer);
/* Return a memory file of the exported variables if they differ from the last time, owned by the
 * caller; else -EBADF. */
int export_environment(void);

/* -- command.c: running a command ------------------------------------------------------------------------------ */

/* Run it in this shell. Does not return if the command ends the shell. */
void shell_command_run(struct session_request *request, struct shell_answer *answer);
/* Run it in a fork of the shell, which ends with it. */
_Noreturn void command_run_and_exit(struct session_request *request);
/* SHELL_EXPORT. */
void command_export(struct session_request *request, struct shell_answer *answer);
/* Close the command's descriptors: 0, 1 and 2 become /dev/null. */
void command_close(void);

/* -- copy.c: SHELL_FORK ---------------------------------------------------------------------------------------- */

/* Return the pid of the copy, or -errno. */
pid_t copy_run(struct session_request *request, pid_t *ret_supervisor);

#endif
