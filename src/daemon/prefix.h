/* Prefixes that callers hold: of a connection, or under a name or made over HTTP, and then of the user. */
#ifndef CLOCHE_DAEMON_PREFIX_H
#define CLOCHE_DAEMON_PREFIX_H

#include "client.h"

struct kept_prefix {
        TAILQ_ENTRY(kept_prefix) link;
        struct client *client; /* whose it is; NULL: it stays */
        int64_t principal;
        char id[24], *name, *language;
        cloche_prefix *prefix; /* NULL until it is ready, and once it is given up while somebody waits for it */
        uint64_t runs, used_ns, idle_ms;
        struct {
                struct client *client; /* who asked for it and is to be answered; NULL: nobody any more */
                json_t *id;
                cloche_prefix *prefix;
        } starting;
};

int prefix_create(const struct ask *ask, json_t **ret, struct cloche_err *e);
int prefix_list(const struct ask *ask, json_t **ret, struct cloche_err *e);
int prefix_dispose(const struct ask *ask, json_t **ret, struct cloche_err *e);

/* By id or name, among what the client may see. -CLOCHE_E_NOT_FOUND. */
int prefix_find(const struct client *client, const char *id, struct kept_prefix **ret, struct cloche_err *e);

/* 1: the request with that id set one up, and is answered with an error now. */
int prefix_cancel(struct client *client, const json_t *id);
/* After a turn of the engine: tell those whose set-up is done. */
void prefix_look(struct daemon *d);
/* Those that stay and were not used for long enough. */
void prefix_tidy(struct daemon *d, uint64_t now_ns);
void prefix_client_over(struct client *client);
void prefix_drop_all(struct daemon *d);
unsigned prefixes_count(const struct daemon *d);

#endif
