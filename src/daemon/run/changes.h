/* Mounted directories: kept change sets, running syncs, and their events and questions. */
#ifndef CLOCHE_DAEMON_RUN_CHANGES_H
#define CLOCHE_DAEMON_RUN_CHANGES_H

#include "daemon/core/client.h"

struct job;

struct kept_changeset {
        TAILQ_ENTRY(kept_changeset) link;
        struct client *client; /* its owner; NULL: all clients of the user */
        int64_t principal;
        char id[24];
        cloche_changeset *set;
        uint64_t used_ns;
        unsigned syncs; /* that are running */
        int is_dropped; /* freed when these have ended */
};

/* Read a mount of params. *ret_mount: the part for the engine, a new reference; *ret_events: the
 * events that the client wants. */
int changes_read_mount(const struct daemon *d, const json_t *mount, json_t **ret_mount, unsigned *ret_events,
                       struct cloche_err *e);

/* A cloche_file_handler; data is the job. */
void changes_of_job(void *data, cloche_run *run, enum cloche_file_event event, const char *about,
                    cloche_sync_question *question);
/* Keep the changes of a run for its client. Takes the set; NULL: there are none. *ret_id lives as
 * long as the set, or is NULL. */
int changes_keep(struct client *client, cloche_changeset *set, const char **ret_id, struct cloche_err *e);

int changes_sync(const struct client_request *request, json_t **ret, struct cloche_err *e);
int changes_drop(const struct client_request *request, json_t **ret, struct cloche_err *e);

/* Free syncs that have ended. Called at the end of a loop iteration. */
void changes_reap(struct daemon *d);
void changes_tidy(struct daemon *d, uint64_t now_ns);
void changes_on_client_closed(struct client *client);
void changes_drop_all(struct daemon *d);

#endif
