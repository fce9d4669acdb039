/* cloche-gate: the network of one sandbox's box. Runs in: its own process, in the host's network,
 * as a user that owns nothing there, outside the box and in its memory group.
 *
 *     cloche-gate CONTROL_FD TCP_FD NAMES_UDP_FD NAMES_TCP_FD
 *
 * CONTROL_FD is a stream socket to the engine (spec/gate.md). The others are sockets of the box's
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

static struct gate gate;

/* A decision that the engine has no room for counts as one over the rate limit. */
static void tell_decision(void *data, json_t *decision)
{
        struct gate *g = data;

        if (gate_control_notify(&g->control, "decision", decision) < 0)
                g->report.lost++;
}

static void on_tick(uv_timer_t *timer)
{
        static unsigned ticks;

        (void)timer;
        lookups_tick(gate.lookups);
        connections_tick(&gate);
        if (++ticks % (1000 / TICK_MS) != 0)
                return;
        resolver_tick(&gate.resolver);
        report_tick(&gate.report);
        gate_control_tick(&gate.control);
}

static int set_up(uv_timer_t *timer, struct cloche_err *e)
{
        uint32_t seed;
        int r;

        TAILQ_INIT(&gate.connections);
        TAILQ_INIT(&gate.ended);
        gate.listener_fd = TCP_FD;
        gate.resolver.udp_fd = NAMES_UDP_FD;
        gate.resolver.tcp_fd = NAMES_TCP_FD;
        if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
                return -1;
        names_init(&gate.names, seed);
        report_init(&gate.report, tell_decision, &gate);
        r = uv_loop_init(&gate.loop);
        if (r == 0)
                r = uv_timer_init(&gate.loop, timer);
        if (r == 0)
                r = uv_timer_start(timer, on_tick, TICK_MS, TICK_MS);
        if (r == 0)
                r = lookups_new(&gate.loop, &gate.lookups, e);
        return r < 0 ? r : gate_control_open(&gate.control, &gate, CONTROL_FD, e);
}

int main(int argc, char **argv)
{
        struct cloche_err e = {.msg = "prepare the loop"};
        uv_timer_t timer;

        if (argc != 1 + FD_END - CONTROL_FD || fd_arrange(argv + 1, argc - 1, CONTROL_FD) < 0) {
                fprintf(stderr, "usage: cloche-gate CONTROL_FD TCP_FD NAMES_UDP_FD NAMES_TCP_FD\n");
                return 2;
        }
        if (caps_give_up() < 0) {
                perror("cloche-gate: drop privilege");
                return 1;
        }
        signal(SIGPIPE, SIG_IGN);
        filter_refuse_rings();
        if (set_up(&timer, &e) < 0) {
                fprintf(stderr, "cloche-gate: %s\n", e.msg);
                return 1;
        }
        uv_run(&gate.loop, UV_RUN_DEFAULT);
        return 0;
}
