/* Queries to the host's name servers, by c-ares.
 * Runs in: cloche-egress, without capabilities and files, filtered. */
#include "lookup.h"

#include "base/err.h"

#include <ares.h>
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define TIMEOUT_MS 2000
#define TRIES 3

struct watch {
        LIST_ENTRY(watch) link;
        struct lookups *lookups;
        ares_socket_t fd;
        uv_poll_t poll;
};

struct lookups {
        ares_channel channel;
        uv_loop_t *loop;
        LIST_HEAD(watches, watch) watches;
};

struct lookup {
        lookup_done done; /* NULL: detached */
        void *data;
        unsigned waiting;
        struct lookup_result result;
};

/* -- the library's sockets in our loop --------------------------------------------------------------------------- */

static void on_poll(uv_poll_t *poll, int status, int events)
{
        struct watch *watch = poll->data;
        ares_socket_t fd = watch->fd;
        int readable = status < 0 || (events & UV_READABLE), writable = status < 0 || (events & UV_WRITABLE);

        ares_process_fd(watch->lookups->channel, readable ? fd : ARES_SOCKET_BAD, writable ? fd : ARES_SOCKET_BAD);
}

static struct watch *find_watch(struct lookups *lookups, ares_socket_t fd)
{
        struct watch *watch;

        LIST_FOREACH (watch, &lookups->watches, link)
                if (watch->fd == fd)
                        return watch;
        return NULL;
}

static void free_watch(uv_handle_t *handle)
{
        free(handle->data);
}

static void end_watch(struct watch *watch)
{
        LIST_REMOVE(watch, link);
        uv_close((uv_handle_t *)&watch->poll, free_watch);
}

static struct watch *new_watch(struct lookups *lookups, ares_socket_t fd)
{
        struct watch *watch = calloc(1, sizeof(*watch));

        if (!watch || uv_poll_init(lookups->loop, &watch->poll, fd) < 0) {
                free(watch); /* no event will arrive; the query times out */
                return NULL;
        }
        watch->lookups = lookups;
        watch->fd = fd;
        watch->poll.data = watch;
        LIST_INSERT_HEAD(&lookups->watches, watch, link);
        return watch;
}

/* Called at each change of interest. Neither flag set: the library is about to close the socket. */
static void on_socket(void *data, ares_socket_t fd, int readable, int writable)
{
        struct lookups *lookups = data;
        struct watch *watch = find_watch(lookups, fd);

        if (!readable && !writable) {
                if (watch)
                        end_watch(watch);
                return;
        }
        if (!watch)
                watch = new_watch(lookups, fd);
        if (watch)
                uv_poll_start(&watch->poll, (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0), on_poll);
}

/* -- life -------------------------------------------------------------------------------------------------------- */

/* These options make configuration files unnecessary. c-ares 1.34 still reads the host's, hence the
 * call precedes the guard. */
int lookups_new(uv_loop_t *loop, struct lookups **ret, struct cloche_err *e)
{
        static char by_server[] = "b";
        struct lookups *lookups = calloc(1, sizeof(*lookups));
        struct in_addr nobody = {.s_addr = htonl(INADDR_LOOPBACK)};
        struct ares_options options = {
                .flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
                .timeout = TIMEOUT_MS,
                .tries = TRIES,
                .ndots = 1,
                .servers = &nobody,
                .nservers = 1,
                .lookups = by_server,
                .sock_state_cb = on_socket,
                .sock_state_cb_data = lookups,
        };
        int options_given = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS | ARES_OPT_SERVERS |
                            ARES_OPT_DOMAINS | ARES_OPT_SORTLIST | ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB;
        int r;

#ifdef ARES_OPT_QUERY_CACHE /* 0 s: off. Newer c-ares enables an unbounded cache, and the guest chooses the names. */
        options_given |= ARES_OPT_QUERY_CACHE;
#endif
        if (!lookups)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "prepare to look up names");
        lookups->loop = loop;
        LIST_INIT(&lookups->watches);
        r = ares_library_init(ARES_LIB_INIT_ALL);
        if (r == ARES_SUCCESS)
                r = ares_init_options(&lookups->channel, &options, options_given);
        if (r != ARES_SUCCESS) {
                free(lookups);
                return err_set(e, CLOCHE_E_RESOURCE, "prepare to look up names: %s", ares_strerror(r));
        }
        *ret = lookups;
        return 0;
}

int lookups_servers(struct lookups *lookups, const char *servers, struct cloche_err *e)
{
        int r;

        ares_cancel(lookups->channel); /* otherwise it refuses */
        r = ares_set_servers_ports_csv(lookups->channel, servers);
        return r == ARES_SUCCESS
                       ? 0
                       : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "servers: '%.100s': %s", servers, ares_strerror(r));
}

void lookups_tick(struct lookups *lookups)
{
        ares_process_fd(lookups->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}

/* -- one name ---------------------------------------------------------------------------------------------------- */

static void end_one(struct lookup *lookup, int status)
{
        struct lookup_result *result = &lookup->result;

        if (status != ARES_SUCCESS && (!result->why || status != ARES_ENODATA))
                result->why = status == ARES_ENOTFOUND ? "the name servers know no such name (/etc/hosts is not read)"
                              : status == ARES_ENODATA ? "the name has no address"
                                                       : "the name servers do not answer";
        if (--lookup->waiting > 0)
                return;
        if (lookup->done)
                lookup->done(lookup->data, result);
        free(lookup);
}

static void on_a(void *data, int status, int timeouts, unsigned char *answer, int size)
{
        struct lookup *lookup = data;
        struct ares_addrttl rows[LOOKUP_ADDRESSES_MAX];
        int count = LOOKUP_ADDRESSES_MAX;

        (void)timeouts;
        if (status == ARES_SUCCESS)
                status = ares_parse_a_reply(answer, size, NULL, rows, &count);
        for (int i = 0; status == ARES_SUCCESS && i < count; i++)
                lookup->result.addresses[lookup->result.count++] = ntohl(rows[i].ipaddr.s_addr);
        end_one(lookup, status);
}

static void on_aaaa(void *data, int status, int timeouts, unsigned char *answer, int size)
{
        struct lookup *lookup = data;
        struct ares_addr6ttl rows[LOOKUP_ADDRESSES_MAX];
        int count = LOOKUP_ADDRESSES_MAX;

        (void)timeouts;
        if (status == ARES_SUCCESS)
                status = ares_parse_aaaa_reply(answer, size, NULL, rows, &count);
        for (int i = 0; status == ARES_SUCCESS && i < count; i++)
                memcpy(&lookup->result.addresses6[lookup->result.count6++], &rows[i].ip6addr, sizeof(struct in6_addr));
        end_one(lookup, status);
}

int lookup_start(struct lookups *lookups, const char *name, lookup_done done, void *data, struct lookup **ret)
{
        struct lookup *lookup = calloc(1, sizeof(*lookup));

        if (!lookup)
                return -ENOMEM;
        lookup->done = done;
        lookup->data = data;
        lookup->waiting = 2;
        *ret = lookup;
        ares_query(lookups->channel, name, ns_c_in, ns_t_a, on_a, lookup);
        ares_query(lookups->channel, name, ns_c_in, ns_t_aaaa, on_aaaa, lookup);
        return 0;
}

void lookup_detach(struct lookup *lookup)
{
        if (lookup)
                lookup->done = NULL;
}
