/* The signals that cancel work or report a new terminal size; blocked, and read through a
 * descriptor. */
#ifndef CLOCHE_CLI_OUTPUT_SIGNALS_H
#define CLOCHE_CLI_OUTPUT_SIGNALS_H

#include <signal.h>

/* *ret_before: the previous mask. */
void signals_block(sigset_t *ret_before);
/* A non-blocking signalfd(2) for them; or -errno. */
int signals_open(void);

#define SIGNALS_CANCELLED 143   /* exit code, equals CLOCHE_STATUS_TERMINATED */
#define SIGNALS_INTERRUPTED 130 /* a shell's exit code for a process killed by SIGINT */
/* Record the signal that ended the work. Safe in handlers. */
void signals_note(int number);
/* Exit with this code. If SIGINT was recorded and the code matches, die by that signal, so that a
 * shell ends its loop. Safe in handlers. */
_Noreturn void signals_exit(int code);
/* True if SIGINT was recorded and the code results from it. */
int signals_is_interrupted(int code);
/* Does not return if signals_is_interrupted(). */
void signals_die_if_interrupted(int code);

#endif
