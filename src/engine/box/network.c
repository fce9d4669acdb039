/* The network of a box: policy to its egress, decisions from it. Runs in: the engine, on its
 * loop. */
#include "network.h"
#include "engine/loop/channel.h"
#include "network-names.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/state.h"
#include "helpers/egress/read/policy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FRAME_MAX (1u << 20)
#define SERVERS_MAX 8
#define SERVERS_BYTES 512
#define TRAFFIC_MAX (UINT64_C(1) << 60) /* no program has sent as much: sums of it need no check */
#define LOOK_MS 5000                    /* between checks of the host's name servers */
#define START_LOOKS 4 /* the egress program must be ready by then: it waits for its box, and may be stopped */

enum network_state {
        NETWORK_STARTING,
        NETWORK_READY,
        NETWORK_ENDED,   /* its egress program, as face.on_end has reported */
        NETWORK_STOPPED, /* no callback is called any more */
        NETWORK_CLOSED,
        NETWORK_STATES
};

static const unsigned transitions[NETWORK_STATES] = {
        [NETWORK_STARTING] = STATE_TO(NETWORK_READY) | STATE_TO(NETWORK_ENDED) | STATE_TO(NETWORK_STOPPED),
        [NETWORK_READY] = STATE_TO(NETWORK_ENDED) | STATE_TO(NETWORK_STOPPED),
        [NETWORK_ENDED] = STATE_TO(NETWORK_STOPPED),
        [NETWORK_STOPPED] = STATE_TO(NETWORK_CLOSED),
};

struct network {
        struct channel channel;
        uv_timer_t timer; /* freed when it is closed */
        struct network_face face;
        json_t *names; /* of the engine */
        char servers[SERVERS_BYTES];
        struct timespec servers_of;
        enum network_state state;
        int is_awaited; /* the keeper's answer to the request to start the egress program */
        unsigned looks; /* while it is not ready */
        uint64_t sent, received;
};

static void set_state(struct network *network, enum network_state state)
{
        STATE_CHECK(transitions, network->state, state);
        network->state = state;
}

/* *ret: the policy for cloche-egress, owned by the caller. */
static int expand(json_t *names, const json_t *policy, json_t **ret, struct cloche_err *e)
{
        struct policy *loaded = NULL;
        json_t *expanded;
        int r = network_names_expand(names, policy, &expanded, e);

        if (r < 0)
                return r;
        r = policy_load(expanded, &loaded, e);
        if (r < 0) {
                json_decref(expanded);
                return r;
        }
        policy_free(loaded);
        *ret = expanded;
        return 0;
}

int network_policy_check(json_t *names, const json_t *policy, struct cloche_err *e)
{
        json_t *expanded;
        int r = expand(names, policy, &expanded, e);

        if (r == 0)
                json_decref(expanded);
        return r;
}

json_t *network_policy_shown(json_t *policy)
{
        json_t *shown, *headers, *of;
        const char *host, *name;
        json_t *value;
        void *next;

        if (!json_object_get(policy, "headers"))
                return json_incref(policy);
        shown = json_copy(policy);
        headers = json_deep_copy(json_object_get(policy, "headers"));
        json_object_foreach (headers, host, of)
                json_object_foreach_safe (of, next, name, value)
                        json_object_set_new(of, name, json_null());
        json_object_set_new(shown, "headers", headers);
        return shown;
}

/* -- the host's name servers ------------------------------------------------------------------------------------ */

/* Like resolver(3), ignore an address that the egress program could not parse. */
static void add_server(char list[SERVERS_BYTES], const char *address)
{
        struct in6_addr bytes;
        size_t size = strlen(list);
        const char *comma = size > 0 ? "," : "";

        if (inet_pton(AF_INET, address, &bytes) == 1)
                snprintf(list + size, SERVERS_BYTES - size, "%s%s", comma, address);
        else if (inet_pton(AF_INET6, address, &bytes) == 1)
                snprintf(list + size, SERVERS_BYTES - size, "%s[%s]", comma, address);
}

/* resolv.conf(5). Without the file, or a server in it, use this machine's. -1: it cannot be
 * read. */
