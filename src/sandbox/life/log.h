/* The log of a sandbox's life: made, started, paused, stopped, and the reasons. */
#ifndef CLOCHE_SANDBOX_LIFE_LOG_H
#define CLOCHE_SANDBOX_LIFE_LOG_H

#include "sandbox/core/sandboxes.h"

/* Add a line. message: more about it, or NULL. */
void sandbox_log(struct sandbox *s, const char *event, const char *message);
void sandbox_log_format(struct sandbox *s, const char *event, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
/* Its state was another until now. */
void sandbox_log_state(struct sandbox *s, enum sandbox_state before);
void sandbox_log_free(struct sandbox *s);

#endif
