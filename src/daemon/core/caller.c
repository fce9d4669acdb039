/* Callers and their limits. Runs in: cloched-engine, on its loop, with the rights of the daemon's
 * user. */
#include "caller.h"
#include "log.h"

#include "base/err.h"

#include <jansson.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define ACCEPT_AT_ONCE 64
#define IPV6_PREFIX 8 /* bytes; a provider gives each customer a /64 */
#define LOG_EVERY 100

static const char *lane_name(enum caller_lane lane)
{
        static const char *const names[] = {
#define CALLER_LANE(symbol, name, doc) [LANE_##symbol] = name,
#define CALLER_LIMIT(symbol, value, unit, doc)
#include <cloche/callers.def>
#undef CALLER_LANE
#undef CALLER_LIMIT
        };

        return names[lane];
}

/* -- limits --------------------------------------------------------------------------------------------------- */

static unsigned at_least(unsigned value, unsigned least)
{
        return value > least ? value : least;
}

void callers_init(struct callers *all, unsigned known_max, uint64_t auth_ns,
                  void (*drop)(struct caller *caller, const char *why))
{
        struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
        unsigned strangers = known_max / CALLER_STRANGERS_SHARE;

        (void)getrlimit(RLIMIT_NOFILE, &limit);
        if (limit.rlim_cur / CALLER_DESCRIPTORS_SHARE < strangers)
                strangers = (unsigned)(limit.rlim_cur / CALLER_DESCRIPTORS_SHARE);
        *all = (struct callers){.known_max = known_max, .auth_ns = auth_ns, .drop = drop};
        all->strangers_max = at_least(strangers, CALLER_STRANGERS_LEAST);
        all->peer_max = at_least(all->strangers_max / CALLER_PEER_SHARE, CALLER_PEER_LEAST);
        for (int i = 0; i < LANE_COUNT; i++)
                TAILQ_INIT(&all->lanes[i].strangers);
}

unsigned callers_accept_max(const struct callers *all)
{
        unsigned half = all->peer_max / 2;

        return half < ACCEPT_AT_ONCE ? half : ACCEPT_AT_ONCE;
}

int callers_are_full(const struct callers *all, enum caller_lane lane)
{
        return all->lanes[lane].known_count >= all->known_max;
}

/* -- the lane and key of a caller ------------------------------------------------------------------------------ */

static void set_address(struct caller *caller, int fd)
{
        union {
                struct sockaddr_storage any;
                struct sockaddr_in in;
                struct sockaddr_in6 in6;
        } address = {0};
        socklen_t size = sizeof(address);

        if (getpeername(fd, (struct sockaddr *)&address, &size) < 0)
                return;
        if (address.any.ss_family == AF_INET)
                memcpy(caller->key, &address.in.sin_addr, sizeof(address.in.sin_addr));
        else if (address.any.ss_family == AF_INET6)
                memcpy(caller->key, &address.in6.sin6_addr, IPV6_PREFIX);
}

void caller_of_socket(struct caller *caller, int fd, int is_tcp, int is_container, uid_t uid, uid_t own_uid)
{
        if (is_tcp) {
                caller->lane = is_container ? LANE_CONTAINER : LANE_TCP;
                set_address(caller, fd);
        } else {
                caller->lane = uid == 0 || uid == own_uid ? LANE_OWNER : LANE_USER;
                memcpy(caller->key, &uid, sizeof(uid));
        }
}

/* -- strangers ------------------------------------------------------------------------------------------------- */

static void drop(struct callers *all, struct caller *caller, const char *why)
{
        if (all->dropped_total++ % LOG_EVERY == 0)
                log_event(LEVEL_WARNING, "stranger-dropped", "{s:s, s:s, s:I}", "lane", lane_name(caller->lane), "why",
                          why, "dropped", (json_int_t)all->dropped_total);
        caller_remove(all, caller);
        all->drop(caller, why);
}

/* Return the oldest stranger with this key if the key has reached its limit, else NULL. */
static struct caller *find_surplus(const struct callers *all, const struct caller_count *lane, const unsigned char *key)
{
        struct caller *caller, *oldest = NULL;
        unsigned count = 0;

        TAILQ_FOREACH (caller, &lane->strangers, link)
                if (memcmp(caller->key, key, CALLER_KEY_SIZE) == 0) {
                        oldest = oldest ? oldest : caller;
                        count++;
                }
        return count >= all->peer_max ? oldest : NULL;
}

void caller_add(struct callers *all, struct caller *caller, uint64_t now_ns)
{
        struct caller_count *lane = &all->lanes[caller->lane];
        struct caller *surplus = find_surplus(all, lane, caller->key);

        if (surplus)
                drop(all, surplus, "too many of its address or user");
        else if (lane->stranger_count >= all->strangers_max)
                drop(all, TAILQ_FIRST(&lane->strangers), "too many");
        caller->state = CALLER_STRANGER;
        caller->first_byte_ns = now_ns + all->auth_ns / CALLER_FIRST_BYTE_SHARE;
        caller->known_ns = now_ns + all->auth_ns;
        TAILQ_INSERT_TAIL(&lane->strangers, caller, link);
        lane->stranger_count++;
}

void caller_remove(struct callers *all, struct caller *caller)
{
        struct caller_count *lane = &all->lanes[caller->lane];

        if (caller->state == CALLER_STRANGER) {
                TAILQ_REMOVE(&lane->strangers, caller, link);
                lane->stranger_count--;
        } else if (caller->state == CALLER_KNOWN) {
                lane->known_count--;
        }
        caller->state = CALLER_NONE;
}

int caller_known(struct callers *all, struct caller *caller, enum caller_lane lane, struct cloche_err *e)
{
        if (caller->state == CALLER_NONE || (caller->state == CALLER_KNOWN && caller->lane == lane))
                return 0;
        if (callers_are_full(all, lane))
                return err_set(e, CLOCHE_E_RESOURCE,
                               "the daemon has the maximum number of connections of this kind: try again later, or "
                               "raise cloched --max-connections");
        caller_remove(all, caller);
        caller->lane = lane;
        caller->state = CALLER_KNOWN;
        all->lanes[lane].known_count++;
        return 0;
}

void caller_renew(const struct callers *all, struct caller *caller, uint64_t now_ns)
{
        caller->known_ns = now_ns + all->auth_ns;
}

void callers_sweep(struct callers *all, uint64_t now_ns)
{
        for (int i = 0; i < LANE_COUNT; i++) {
                struct caller *caller, *next;

                for (caller = TAILQ_FIRST(&all->lanes[i].strangers); caller; caller = next) {
                        next = TAILQ_NEXT(caller, link);
                        if (now_ns > caller->known_ns || (caller->first_byte_ns && now_ns > caller->first_byte_ns))
                                drop(all, caller, "too slow");
                }
        }
}
