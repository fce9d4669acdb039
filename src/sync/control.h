/* The control socket. It serves one request at a time and polls for `cancel` while a request runs. */
#ifndef CLOCHE_SYNC_CONTROL_H
#define CLOCHE_SYNC_CONTROL_H

#include "wire/frame.h"
#include "wire/rpc.h"

#include <stdbool.h>

struct control;

struct control_method {
        const char *name; /* NULL ends a table */
        int (*call)(void *argument, const json_t *params, json_t **ret, struct cloche_err *e);
        bool first; /* must be the first request, and only once; if it fails, the process ends */
};

struct control {
        int fd; /* borrowed; made non-blocking */
        struct frame_reader in;
        struct buf out;
        size_t sent, flush_at; /* bytes of out */
        const struct control_method *methods;
        void *argument;
        bool configured, gone, cancelled;
};

int control_init(struct control *control, int fd, const struct control_method *methods, void *argument);
void control_done(struct control *control);

/* Serve until the peer closes, sends an invalid message or fails to configure. */
void control_serve(struct control *control);

/* Read pending messages while a request runs. True if the request must be undone: by `cancel`, or
 * because the peer has closed. */
bool control_is_cancelled(struct control *control);
/* Queue a notification without blocking; it is sent with later output. Steals params. */
void control_tell(struct control *control, const char *method, json_t *params);

#endif
