/* What the files of cloche-gate share: one box's network. One thread, one loop. */
#ifndef CLOCHE_GATE_GATE_H
#define CLOCHE_GATE_GATE_H

#include "control.h"
#include "lookup.h"
#include "names.h"
#include "policy.h"
#include "report.h"
#include "resolver.h"

#include <sys/queue.h>
#include <uv.h>

#define CONNECTIONS_MAX 256 /* at once; more wait in the box's kernel */

struct connection;
TAILQ_HEAD(connections, connection);

struct gate {
        uv_loop_t loop;
        struct control control;
        struct lookups *lookups;
        struct policy *policy; /* NULL until the engine has given one */
        struct names names;
        struct report report;
        struct resolver resolver;
        uv_poll_t listener;
        int listener_fd, is_accepting;
        struct connections connections, ended; /* those that ended go when nobody is in the middle of them */
        unsigned count;
        uint64_t accepted, bytes_in, bytes_out; /* of connections that are over */
        int is_crowded;                         /* somebody has been told */
};

/* connection.c */
int connections_listen(struct gate *gate, struct cloche_err *e);
/* The policy is another: what it does not allow is cut. */
void connections_check(struct gate *gate);
/* A few times a second. */
void connections_tick(struct gate *gate);
void connections_stats(const struct gate *gate, uint64_t *ret_in, uint64_t *ret_out);

#endif
