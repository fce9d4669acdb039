/* The loop of the kernel process. Runs in: cloche-kernel's second process, which has given up its
 * rights. */
#include "kernel.h"
#include "broker.h"
#include "confine.h"
#include "sockets.h"

#include "base/err.h"
#include "base/fd.h"
#include "cli/sandbox/daemon-client.h"
#include "wire/json.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define WAITING_BYTES (8u << 20) /* for clients, over which the daemon is not read */
#define RETRY_MS 10              /* libzmq does not tell when a client has caught up */
#define TOPIC "kernel"

enum link_state { LINK_NONE, LINK_REQUESTED, LINK_OPEN };

/* A request to the core. */
struct open_call {
        TAILQ_ENTRY(open_call) link;
        struct jupyter_call *call;
        json_int_t id;      /* 0: it waits for the connection */
        const char *method; /* of one that waits */
        json_t *params;
};

struct kernel {
        struct jupyter_kernel *jupyter;
        const char *sandbox;
        struct frames_key key;
        struct sockets sockets;
        struct received *received;
        struct daemon_client client;
        enum link_state link;
        int broker_fd;
        TAILQ_HEAD(, open_call) calls;
        int has_ended, exit_code;
};

/* -- to clients
 * -----------------------------------------------------------------------------------------------------
 * */

static const enum connection_port ports[] = {[JUPYTER_SHELL] = PORT_SHELL,
                                             [JUPYTER_CONTROL] = PORT_CONTROL,
                                             [JUPYTER_STDIN] = PORT_STDIN,
                                             [JUPYTER_IOPUB] = PORT_IOPUB};

#define IDENTITIES_MAX 4

static void send_parts(struct kernel *k, enum connection_port port, const void *address, size_t address_size,
                       const struct frames_part texts[FRAMES_JSON])
{
        struct frames_part parts[IDENTITIES_MAX + 2 + FRAMES_JSON];
        char signature[FRAMES_SIGNATURE_SIZE];
        size_t count = 0, at = 0, size;
        const void *identity;

        if (port == PORT_IOPUB)
                parts[count++] = (struct frames_part){TOPIC, sizeof(TOPIC) - 1};
        while (count < IDENTITIES_MAX && (identity = frames_identity(address, address_size, &at, &size)))
                parts[count++] = (struct frames_part){identity, size};
        frames_sign(&k->key, texts, signature);
        parts[count++] = (struct frames_part){"<IDS|MSG>", 9};
        parts[count++] = (struct frames_part){signature, strlen(signature)};
        for (size_t i = 0; i < FRAMES_JSON; i++)
                parts[count++] = texts[i];
        sockets_send(&k->sockets, port, parts, count);
}

static void carrier_send(void *data, enum jupyter_channel channel, const void *address, size_t address_size,
                         const json_t *message)
{
        static const char *const members[FRAMES_JSON] = {"header", "parent_header", "metadata", "content"};
        struct frames_part texts[FRAMES_JSON];
        char *text[FRAMES_JSON];
        int is_whole = 1;

        for (size_t i = 0; i < FRAMES_JSON; i++) {
                text[i] = json_dump_text(json_object_get(message, members[i]), JSON_COMPACT);
                texts[i] = (struct frames_part){text[i], text[i] ? strlen(text[i]) : 0};
                is_whole &= text[i] != NULL;
        }
        if (is_whole)
                send_parts(data, ports[channel], address, address_size, texts);
        for (size_t i = 0; i < FRAMES_JSON; i++)
                free(text[i]);
}

/* -- to the core
 * -----------------------------------------------------------------------------------------------------
 * */

static void open_call_free(struct kernel *k, struct open_call *open)
{
        TAILQ_REMOVE(&k->calls, open, link);
        json_decref(open->params);
        free(open);
}

static void lose(struct kernel *k, const struct cloche_err *e)
{
        if (k->link == LINK_OPEN)
                daemon_close(&k->client);
        k->link = LINK_NONE;
        jupyter_kernel_lost(k->jupyter, e);
}

static int send_call(struct kernel *k, struct open_call *open, struct cloche_err *e)
{
        json_t *params = open->params;

        open->params = NULL;
        return daemon_request(&k->client, open->method, params, NULL, 0, &open->id, e);
}

static void request_link(struct kernel *k)
{
        struct cloche_err e = {0};

        k->link = LINK_REQUESTED;
        if (fd_write_full(k->broker_fd, "c", 1) < 0) {
                err_set(&e, CLOCHE_E_STATE, "the process that connects to daemons has ended");
                lose(k, &e);
        }
}

