/* The rules, as nft(8) would print them:
 *
 *   table ip cloche {
 *     chain untracked { type filter hook output priority raw;     ip daddr 127.0.0.0/8 notrack }
 *     chain lead      { type nat hook output priority dstnat;     ip daddr 127.0.0.0/8 return
 *                       ip daddr 10.255.0.2 return
 *                       tcp dport 53 redirect to :53; udp dport 53 redirect to :53
 *                       meta l4proto tcp redirect to :1 }
 *     chain refuse    { type filter hook output priority filter; policy drop
 *                       ct state new limit rate over 256/second burst 1024 packets drop
 *                       ip daddr 127.0.0.0/8 accept; ip daddr 10.255.0.2 accept } }
 *
 * If an outgoing packet is dropped, send(2) fails at once with EPERM. The kernel counts a
 * connection for two minutes after it closed, in memory that is charged to no group. Hence the
 * rate, and hence packets that stay in the box are not tracked. Runs in: a helper of the keeper, as
 * the owner of the box's network namespace. */
#include "net.h"

#include "base/err.h"
#include "base/fd.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/table.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#define TABLE "cloche"
#define BATCH_BYTES 16384
#define NEW_A_SECOND 256
#define NEW_AT_ONCE 1024
#define CT_STATE_NEW 8 /* NF_CT_STATE_BIT(IP_CT_NEW) */

struct batch {
        char room[BATCH_BYTES];
        size_t size;
        uint32_t sequence;
        int failed;
};

enum rule {
        NOTRACK_OWN,
        RETURN_LOOPBACK,
        RETURN_OWN,
        NAMES_TCP,
        NAMES_UDP,
        ALL_TCP,
        SLOW_DOWN,
        ACCEPT_LOOPBACK,
        ACCEPT_OWN
};

static const struct chain {
        const char *name, *type;
        int32_t priority;
        uint32_t policy;
} chains[] = {
        {"untracked", "filter", NF_IP_PRI_RAW, NF_ACCEPT},
        {"lead", "nat", NF_IP_PRI_NAT_DST, NF_ACCEPT},
        {"refuse", "filter", NF_IP_PRI_FILTER, NF_DROP},
};

static const struct {
        const char *chain;
        enum rule rule;
} rules[] = {
        {"untracked", NOTRACK_OWN}, {"lead", RETURN_LOOPBACK},   {"lead", RETURN_OWN},
        {"lead", NAMES_TCP},        {"lead", NAMES_UDP},         {"lead", ALL_TCP},
        {"refuse", SLOW_DOWN},      {"refuse", ACCEPT_LOOPBACK}, {"refuse", ACCEPT_OWN},
};

/* -- expressions ------------------------------------------------------------------------------------------------ */

static struct nftnl_expr *add(struct nftnl_rule *rule, const char *name)
{
        struct nftnl_expr *expr = nftnl_expr_alloc(name);

        if (expr)
                nftnl_rule_add_expr(rule, expr);
        return expr;
}

static int load(struct nftnl_rule *rule, uint32_t base, uint32_t offset, uint32_t size)
{
        struct nftnl_expr *expr = add(rule, "payload");

        if (!expr)
                return -1;
        nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_BASE, base);
        nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_DREG, NFT_REG_1);
        nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_OFFSET, offset);
        nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_LEN, size);
        return 0;
}

static int mask(struct nftnl_rule *rule, uint32_t bits)
{
        struct nftnl_expr *expr = add(rule, "bitwise");
        const uint32_t zero = 0;

        if (!expr)
                return -1;
        nftnl_expr_set_u32(expr, NFTNL_EXPR_BITWISE_SREG, NFT_REG_1);
        nftnl_expr_set_u32(expr, NFTNL_EXPR_BITWISE_DREG, NFT_REG_1);
        nftnl_expr_set_u32(expr, NFTNL_EXPR_BITWISE_LEN, sizeof(bits));
        nftnl_expr_set_data(expr, NFTNL_EXPR_BITWISE_MASK, &bits, sizeof(bits));
        nftnl_expr_set_data(expr, NFTNL_EXPR_BITWISE_XOR, &zero, sizeof(zero));
        return 0;
}

