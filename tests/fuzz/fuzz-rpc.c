/* One message, without its frame: an accepted one must be complete, and a response to it must be accepted again. */
#include "wire/rpc.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void answer(const struct rpc_message *m)
{
        _cleanup_buf_ struct buf out = BUF_INIT(1 << 24);
        struct frame frame = {.attachments = (const unsigned char *)""};
        struct rpc_message again;
        struct cloche_err e;

        if (rpc_result(json_incref(m->id), m->params ? json_incref(m->params) : json_null(), NULL, 0, &out, &e) < 0)
                abort();
        frame.json = out.data + 8;
        frame.json_size = out.size - 8;
        if (rpc_parse(&frame, &again, &e) < 0 || again.kind != RPC_RESULT || !json_equal(again.id, m->id))
                abort();
        rpc_message_done(&again);
}

static int is_whole(const struct rpc_message *m)
{
        switch (m->kind) {
        case RPC_REQUEST:
                return m->method && m->id && !m->result && !m->error;
        case RPC_NOTIFICATION:
                return m->method && !m->id && !m->result && !m->error;
        case RPC_RESULT:
                return !m->method && m->id && m->result && !m->error;
        case RPC_ERROR:
                return !m->method && m->id && !m->result && m->error && m->error_message;
        default:
                return 0;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct frame frame = {.json = (const char *)data, .json_size = size, .attachments = (const unsigned char *)""};
        struct rpc_message m;
        struct cloche_err e;

        if (rpc_parse(&frame, &m, &e) < 0)
                return 0;
        if (!is_whole(&m))
                abort();
        if (m.kind == RPC_REQUEST)
                answer(&m);
        rpc_message_done(&m);
        return 0;
}
