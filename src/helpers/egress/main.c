/* cloche-egress: the network of one sandbox's box. Runs in: its own process, in the host's network,
 * as a user that owns nothing there, outside the box and in its memory group.
 *
 *     cloche-egress CONTROL_FD TCP_FD NAMES_UDP_FD NAMES_TCP_FD
 *
 * CONTROL_FD is a stream socket to the engine (spec/egress.md). The others are sockets of the box's
 * network namespace (src/jail/net.h); they receive the traffic of the box's programs. The process
 * exits when the control socket closes. */
#include "egress.h"

#include "base/fd.h"
#include "jail/caps.h"
#include "jail/filter/filter.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

enum { CONTROL_FD = 3, TCP_FD, NAMES_UDP_FD, NAMES_TCP_FD, FD_END };
#define TICK_MS 500

static struct egress egress;

/* A decision that the engine has no room for is dropped, as one over the rate limit. */
static void send_decision(void *data, json_t *decision)
{
        egress_control_notify(&((struct egress *)data)->control, "decision", decision);
}

static void tell_traffic(void)
{
        if (egress.sent + egress.received == egress.told || egress.control.server.state != SERVER_OPEN)
                return;
        egress.told = egress.sent + egress.received;
        egress_control_notify(&egress.control, "traffic",
                              json_pack("{s:I, s:I}", "sent", (json_int_t)egress.sent, "received",
                                        (json_int_t)egress.received));
}

static void on_tick(uv_timer_t *timer)
{
        static unsigned ticks;

        (void)timer;
        lookups_tick(egress.lookups);
        connections_tick(&egress);
        if (++ticks % (1000 / TICK_MS) != 0)
                return;
        resolver_tick(&egress.resolver);
        report_tick(&egress.report);
        tell_traffic();
}

static int set_up(uv_timer_t *timer, struct cloche_err *e)
{
        uint32_t seed;
        int r;

        TAILQ_INIT(&egress.connections);
        TAILQ_INIT(&egress.ended);
        egress.listener_fd = TCP_FD;
        egress.resolver.udp_fd = NAMES_UDP_FD;
        egress.resolver.tcp_fd = NAMES_TCP_FD;
        if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
                return -1;
        names_init(&egress.names, seed);
        report_init(&egress.report, send_decision, &egress);
        r = uv_loop_init(&egress.loop);
        if (r == 0)
                r = uv_timer_init(&egress.loop, timer);
        if (r == 0)
                r = uv_timer_start(timer, on_tick, TICK_MS, TICK_MS);
        if (r == 0)
                r = lookups_new(&egress.loop, &egress.lookups, e);
        return r < 0 ? r : egress_control_open(&egress.control, &egress, CONTROL_FD, e);
}

int main(int argc, char **argv)
{
        struct cloche_err e = {.msg = "prepare the loop"};
        uv_timer_t timer;

        if (argc != 1 + FD_END - CONTROL_FD || fd_arrange(argv + 1, argc - 1, CONTROL_FD) < 0) {
                fprintf(stderr, "usage: cloche-egress CONTROL_FD TCP_FD NAMES_UDP_FD NAMES_TCP_FD\n");
                return 2;
        }
        if (caps_give_up() < 0) {
                perror("cloche-egress: drop privilege");
                return 1;
        }
        signal(SIGPIPE, SIG_IGN);
        filter_refuse_rings();
        if (set_up(&timer, &e) < 0) {
                fprintf(stderr, "cloche-egress: %s\n", e.msg);
                return 1;
        }
        uv_run(&egress.loop, UV_RUN_DEFAULT);
        return 0;
}