static void end_call(struct kernel *k, struct open_call *open, const struct jupyter_reply *reply)
{
        struct jupyter_call *call = open->call;

        open_call_free(k, open);
        jupyter_call_end(call, reply);
}

static void carrier_call(void *data, struct jupyter_call *call, const char *method, json_t *params)
{
        struct kernel *k = data;
        struct open_call *open = calloc(1, sizeof(*open));
        struct cloche_err e = {0};

        if (!open)
                abort(); /* a request cannot be half made */
        json_object_set_new(params, "sandbox", json_string(k->sandbox));
        *open = (struct open_call){.call = call, .method = method, .params = params};
        TAILQ_INSERT_TAIL(&k->calls, open, link);
        jupyter_call_set(call, open);
        if (k->link == LINK_NONE)
                request_link(k);
        else if (k->link == LINK_OPEN && send_call(k, open, &e) < 0)
                end_call(k, open, &(struct jupyter_reply){.e = &e});
}

static void carrier_drop(void *data, struct jupyter_call *call)
{
        open_call_free(data, jupyter_call_get(call));
}

static void carrier_ended(void *data, enum jupyter_end how)
{
        struct kernel *k = data;

        k->has_ended = 1;
        k->exit_code = how == JUPYTER_DEAD;
}

/* -- from the broker
 * -------------------------------------------------------------------------------------------------
 * */

static void take_link(struct kernel *k)
{
        struct broker_answer answer;
        struct open_call *open;
        size_t count = 1;
        int fd = -EBADF;
        ssize_t n = fd_receive(k->broker_fd, &answer, sizeof(answer), &fd, &count, 0);

        if (n != sizeof(answer))
                err_set(&answer.e, CLOCHE_E_STATE, "the process that connects to daemons has ended");
        if (n != sizeof(answer) || answer.e.code) {
                lose(k, &answer.e);
                return;
        }
        daemon_resume(fd, &k->client);
        k->link = LINK_OPEN;
        TAILQ_FOREACH (open, &k->calls, link)
                if (open->id == 0 && send_call(k, open, &answer.e) < 0) {
                        lose(k, &answer.e);
                        return;
                }
}

/* -- from the daemon
 * -------------------------------------------------------------------------------------------------
 * */

static void take_answer(struct kernel *k, const struct daemon_message *m)
{
        struct open_call *open;

        TAILQ_FOREACH (open, &k->calls, link)
                if (open->id == m->id)
                        break;
        if (!open)
                return;
        if (m->kind == DAEMON_EVENT)
                jupyter_call_event(open->call, m->event, m->body, m->attachments, m->attachments_size);
        else
                end_call(k, open,
                         &(struct jupyter_reply){.result = m->kind == DAEMON_ANSWER ? m->body : NULL,
                                                 .e = m->kind == DAEMON_ANSWER ? NULL : &m->e,
                                                 .attachments = m->attachments,
                                                 .attachments_size = m->attachments_size});
}

static void take_answers(struct kernel *k)
{
        struct daemon_message message = {0};
        struct cloche_err e = {0};
        int r = 1;

        while (k->link == LINK_OPEN && !k->has_ended && k->sockets.waiting_bytes < WAITING_BYTES &&
               (r = daemon_next(&k->client, &message, &e)) > 0) {
                take_answer(k, &message);
                daemon_message_done(&message);
        }
        if (k->link == LINK_OPEN && r < 0)
                lose(k, &e);
}

/* -- from clients
 * ----------------------------------------------------------------------------------------------------
 * */

/* Messages that nobody signed are dropped, and others of a wrong form. */
static void take_requests(struct kernel *k, enum jupyter_channel channel)
{
        const struct frames_part *parts;
        struct frames_message message;
        struct cloche_err e;
        size_t count;

        while (!k->has_ended && (channel != JUPYTER_SHELL || !jupyter_kernel_is_full(k->jupyter)) &&
               (count = sockets_receive(&k->sockets, ports[channel], k->received, &parts)) > 0) {
                if (count > FRAMES_MAX || frames_parse(&k->key, parts, count, &message, &e) < 0)
                        continue;
                jupyter_kernel_take(k->jupyter, &(struct jupyter_message){.channel = channel,
                                                                          .header = message.header,
                                                                          .content = message.content,
                                                                          .address = message.address,
                                                                          .address_size = message.address_size,
                                                                          .size = message.size});
                frames_message_done(&message);
        }
}

