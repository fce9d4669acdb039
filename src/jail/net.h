/* Network namespace: empty except for its own loopback. network_namespaces(7), netdevice(7),
 * rtnetlink(7).
 *
 * A sandbox that may reach hosts has no more than that either: all its packets end at sockets in
 * the namespace. They were made here, and a process outside of it (cloche-egress) serves them. The
 * kernel of the box speaks TCP with the programs; SO_ORIGINAL_DST gives the destination they chose.
 * Any packet that is neither TCP nor a DNS query is refused where it is sent. */
#ifndef CLOCHE_JAIL_NET_H
#define CLOCHE_JAIL_NET_H

#include <cloche/error.h>

#define NET_ADDRESS 0x0aff0002u /* 10.255.0.2: source address of the programs */
#define NET_EGRESS_PORT 1       /* of 127.0.0.1; below 1024, so no program in the box can bind it first */
#define NET_NAMES_PORT 53

/* Bring the loopback interface of the current namespace up. */
int net_loopback_up(struct cloche_err *e);

/* Sockets in the current namespace: TCP, listening; then the two for DNS. */
enum net_socket { NET_SOCKET_TCP, NET_SOCKET_NAMES_UDP, NET_SOCKET_NAMES_TCP, NET_SOCKETS };

/* Redirect all packets in the current namespace to sockets that are made here, owned by the caller.
 * Needs CAP_NET_ADMIN and CAP_NET_BIND_SERVICE in it, and loopback up. May be repeated after the
 * sockets of the last call are closed. */
int net_lead_to_sockets(int ret_fds[NET_SOCKETS], struct cloche_err *e);

/* nft.c: redirect packets that leave, refuse the rest. nft(8). */
int nft_redirect(struct cloche_err *e);

#endif
