/* Callers and their limits. Strangers (callers that are not authenticated yet) are counted apart,
 * by lane and by address or user (spec/callers.def): silent connections displace only strangers. */
#ifndef CLOCHE_DAEMON_CORE_CALLER_H
#define CLOCHE_DAEMON_CORE_CALLER_H

#include <cloche/error.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#define CALLER_KEY_SIZE 16

enum caller_lane {
#define CALLER_LANE(symbol, name, doc) LANE_##symbol,
#define CALLER_LIMIT(symbol, value, unit, doc)
#include <cloche/callers.def>
#undef CALLER_LANE
#undef CALLER_LIMIT
        LANE_COUNT
};

enum {
#define CALLER_LANE(symbol, name, doc)
#define CALLER_LIMIT(symbol, value, unit, doc) CALLER_##symbol = (value),
#include <cloche/callers.def>
#undef CALLER_LANE
#undef CALLER_LIMIT
};

/* A part of each connection. CALLER_NONE: the caller of a private daemon, or a dropped one; it is
 * in no list. */
struct caller {
        TAILQ_ENTRY(caller) link; /* of strangers, the oldest first */
        enum caller_lane lane;
        enum { CALLER_NONE, CALLER_STRANGER, CALLER_KNOWN } state;
        unsigned char key[CALLER_KEY_SIZE]; /* address or user */
        uint64_t first_byte_ns, known_ns;   /* deadlines; first_byte_ns 0: the byte was received */
};

struct callers {
        struct caller_count {
                TAILQ_HEAD(strangers, caller) strangers;
                unsigned stranger_count, known_count;
        } lanes[LANE_COUNT];
        unsigned known_max, strangers_max, peer_max;
        uint64_t auth_ns;
        uint64_t dropped_total;
        /* Close its connection, but not at once. */
        void (*drop)(struct caller *caller, const char *why);
};

void callers_init(struct callers *all, unsigned known_max, uint64_t auth_ns,
                  void (*drop)(struct caller *caller, const char *why));
/* Return how many connections may be accepted in one batch, so that each can still authenticate
 * before the next batch displaces it. */
unsigned callers_accept_max(const struct callers *all);
/* True if the lane has no room for another known caller: there is nothing to wait for. */
int callers_are_full(const struct callers *all, enum caller_lane lane);

/* Set lane and key. own_uid: the daemon's owner. */
void caller_of_socket(struct caller *caller, int fd, int is_tcp, int is_container, uid_t uid, uid_t own_uid);
/* Add a stranger. Another stranger may be dropped for it. */
void caller_add(struct callers *all, struct caller *caller, uint64_t now_ns);
void caller_remove(struct callers *all, struct caller *caller);
/* Make a stranger known. Fails with -CLOCHE_E_RESOURCE if its lane is full. */
int caller_known(struct callers *all, struct caller *caller, enum caller_lane lane, struct cloche_err *e);
/* Restart the timeout, after a request that needs no token was answered. */
void caller_renew(const struct callers *all, struct caller *caller, uint64_t now_ns);
void callers_sweep(struct callers *all, uint64_t now_ns);

#endif
