/* Ports of a sandbox: exposed ports, listening ports, and events about them. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "port.h"
#include "sandbox/core/store.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "engine/loop/handle.h"
#include "jail/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>

#define TOKEN_SIZE 16
#define PORTS_MAX 64 /* exposed */
#define LOOK_EVERY_MS 250
#define LISTENING_MAX 1024 /* that are reported */

/* -- exposed -------------------------------------------------------------------------------------------------- */

static struct port *find(const struct sandbox *s, unsigned number)
{
        struct port *port;

        TAILQ_FOREACH (port, &s->ports, link)
                if (port->number == number)
                        return port;
        return NULL;
}

static void port_free(struct sandbox *s, struct port *port)
{
        TAILQ_REMOVE(&s->ports, port, link);
        free(port->name);
        free(port);
}

void sandbox_ports_free(struct sandbox *s)
{
        while (!TAILQ_EMPTY(&s->ports))
                port_free(s, TAILQ_FIRST(&s->ports));
}

static const char token_letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";

static int is_token(const char *token)
{
        size_t size = strlen(token);

        return size >= 1 && size <= TOKEN_SIZE && strspn(token, token_letters) == size;
}

static int make_up_token(char *ret, struct cloche_err *e)
{
        unsigned char chance[TOKEN_SIZE];

        if (getrandom(chance, sizeof(chance), 0) != sizeof(chance))
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a token");
        for (size_t i = 0; i < TOKEN_SIZE; i++)
                ret[i] = token_letters[chance[i] & 31]; /* 32 letters: 80 bits */
        ret[TOKEN_SIZE] = '\0';
        return 0;
}

/* Return the preview URL, or NULL. One part of a host name has at most 63 bytes. */
static char *url_of(const struct sandbox *s, const struct port *port)
{
        char *url = NULL;
        size_t size = strlen(s->name);

        if (!s->all->preview_host || 5 + 1 + size + 1 + strlen(port->token) > 63)
                return NULL;
        if (asprintf(&url, "%s://%u-%s-%s.%s/", s->all->options.preview_is_tls ? "https" : "http", port->number,
                     s->name, port->token, s->all->preview_host) < 0)
                return NULL;
        return url;
}

static json_t *port_json(const struct sandbox *s, const struct port *port)
{
        char *url = url_of(s, port);
        json_t *object = json_pack("{s:i, s:s, s:o}", "port", (int)port->number, "token", port->token, "exposedAt",
                                   sandbox_time_json(port->exposed_at_ms));

        if (port->name)
                json_object_set_new(object, "name", json_string(port->name));
        if (url)
                json_object_set_new(object, "url", json_string(url));
        free(url);
        return object;
}

static int check_expose(const struct sandbox *s, unsigned number, const char *token, struct cloche_err *e)
{
        const struct port *other;
        unsigned count = 0;

        if (number == 0 || number > 65535)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "port is %u, expected 1 to 65535", number);
        if (number < 1024 && !s->has_root)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "port is %u, expected 1024 to 65535: programs of sandboxes without root cannot listen "
                               "on ports below 1024",
                               number);
        for (const char *at = s->name; *at; at++)
                if (*at >= 'A' && *at <= 'Z')
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "ports of %s cannot be exposed: host names have no capital letters", s->name);
        if (token && !is_token(token))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "token must be 1 to %d of a-z 0-9 _", TOKEN_SIZE);
        TAILQ_FOREACH (other, &s->ports, link) {
                count++;
                if (token && other->number != number && strcmp(other->token, token) == 0)
                        return err_set(e, CLOCHE_E_STATE, "port %u has this token already: use another token",
                                       other->number);
        }
        return count < PORTS_MAX || find(s, number)
                       ? 0
                       : err_set(e, CLOCHE_E_QUEUE_FULL, "%u ports are exposed already: unexpose one (port.unexpose)",
                                 count);
}

/* Take the token and name of the old row if the request has none. */
static struct port *port_new(unsigned number, const struct port *old, const char *token, const char *name,
                             struct cloche_err *e)
{
        struct port *port = calloc(1, sizeof(*port));

