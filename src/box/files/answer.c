/* Runs in: a job of cloche-files, within a box, with its user's rights. */
#include "answer.h"

#include "base/err.h"
#include "base/fd.h"
#include "wire/rpc.h"

#include <string.h>

int answer_write(struct files_request *q, const struct cloche_err *error)
{
        _cleanup_buf_ struct buf out = BUF_INIT(FRAME_BYTES_MAX);
        struct cloche_err e = {0};

        if (!error && rpc_result(json_incref((json_t *)q->id), json_incref(q->result), q->attached.data,
                                 q->attached.size, &out, &e) < 0)
                error = &e;
        if (error && rpc_failure(q->id, RPC_ERROR_NUMBER, error, &out) < 0)
                return -1;
        return fd_write_full(q->out_fd, out.data, out.size) < 0 ? -1 : 0;
}

int answer_event(struct buf *out, const struct files_request *q, const char *event, json_t *about,
                 const struct buf *attached, struct cloche_err *e)
{
        json_t *params = json_pack("{s:O, s:s, s:o}", "id", q->id, "event", event, "about", about);

        if (!params)
                return request_no_memory(e);
        return rpc_notify("event", params, attached ? attached->data : NULL, attached ? attached->size : 0, out, e);
}
