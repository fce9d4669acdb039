/* The control socket: requests one after the other, and while one is at work a look for whether it is to be cancelled. */
#ifndef CLOCHE_SYNC_CONTROL_H
#define CLOCHE_SYNC_CONTROL_H

#include "wire/frame.h"
#include "wire/rpc.h"

#include <stdbool.h>

struct control;

struct control_method {
        const char *name; /* NULL ends a table */
        int (*call)(void *argument, const json_t *params, json_t **ret, struct cloche_err *e);
        bool first; /* comes before all others, and only once; when it fails that is the end */
};

struct control {
        int fd; /* borrowed; made non-blocking */
        struct frame_reader in;
        struct buf out;
        size_t sent, flush_at; /* of out */
        const struct control_method *methods;
        void *argument;
        bool configured, gone, cancelled;
};

int control_init(struct control *control, int fd, const struct control_method *methods, void *argument);
void control_done(struct control *control);

/* Until the other side has gone, talks nonsense, or could not configure. */
void control_serve(struct control *control);

/* For a request at work: reads what has come. True when it is to be undone: by `cancel`, or as nobody is there any more. */
bool control_is_cancelled(struct control *control);
/* Never waits; sent with what comes after. params is stolen. */
void control_tell(struct control *control, const char *method, json_t *params);

#endif