static int read_servers(char list[SERVERS_BYTES])
{
        FILE *file = fopen(NETWORK_SERVERS_FILE, "re");
        char line[256], address[64];
        unsigned count = 0;
        int r = file || errno == ENOENT ? 0 : -1;

        list[0] = '\0';
        while (file && count < SERVERS_MAX && fgets(line, sizeof(line), file))
                if (sscanf(line, " nameserver %63s", address) == 1) {
                        add_server(list, address);
                        count++;
                }
        if (file)
                fclose(file);
        if (!list[0])
                strcpy(list, "127.0.0.1");
        return r;
}

/* Read the name servers again. 1: they have changed. */
static int update_servers(struct network *network)
{
        char now[SERVERS_BYTES];
        struct stat st = {.st_mtim = {.tv_sec = 0}};

        if (stat(NETWORK_SERVERS_FILE, &st) < 0)
                st.st_mtim.tv_sec = 1; /* differs from the time of every existing file */
        if (memcmp(&st.st_mtim, &network->servers_of, sizeof(st.st_mtim)) == 0)
                return 0;
        if (read_servers(now) < 0 && network->servers[0])
                return 0;
        network->servers_of = st.st_mtim;
        if (strcmp(now, network->servers) == 0)
                return 0;
        strcpy(network->servers, now);
        return 1;
}

/* -- messages of cloche-egress ------------------------------------------------------------------------------------ */

static void fail(struct network *network, const struct cloche_err *e)
{
        if (network->state >= NETWORK_ENDED)
                return;
        set_state(network, NETWORK_ENDED);
        uv_timer_stop(&network->timer);
        network->face.on_end(network->face.data, e);
}

static int take_traffic(struct network *network, const json_t *params, struct cloche_err *e)
{
        const json_t *sent_json = json_object_get(params, "sent"), *received_json = json_object_get(params, "received");
        const uint64_t sent = (uint64_t)json_integer_value(sent_json),
                       received = (uint64_t)json_integer_value(received_json);

        if (!json_is_integer(sent_json) || !json_is_integer(received_json) || sent < network->sent ||
            received < network->received || sent > TRAFFIC_MAX || received > TRAFFIC_MAX)
                return err_set(e, CLOCHE_E_PROTOCOL, "the egress program sent an invalid message: its traffic");
        if (network->face.on_traffic)
                network->face.on_traffic(network->face.data, sent - network->sent, received - network->received);
        network->sent = sent;
        network->received = received;
        return 0;
}

static int take_notification(struct network *network, const struct rpc_message *m, struct cloche_err *e)
{
        if (!json_is_object(m->params))
                return err_set(e, CLOCHE_E_PROTOCOL,
                               "the egress program sent an invalid message: '%.40s' without parameters", m->method);
        if (strcmp(m->method, "traffic") == 0)
                return take_traffic(network, m->params, e);
        if (strcmp(m->method, "decision") != 0)
                return err_set(e, CLOCHE_E_PROTOCOL, "the egress program sent an invalid message: '%.40s'", m->method);
        if (network->face.on_decision)
                network->face.on_decision(network->face.data, m->params);
        return 0;
}

static int on_message(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        (void)f;
        if (m->kind == RPC_NOTIFICATION)
                return take_notification(data, m, e);
        if (m->kind == RPC_REQUEST)
                return err_set(e, CLOCHE_E_PROTOCOL, "the egress program sent an invalid request: '%.40s'", m->method);
        return err_set(e, CLOCHE_E_PROTOCOL, "the egress program sent an invalid message: an answer without a request");
}

static int on_answer(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        (void)data;
        (void)f;
        return m->kind == RPC_ERROR ? err_set(e, CLOCHE_E_NAMESPACE, "the network: %s", m->error_message) : 0;
}

static int on_policy(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        struct network *network = data;
        int r = on_answer(data, m, f, e);

        if (r < 0 || network->state > NETWORK_READY) /* the answer may come after the timeout */
                return r;
        if (network->state == NETWORK_STARTING)
                set_state(network, NETWORK_READY);
        if (network->face.on_ready)
                network->face.on_ready(network->face.data);
        return 0;
}

static void on_end(void *data, const struct cloche_err *e)
{
        struct network *network = data;
        struct cloche_err lost = {0};

        if (!e) {
                err_set(&lost, CLOCHE_E_SANDBOX_ENDED, "the network of the box is closed: its egress program ended");
                e = &lost;
        }
        fail(network, e);
}

/* -- life ------------------------------------------------------------------------------------------------------- */

static void free_if_done(struct network *network)
{
        if (!network->is_awaited && network->state == NETWORK_CLOSED)
                free(network);
}

