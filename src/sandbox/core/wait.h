/* Requests that wait for processes. */
#ifndef CLOCHE_SANDBOX_CORE_WAIT_H
#define CLOCHE_SANDBOX_CORE_WAIT_H

#include "sandbox/process/process.h"

/* wait.c: bytes came; the process ended. */
void sandbox_waits_bytes(struct process *p, enum stream_index stream, const char *data, size_t size);
void sandbox_waits_ended(struct process *p);

#endif
