/* Shared by the files of the library. */
#ifndef CLOCHE_BOX_AGENT_AGENT_INTERNAL_H
#define CLOCHE_BOX_AGENT_AGENT_INTERNAL_H

#include "agent.h"
#include "channel.h"

#include <cloche/error.h>

enum method { METHOD_CALL, METHOD_PREPARE, METHOD_RUN, METHOD_FREEZE, METHOD_BUILD };

/* The owner of everything that agent_request borrows. */
struct held_request {
        struct agent_request request;
        json_t *owned; /* object of the values without references */
};

/* Returns 0; or -1 with the reason why params are refused. Call agent_request_done() in both
 * cases. */
int request_read(enum method method, const json_t *params, const struct frame *frame, struct held_request *ret,
                 struct cloche_err *e);
void agent_request_done(struct held_request *held);

/* Check a value and resolve its references; a new reference. */
int request_value(const json_t *value, size_t attachments_size, json_t **ret, struct cloche_err *e);

/* In the template: fork children until no more are requested, then exit. Returns in children: 1 if
 * the child is a template too. */
int template_fork_children(void);

/* Build the frame of a reply, or of the error it holds. id is borrowed. Returns 0, or -1 without
 * memory. */
int reply_build(const json_t *id, struct agent_reply *reply, const struct agent_language *language, struct buf *out);
void reply_done(struct agent_reply *reply);

#endif