static int compare(struct nftnl_rule *rule, uint32_t op, const void *data, uint32_t size)
{
        struct nftnl_expr *expr = add(rule, "cmp");

        if (!expr)
                return -1;
        nftnl_expr_set_u32(expr, NFTNL_EXPR_CMP_SREG, NFT_REG_1);
        nftnl_expr_set_u32(expr, NFTNL_EXPR_CMP_OP, op);
        nftnl_expr_set_data(expr, NFTNL_EXPR_CMP_DATA, data, size);
        return 0;
}

static int verdict(struct nftnl_rule *rule, uint32_t code)
{
        struct nftnl_expr *expr = add(rule, "immediate");

        if (!expr)
                return -1;
        nftnl_expr_set_u32(expr, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
        nftnl_expr_set_u32(expr, NFTNL_EXPR_IMM_VERDICT, code);
        return 0;
}

static int is_to(struct nftnl_rule *rule, uint32_t address, uint32_t bits)
{
        const uint32_t network = htonl(address & bits);

        return load(rule, NFT_PAYLOAD_NETWORK_HEADER, offsetof(struct iphdr, daddr), sizeof(network)) < 0 ||
                               mask(rule, htonl(bits)) < 0 || compare(rule, NFT_CMP_EQ, &network, sizeof(network)) < 0
                       ? -1
                       : 0;
}

static int is_protocol(struct nftnl_rule *rule, uint8_t protocol)
{
        struct nftnl_expr *expr = add(rule, "meta");

        if (!expr)
                return -1;
        nftnl_expr_set_u32(expr, NFTNL_EXPR_META_KEY, NFT_META_L4PROTO);
        nftnl_expr_set_u32(expr, NFTNL_EXPR_META_DREG, NFT_REG_1);
        return compare(rule, NFT_CMP_EQ, &protocol, sizeof(protocol));
}

static int is_to_port(struct nftnl_rule *rule, uint8_t protocol, uint16_t port)
{
        const uint16_t wire = htons(port);

        return is_protocol(rule, protocol) < 0 ||
                               load(rule, NFT_PAYLOAD_TRANSPORT_HEADER, offsetof(struct udphdr, dest), sizeof(wire)) < 0
                       ? -1
                       : compare(rule, NFT_CMP_EQ, &wire, sizeof(wire));
}

static int redirect(struct nftnl_rule *rule, uint16_t port)
{
        struct nftnl_expr *value = add(rule, "immediate"), *expr = value ? add(rule, "redir") : NULL;
        const uint16_t wire = htons(port);

        if (!expr)
                return -1;
        nftnl_expr_set_u32(value, NFTNL_EXPR_IMM_DREG, NFT_REG_1);
        nftnl_expr_set_data(value, NFTNL_EXPR_IMM_DATA, &wire, sizeof(wire));
        nftnl_expr_set_u32(expr, NFTNL_EXPR_REDIR_REG_PROTO_MIN, NFT_REG_1);
        return 0;
}

/* For the first packets of connections. */
static int slow_down(struct nftnl_rule *rule)
{
        struct nftnl_expr *state = add(rule, "ct"), *limit;
        const uint32_t none = 0;

        if (!state)
                return -1;
        nftnl_expr_set_u32(state, NFTNL_EXPR_CT_KEY, NFT_CT_STATE);
        nftnl_expr_set_u32(state, NFTNL_EXPR_CT_DREG, NFT_REG_1);
        if (mask(rule, CT_STATE_NEW) < 0 || compare(rule, NFT_CMP_NEQ, &none, sizeof(none)) < 0 ||
            !(limit = add(rule, "limit")))
                return -1;
        nftnl_expr_set_u64(limit, NFTNL_EXPR_LIMIT_RATE, NEW_A_SECOND);
        nftnl_expr_set_u64(limit, NFTNL_EXPR_LIMIT_UNIT, 1);
        nftnl_expr_set_u32(limit, NFTNL_EXPR_LIMIT_BURST, NEW_AT_ONCE);
        nftnl_expr_set_u32(limit, NFTNL_EXPR_LIMIT_TYPE, NFT_LIMIT_PKTS);
        nftnl_expr_set_u32(limit, NFTNL_EXPR_LIMIT_FLAGS, NFT_LIMIT_F_INV);
        return verdict(rule, NF_DROP);
}

static int fill(struct nftnl_rule *rule, enum rule kind)
{
        switch (kind) {
        case NOTRACK_OWN:
                return is_to(rule, INADDR_LOOPBACK, 0xff000000) < 0 || !add(rule, "notrack") ? -1 : 0;
        case RETURN_LOOPBACK:
                return is_to(rule, INADDR_LOOPBACK, 0xff000000) < 0 ? -1 : verdict(rule, (uint32_t)NFT_RETURN);
        case RETURN_OWN:
                return is_to(rule, NET_ADDRESS, 0xffffffff) < 0 ? -1 : verdict(rule, (uint32_t)NFT_RETURN);
        case NAMES_TCP:
                return is_to_port(rule, IPPROTO_TCP, NET_NAMES_PORT) < 0 ? -1 : redirect(rule, NET_NAMES_PORT);
        case NAMES_UDP:
                return is_to_port(rule, IPPROTO_UDP, NET_NAMES_PORT) < 0 ? -1 : redirect(rule, NET_NAMES_PORT);
        case ALL_TCP:
                return is_protocol(rule, IPPROTO_TCP) < 0 ? -1 : redirect(rule, NET_EGRESS_PORT);
        case SLOW_DOWN:
                return slow_down(rule);
        case ACCEPT_LOOPBACK:
                return is_to(rule, INADDR_LOOPBACK, 0xff000000) < 0 ? -1 : verdict(rule, NF_ACCEPT);
        case ACCEPT_OWN:
                return is_to(rule, NET_ADDRESS, 0xffffffff) < 0 ? -1 : verdict(rule, NF_ACCEPT);
        }
        return -1;
}

/* -- the batch -------------------------------------------------------------------------------------------------- */

/* A message fits in a quarter of the buffer; all our messages fill a tenth of it. */
static char *room_for_one(struct batch *batch)
{
        if (batch->size + BATCH_BYTES / 4 <= BATCH_BYTES)
                return batch->room + batch->size;
        batch->failed = 1;
        return NULL;
}

static void put_mark(struct batch *batch, int is_end)
{
        char *room = room_for_one(batch);
        const struct nlmsghdr *header;

        if (!room)
                return;
        header = is_end ? nftnl_batch_end(room, batch->sequence++) : nftnl_batch_begin(room, batch->sequence++);
        batch->size += header->nlmsg_len;
}

static struct nlmsghdr *put(struct batch *batch, uint16_t type, uint16_t flags)
{
        char *room = room_for_one(batch);

        return room ? nftnl_nlmsg_build_hdr(room, type, NFPROTO_IPV4, NLM_F_CREATE | NLM_F_ACK | flags,
                                            batch->sequence++)
                    : NULL;
}

static void put_table(struct batch *batch)
{
        struct nftnl_table *table = nftnl_table_alloc();
        struct nlmsghdr *header = table ? put(batch, NFT_MSG_NEWTABLE, NLM_F_EXCL) : NULL;

        if (header) {
                nftnl_table_set_str(table, NFTNL_TABLE_NAME, TABLE);
                nftnl_table_nlmsg_build_payload(header, table);
                batch->size += header->nlmsg_len;
        } else
                batch->failed = 1;
        if (table)
                nftnl_table_free(table);
}

static void put_chain(struct batch *batch, const struct chain *row)
{
        struct nftnl_chain *chain = nftnl_chain_alloc();
        struct nlmsghdr *header = chain ? put(batch, NFT_MSG_NEWCHAIN, 0) : NULL;

        if (header) {
                nftnl_chain_set_str(chain, NFTNL_CHAIN_TABLE, TABLE);
                nftnl_chain_set_str(chain, NFTNL_CHAIN_NAME, row->name);
                nftnl_chain_set_str(chain, NFTNL_CHAIN_TYPE, row->type);
                nftnl_chain_set_u32(chain, NFTNL_CHAIN_HOOKNUM, NF_INET_LOCAL_OUT);
                nftnl_chain_set_s32(chain, NFTNL_CHAIN_PRIO, row->priority);
                nftnl_chain_set_u32(chain, NFTNL_CHAIN_POLICY, row->policy);
                nftnl_chain_nlmsg_build_payload(header, chain);
                batch->size += header->nlmsg_len;
        } else
                batch->failed = 1;
        if (chain)
                nftnl_chain_free(chain);
}

static void put_rule(struct batch *batch, const char *chain, enum rule kind)
{
        struct nftnl_rule *rule = nftnl_rule_alloc();
        struct nlmsghdr *header = rule && fill(rule, kind) == 0 ? put(batch, NFT_MSG_NEWRULE, NLM_F_APPEND) : NULL;

        if (header) {
                nftnl_rule_set_str(rule, NFTNL_RULE_TABLE, TABLE);
                nftnl_rule_set_str(rule, NFTNL_RULE_CHAIN, chain);
                nftnl_rule_nlmsg_build_payload(header, rule);
                batch->size += header->nlmsg_len;
        } else
                batch->failed = 1;
        if (rule)
                nftnl_rule_free(rule);
}

/* All acknowledgements are there when send(2) returns. */
static int receive_acks(int fd, unsigned expected, struct cloche_err *e)
{
        union {
                struct nlmsghdr header;
                char room[8192];
        } in;
        unsigned acknowledged = 0;
        ssize_t n;

        while ((n = recv(fd, &in, sizeof(in), MSG_DONTWAIT)) > 0) {
                const struct nlmsghdr *header = &in.header;

                for (int left = (int)n; mnl_nlmsg_ok(header, left); header = mnl_nlmsg_next(header, &left)) {
                        const struct nlmsgerr *error = mnl_nlmsg_get_payload(header);

                        if (header->nlmsg_type != NLMSG_ERROR)
                                continue;
                        if (error->error == -EEXIST) /* ours, of an earlier egress program; no other may */
                                return 0;
                        if (error->error)
                                return err_os(e, CLOCHE_E_NAMESPACE, -error->error,
                                              "redirect the box's connections (does the kernel have nf_tables with "
                                              "NAT?)");
                        acknowledged++;
                }
        }
        if (acknowledged != expected)
                return err_set(e, CLOCHE_E_NAMESPACE,
                               "redirect the box's connections: the kernel accepted %u rules of %u", acknowledged,
                               expected);
        return 0;
}

int nft_redirect(struct cloche_err *e)
{
        static const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
        _cleanup_fd_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
        struct batch batch = {.size = 0};
        const size_t chain_count = sizeof(chains) / sizeof(chains[0]), rule_count = sizeof(rules) / sizeof(rules[0]);

        if (fd < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "redirect the box's connections: open a netfilter socket");
        put_mark(&batch, 0);
        put_table(&batch);
        for (size_t i = 0; i < chain_count; i++)
                put_chain(&batch, &chains[i]);
        for (size_t i = 0; i < rule_count; i++)
                put_rule(&batch, rules[i].chain, rules[i].rule);
        put_mark(&batch, 1);
        if (batch.failed)
                return err_set(e, CLOCHE_E_RESOURCE, "redirect the box's connections: no memory for the rules");
        if (sendto(fd, batch.room, batch.size, 0, (const struct sockaddr *)&kernel, sizeof(kernel)) < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "redirect the box's connections");
        return receive_acks(fd, (unsigned)(1 + chain_count + rule_count), e);
}
