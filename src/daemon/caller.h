/* Callers, and how many there may be: strangers, which are not known yet, are counted apart, by lane and by address or user (spec/callers.def), so that silence
 * costs only the silent their connections. */
#ifndef CLOCHE_DAEMON_CALLER_H
#define CLOCHE_DAEMON_CALLER_H

#include <cloche/cloche.h>
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

/* Part of each connection. CALLER_NONE: of a private daemon, or dropped; it is in no list. */
struct caller {
        TAILQ_ENTRY(caller) link; /* of a stranger; the oldest first */
        enum caller_lane lane;
        enum { CALLER_NONE, CALLER_STRANGER, CALLER_KNOWN } state;
        unsigned char key[CALLER_KEY_SIZE]; /* address or user */
        uint64_t first_byte_ns, known_ns;   /* by when; first_byte_ns 0: it is there */
};

struct callers {
        struct caller_count {
                TAILQ_HEAD(strangers, caller) strangers;
                unsigned stranger_count, known_count;
        } lanes[LANE_COUNT];
        unsigned known_max, strangers_max, peer_max;
        uint64_t auth_ns;
        uint64_t dropped_total;
        /* Close its connection, not at once. */
        void (*drop)(struct caller *caller, const char *why);
};

void callers_init(struct callers *all, unsigned known_max, uint64_t auth_ns, void (*drop)(struct caller *caller, const char *why));
/* How many may be accepted at one time, so that each can still show who it is before the next come. */
unsigned callers_accept_max(const struct callers *all);
/* Whether no known caller more of this lane may come: a new one has nothing to wait for. */
int callers_are_full(const struct callers *all, enum caller_lane lane);

/* lane and key; own_uid: the daemon's owner. */
void caller_of_socket(struct caller *caller, int fd, int is_tcp, int is_container, uid_t uid, uid_t own_uid);
/* A stranger; another may be dropped for it. */
void caller_add(struct callers *all, struct caller *caller, uint64_t now_ns);
void caller_remove(struct callers *all, struct caller *caller);
/* -CLOCHE_E_RESOURCE: there are too many of this lane. */
int caller_known(struct callers *all, struct caller *caller, enum caller_lane lane, struct cloche_err *e);
/* A request that needs no token was answered: the time begins anew. */
void caller_renew(const struct callers *all, struct caller *caller, uint64_t now_ns);
void callers_sweep(struct callers *all, uint64_t now_ns);

#endif
