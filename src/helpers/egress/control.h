/* The control socket to the engine: spec/egress.md. */
#ifndef CLOCHE_HELPERS_EGRESS_CONTROL_H
#define CLOCHE_HELPERS_EGRESS_CONTROL_H

#include "wire/server.h"

#include <uv.h>

struct egress;

struct egress_control {
        struct egress *egress;
        uv_poll_t poll;
        struct server server;
};

int egress_control_open(struct egress_control *control, struct egress *egress, int fd, struct cloche_err *e);
/* Send a notification to the engine; params are stolen. -CLOCHE_E_RESOURCE: the
 * engine reads too slowly. */
int egress_control_notify(struct egress_control *control, const char *method, json_t *params);

/* guard.c. Give up files, privileges and most system calls. optional: subset of "landlock" and
 * "seccomp", or NULL. *ret: the protections in force. */
int guard_enter(const json_t *optional, json_t **ret, struct cloche_err *e);

#endif
