/* The gate's side of the engine's socket: spec/gate.md. */
#ifndef CLOCHE_GATE_CONTROL_H
#define CLOCHE_GATE_CONTROL_H

#include "wire/server.h"

#include <uv.h>

struct gate;

struct control {
        struct gate *gate;
        uv_poll_t poll;
        struct server server;
        uint64_t sent[5]; /* the last statistics */
};

int control_open(struct control *control, struct gate *gate, int fd, struct cloche_err *e);
/* Send a notification to the engine; params are stolen. -CLOCHE_E_RESOURCE when the engine does not keep up. */
int control_notify(struct control *control, const char *method, json_t *params);
/* Called once a second. */
void control_tick(struct control *control);

/* guard.c. Files, privilege and most system calls out of reach. optional: of "landlock" and "seccomp", or NULL. *ret: what is in force. */
int guard_enter(const json_t *optional, json_t **ret, struct cloche_err *e);

#endif
