/* Serve the engine's requests and notify it.
 * Runs in: cloche-egress, without capabilities and files, filtered. */
#include "control.h"

#include "egress.h"

#include "base/err.h"

#include <poll.h>
#include <string.h>

/* -- requests ----------------------------------------------------------------------------------------------------- */

static int handle_policy(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        struct egress *egress = argument;
        struct policy *policy, *old = egress->policy;
        int r = policy_load(json_object_get(params, "policy"), &policy, e);

        if (r < 0)
                return r;
        egress->policy = policy;
        if (old)
                connections_check(egress);
        policy_free(old);
        (void)ret;
        return 0;
}

static int handle_servers(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        const char *servers = json_string_value(json_object_get(params, "servers"));
        struct egress *egress = argument;

        (void)ret;
        return servers ? lookups_servers(egress->lookups, servers, e)
                       : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "servers: expected a string");
}

/* No guest bytes are read before this request. */
static int handle_start(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        struct egress *egress = argument;
        int r = handle_servers(egress, params, ret, e);

        if (r == 0)
                r = handle_policy(egress, params, ret, e);
        if (r == 0)
                r = guard_enter(json_object_get(params, "optional"), &ret->result, e);
        if (r == 0)
                r = resolver_listen(&egress->resolver, egress, egress->resolver.udp_fd, egress->resolver.tcp_fd, e);
        return r == 0 ? connections_listen(egress, e) : r;
}

static const struct server_method methods[] = {
        {"start", SERVER_OPENS, handle_start},
        {"policy", SERVER_AFTER, handle_policy},
        {"servers", SERVER_AFTER, handle_servers},
        {NULL, SERVER_ALWAYS, NULL},
};

/* -- the loop ----------------------------------------------------------------------------------------------------- */

static void on_control(uv_poll_t *poll, int status, int events);

/* Translate POLLIN and POLLOUT of poll(2) to libuv's flags. */
static void watch(struct egress_control *control)
{
        short events = server_events(&control->server);

        uv_poll_start(&control->poll, (events & POLLIN ? UV_READABLE : 0) | (events & POLLOUT ? UV_WRITABLE : 0),
                      on_control);
}

/* The egress program exits with its engine; the kernel closes the rest. */
static void on_control(uv_poll_t *poll, int status, int events)
{
        struct egress_control *control = poll->data;

        (void)events;
        if (status < 0 || server_turn(&control->server) < 0)
                uv_stop(&control->egress->loop);
        else
                watch(control);
}

int egress_control_notify(struct egress_control *control, const char *method, json_t *params)
{
        int r = server_notify(&control->server, method, params);

        watch(control);
        return r;
}

int egress_control_open(struct egress_control *control, struct egress *egress, int fd, struct cloche_err *e)
{
        const struct server_options options = {.methods = methods,
                                               .argument = egress,
                                               .request_bytes_max = 1u << 20,
                                               .reply_bytes_max = 1u << 20,
                                               .notify_bytes_max = 512u << 10};
        int r = uv_poll_init(&egress->loop, &control->poll, fd);

        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "watch the engine's socket");
        control->egress = egress;
        control->poll.data = control;
        server_init(&control->server, fd, &options);
        watch(control);
        return 0;
}
