/* Connect to the addresses of a name, one after the other.
 * Runs in: cloche-egress, without capabilities and files, filtered. */
#include "connection.h"

#include "helpers/egress/read/address.h"

#include "base/fd.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define ANY_PORT 9

/* A machine's packets to its own address carry that address as their source. No packet is sent. */
int dial_is_own(const struct sockaddr *address, socklen_t size)
{
        _cleanup_fd_ int fd = socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        struct sockaddr_storage from;
        socklen_t from_size = sizeof(from);

        if (fd < 0)
                return 1;
        if (connect(fd, address, size) < 0)
                return 0; /* no route */
        if (getsockname(fd, (struct sockaddr *)&from, &from_size) < 0)
                return 1;
        if (address->sa_family == AF_INET)
                return ((const struct sockaddr_in *)address)->sin_addr.s_addr ==
                       ((const struct sockaddr_in *)&from)->sin_addr.s_addr;
        return memcmp(&((const struct sockaddr_in6 *)address)->sin6_addr,
                      &((const struct sockaddr_in6 *)&from)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

static int is_own(uint32_t address)
{
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(ANY_PORT), .sin_addr.s_addr = htonl(address)};

        return dial_is_own((const struct sockaddr *)&in, sizeof(in));
}

static void add(struct egress_connection *c, uint32_t address)
{
        struct candidate *row = &c->candidates[c->candidate_count];
        struct sockaddr_in in = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)c->port),
                                 .sin_addr.s_addr = htonl(address)};

        if (c->candidate_count == CANDIDATES_MAX)
                return;
        memcpy(&row->address, &in, sizeof(in));
        address_print(address, row->text);
        c->candidate_count++;
}

/* No rule covers IPv6 addresses: closed ones and this machine's are skipped. */
static void add6(struct egress_connection *c, const struct in6_addr *address)
{
        struct candidate *row = &c->candidates[c->candidate_count];
        struct sockaddr_in6 in = {.sin6_family = AF_INET6,
                                  .sin6_port = htons((uint16_t)c->port),
                                  .sin6_addr = *address};

        if (c->candidate_count == CANDIDATES_MAX || address6_closed(address) ||
            dial_is_own((const struct sockaddr *)&in, sizeof(in)))
                return;
        memcpy(&row->address, &in, sizeof(in));
        inet_ntop(AF_INET6, address, row->text, sizeof(row->text));
        c->candidate_count++;
}

/* Report one refused address, and only if none is allowed. */
static const char *add_allowed(struct egress_connection *c, const struct lookup_result *result,
                               char refused[ADDRESS_TEXT_MAX], const char **ret_rule)
{
        const char *why = NULL;

        for (size_t i = 0; i < result->count; i++) {
                struct policy_verdict verdict =
                        policy_leads(c->egress->policy, result->addresses[i], c->port, is_own(result->addresses[i]));

                if (verdict.allowed)
                        add(c, result->addresses[i]);
                else if (!why) {
                        why = verdict.why;
                        *ret_rule = verdict.rule;
                        address_print(result->addresses[i], refused);
                }
        }
        for (size_t i = 0; i < result->count6; i++)
                add6(c, &result->addresses6[i]);
        return why ? why : result->count6 > 0 ? "the name leads to closed IPv6 addresses" : result->why;
}

int dial_names(struct egress_connection *c, const struct lookup_result *result)
{
        char refused[ADDRESS_TEXT_MAX] = "";
        const char *rule = NULL, *why = add_allowed(c, result, refused, &rule);

        if (c->candidate_count > 0)
                return 0;
        connection_report(c, 0, "tcp", c->name, refused, rule, why ? why : "the name has no address");
        return -1;
}

int dial_address(struct egress_connection *c)
{
        char text[ADDRESS_TEXT_MAX];
        struct policy_verdict verdict = policy_address(c->egress->policy, c->requested, c->port, is_own(c->requested));

        if (verdict.allowed) {
                c->rule = verdict.rule;
                add(c, c->requested);
                return 0;
        }
        address_print(c->requested, text);
        connection_report(c, 0, "tcp", NULL, text, verdict.rule, verdict.why);
        return -1;
}

void dial_service(struct egress_connection *c)
{
        add(c, INADDR_LOOPBACK);
}

int dial_next(struct egress_connection *c)
{
        const struct sockaddr *address = (const struct sockaddr *)&c->candidates[c->candidate].address;
        socklen_t size = address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        _cleanup_fd_ int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        if (fd < 0 || (connect(fd, address, size) < 0 && errno != EINPROGRESS))
                return -errno;
        return TAKE_FD(fd);
}
