/* What is asked of a client: the host functions its runs call, and what to do with their changes. */
#ifndef CLOCHE_DAEMON_BRIDGE_H
#define CLOCHE_DAEMON_BRIDGE_H

#include "client.h"
#include "wire/rpc.h"

/* As cloche_bridge_handler; data is the job. */
void bridge_asked(void *data, cloche_bridge_call *call);
/* Whether a change is to be synced. client: NULL: it is not; id: of the request it comes of; owner ends it with bridge_owner_over;
 * *open counts what waits for an answer. */
void bridge_ask_sync(struct client *client, const json_t *id, const void *owner, unsigned *open, const char *change,
                     cloche_sync_question *question);
/* An answer of the client; one to nothing that is open goes nowhere. */
void bridge_answered(struct client *client, const struct rpc_message *m, const struct frame *f);
/* What is open of a run or sync that ended (client may be NULL), or of all of a client's. */
void bridge_owner_over(struct client *client, const void *owner);
void bridge_client_over(struct client *client);

/* JSON text of one value in frame form. */
int bridge_to_frame(const char *text, struct buf *attachments, json_t **ret, struct cloche_err *e);

#endif