        name = name ? name : old ? old->name : NULL;
        token = token ? token : old ? old->token : NULL;
        if (!port || (name && !(port->name = strdup(name)))) {
                free(port);
                err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "expose a port");
                return NULL;
        }
        if (token) {
                strcpy(port->token, token);
        } else if (make_up_token(port->token, e) < 0) {
                free(port->name);
                free(port);
                return NULL;
        }
        port->number = number;
        port->exposed_at_ms = old ? old->exposed_at_ms : clock_real_ms();
        return port;
}

static void replace(struct sandbox *s, struct port *old, struct port *port)
{
        if (!old) {
                TAILQ_INSERT_TAIL(&s->ports, port, link);
                return;
        }
        TAILQ_INSERT_AFTER(&s->ports, old, port, link);
        TAILQ_REMOVE(&s->ports, old, link);
}

int handle_PORT_EXPOSE(struct sandbox_request *request, struct cloche_err *e)
{
        struct sandbox *s = request->sandbox;
        unsigned number = (unsigned)sandbox_request_count(request, "port", 0);
        const char *token = sandbox_request_text(request, "token");
        struct port *old = find(s, number), *port;

        if (check_expose(s, number, token, e) < 0)
                return -(int)e->code;
        port = port_new(number, old, token, sandbox_request_text(request, "name"), e);
        if (!port)
                return -(int)e->code;
        replace(s, old, port);
        if (sandbox_store_define(s, e) < 0) { /* restore the old row */
                if (old)
                        TAILQ_INSERT_AFTER(&s->ports, port, old, link);
                port_free(s, port);
                return -(int)e->code;
        }
        if (old && strcmp(old->token, port->token) != 0)
                sandbox_dials_hang_up(s, number);
        if (old) {
                free(old->name);
                free(old);
        }
        sandbox_request_result(request, port_json(s, port), NULL);
        return 0;
}

int handle_PORT_UNEXPOSE(struct sandbox_request *request, struct cloche_err *e)
{
        struct sandbox *s = request->sandbox;
        unsigned number = (unsigned)sandbox_request_count(request, "port", 0);
        struct port *port = find(s, number);

        if (port) {
                port_free(s, port);
                sandbox_dials_hang_up(s, number);
                if (sandbox_store_define(s, e) < 0)
                        return -(int)e->code;
        }
        sandbox_request_result(request, json_pack("{s:i, s:b}", "port", (int)number, "exposed", port != NULL), NULL);
        return 0;
}

/* -- listening ------------------------------------------------------------------------------------------------ */

struct listening {
        struct init_port rows[LISTENING_MAX];
        size_t count;
};

static int by_port(const void *a, const void *b)
{
        const struct init_port *left = a, *right = b;

        return left->port < right->port ? -1 : left->port > right->port;
}

/* True for the ports of the box's network, which are too low for guests to bind. */
static int is_ours(const struct init_port *row)
{
        return row->is_loopback && (row->port == NET_EGRESS_PORT || row->port == NET_NAMES_PORT);
}

/* Sort the rows and merge those of one port: it is open to all if one of its sockets is. */
static void read_ports(int fd, struct listening *ret)
{
        size_t count = 0;
        ssize_t n = fd < 0 ? 0 : pread(fd, ret->rows, sizeof(ret->rows), 0);

        ret->count = n > 0 ? (size_t)n / sizeof(ret->rows[0]) : 0;
        qsort(ret->rows, ret->count, sizeof(ret->rows[0]), by_port);
        for (size_t i = 0; i < ret->count; i++) {
                if (is_ours(&ret->rows[i]))
                        continue;
                if (count > 0 && ret->rows[count - 1].port == ret->rows[i].port)
                        ret->rows[count - 1].is_loopback &= ret->rows[i].is_loopback;
                else
                        ret->rows[count++] = ret->rows[i];
        }
        ret->count = count;
}

static int has_port(const struct listening *l, uint32_t port)
{
        return bsearch(&(struct init_port){.port = port}, l->rows, l->count, sizeof(l->rows[0]), by_port) != NULL;
}

