/* Shared state of cloche-egress: the network of one box. One thread, one loop. */
#ifndef CLOCHE_HELPERS_EGRESS_EGRESS_H
#define CLOCHE_HELPERS_EGRESS_EGRESS_H

#include "control.h"
#include "helpers/egress/read/names.h"
#include "helpers/egress/read/policy.h"
#include "helpers/egress/read/report.h"
#include "lookup.h"
#include "resolver.h"

#include <sys/queue.h>
#include <uv.h>

#define CONNECTIONS_MAX 256 /* at once; more wait in the box's kernel queue */

struct egress_connection;
TAILQ_HEAD(connections, egress_connection);

struct egress {
        uv_loop_t loop;
        struct egress_control control;
        struct lookups *lookups;
        struct policy *policy; /* NULL until the engine has sent one */
        struct egress_names names;
        struct report report;
        struct resolver resolver;
        uv_poll_t listener;
        int listener_fd, is_accepting;
        struct connections connections, ended; /* ended connections are freed when no callback uses them */
        unsigned count;
        int is_crowded;                /* the crowding has been reported */
        uint64_t sent, received, told; /* bytes to hosts and from them; told: their sum in the last notification */
};

/* connection.c */
int connections_listen(struct egress *egress, struct cloche_err *e);
/* After a change of policy: close the connections that it does not allow. */
void connections_check(struct egress *egress);
/* A few times a second. */
void connections_tick(struct egress *egress);

#endif