static void on_closed(uv_handle_t *handle)
{
        struct network *network = handle->data;

        set_state(network, NETWORK_CLOSED);
        free_if_done(network);
}

static void on_served(void *data, struct keeper_reply *reply)
{
        struct network *network = data;

        network->is_awaited = 0;
        if (reply->error) {
                struct cloche_err e = *reply->error;

                err_wrap(&e, "start the network");
                fail(network, &e);
        }
        free_if_done(network);
}

static void on_timer(uv_timer_t *timer)
{
        struct network *network = timer->data;
        struct cloche_err e = {0};

        if (network->state == NETWORK_STARTING && ++network->looks == START_LOOKS) {
                err_set(&e, CLOCHE_E_TIMEOUT, "the network of the box did not start within %d s",
                        START_LOOKS * LOOK_MS / 1000);
                fail(network, &e);
        } else if (update_servers(network) &&
                   channel_request(&network->channel, "servers", json_pack("{s:s}", "servers", network->servers),
                                   -EBADF, on_answer, &e) < 0)
                fail(network, &e);
}

static int serve(struct network *network, struct keeper *keeper, uint32_t box, int egress_fd, struct cloche_err *e)
{
        struct keeper_service_spec *spec = calloc(1, sizeof(*spec));
        int r;

        if (!spec)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start the network");
        spec->service = KEEPER_SERVICE_NET;
        r = keeper_serve_async(keeper, box, spec, &egress_fd, 1, on_served, network, e);
        network->is_awaited = r == 0;
        free(spec);
        return r;
}

static int open_channel(struct network *network, uv_loop_t *loop, int *ret_egress_fd, struct cloche_err *e)
{
        int r = channel_open(&network->channel, FRAME_MAX, ret_egress_fd, e);

        if (r < 0)
                return r;
        network->channel.on_message = on_message;
        network->channel.on_end = on_end;
        network->channel.data = network;
        return channel_watch(&network->channel, loop, e);
}

static int begin(struct network *network, struct keeper *keeper, uint32_t box, uv_loop_t *loop, const json_t *policy,
                 struct cloche_err *e)
{
        _cleanup_fd_ int egress_fd = -EBADF;
        int r = open_channel(network, loop, &egress_fd, e);

        if (r == 0)
                r = serve(network, keeper, box, egress_fd, e);
        update_servers(network);
        if (r == 0)
                r = channel_request(&network->channel, "start",
                                    json_pack("{s:O, s:s}", "policy", policy, "servers", network->servers), -EBADF,
                                    on_policy, e);
        if (r == 0)
                uv_timer_start(&network->timer, on_timer, LOOK_MS, LOOK_MS);
        return r;
}

int network_start(struct keeper *keeper, json_t *names, uint32_t box, uv_loop_t *loop, const json_t *policy,
                  const struct network_face *face, struct network **ret, struct cloche_err *e)
{
        json_t *expanded = NULL;
        int r = expand(names, policy, &expanded, e);
        struct network *network = r == 0 ? calloc(1, sizeof(*network)) : NULL;

        if (r < 0)
                return r;
        if (!network) {
                json_decref(expanded);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start the network");
        }
        network->face = *face;
        network->names = names;
        network->channel.fd = -EBADF;
        uv_timer_init(loop, &network->timer);
        network->timer.data = network;
        r = begin(network, keeper, box, loop, expanded, e);
        json_decref(expanded);
        if (r < 0)
                network_stop(network);
        else
                *ret = network;
        return r;
}

int network_set_policy(struct network *network, const json_t *policy, struct cloche_err *e)
{
        json_t *expanded;
        int r = expand(network->names, policy, &expanded, e);

        if (r < 0)
                return r;
        if (network->state == NETWORK_ENDED) {
                json_decref(expanded);
                return err_set(e, CLOCHE_E_SANDBOX_ENDED, "the network of the box is closed: its egress program ended");
        }
        return channel_request(&network->channel, "policy", json_pack("{s:o}", "policy", expanded), -EBADF, on_policy,
                               e);
}

void network_drain(struct network *network)
{
        if (network->state != NETWORK_ENDED)
                channel_drain(&network->channel);
}

void network_stop(struct network *network)
{
        if (!network || network->state >= NETWORK_STOPPED)
                return;
        set_state(network, NETWORK_STOPPED);
        channel_close(&network->channel);
        uv_close((uv_handle_t *)&network->timer, on_closed);
}
