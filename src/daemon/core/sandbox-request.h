/* Requests about sandboxes: the rows of sandbox.def, over frames and HTTP, from check to answer. */
#ifndef CLOCHE_DAEMON_CORE_SANDBOX_REQUEST_H
#define CLOCHE_DAEMON_CORE_SANDBOX_REQUEST_H

#include "client.h"

struct sandbox_ask;

struct sandbox_job {
        TAILQ_ENTRY(sandbox_job) link; /* of the daemon */
        TAILQ_ENTRY(sandbox_job) client_link;
        struct client *client;
        const struct operation *operation;
        json_t *id;
        struct sandbox_ask *ask;
        uint64_t bytes;
        int is_held;      /* by a hold request for this job */
        int is_told_held; /* last value passed to the core, for this job or its whole client */
};

/* ask->params: in frame form, with these attachments; borrowed. 1: the answer is sent later. */
int sandbox_begin(const struct ask *ask, const struct buf *attachments, struct cloche_err *e);

/* Cancel the job with this request id, which fails now. 1: there was one. */
int sandbox_cancel(struct client *client, const json_t *id);
/* Hold or release the events of a job. 1: there is one. */
int sandbox_hold(struct client *client, const json_t *id, int hold);
/* Apply a changed client->is_held. */
void sandbox_client_hold(struct client *client);
void sandbox_client_over(struct client *client);
/* True if a job is running that an orderly stop waits for; watching for events is not. */
int sandbox_jobs_are_busy(const struct daemon *d);

/* Convert an object of the core for HTTP clients; a new reference. NULL: out of memory. Output and
 * file contents become text if they are UTF-8 without NUL. */
json_t *sandbox_to_text(const json_t *object, const struct buf *attachments);

#endif
