/* The shell of a session, between shell.c (its life), shell-command.c (what is run in it) and session.c. */
#ifndef CLOCHE_SANDBOX_SHELL_H
#define CLOCHE_SANDBOX_SHELL_H

#include "internal.h"

#define SHELL_EXPORTED_BYTES_MAX (4u << 20)

/* shell.c */
void shell_start(struct session *session);
/* Nothing is left of it here; whoever it ran for is not told. */
void shell_forget(struct session *session);
/* Those who wait for it are told, and wait no more. */
void shell_refuse_all(struct session *session, const struct cloche_err *e);

/* shell-command.c */
void shell_take_up(struct session *session); /* the next command, if there is one and the shell is free */
struct shell_command *shell_take_first(struct session *session);
/* SIGKILL for what the command at hand has started; what commands before it left is spared. */
void shell_kill_below(struct session *session);
/* It has been asked something that runs nothing of the guest's: a shell that does not answer for long is killed. */
void shell_await_answer(struct session *session);
uint32_t shell_op_of(const struct shell_command *command);

#endif
