/* Messages to clients. Runs in: cloche-kernel and cloched-engine, with their rights. */
#include "internal.h"

#include "base/clock.h"
#include "base/hex.h"

#include <string.h>
#include <sys/random.h>

void jupyter_make_session(char ret[SESSION_BYTES])
{
        unsigned char bytes[(SESSION_BYTES - 1) / 2];

        while (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
                ;
        hex_write(ret, bytes, sizeof(bytes));
}

static json_t *make(struct jupyter_kernel *k, const struct jupyter_request *request, const char *type, json_t *metadata,
                    json_t *content)
{
        char time[CLOCK_TEXT_SIZE];
        json_t *header = json_pack("{s:o, s:s, s:s, s:s, s:s, s:s}", "msg_id",
                                   json_sprintf("%s_%llu", k->session, (unsigned long long)++k->message_count),
                                   "session", k->session, "username", "kernel", "date", clock_text_now(time),
                                   "msg_type", type, "version", JUPYTER_PROTOCOL),
               *parent = request ? json_incref(request->header) : json_object();

        return json_pack("{s:o, s:o, s:o, s:o}", "header", header, "parent_header", parent, "metadata",
                         metadata ? metadata : json_object(), "content", content);
}

void jupyter_publish(struct jupyter_kernel *k, const struct jupyter_request *request, const char *type, json_t *content)
{
        json_t *message = make(k, request, type, NULL, content);

        if (message)
                k->carrier->send(k->data, JUPYTER_IOPUB, NULL, 0, message);
        json_decref(message);
}

void jupyter_send(struct jupyter_request *request, enum jupyter_channel channel, const char *type, json_t *metadata,
                  json_t *content)
{
        struct jupyter_kernel *k = request->kernel;
        json_t *message = make(k, request, type, metadata, content);

        if (message)
                k->carrier->send(k->data, channel, request->address, request->address_size, message);
        json_decref(message);
}

void jupyter_publish_status(struct jupyter_kernel *k, const struct jupyter_request *request, const char *state)
{
        jupyter_publish(k, request, "status", json_pack("{s:s}", "execution_state", state));
}
