/* Accept, resolve, connect and close the connections of the box.
 * Runs in: cloche-egress, without capabilities and files, filtered. */
#include "connection.h"

#include "helpers/egress/read/address.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"

#include <linux/netfilter_ipv4.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define SECOND UINT64_C(1000000000)
#define CONNECT_NS (15 * SECOND) /* from the guest's first byte to an answer */
#define TRY_NS (5 * SECOND)      /* per address while there are others */
#define HELD_NS (30 * SECOND)    /* for a request head or a ClientHello */
#define WORD_NS (3 * SECOND)     /* for bytes after a lone first word */
#define IDLE_NS (1800 * SECOND)
#define HALF_IDLE_NS (300 * SECOND) /* after one side has ended */
#define ACCEPTS_A_TURN 32

static void on_guest(uv_poll_t *poll, int status, int events);
static void on_host(uv_poll_t *poll, int status, int events);
static void on_connecting(uv_poll_t *poll, int status, int events);
static void resume_accepting(struct egress *egress);

/* -- ending ------------------------------------------------------------------------------------------------------- */

void connection_report(struct egress_connection *c, int allowed, const char *kind, const char *host,
                       const char *address, const char *rule, const char *why)
{
        report_decision(&c->egress->report, &(struct decision){.kind = kind,
                                                               .host = host,
                                                               .address = address,
                                                               .rule = rule,
                                                               .why = why,
                                                               .port = c->inner_port,
                                                               .allowed = allowed});
}

/* Its memory is freed later: a caller may still use it. */
static void end(struct egress_connection *c, int is_cut)
{
        struct egress *egress = c->egress;

        if (c->state == CONNECTION_OVER)
                return;
        c->state = CONNECTION_OVER;
        lookup_detach(c->lookup);
        end_close(&c->guest, is_cut);
        end_close(&c->host, is_cut);
        flow_done(&c->out);
        flow_done(&c->in);
        if (c->name[0])
                names_release(&egress->names, c->requested);
        TAILQ_REMOVE(&egress->connections, c, link);
        TAILQ_INSERT_TAIL(&egress->ended, c, link);
        egress->count--;
        resume_accepting(egress);
}

static void bury_ended(struct egress *egress)
{
        struct egress_connection *c;

        while ((c = TAILQ_FIRST(&egress->ended))) {
                TAILQ_REMOVE(&egress->ended, c, link);
                free(c);
        }
}

/* -- open --------------------------------------------------------------------------------------------------------- */

/* Read from one side only while the other side keeps reading. */
static void watch(struct egress_connection *c)
{
        end_watch(&c->guest, (flow_has_room(&c->out) ? UV_READABLE : 0) | (c->in.passed > 0 ? UV_WRITABLE : 0));
        end_watch(&c->host, (flow_has_room(&c->in) ? UV_READABLE : 0) | (c->out.passed > 0 ? UV_WRITABLE : 0));
}

static void check_held(struct egress_connection *c)
{
        if (flow_held_size(&c->out) == 0 || c->http.state == HTTP_IS_SWITCHING)
                c->held_ns = 0;
        else if (c->held_ns == 0)
                c->held_ns = clock_now_ns();
}

static int drain(struct flow *flow, int fd, uint64_t *count)
{
        uint64_t before = flow->total;
        int r = flow_drain(flow, fd);

        *count += flow->total - before;
        return r;
}

/* Inspect the received bytes and forward those that may pass. */
static void move(struct egress_connection *c)
{
        int r = inspect(c);

        c->moved_ns = clock_now_ns();
        if (r == 0)
                r = drain(&c->out, c->host.fd, &c->egress->sent);
        if (r == 0)
                r = drain(&c->in, c->guest.fd, &c->egress->received);
        if (r < 0) {
                end(c, 1);
                return;
        }
        check_held(c);
        if (c->out.is_closed && c->in.is_closed)
                end(c, 0);
        else
                watch(c);
}

static void on_guest(uv_poll_t *poll, int status, int events)
{
        struct egress_connection *c = poll->data;

        if (status < 0 || ((events & UV_READABLE) && flow_fill(&c->out, c->guest.fd) < 0)) {
                end(c, 1);
                return;
        }
        move(c);
}

static void on_host(uv_poll_t *poll, int status, int events)
{
        struct egress_connection *c = poll->data;

        int r = (events & UV_READABLE) || status < 0 ? flow_fill(&c->in, c->host.fd) : 0;

        if (c->in.size > 0)
                inspect_answer(c);
        if (r == 0 && status == 0) {
                move(c);
                return;
        }
        (void)drain(&c->in, c->guest.fd, &c->egress->received); /* bytes received before the failure */
        end(c, 1);
}

