/* The shell of a session: functions that shell.c (its life), shell-command.c (its commands) and
 * session.c share. */
#ifndef CLOCHE_SANDBOX_SESSION_SHELL_H
#define CLOCHE_SANDBOX_SESSION_SHELL_H

#include "session.h"

#define SHELL_EXPORTED_BYTES_MAX (4u << 20)

/* shell.c */
/* The transition must be legal. */
void shell_set_state(struct session *session, enum shell_state state);
void shell_start(struct session *session);
/* Release the shell's descriptors and timers, without calling back. */
void shell_close(struct session *session);
/* Fail all commands that wait for it. */
void shell_refuse_all(struct session *session, const struct cloche_err *e);

/* shell-command.c */
void shell_take_up(struct session *session); /* begin the next command, if there is one and the shell is free */
struct shell_command *shell_take_first(struct session *session);
/* Start the timeout of a request that runs no guest code: a shell that does not answer is
 * killed. */
void shell_await_answer(struct session *session);
uint32_t shell_op_of(const struct shell_command *command);

#endif
