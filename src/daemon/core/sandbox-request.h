/* Requests about sandboxes: the rows of sandbox.def, over frames and HTTP, from check to answer. */
#ifndef CLOCHE_DAEMON_CORE_SANDBOX_REQUEST_H
#define CLOCHE_DAEMON_CORE_SANDBOX_REQUEST_H

#include "client.h"

struct sandbox_request;

struct sandbox_job {
        struct client_pending pending;
        TAILQ_ENTRY(sandbox_job) link; /* of the daemon */
        const struct operation *operation;
        struct sandbox_request *sandbox_request;
        uint64_t bytes;
};

/* request->params: in frame form, with these attachments; borrowed. 1: the answer is sent later. */
int sandbox_job_begin(const struct client_request *request, const struct buf *attachments, struct cloche_err *e);

/* True if a job is running that an orderly stop waits for; watching for events is not. */
int sandbox_jobs_are_busy(const struct daemon *d);

/* Convert an object of the core for HTTP clients; a new reference. NULL: out of memory. Output and
 * file contents become text if they are UTF-8 without NUL. */
json_t *sandbox_to_text(const json_t *object, const struct buf *attachments);

#endif
