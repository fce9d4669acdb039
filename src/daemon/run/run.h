/* Running jobs: call, script and evaluate. */
#ifndef CLOCHE_DAEMON_RUN_RUN_H
#define CLOCHE_DAEMON_RUN_RUN_H

#include "daemon/core/client.h"

struct job {
        TAILQ_ENTRY(job) link;        /* of the daemon: its jobs, or its ended jobs */
        TAILQ_ENTRY(job) client_link; /* of its client, while there is one */
        struct daemon *daemon;
        struct client *client; /* NULL: the client is gone */
        const struct operation *operation;
        json_t *id;
        cloche_run *run;
        uint64_t started_ns, bytes;
        unsigned requests_open; /* calls of host functions, and questions, without an answer yet */
        int is_cancelled;
        int is_held; /* by a hold request for this job */
};

/* Start a call, script or evaluate. */
int run_begin(const struct client_request *request, json_t **ret, struct cloche_err *e);
int run_cancel(const struct client_request *request, json_t **ret, struct cloche_err *e);
int run_hold(const struct client_request *request, json_t **ret, struct cloche_err *e);
/* Check that the client may start another job. id: of its request, unique among jobs, or NULL. */
int run_check_room(const struct client *client, const json_t *id, size_t bytes, struct cloche_err *e);

void run_on_client_closed(struct client *client);
/* Hold or release the output of its runs. */
void run_client_hold(struct client *client, int hold);
void run_cancel_all(struct daemon *d);
/* Free the runs whose answers have been passed on: their handles are closed here, after the answers
 * have left. */
void run_free_ended(struct daemon *d);

#endif
