/* The signals that end what is under way, or say that the terminal has another size: blocked, and heard through a descriptor. */
#ifndef CLOCHE_CLI_SIGNALS_H
#define CLOCHE_CLI_SIGNALS_H

#include <signal.h>

/* *ret_before: what was blocked until now. */
void signals_block(sigset_t *ret_before);
/* A signalfd(2) of them, which does not wait; or -errno. */
int signals_open(void);

#endif
