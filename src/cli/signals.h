/* The signals that end what is under way, or say that the terminal has another size: blocked, and heard through a descriptor. */
#ifndef CLOCHE_CLI_SIGNALS_H
#define CLOCHE_CLI_SIGNALS_H

#include <signal.h>

/* *ret_before: what was blocked until now. */
void signals_block(sigset_t *ret_before);
/* A signalfd(2) of them, which does not wait; or -errno. */
int signals_open(void);

#define SIGNALS_CANCELLED 143 /* exit code, as of CLOCHE_STATUS_TERMINATED */
#define SIGNALS_INTERRUPTED 130 /* of a shell: what SIGINT killed */
/* This signal ended what was under way. For handlers too. */
void signals_note(int number);
/* End with this code; when SIGINT was noted and the code says so, by that signal: a shell then ends the loop we are in. For handlers too. */
_Noreturn void signals_exit(int code);
/* SIGINT was noted, and this code is of what it ended. */
int signals_is_interrupted(int code);
/* Does not return when it is. */
void signals_die_if_interrupted(int code);

#endif
