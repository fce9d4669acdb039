/* The control socket to the engine: spec/gate.md. */
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
        uint64_t told[5]; /* the last stats sent */
};

int control_open(struct control *control, struct gate *gate, int fd, struct cloche_err *e);
/* Steals params. Negative: the engine reads too slowly or has exited. */
int control_tell(struct control *control, const char *method, json_t *params);
/* Once a second: send the changed stats. */
void control_tick(struct control *control);

/* guard.c. Give up files, privileges and most system calls. optional: subset of "landlock" and
 * "seccomp", or NULL. *ret: the protections in force. */
int guard_enter(const json_t *optional, json_t **ret, struct cloche_err *e);

#endif