/* -- the loop
 * ---------------------------------------------------------------------------------------------------------
 * */

static void turn(struct kernel *k)
{
        int takes = k->sockets.waiting_bytes < WAITING_BYTES, is_open = k->link == LINK_OPEN;
        short wanted = is_open ? daemon_poll_events(&k->client) : 0;
        zmq_pollitem_t items[] = {
                {.socket = k->sockets.of[PORT_CONTROL], .events = ZMQ_POLLIN},
                {.socket = k->sockets.of[PORT_SHELL], .events = jupyter_kernel_is_full(k->jupyter) ? 0 : ZMQ_POLLIN},
                {.socket = k->sockets.of[PORT_STDIN], .events = ZMQ_POLLIN},
                {.socket = k->sockets.of[PORT_HB], .events = ZMQ_POLLIN},
                {.fd = k->broker_fd, .events = ZMQ_POLLIN},
                {.fd = is_open ? k->client.fd : -1,
                 .events = (short)((wanted & POLLIN && takes ? ZMQ_POLLIN : 0) | (wanted & POLLOUT ? ZMQ_POLLOUT : 0))},
        };
        struct cloche_err e = {0};
        short happened;

        if (zmq_poll(items, is_open ? 6 : 5, TAILQ_EMPTY(&k->sockets.waiting) ? -1 : RETRY_MS) < 0)
                return;
        sockets_flush(&k->sockets);
        if (items[3].revents)
                sockets_echo(&k->sockets);
        take_requests(k, JUPYTER_CONTROL);
        take_requests(k, JUPYTER_STDIN);
        take_requests(k, JUPYTER_SHELL);
        if (items[4].revents)
                take_link(k);
        happened =
                (short)((items[5].revents & ZMQ_POLLIN ? POLLIN : 0) | (items[5].revents & ZMQ_POLLOUT ? POLLOUT : 0) |
                        (items[5].revents & ZMQ_POLLERR ? POLLERR : 0));
        if (is_open && k->link == LINK_OPEN && happened && daemon_move(&k->client, happened, &e) < 0)
                lose(k, &e);
        take_answers(k);
}

static int prepare(struct kernel *k, struct connection *c, struct cloche_err *e)
{
        int r = confine_to_sockets(e);

        if (r == 0)
                r = sockets_open(&k->sockets, c, e);
        if (r == 0)
                r = confine_kernel_calls(e);
        return r < 0 ? r : sockets_bind(&k->sockets, c, e);
}

/* dprintf(3) would seek, which the filter refuses. */
static int complain(const struct cloche_err *e)
{
        char line[sizeof(e->msg) + 32];

        snprintf(line, sizeof(line), "cloche-kernel: %s\n", e->msg);
        (void)fd_write_full(STDERR_FILENO, line, strlen(line));
        return 1;
}

int kernel_run(struct connection *c, const struct jupyter_options *options, int broker_fd)
{
        static const struct jupyter_carrier carrier = {.send = carrier_send,
                                                       .call = carrier_call,
                                                       .drop = carrier_drop,
                                                       .ended = carrier_ended};
        struct kernel k = {.broker_fd = broker_fd, .sandbox = options->sandbox, .received = received_new()};
        struct cloche_err e = {0};
        int has_begun = 0;

        TAILQ_INIT(&k.calls);
        k.jupyter = jupyter_kernel_new(&carrier, &k, options);
        if (!k.jupyter || !k.received || frames_key_init(&k.key, c->key) < 0)
                return complain((err_set(&e, CLOCHE_E_RESOURCE, "out of memory"), &e));
        request_link(&k); /* while the sockets are made */
        if (prepare(&k, c, &e) < 0)
                return complain(&e);
        jupyter_kernel_start(k.jupyter);
        while (!k.has_ended) {
                turn(&k);
                if (jupyter_kernel_failure(k.jupyter)->code && !has_begun)
                        break;
                has_begun |= strcmp(jupyter_kernel_state(k.jupyter), "starting") != 0;
        }
        if (!k.has_ended)
                k.exit_code = complain(jupyter_kernel_failure(k.jupyter));
        if (k.link == LINK_OPEN)
                daemon_close(&k.client);
        k.link = LINK_NONE;
        jupyter_kernel_free(k.jupyter);
        sockets_close(&k.sockets);
        received_free(k.received);
        frames_key_done(&k.key);
        return k.exit_code;
}
