/* JSON-RPC 2.0 messages in frames. No batches; ids are strings or integers. Pure. */
#ifndef CLOCHE_WIRE_RPC_H
#define CLOCHE_WIRE_RPC_H

#include "frame.h"

#include <jansson.h>

enum rpc_kind { RPC_REQUEST, RPC_NOTIFICATION, RPC_RESULT, RPC_ERROR };

/* Members other than root are borrowed from root; NULL if the kind has none. */
struct rpc_message {
        enum rpc_kind kind;
        json_t *root, *id, *params, *result, *error;
        const char *method;
        int error_code;
        const char *error_message;
};

/* Append a request to out. id (NULL: making it failed, an error) and params are
 * stolen, also on failure. */
int rpc_request(json_t *id, const char *method, json_t *params, const void *attachments, size_t attachments_size,
                struct buf *out, struct cloche_err *e);
/* Likewise a notification, which has no answer. */
int rpc_notify(const char *method, json_t *params, const void *attachments, size_t attachments_size, struct buf *out,
               struct cloche_err *e);

/* Append an answer. id (NULL in an error: unknown), result and data (NULL: none) are stolen, also
 * on failure. */
int rpc_result(json_t *id, json_t *result, const void *attachments, size_t attachments_size, struct buf *out,
               struct cloche_err *e);
int rpc_error(json_t *id, int code, const char *message, json_t *data, struct buf *out, struct cloche_err *e);
/* The same, with values in data whose bytes are attachments. */
int rpc_error_with(json_t *id, int code, const char *message, json_t *data, const struct buf *attachments,
                   struct buf *out, struct cloche_err *e);

#define RPC_ERROR_NUMBER (-32000)
#define RPC_UNKNOWN_METHOD (-32601)
/* An error with data {name, reason}: the name of its code, and "busy" for EBUSY. The message may be
 * no UTF-8. id is borrowed; NULL: unknown. */
int rpc_failure(const json_t *id, int number, const struct cloche_err *error, struct buf *out);
/* Set *ret to a received error; default_code: for data without a name. */
void rpc_read_failure(const struct rpc_message *m, enum cloche_code default_code, struct cloche_err *ret);

/* -CLOCHE_E_PROTOCOL if the frame holds no such message. Release ret with rpc_message_done(). */
int rpc_parse(const struct frame *f, struct rpc_message *ret, struct cloche_err *e);
void rpc_message_done(struct rpc_message *m);

#endif
