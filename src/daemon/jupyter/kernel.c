/* Kernels of the gateway: carriers of the translator between WebSockets and the core. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "internal.h"

#include "base/clock.h"
#include "base/hex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void gateway_make_id(char ret[GATEWAY_ID_SIZE])
{
        unsigned char bytes[16];
        char digits[33];

        while (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
                ;
        bytes[6] = (unsigned char)((bytes[6] & 0x0f) | 0x40); /* version 4 */
        bytes[8] = (unsigned char)((bytes[8] & 0x3f) | 0x80);
        hex_write(digits, bytes, sizeof(bytes));
        snprintf(ret, GATEWAY_ID_SIZE, "%.8s-%.4s-%.4s-%.4s-%.12s", digits, digits + 8, digits + 12, digits + 16,
                 digits + 20);
}

/* -- requests to the core ------------------------------------------------------------------------------------ */

static void call_free(struct gateway_call *call)
{
        TAILQ_REMOVE(&call->gateway->calls, call, link);
        door_done(&call->door);
        free(call);
}

static void on_reply(struct door *door, const struct door_reply *reply)
{
        struct gateway_call *call = (struct gateway_call *)door;
        struct jupyter_call *of = call->call;
        const struct jupyter_reply passed = {.result = reply->result,
                                             .e = reply->e,
                                             .attachments = reply->attachments ? reply->attachments->data : NULL,
                                             .attachments_size = reply->attachments ? reply->attachments->size : 0};

        if (of)
                jupyter_call_end(of, &passed);
        call_free(call);
}

static void on_event(struct door *door, const char *event, const json_t *about, const struct buf *attachments)
{
        struct gateway_call *call = (struct gateway_call *)door;

        if (!call->call)
                return;
        jupyter_call_event(call->call, event, about, attachments ? attachments->data : NULL,
                           attachments ? attachments->size : 0);
        gateway_kernel_hold(call->kernel);
}

static void call_core(struct gateway *g, struct gateway_kernel *k, int64_t principal, struct jupyter_call *of,
                      const char *method, json_t *params)
{
        static const struct door_hooks hooks = {.reply = on_reply, .event = on_event};
        struct gateway_call *call = calloc(1, sizeof(*call));

        if (!call)
                abort(); /* half a request cannot be answered */
        call->door = (struct door){.hooks = &hooks,
                                   .daemon = g->daemon,
                                   .principal = principal,
                                   .sandbox = strdup(GATEWAY_SANDBOX)};
        call->gateway = g;
        call->kernel = k;
        call->call = of;
        TAILQ_INSERT_TAIL(&g->calls, call, link);
        if (of)
                jupyter_call_set(of, call);
        door_call(&call->door, method, params, NULL); /* the call may be freed */
}

static void carrier_call(void *data, struct jupyter_call *call, const char *method, json_t *params)
{
        struct gateway_kernel *k = data;

        call_core(k->gateway, k, k->principal, call, method, params);
}

static void carrier_drop(void *data, struct jupyter_call *call)
{
        (void)data;
        call_free(jupyter_call_get(call));
}

void gateway_free_calls(struct gateway *g)
{
        while (!TAILQ_EMPTY(&g->calls))
                call_free(TAILQ_FIRST(&g->calls));
}

void gateway_kernel_hold(struct gateway_kernel *k)
{
        const struct gateway_socket *s;
        struct gateway_call *call, *next;
        size_t most = 0;

        TAILQ_FOREACH (s, &k->sockets, link)
                if (s->base.socket && websocket_waiting(s->base.socket) > most)
                        most = websocket_waiting(s->base.socket);
        for (call = TAILQ_FIRST(&k->gateway->calls); call; call = next) {
                next = TAILQ_NEXT(call, link);
                if (call->kernel == k && call->call)
                        door_hold(&call->door, most);
        }
}

/* -- life ---------------------------------------------------------------------------------------------------- */

static void carrier_send(void *data, enum jupyter_channel channel, const void *address, size_t address_size,
                         const json_t *message)
{
        gateway_socket_send(data, channel, address, address_size, message);
}

static void on_turn(uv_timer_t *timer)
{
        struct gateway *g = timer->data;
        struct gateway_kernel *k, *next;

        for (k = TAILQ_FIRST(&g->kernels); k; k = next) {
                next = TAILQ_NEXT(k, link);
                if (!k->is_ended)
                        continue;
                k->is_ended = 0;
                if (k->how == JUPYTER_SHUTDOWN || gateway_kernel_restart(k) < 0)
                        gateway_kernel_remove(k);
        }
}