/* -- connecting --------------------------------------------------------------------------------------------------- */

static void report_connected(struct egress_connection *c, const char *why)
{
        connection_report(c, 1, "tcp", c->name, c->candidates[c->candidate].text, c->rule, why);
}

static void open_both(struct egress_connection *c)
{
        int fd = TAKE_FD(c->host.fd), one = 1;

        end_close(&c->host, 0);
        c->state = CONNECTION_OPEN;
        c->moved_ns = clock_now_ns();
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        setsockopt(c->guest.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (end_open(&c->host, &c->egress->loop, fd, on_host, c) < 0) {
                end(c, 1);
                return;
        }
        report_connected(c, "a rule allows it");
        watch(c);
}

/* Try the next candidate, or end the connection. */
static void try_next(struct egress_connection *c, int error)
{
        end_close(&c->host, 1);
        for (; c->candidate < c->candidate_count; c->candidate++) {
                int fd = dial_next(c);

                c->tried_ns = clock_now_ns();
                error = fd < 0 ? -fd : 0;
                if (fd >= 0 && end_open(&c->host, &c->egress->loop, fd, on_connecting, c) == 0) {
                        end_watch(&c->host, UV_WRITABLE);
                        return;
                }
        }
        c->candidate = 0;
        report_connected(c, error == ECONNREFUSED ? "allowed, but the host refused it"
                            : error == ETIMEDOUT  ? "allowed, but the host did not answer"
                                                  : "allowed, but the host was not reached");
        end(c, 1);
}

static void on_connecting(uv_poll_t *poll, int status, int events)
{
        struct egress_connection *c = poll->data;
        socklen_t size = sizeof(int);
        int error = 0;

        (void)events;
        getsockopt(c->host.fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (status == 0 && error == 0) {
                open_both(c);
                return;
        }
        c->candidate++;
        try_next(c, error);
}

static void start_connecting(struct egress_connection *c)
{
        c->state = CONNECTION_CONNECTING;
        try_next(c, 0);
}

static void on_looked_up(void *data, const struct lookup_result *result)
{
        struct egress_connection *c = data;

        c->lookup = NULL;
        if (dial_names(c, result) < 0)
                end(c, 1);
        else
                start_connecting(c);
}

/* -- accepting ---------------------------------------------------------------------------------------------------- */

static void start_with_name(struct egress_connection *c, const char *name)
{
        struct policy_verdict verdict = policy_name(c->egress->policy, name, c->port);

        strcpy(c->name, name);
        names_hold(&c->egress->names, c->requested);
        c->rule = verdict.rule;
        if (!verdict.allowed)
                connection_report(c, 0, "tcp", name, NULL, verdict.rule, verdict.why);
        if (verdict.allowed && policy_is_service(name)) {
                dial_service(c);
                start_connecting(c);
        } else if (!verdict.allowed || lookup_start(c->egress->lookups, name, on_looked_up, c, &c->lookup) < 0) {
                end(c, 1);
        }
}

static void start(struct egress_connection *c)
{
        const char *name = names_find(&c->egress->names, c->requested);

        c->accepted_ns = clock_now_ns();
        if (name)
                start_with_name(c, name);
        else if (dial_address(c) == 0)
                start_connecting(c);
        else
                end(c, 1);
}

/* Find the original destination, from before the box's kernel redirected the connection here. */
static int find_requested(int fd, struct egress_connection *c)
{
        struct sockaddr_in address;
        socklen_t size = sizeof(address);

        if (getsockopt(fd, SOL_IP, SO_ORIGINAL_DST, &address, &size) < 0 || address.sin_family != AF_INET)
                return -1;
        c->requested = ntohl(address.sin_addr.s_addr);
        c->port = c->inner_port = ntohs(address.sin_port);
        return c->requested >> 24 == 127 ? -1 : 0; /* a direct connection to the listening socket */
}

static void take(struct egress *egress, int fd)
{
        struct egress_connection *c = calloc(1, sizeof(*c));

        if (!c || find_requested(fd, c) < 0) {
                free(c);
                close(fd);
                return;
        }
        c->egress = egress;
        c->host = END_NONE;
        if (end_open(&c->guest, &egress->loop, fd, on_guest, c) < 0) {
                free(c);
                return;
        }
        TAILQ_INSERT_TAIL(&egress->connections, c, link);
        egress->count++;
        start(c);
}

static void report_crowded(struct egress *egress)
{
        if (!egress->is_crowded)
                report_decision(&egress->report,
                                &(struct decision){
                                        .kind = "tcp",
                                        .why = "256 connections are open; others wait until some have ended"});
        egress->is_crowded = 1;
}

static void stop_accepting(struct egress *egress)
{
        uv_poll_stop(&egress->listener);
        egress->is_accepting = 0;
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
        struct egress *egress = poll->data;

        (void)status;
        (void)events;
        for (int i = 0; i < ACCEPTS_A_TURN && egress->count < CONNECTIONS_MAX; i++) {
                int fd = accept4(egress->listener_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

                if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
                        return;
                if (fd < 0) { /* the host lacks a resource: the next tick tries again */
                        stop_accepting(egress);
                        return;
                }
                take(egress, fd);
        }
        if (egress->count == CONNECTIONS_MAX) {
                report_crowded(egress);
                stop_accepting(egress);
        }
}

static void resume_accepting(struct egress *egress)
{
        if (!egress->is_accepting)
                uv_poll_start(&egress->listener, UV_READABLE, on_listener);
        egress->is_accepting = 1;
}

int connections_listen(struct egress *egress, struct cloche_err *e)
{
        int r = uv_poll_init(&egress->loop, &egress->listener, egress->listener_fd);

        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "watch the box's connections");
        egress->listener.data = egress;
        resume_accepting(egress);
        return 0;
}

/* -- timers ------------------------------------------------------------------------------------------------------- */

static int is_late(const struct egress_connection *c, uint64_t now)
{
        if (c->state != CONNECTION_OPEN)
                return now - c->accepted_ns > CONNECT_NS;
        return now - c->moved_ns > (c->out.is_ended || c->in.is_ended ? HALF_IDLE_NS : IDLE_NS);
}

static void check_time(struct egress_connection *c, uint64_t now)
{
        if (c->held_ns && now - c->held_ns > HELD_NS) {
                connection_report(c, 0, c->protocol == PROTOCOL_TLS ? "tls" : "http", c->name, NULL, NULL,
                                  "it did not come to the end of a greeting or a request's head");
                end(c, 1);
        } else if (is_late(c, now)) {
                if (c->state == CONNECTION_CONNECTING)
                        report_connected(c, "allowed, but the host did not answer");
                end(c, 1);
        } else if (c->state == CONNECTION_CONNECTING && now - c->tried_ns > TRY_NS &&
                   c->candidate + 1 < c->candidate_count) {
                c->candidate++;
                try_next(c, ETIMEDOUT);
        } else if (c->held_ns && now - c->held_ns > WORD_NS && inspect_word(c))
                move(c);
}

void connections_tick(struct egress *egress)
{
        uint64_t now = clock_now_ns();
        struct egress_connection *c, *next;

        for (c = TAILQ_FIRST(&egress->connections); c; c = next) {
                next = TAILQ_NEXT(c, link);
                check_time(c, now);
        }
        bury_ended(egress);
        if (egress->control.server.state == SERVER_OPEN && egress->count < CONNECTIONS_MAX)
                resume_accepting(egress);
        egress->is_crowded = egress->is_crowded && egress->count >= CONNECTIONS_MAX / 2;
}

/* Check against the present policy. */
static int is_allowed(struct egress_connection *c)
{
        const struct candidate *to = &c->candidates[c->candidate];
        struct policy_verdict verdict = c->name[0] ? policy_name(c->egress->policy, c->name, c->port)
                                                   : policy_address(c->egress->policy, c->requested, c->port, 0);
        int is_own =
                c->state == CONNECTION_OPEN && dial_is_own((const struct sockaddr *)&to->address, sizeof(to->address));

        c->rule = verdict.rule;
        if (verdict.allowed && c->state == CONNECTION_OPEN && to->address.ss_family == AF_INET &&
            !policy_is_service(c->name))
                verdict = c->name[0] ? policy_leads(c->egress->policy,
                                                    ntohl(((const struct sockaddr_in *)&to->address)->sin_addr.s_addr),
                                                    c->port, is_own)
                                     : policy_address(c->egress->policy, c->requested, c->port, is_own);
        if (verdict.allowed && c->announced[0])
                verdict = policy_name(c->egress->policy, c->announced, c->announced_port);
        if (!verdict.allowed)
                connection_report(c, 0, "tcp", c->name, c->state == CONNECTION_OPEN ? to->text : NULL, verdict.rule,
                                  "it is open, and another policy does not allow it");
        return verdict.allowed;
}

/* Connections that are not open yet start over. */
void connections_check(struct egress *egress)
{
        struct egress_connection *c, *next;

        for (c = TAILQ_FIRST(&egress->connections); c; c = next) {
                next = TAILQ_NEXT(c, link);
                if (!is_allowed(c) || c->state == CONNECTION_CONNECTING)
                        end(c, 1);
        }
}
