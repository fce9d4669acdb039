/* Runs under way. */
#ifndef CLOCHE_DAEMON_RUN_H
#define CLOCHE_DAEMON_RUN_H

#include "client.h"

struct job {
        TAILQ_ENTRY(job) link;        /* of the daemon */
        TAILQ_ENTRY(job) client_link; /* of its client, while there is one */
        struct daemon *daemon;
        struct client *client; /* NULL: nobody waits for the result any more */
        const struct operation *operation;
        json_t *id;
        cloche_run *run;
        uint64_t started_ns, bytes;
        unsigned asks_open; /* calls of host functions and questions that wait for answers */
        int is_cancelled;
};

/* call, script and evaluate. */
int run_begin(const struct ask *ask, json_t **ret, struct cloche_err *e);
int run_cancel(const struct ask *ask, json_t **ret, struct cloche_err *e);

void run_client_over(struct client *client);
/* Let its runs wait with what they print, or go on. */
void run_client_hold(struct client *client, int hold);
void run_cancel_all(struct daemon *d);

#endif