/* An interpreter that ended is started anew, as by a notebook server. */
static void carrier_ended(void *data, enum jupyter_end how)
{
        struct gateway_kernel *k = data;

        k->is_ended = 1;
        k->how = how;
        uv_timer_start(k->gateway->turn, on_turn, 0, 0);
}

static int make_jupyter(struct gateway_kernel *k)
{
        static const struct jupyter_carrier carrier = {.send = carrier_send,
                                                       .call = carrier_call,
                                                       .drop = carrier_drop,
                                                       .ended = carrier_ended};
        struct jupyter_kernel *made;

        snprintf(k->context, sizeof(k->context), "kernel-%s-%u", k->id, ++k->generation);
        made = jupyter_kernel_new(&carrier, k,
                                  &(struct jupyter_options){.language = k->language->name,
                                                            .sandbox = GATEWAY_SANDBOX,
                                                            .context = k->context,
                                                            .cwd = k->cwd});
        if (!made)
                return -1;
        k->jupyter = made;
        jupyter_kernel_start(made);
        return 0;
}

struct gateway_kernel *gateway_kernel_new(struct gateway *g, int64_t principal, const struct jupyter_language *language,
                                          const char *cwd)
{
        struct gateway_kernel *k = calloc(1, sizeof(*k));

        if (!k)
                return NULL;
        TAILQ_INIT(&k->sockets);
        k->gateway = g;
        k->principal = principal;
        k->language = language;
        k->cwd = cwd ? strdup(cwd) : NULL;
        gateway_make_id(k->id);
        gateway_kernel_touch(k);
        if ((cwd && !k->cwd) || make_jupyter(k) < 0) {
                free(k->cwd);
                free(k);
                return NULL;
        }
        TAILQ_INSERT_TAIL(&g->kernels, k, link);
        return k;
}

static void delete_context(struct gateway_kernel *k)
{
        call_core(k->gateway, NULL, k->principal, NULL, "context.delete", json_pack("{s:s}", "context", k->context));
}

int gateway_kernel_restart(struct gateway_kernel *k)
{
        jupyter_kernel_restarting(k->jupyter);
        jupyter_kernel_free(k->jupyter);
        k->jupyter = NULL;
        delete_context(k);
        return make_jupyter(k);
}

static void kernel_free(struct gateway_kernel *k)
{
        struct gateway_socket *s;

        TAILQ_REMOVE(&k->gateway->kernels, k, link);
        gateway_sessions_drop(k->gateway, k);
        jupyter_kernel_free(k->jupyter);
        while ((s = TAILQ_FIRST(&k->sockets))) {
                TAILQ_REMOVE(&k->sockets, s, link);
                s->kernel = NULL;
                if (s->base.socket)
                        websocket_close(s->base.socket, 1000, "the kernel has ended"); /* it may be freed */
        }
        free(k->cwd);
        free(k);
}

void gateway_kernel_remove(struct gateway_kernel *k)
{
        delete_context(k);
        kernel_free(k);
}

void gateway_free_kernels(struct gateway *g)
{
        while (!TAILQ_EMPTY(&g->kernels))
                kernel_free(TAILQ_FIRST(&g->kernels));
}

struct gateway_kernel *gateway_kernel_find(const struct gateway *g, int64_t principal, const char *id, size_t size)
{
        struct gateway_kernel *k;

        TAILQ_FOREACH (k, &g->kernels, link)
                if (k->principal == principal && strlen(k->id) == size && memcmp(k->id, id, size) == 0)
                        return k;
        return NULL;
}

void gateway_kernel_touch(struct gateway_kernel *k)
{
        k->used_ns = clock_now_ns();
        k->real_ms = clock_real_ms();
}

json_t *gateway_kernel_model(const struct gateway_kernel *k)
{
        char time[CLOCK_TEXT_SIZE] = "";

        clock_write_utc(time, (struct timespec){.tv_sec = (time_t)(k->real_ms / 1000),
                                                .tv_nsec = (long)(k->real_ms % 1000) * 1000000});
        return json_pack("{s:s, s:s, s:s, s:s, s:i}", "id", k->id, "name", k->language->name, "last_activity", time,
                         "execution_state", jupyter_kernel_state(k->jupyter), "connections", (int)k->socket_count);
}
