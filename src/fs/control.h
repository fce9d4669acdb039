/* The control socket: the engine's requests, answered between the guest's, and what is told to it. README.md lists them. Frames of
 * JSON-RPC over a stream socket; a descriptor comes with the bytes of the request or answer that speaks of it. */
#ifndef CLOCHE_FS_CONTROL_H
#define CLOCHE_FS_CONTROL_H

#include "change.h"
#include "mount.h"
#include "wire/frame.h"
#include "wire/rpc.h"

struct outgoing;

struct control {
        int fd;
        struct mount *mount;
        struct frame_reader in;
        int given[4]; /* descriptors that came, for requests that want one */
        unsigned given_count;
        struct changes list; /* of which pages are given */
        bool listed;         /* there is more of it */
        struct outgoing *first, *last;
        size_t waiting; /* messages not sent yet */
        struct buf attached; /* goes with the answer that is being made */
        bool frozen;
        /* Answers configure; the connection is of no use before. */
        int (*configure)(void *argument, const json_t *params, json_t **ret, struct cloche_err *e);
        void *argument;
        bool configured, failed; /* a failed configure is the end, once it is told */
};

void control_init(struct control *control, int fd, struct mount *mount);
void control_done(struct control *control);

/* What poll(2) is to wait for. */
short control_events(const struct control *control);
/* Read, answer and send what can be without waiting. 0; -1: the other side is gone or talks nonsense, and it is all over. */
int control_serve(struct control *control);
/* Dropped, and counted by nobody, when the other side does not read. */
void control_tell(struct control *control, const char *method, json_t *params);

#endif
