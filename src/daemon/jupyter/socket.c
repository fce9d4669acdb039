/* WebSockets of kernels: each text message is a whole message of Jupyter. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "internal.h"

#include "base/err.h"
#include "daemon/web/access.h"
#include "wire/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_BYTES_MAX (32u << 20)
#define HEADER_BYTES_MAX (64u << 10) /* it comes back in each message of the request's output */
#define CLOSE_POLICY 1008

static const char *const channels[] = {
        [JUPYTER_SHELL] = "shell", [JUPYTER_CONTROL] = "control", [JUPYTER_STDIN] = "stdin", [JUPYTER_IOPUB] = "iopub"};

/* -- messages that come -------------------------------------------------------------------------------------- */

static int channel_of(const json_t *message)
{
        const char *name = json_string_value(json_object_get(message, "channel"));

        for (int i = 0; name && i < JUPYTER_IOPUB; i++)
                if (strcmp(name, channels[i]) == 0)
                        return i;
        return -1;
}

static int is_header(const json_t *header)
{
        return json_is_string(json_object_get(header, "msg_id")) &&
               json_is_string(json_object_get(header, "msg_type")) &&
               json_dumpb(header, NULL, 0, JSON_COMPACT) <= HEADER_BYTES_MAX;
}

static void take(struct gateway_socket *s, const json_t *message, size_t size)
{
        json_t *header = json_object_get(message, "header"), *content = json_object_get(message, "content");
        struct gateway_kernel *k = s->kernel;
        int channel = channel_of(message);

        if (channel < 0 || !is_header(header) || !json_is_object(content)) {
                websocket_close(s->base.socket, CLOSE_POLICY,
                                "a message lacks channel, content or a header of at most 64 KiB");
                return;
        }
        gateway_kernel_touch(k);
        jupyter_kernel_take(k->jupyter, &(struct jupyter_message){.channel = (enum jupyter_channel)channel,
                                                                  .header = header,
                                                                  .content = content,
                                                                  .address = &s->number,
                                                                  .address_size = sizeof(s->number),
                                                                  .size = size});
}

static void on_text(void *data, char *bytes, size_t size)
{
        struct gateway_socket *s = data;
        struct cloche_err e = {0};
        json_t *message = NULL;

        s->base.daemon->stats.bytes_read += size;
        if (!s->kernel || !s->kernel->jupyter)
                return;
        if (json_load_text(bytes, size, &message, &e) < 0)
                websocket_close(s->base.socket, CLOSE_POLICY, "a message is no JSON");
        else if (jupyter_kernel_is_full(s->kernel->jupyter))
                websocket_close(s->base.socket, CLOSE_POLICY, "too many requests wait");
        else
                take(s, message, size);
        json_decref(message);
}

/* -- messages that go ---------------------------------------------------------------------------------------- */

static int is_addressed(const struct gateway_socket *s, const void *address, size_t size)
{
        return !address || (size == sizeof(s->number) && memcmp(&s->number, address, size) == 0);
}

void gateway_socket_send(struct gateway_kernel *k, enum jupyter_channel channel, const void *address,
                         size_t address_size, const json_t *message)
{
        const json_t *header = json_object_get(message, "header");
        json_t *whole = json_copy((json_t *)message);
        struct gateway_socket *s, *next;
        char *text;

        json_object_set(whole, "msg_id", json_object_get(header, "msg_id"));
        json_object_set(whole, "msg_type", json_object_get(header, "msg_type"));
        json_object_set_new(whole, "channel", json_string(channels[channel]));
        json_object_set_new(whole, "buffers", json_array());
        text = json_dump_text(whole, JSON_COMPACT);
        for (s = TAILQ_FIRST(&k->sockets); s; s = next) {
                next = TAILQ_NEXT(s, link);
                if (!s->base.socket || !is_addressed(s, address, address_size))
                        continue;
                if (text)
                        (void)websocket_queue(s->base.socket, 1, text, strlen(text));
                else
                        websocket_close(s->base.socket, 1011, "out of memory");
        }
        if (text)
                k->gateway->daemon->stats.bytes_written += strlen(text);
        free(text);
        json_decref(whole);
}

/* -- life ---------------------------------------------------------------------------------------------------- */

static void on_open(void *data, struct websocket *socket)
{
        struct gateway_socket *s = data;

        s->base.socket = socket;
}

static void on_sent(void *data)
{
        struct gateway_socket *s = data;

        if (s->kernel)
                gateway_kernel_hold(s->kernel);
}

static void on_closed(void *data)
{
        struct gateway_socket *s = data;
        struct gateway_kernel *k = s->kernel;

        if (k) {
                TAILQ_REMOVE(&k->sockets, s, link);
                k->socket_count--;
                gateway_kernel_touch(k);
                gateway_kernel_hold(k); /* the others may be ahead of it */
        }
        sandbox_socket_done(&s->base);
        free(s);
}

static const struct websocket_handler handler = {.on_open = on_open,
                                                 .on_text = on_text,
                                                 .on_sent = on_sent,
                                                 .on_closed = on_closed};

int gateway_socket_open(struct gateway_kernel *k, struct http_request *request, struct cloche_err *e)
{
        struct gateway_socket *s;
        int r;

        if (k->socket_count >= GATEWAY_SOCKETS_MAX)
                return err_set(e, CLOCHE_E_TOO_LARGE, "the kernel has %d connections: close some", GATEWAY_SOCKETS_MAX);
        s = calloc(1, sizeof(*s));
        if (!s)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "open a WebSocket");
        sandbox_socket_init(&s->base, k->gateway->daemon);
        s->kernel = k;
        s->number = ++k->gateway->socket_number;
        TAILQ_INSERT_TAIL(&k->sockets, s, link);
        k->socket_count++;
        gateway_kernel_touch(k);
        r = http_upgrade(request, &handler, s, MESSAGE_BYTES_MAX, e);
        if (r < 0)
                on_closed(s);
        return r;
}
