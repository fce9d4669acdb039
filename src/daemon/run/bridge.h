/* Requests to a client: calls of its host functions, and questions about changes of its runs. */
#ifndef CLOCHE_DAEMON_RUN_BRIDGE_H
#define CLOCHE_DAEMON_RUN_BRIDGE_H

#include "daemon/core/client.h"
#include "wire/rpc.h"

/* A cloche_bridge_handler; data is the job. */
void bridge_asked(void *data, cloche_bridge_call *call);
/* Send the client a question about a change before its sync; without a client the sync is aborted.
 * id: of the request that the sync belongs to. bridge_owner_over ends the questions of owner.
 * *open: number of unanswered ones. */
void bridge_ask_sync(struct client *client, const json_t *id, const void *owner, unsigned *open, const char *change,
                     cloche_sync_question *question);
/* Handle an answer of the client. An answer to no open request is dropped. */
void bridge_answered(struct client *client, const struct rpc_message *m, const struct frame *f);
/* Fail the open requests of a run or sync that ended (client may be NULL), or all of a client. */
void bridge_owner_over(struct client *client, const void *owner);
void bridge_client_over(struct client *client);

/* Convert the JSON text of one value to frame form. */
int bridge_to_frame(const char *text, struct buf *attachments, json_t **ret, struct cloche_err *e);

#endif
