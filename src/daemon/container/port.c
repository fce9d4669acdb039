/* Ports: expose, list, watch, forward. Runs in: cloched-engine, on its loop, with the rights of
 * the daemon's user. */
#include "internal.h"

#include "daemon/preview/preview.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- exposing ports -------------------------------------------------------------------------------------------- */

/* True if the port is valid; else the request is refused. */
static int check_port(struct container_request *q)
{
        json_int_t port = json_integer_value(container_field(q, "port"));

        if (port >= 1 && port <= 65535)
                return 1;
        container_refuse(q, CONTAINER_INVALID_PORT, "Port must be between 1 and 65535", NULL,
                         "'port' must be from 1 to 65535, not %lld", (long long)port);
        return 0;
}

static void exposed(struct container_request *q, const struct door_reply *reply)
{
        json_t *answer = json_pack("{s:b, s:O, s:o}", "success", 1, "port", container_field(q, "port"), "exposedAt",
                                   container_now());

        door_put(answer, "name", container_copy(q, "name"));
        container_answer(q, door_put(answer, "url", json_incref(json_object_get(reply->result, "url"))));
}

void container_port_expose(struct container_request *q)
{
        json_t *params;

        if (!check_port(q))
                return;
        params = json_pack("{s:O}", "port", container_field(q, "port"));
        container_call(q, "port.expose", door_put(params, "name", container_copy(q, "name")), NULL, exposed);
}

static void unexposed(struct container_request *q, const struct door_reply *reply)
{
        if (json_is_false(json_object_get(reply->result, "exposed")))
                container_refuse(q, CONTAINER_PORT_NOT_EXPOSED, "Port is not exposed", NULL, "Port %lld is not exposed",
                                 (long long)json_integer_value(container_field(q, "port")));
        else
                container_answer(q, json_pack("{s:b, s:O}", "success", 1, "port", container_field(q, "port")));
}

void container_port_unexpose(struct container_request *q)
{
        if (check_port(q))
                container_call(q, "port.unexpose", json_pack("{s:O}", "port", container_field(q, "port")), NULL,
                               unexposed);
}

static void listed(struct container_request *q, const struct door_reply *reply)
{
        static const char *const names[] = {"port", "name", "exposedAt", "url"};
        const json_t *all = json_object_get(reply->result, "exposed");
        json_t *ports = json_array();

        for (size_t i = 0; i < json_array_size(all); i++) {
                json_t *port = json_object();

                for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
                        door_put(port, names[n], json_incref(json_object_get(json_array_get(all, i), names[n])));
                json_array_append_new(ports, port);
        }
        container_answer(q, json_pack("{s:b, s:i, s:o}", "success", 1, "count", (int)json_array_size(ports), "ports",
                                      ports));
}

void container_port_list(struct container_request *q)
{
        container_call(q, "port.list", json_object(), NULL, listed);
}

/* -- waiting for a port ---------------------------------------------------------------------------------------- */

static void send_event(struct container_request *q, json_t *event)
{
        container_line(q, door_put(event, "port", container_copy(q, "port")));
}

static void is_ready(struct container_request *q, const struct door_reply *reply)
{
        json_t *event = json_pack("{s:s}", "type", "ready");

        send_event(q, door_put(event, "statusCode", json_incref(json_object_get(reply->result, "status"))));
        container_end(q);
}

static void has_exited(struct container_request *q, const struct door_reply *reply)
{
        send_event(q, door_put(json_pack("{s:s}", "type", "process_exited"), "exitCode",
                               json_incref(json_object_get(reply->result, "exitCode"))));
        container_end(q);
}

static void not_ready(struct container_request *q, const struct door_reply *reply)
{
        if (reply->e->code == CLOCHE_E_PROCESS_ENDED && container_text(q, "processId")) {
                container_call(q, "process.get", json_pack("{s:O}", "process", container_field(q, "processId")), NULL,
                               has_exited);
                return;
        }
        send_event(q, json_pack("{s:s, s:o}", "type", "error", "error", container_words(reply->e->msg)));
        container_end(q);
}

static json_t *number_or(const struct container_request *q, const char *name, int absent)
{
        const json_t *value = container_field(q, name);

        return value ? container_copy(q, name) : json_integer(absent);
}

