/* Running jobs: call, script and evaluate. */
#ifndef CLOCHE_DAEMON_RUN_RUN_H
#define CLOCHE_DAEMON_RUN_RUN_H

#include "daemon/core/client.h"

struct job {
        struct client_pending pending;
        TAILQ_ENTRY(job) link; /* of the daemon: its jobs, or its ended jobs */
        const struct operation *operation;
        cloche_run *run;
        uint64_t started_ns, bytes;
        unsigned requests_open; /* calls of host functions, and questions, without an answer yet */
        int is_cancelled;
};

/* Start a call, script or evaluate. */
int run_begin(const struct client_request *request, json_t **ret, struct cloche_err *e);
void run_cancel_all(struct daemon *d);
/* Free the runs whose answers have been passed on: their handles are closed here, after the answers
 * have left. */
void run_free_ended(struct daemon *d);

#endif
