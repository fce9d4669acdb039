/* Wait until a port of a sandbox accepts connections, and, if requested, answers over HTTP: try
 * again until then. Runs in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "port.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/peer.h"
#include "engine/loop/handle.h"
#include "engine/loop/watch.h"

#include <ctype.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define FIRST_PAUSE_MS 5
#define PAUSE_MS_MAX 250
#define ANSWER_MS 10000 /* for one try */
#define HEAD_BYTES 12   /* HTTP/1.1 200 */

struct probe {
        TAILQ_ENTRY(probe) link;
        struct sandbox *sandbox;
        unsigned port;
        char *request; /* NULL: only connect */
        size_t sent;
        int first, last;
        uint64_t pause_ms, deadline_ns; /* 0: none */
        int fd;
        char head[HEAD_BYTES];
        size_t head_size;
        struct watch *watch;
        struct sandbox_timer *timer;
        uv_timer_t *deadline_timer; /* of the caller, who also waits for a paused sandbox */
        void (*done)(void *data, int status, const struct cloche_err *e);
        void *data;
};

static void probe_free(struct probe *probe)
{
        TAILQ_REMOVE(&probe->sandbox->probes, probe, link);
        control_detach(&probe->sandbox->control, probe);
        watch_close(probe->watch);
        sandbox_timer_close(probe->timer);
        handle_close(probe->deadline_timer);
        peer_discard_one(&probe->fd);
        free(probe->request);
        free(probe);
}

void sandbox_probe_cancel(struct probe *probe)
{
        probe_free(probe);
}

static void finish(struct probe *probe, int status, const struct cloche_err *e)
{
        void (*done)(void *data, int status, const struct cloche_err *e) = probe->done;
        void *data = probe->data;

        probe_free(probe);
        done(data, status, e);
}

void sandbox_probes_on_box_closed(struct sandbox *s)
{
        struct cloche_err e;

        err_set(&e, CLOCHE_E_SANDBOX_ENDED, "the sandbox has ended");
        while (!TAILQ_EMPTY(&s->probes))
                finish(TAILQ_FIRST(&s->probes), 0, &e);
}

static void try(struct probe *probe);

static void on_pause_end(uv_timer_t *timer)
{
        try(timer->data);
}

static void retry(struct probe *probe)
{
        watch_close(probe->watch);
        probe->watch = NULL;
        peer_discard_one(&probe->fd);
        sandbox_timer_start(probe->timer, on_pause_end, probe->pause_ms, 0);
        probe->pause_ms = probe->pause_ms * 2 < PAUSE_MS_MAX ? probe->pause_ms * 2 : PAUSE_MS_MAX;
}

static void on_answer_late(uv_timer_t *timer)
{
        retry(timer->data);
}

static int has_connected(int fd)
{
        int code = 0;
        socklen_t size = sizeof(code);

        return getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) == 0 && code == 0;
}

static int status_of(const struct probe *probe)
{
        const char *h = probe->head;

        if (probe->head_size < HEAD_BYTES || strncmp(h, "HTTP/1.", 7) != 0 || h[8] != ' ' ||
            !isdigit((unsigned char)h[9]) || !isdigit((unsigned char)h[10]) || !isdigit((unsigned char)h[11]))
                return 0;
        return (h[9] - '0') * 100 + (h[10] - '0') * 10 + (h[11] - '0');
}

static void read_answer(struct probe *probe)
{
        ssize_t n = recv(probe->fd, probe->head + probe->head_size, HEAD_BYTES - probe->head_size, MSG_DONTWAIT);
        int status;

        if (n < 0 && errno == EAGAIN)
                return;
        probe->head_size += n > 0 ? (size_t)n : 0;
        if (n > 0 && probe->head_size < HEAD_BYTES)
                return;
        status = status_of(probe);
        if (status >= probe->first && status <= probe->last)
                finish(probe, status, NULL);
        else
                retry(probe);
}

