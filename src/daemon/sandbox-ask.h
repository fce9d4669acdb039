/* What clients ask of sandboxes: the rows of sandbox.def, over frames and HTTP, from their checks to the answer. */
#ifndef CLOCHE_DAEMON_SANDBOX_ASK_H
#define CLOCHE_DAEMON_SANDBOX_ASK_H

#include "client.h"

struct sandbox_ask;

struct sandbox_job {
        TAILQ_ENTRY(sandbox_job) link;        /* of the daemon */
        TAILQ_ENTRY(sandbox_job) client_link;
        struct client *client;
        const struct operation *operation;
        json_t *id;
        struct sandbox_ask *ask;
        uint64_t bytes;
        int is_held;       /* by whoever asked for this one to be */
        int is_told_held;  /* what the core knows of it, and of its client's being held */
};

/* ask->params: in frame form, with these attachments; borrowed. 1: the answer comes by itself. */
int sandbox_begin(const struct ask *ask, const struct buf *attachments, struct cloche_err *e);

/* 1: the request with that id was one, and is answered with an error now. */
int sandbox_cancel(struct client *client, const json_t *id);
/* 1: there is one. */
int sandbox_hold(struct client *client, const json_t *id, int hold);
/* client->is_held is another than it was. */
void sandbox_client_hold(struct client *client);
void sandbox_client_over(struct client *client);
/* Whether something is under way that an end in order waits for; events that are only told are not. */
int sandbox_jobs_are_busy(const struct daemon *d);

/* An object of the core as clients of HTTP read it; a new reference, NULL: without memory. What was printed or stands in files is text where it is
 * UTF-8 without NUL. */
json_t *sandbox_to_text(const json_t *object, const struct buf *attachments);

#endif