static void watch_port(struct container_request *q)
{
        const char *mode = container_text(q, "mode"), *path = container_text(q, "path");
        json_t *params = json_pack("{s:O}", "port", container_field(q, "port"));

        door_put(params, "process", container_copy(q, "processId"));
        if (!mode || strcmp(mode, "http") == 0) {
                door_put(params, "path", json_string(path ? path : "/"));
                door_put(params, "status",
                         json_pack("[o, o]", number_or(q, "statusMin", 200), number_or(q, "statusMax", 399)));
        }
        container_begin(q);
        send_event(q, json_pack("{s:s}", "type", "watching"));
        q->fail = not_ready;
        container_call(q, container_text(q, "processId") ? "process.wait" : "port.wait", params, NULL, is_ready);
}

static void is_there(struct container_request *q, const struct door_reply *reply)
{
        (void)reply;
        watch_port(q);
}

void container_port_watch(struct container_request *q)
{
        const char *mode = container_text(q, "mode");

        if (mode && strcmp(mode, "http") != 0 && strcmp(mode, "tcp") != 0)
                container_refuse(q, CONTAINER_VALIDATION_FAILED, NULL, NULL,
                                 "'mode' must be http or tcp, not \"%.40s\"", mode);
        else if (!check_port(q))
                return;
        else if (container_text(q, "processId"))
                container_call(q, "process.get", json_pack("{s:O}", "process", container_field(q, "processId")), NULL,
                               is_there);
        else
                watch_port(q);
}

/* -- /proxy/{port}/... ----------------------------------------------------------------------------------------- */

static void proxy_failed(struct http_request *request, const struct cloche_err *e)
{
        char *text;
        json_t *body = json_pack("{s:s, s:o, s:s}", "error", "Service is not responding", "message",
                                 container_words(e->msg), "code", "SERVICE_NOT_RESPONDING");

        text = json_dumps(body, JSON_COMPACT);
        http_answer(request, 502, "application/json", text ? text : "{}", text ? strlen(text) : 2);
        free(text);
        json_decref(body);
}

static unsigned proxied_port(const struct container_request *q, const char **ret_path)
{
        char *end;
        unsigned long port = strtoul(q->part, &end, 10);

        *ret_path = *end ? end : "/";
        return q->part[0] >= '0' && q->part[0] <= '9' && (*end == '/' || *end == '\0') && port >= 1 && port <= 65535
                       ? (unsigned)port
                       : 0;
}

static void forward(struct container_request *q, unsigned port, const char *path)
{
        _cleanup_buf_ struct buf target = BUF_INIT(64u << 10);
        struct proxy_target to = {.principal = q->door.principal,
                                  .sandbox = q->door.sandbox,
                                  .port = port,
                                  .failed = proxy_failed};
        struct cloche_err e = {0};

        if (buf_append(&target, path, strlen(path)) < 0 || (*q->query && buf_append(&target, "?", 1) < 0) ||
            buf_append(&target, q->query, strlen(q->query) + 1) < 0) {
                container_refuse(q, CONTAINER_VALIDATION_FAILED, NULL, NULL, "the path is too long");
                return;
        }
        to.target = target.data;
        if (proxy_begin(q->door.daemon, q->request, &to, &e) < 0)
                container_refuse(q, container_code_of(q, e.code), NULL, NULL, "%s", e.msg);
        else
                container_request_free(q); /* the proxy owns the request now */
}

void container_proxy(struct container_request *q)
{
        const char *path;
        unsigned port = proxied_port(q, &path);

        if (!q->request)
                container_refuse(q, CONTAINER_VALIDATION_FAILED, NULL, NULL,
                                 "what a port serves is asked over HTTP, not over this WebSocket");
        else if (port == 0)
                container_refuse(q, CONTAINER_INVALID_PORT, "Port must be between 1 and 65535", NULL,
                                 "expected /proxy/PORT/...");
        else if (!sandboxes_exposes(q->door.daemon->sandboxes, q->door.principal, q->door.sandbox, port))
                container_refuse(q, CONTAINER_PORT_NOT_EXPOSED, NULL, NULL, "Port %u is not exposed", port);
        else
                forward(q, port, path);
}
