/* The control socket: the engine's requests, served between the guest's, and notifications to the
 * engine. README.md lists them. Frames of JSON-RPC over a stream socket; a descriptor travels with
 * the bytes of its request or answer. */
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
        int given[4]; /* received descriptors, for requests that use one */
        unsigned given_count;
        struct changes list; /* the list that is being paged */
        bool listed;         /* more pages remain */
        struct outgoing *first, *last;
        size_t waiting; /* unsent messages */
        struct buf attached; /* attachment of the answer in preparation */
        bool frozen;
        /* Handles configure; it must be the first request. */
        int (*configure)(void *argument, const json_t *params, json_t **ret, struct cloche_err *e);
        void *argument;
        bool configured, failed; /* a failed configure closes the connection after its answer */
};

void control_init(struct control *control, int fd, struct mount *mount);
void control_done(struct control *control);

/* The events for poll(2). */
short control_events(const struct control *control);
/* Read, answer and send without blocking. 0; -1: the peer has closed or sent an invalid message;
 * the connection is over. */
int control_serve(struct control *control);
/* Queue a notification; it is dropped, uncounted, if the peer does not read. */
void control_tell(struct control *control, const char *method, json_t *params);

#endif
