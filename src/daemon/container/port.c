#include "internal.h"

#include "daemon/preview/preview.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- exposing ports -------------------------------------------------------------------------------------------- */

/* True if the port is valid; else the request is refused. */
static int check_port(struct container_ask *a)
{
        json_int_t port = json_integer_value(container_field(a, "port"));

        if (port >= 1 && port <= 65535)
                return 1;
        container_refuse(a, CONTAINER_INVALID_PORT, "Port must be between 1 and 65535", NULL,
                         "'port' must be from 1 to 65535, not %lld", (long long)port);
        return 0;
}

static void exposed(struct container_ask *a, const struct container_reply *reply)
{
        json_t *answer = json_pack("{s:b, s:O, s:o}", "success", 1, "port", container_field(a, "port"), "exposedAt",
                                   container_now());

        container_put(answer, "name", container_copy(a, "name"));
        container_answer(a, container_put(answer, "url", json_incref(json_object_get(reply->result, "url"))));
}

void container_port_expose(struct container_ask *a)
{
        json_t *params;

        if (!check_port(a))
                return;
        params = json_pack("{s:O}", "port", container_field(a, "port"));
        container_call(a, "port.expose", container_put(params, "name", container_copy(a, "name")), NULL, exposed);
}

static void unexposed(struct container_ask *a, const struct container_reply *reply)
{
        if (json_is_false(json_object_get(reply->result, "exposed")))
                container_refuse(a, CONTAINER_PORT_NOT_EXPOSED, "Port is not exposed", NULL, "Port %lld is not exposed",
                                 (long long)json_integer_value(container_field(a, "port")));
        else
                container_answer(a, json_pack("{s:b, s:O}", "success", 1, "port", container_field(a, "port")));
}

void container_port_unexpose(struct container_ask *a)
{
        if (check_port(a))
                container_call(a, "port.unexpose", json_pack("{s:O}", "port", container_field(a, "port")), NULL,
                               unexposed);
}

static void listed(struct container_ask *a, const struct container_reply *reply)
{
        static const char *const names[] = {"port", "name", "exposedAt", "url"};
        const json_t *all = json_object_get(reply->result, "exposed");
        json_t *ports = json_array();

        for (size_t i = 0; i < json_array_size(all); i++) {
                json_t *port = json_object();

                for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
                        container_put(port, names[n], json_incref(json_object_get(json_array_get(all, i), names[n])));
                json_array_append_new(ports, port);
        }
        container_answer(a, json_pack("{s:b, s:i, s:o}", "success", 1, "count", (int)json_array_size(ports), "ports",
                                      ports));
}

void container_port_list(struct container_ask *a)
{
        container_call(a, "port.list", json_object(), NULL, listed);
}

/* -- waiting for a port ---------------------------------------------------------------------------------------- */

static void tell(struct container_ask *a, json_t *event)
{
        container_line(a, container_put(event, "port", container_copy(a, "port")));
}

static void is_ready(struct container_ask *a, const struct container_reply *reply)
{
        json_t *event = json_pack("{s:s}", "type", "ready");

        tell(a, container_put(event, "statusCode", json_incref(json_object_get(reply->result, "status"))));
        container_end(a);
}

static void has_exited(struct container_ask *a, const struct container_reply *reply)
{
        tell(a, container_put(json_pack("{s:s}", "type", "process_exited"), "exitCode",
                              json_incref(json_object_get(reply->result, "exitCode"))));
        container_end(a);
}

static void not_ready(struct container_ask *a, const struct container_reply *reply)
{
        if (reply->e->code == CLOCHE_E_PROCESS_ENDED && container_text(a, "processId")) {
                container_call(a, "process.get", json_pack("{s:O}", "process", container_field(a, "processId")), NULL,
                               has_exited);
                return;
        }
        tell(a, json_pack("{s:s, s:o}", "type", "error", "error", container_words(reply->e->msg)));
        container_end(a);
}

static json_t *number_or(const struct container_ask *a, const char *name, int absent)
{
        const json_t *said = container_field(a, name);

        return said ? container_copy(a, name) : json_integer(absent);
}

static void watch_port(struct container_ask *a)
{
        const char *mode = container_text(a, "mode"), *path = container_text(a, "path");
        json_t *params = json_pack("{s:O}", "port", container_field(a, "port"));

        container_put(params, "process", container_copy(a, "processId"));
        if (!mode || strcmp(mode, "http") == 0) {
                container_put(params, "path", json_string(path ? path : "/"));
                container_put(params, "status",
                              json_pack("[o, o]", number_or(a, "statusMin", 200), number_or(a, "statusMax", 399)));
        }
        container_begin(a);
        tell(a, json_pack("{s:s}", "type", "watching"));
        a->fail = not_ready;
        container_call(a, container_text(a, "processId") ? "process.wait" : "port.wait", params, NULL, is_ready);
}

static void is_there(struct container_ask *a, const struct container_reply *reply)
{
        (void)reply;
        watch_port(a);
}

void container_port_watch(struct container_ask *a)
{
        const char *mode = container_text(a, "mode");

        if (mode && strcmp(mode, "http") != 0 && strcmp(mode, "tcp") != 0)
                container_refuse(a, CONTAINER_VALIDATION_FAILED, NULL, NULL,
                                 "'mode' must be http or tcp, not \"%.40s\"", mode);
        else if (!check_port(a))
                return;
        else if (container_text(a, "processId"))
                container_call(a, "process.get", json_pack("{s:O}", "process", container_field(a, "processId")), NULL,
                               is_there);
        else
                watch_port(a);
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

static unsigned proxied_port(const struct container_ask *a, const char **ret_path)
{
        char *end;
        unsigned long port = strtoul(a->part, &end, 10);

        *ret_path = *end ? end : "/";
        return a->part[0] >= '0' && a->part[0] <= '9' && (*end == '/' || *end == '\0') && port >= 1 && port <= 65535
                       ? (unsigned)port
                       : 0;
}

static void forward(struct container_ask *a, unsigned port, const char *path)
{
        _cleanup_buf_ struct buf target = BUF_INIT(64u << 10);
        struct proxy_target to = {.principal = a->principal,
                                  .sandbox = a->sandbox,
                                  .port = port,
                                  .failed = proxy_failed};
        struct cloche_err e = {0};

        if (buf_append(&target, path, strlen(path)) < 0 || (*a->query && buf_append(&target, "?", 1) < 0) ||
            buf_append(&target, a->query, strlen(a->query) + 1) < 0) {
                container_refuse(a, CONTAINER_VALIDATION_FAILED, NULL, NULL, "the path is too long");
                return;
        }
        to.target = target.data;
        if (proxy_begin(a->daemon, a->request, &to, &e) < 0)
                container_refuse(a, container_code_of(a, e.code), NULL, NULL, "%s", e.msg);
        else
                container_ask_free(a); /* the proxy owns the request now */
}

void container_proxy(struct container_ask *a)
{
        const char *path;
        unsigned port = proxied_port(a, &path);

        if (!a->request)
                container_refuse(a, CONTAINER_VALIDATION_FAILED, NULL, NULL,
                                 "what a port serves is asked over HTTP, not over this WebSocket");
        else if (port == 0)
                container_refuse(a, CONTAINER_INVALID_PORT, "Port must be between 1 and 65535", NULL,
                                 "expected /proxy/PORT/...");
        else if (!sandboxes_exposes(a->daemon->sandboxes, a->principal, a->sandbox, port))
                container_refuse(a, CONTAINER_PORT_NOT_EXPOSED, NULL, NULL, "Port %u is not exposed", port);
        else
                forward(a, port, path);
}