static void on_event(void *data, int status, int events)
{
        struct probe *probe = data;
        ssize_t n;

        if (status < 0 || !has_connected(probe->fd)) {
                retry(probe);
                return;
        }
        if (!probe->request) {
                finish(probe, 0, NULL);
                return;
        }
        if ((events & UV_WRITABLE) && probe->sent < strlen(probe->request)) {
                n = send(probe->fd, probe->request + probe->sent, strlen(probe->request) - probe->sent,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
                if (n < 0 && errno != EAGAIN) {
                        retry(probe);
                        return;
                }
                probe->sent += n > 0 ? (size_t)n : 0;
                if (probe->sent == strlen(probe->request))
                        watch_set(probe->watch, UV_READABLE);
                return;
        }
        if (events & UV_READABLE)
                read_answer(probe);
}

static void on_connected(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        struct probe *probe = data;

        (void)answer;
        if (e || fd < 0) {
                retry(probe);
                return;
        }
        probe->fd = fd;
        probe->sent = probe->head_size = 0;
        if (watch_new(&probe->sandbox->all->engine->loop, fd, &probe->watch) < 0) {
                retry(probe);
                return;
        }
        watch_on_event(probe->watch, on_event, probe);
        watch_set(probe->watch, UV_WRITABLE);
        sandbox_timer_start(probe->timer, on_answer_late, ANSWER_MS, 0);
}

static void try(struct probe *probe)
{
        struct init_request request = {.op = INIT_CONNECT, .port = probe->port};
        struct cloche_err e = {0};

        if (control_request(&probe->sandbox->control, &request, NULL, 0, on_connected, probe, &e) < 0)
                finish(probe, 0, &e);
}

static void on_deadline(uv_timer_t *timer)
{
        struct probe *probe = timer->data;
        struct cloche_err e;

        err_set(&e, CLOCHE_E_TIMEOUT,
                probe->request ? "nothing at port %u answered with an accepted status within the timeout"
                               : "nothing accepted connections at port %u within the timeout",
                probe->port);
        finish(probe, 0, &e);
}

static int check_path(const char *path, struct cloche_err *e)
{
        for (const char *at = path; at && *at; at++)
                if ((unsigned char)*at <= ' ' || (unsigned char)*at == 127)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "path must be one of HTTP: no blanks, no control characters");
        if (path && (path[0] != '/' || strlen(path) > 2000))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "path must begin with / and have at most 2000 bytes");
        return 0;
}

int sandbox_probe_start(struct sandbox *s, unsigned port, const char *path, int first, int last, uint64_t timeout_ms,
                        void (*done)(void *data, int status, const struct cloche_err *e), void *data,
                        struct probe **ret, struct cloche_err *e)
{
        struct probe *probe;

        if (port < 1 || port > 65535)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "port is %u, expected 1 to 65535", port);
        if (check_path(path, e) < 0)
                return -(int)e->code;
        probe = calloc(1, sizeof(*probe));
        if (!probe)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "wait for a port");
        *probe = (struct probe){.sandbox = s,
                                .port = port,
                                .first = first,
                                .last = last,
                                .pause_ms = FIRST_PAUSE_MS,
                                .fd = -EBADF,
                                .done = done,
                                .data = data};
        TAILQ_INSERT_TAIL(&s->probes, probe, link);
        probe->timer = sandbox_timer_new(s, probe);
        probe->deadline_timer = handle_timer(&s->all->engine->loop, probe);
        if (path && asprintf(&probe->request, "GET %s HTTP/1.1\r\nHost: localhost:%u\r\nConnection: close\r\n\r\n",
                             path, port) < 0)
                probe->request = NULL;
        if (!probe->timer || !probe->deadline_timer || (path && !probe->request)) {
                probe_free(probe);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "wait for a port");
        }
        if (timeout_ms)
                uv_timer_start(probe->deadline_timer, on_deadline, timeout_ms, 0);
        sandbox_timer_start(probe->timer, on_pause_end, 0, 0);
        *ret = probe;
        return 0;
}
