/* The gate's side of the engine's socket: spec/gate.md. */
#ifndef CLOCHE_GATE_CONTROL_H
#define CLOCHE_GATE_CONTROL_H

#include "wire/rpc.h"

#include <uv.h>

struct gate;

struct control {
        struct gate *gate;
        int fd;
        uv_poll_t poll;
        struct frame_reader in;
        struct buf out;
        int is_started;
        uint64_t told[5]; /* the last stats */
};

int control_open(struct control *control, struct gate *gate, int fd, struct cloche_err *e);
/* params is stolen. Negative: the engine does not keep up, or is gone. */
int control_tell(struct control *control, const char *method, json_t *params);
/* Once a second: what has changed. */
void control_tick(struct control *control);

/* guard.c. Files, privilege and most system calls out of reach. optional: of "landlock" and "seccomp", or NULL. *ret: what is in force. */
int guard_enter(const json_t *optional, json_t **ret, struct cloche_err *e);

#endif