static json_t *open_json(const struct init_port *row)
{
        return json_pack("{s:i, s:s}", "port", (int)row->port, "address", row->is_loopback ? "127.0.0.1" : "0.0.0.0");
}

static int request_ports(struct sandbox *s, control_done done, void *data, struct cloche_err *e)
{
        struct init_request request = {.op = INIT_PORTS};

        return control_request(&s->control, &request, NULL, 0, done, data, e);
}

static void list_cancel(struct sandbox_request *request)
{
        control_detach(&request->sandbox->control, request);
}

static void on_listed(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        struct sandbox_request *request = data;
        struct listening now;
        json_t *exposed = json_array(), *open = json_array();
        const struct port *port;

        (void)answer;
        if (e) {
                json_decref(exposed);
                json_decref(open);
                sandbox_request_fail(request, e, NULL);
                return;
        }
        read_ports(fd, &now);
        fd_close(&fd);
        TAILQ_FOREACH (port, &request->sandbox->ports, link) {
                json_t *object = port_json(request->sandbox, port);

                json_object_set_new(object, "open", json_boolean(has_port(&now, port->number)));
                json_array_append_new(exposed, object);
        }
        for (size_t i = 0; i < now.count; i++)
                json_array_append_new(open, open_json(&now.rows[i]));
        sandbox_request_result(request, json_pack("{s:o, s:o}", "exposed", exposed, "open", open), NULL);
}

int handle_PORT_LIST(struct sandbox_request *request, struct cloche_err *e)
{
        int r = request_ports(request->sandbox, on_listed, request, e);

        if (r == 0)
                request->cancel = list_cancel;
        return r;
}

/* Exists while a request follows events. */
struct port_watch {
        struct sandbox *sandbox;
        uv_timer_t *timer;
        struct listening seen;
        int is_asking;
};

static void send_differences(struct sandbox *s, const struct listening *from, const struct listening *to,
                             const char *event)
{
        for (size_t i = 0; i < to->count; i++)
                if (!has_port(from, to->rows[i].port))
                        sandbox_send_event(s, event, open_json(&to->rows[i]));
}

static void on_looked(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        struct port_watch *w = data;
        struct listening now;

        (void)answer;
        w->is_asking = 0;
        if (e)
                return;
        read_ports(fd, &now);
        fd_close(&fd);
        send_differences(w->sandbox, &w->seen, &now, "portOpened");
        send_differences(w->sandbox, &now, &w->seen, "portClosed");
        w->seen = now;
}

static void on_look(uv_timer_t *timer)
{
        struct port_watch *w = timer->data;

        if (!w->is_asking && w->sandbox->state == SANDBOX_RUNNING)
                w->is_asking = request_ports(w->sandbox, on_looked, w, NULL) == 0;
}

static void stop_watch(struct sandbox *s)
{
        struct port_watch *w = s->port_watch;

        if (!w)
                return;
        s->port_watch = NULL;
        control_detach(&s->control, w);
        handle_close(w->timer);
        free(w);
}

static int is_followed(const struct sandbox *s)
{
        const struct sandbox_request *request;

        TAILQ_FOREACH (request, &s->requests, link)
                if (request->method->handle == handle_EVENTS && request->cancel)
                        return 1;
        return 0;
}

void sandbox_port_watch_need(struct sandbox *s)
{
        struct port_watch *w;

        if (!is_followed(s)) {
                stop_watch(s);
                return;
        }
        if (s->port_watch)
                return;
        w = calloc(1, sizeof(*w));
        if (w)
                w->timer = handle_timer(&s->all->engine->loop, w);
        if (!w || !w->timer) {
                free(w);
                return;
        }
        w->sandbox = s;
        s->port_watch = w;
        uv_timer_start(w->timer, on_look, 0, LOOK_EVERY_MS);
}

void sandbox_ports_on_box_closed(struct sandbox *s)
{
        stop_watch(s);
        sandbox_dials_close(s);
}
