/* Mounted directories: change sets that are kept, syncs under way, and what is told and asked meanwhile. */
#ifndef CLOCHE_DAEMON_CHANGES_H
#define CLOCHE_DAEMON_CHANGES_H

#include "client.h"

struct job;

struct kept_changeset {
        TAILQ_ENTRY(kept_changeset) link;
        struct client *client; /* whose it is; NULL: of the user */
        int64_t principal;
        char id[24];
        cloche_changeset *set;
        uint64_t used_ns;
        unsigned syncs; /* under way */
        int is_dropped; /* once these have ended */
};

/* A mount of params: what the engine is to have of it (a new reference), and which events are wanted. */
int changes_read_mount(const struct daemon *d, const json_t *mount, json_t **ret_mount, unsigned *ret_events, struct cloche_err *e);

/* As cloche_file_handler; data is the job. */
void changes_of_job(void *data, cloche_run *run, enum cloche_file_event event, const char *about, cloche_sync_question *question);
/* Keep what a run changed for its client; *ret_id lives as long as it is kept, NULL: nothing is. The set is taken over. */
int changes_keep(struct client *client, cloche_changeset *set, const char **ret_id, struct cloche_err *e);

int changes_sync(const struct ask *ask, json_t **ret, struct cloche_err *e);
int changes_drop(const struct ask *ask, json_t **ret, struct cloche_err *e);

/* 1: the request with that id was a sync, which is undone if it can be. */
int changes_cancel(struct client *client, const json_t *id);
/* After a turn: let go of syncs that ended. */
void changes_look(struct daemon *d);
void changes_tidy(struct daemon *d, uint64_t now_ns);
void changes_client_over(struct client *client);
void changes_drop_all(struct daemon *d);

#endif
