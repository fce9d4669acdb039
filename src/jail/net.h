/* Network namespace: empty but for a loopback of its own. network_namespaces(7), netdevice(7), rtnetlink(7).
 *
 * A sandbox that may reach hosts has no more than that either: everything its programs send ends at sockets in the namespace, which were made
 * here and are served by a process outside of it (cloche-gate). The kernel of the box speaks TCP with the programs; SO_ORIGINAL_DST tells where
 * they wanted to go. What is neither TCP nor a question for names is refused where it is sent. */
#ifndef CLOCHE_JAIL_NET_H
#define CLOCHE_JAIL_NET_H

#include <cloche/cloche.h>

#define NET_ADDRESS 0x0aff0002u /* 10.255.0.2: what programs send from */
#define NET_GATE_PORT 1         /* of 127.0.0.1; below 1024, so nobody in the box can take it first */
#define NET_NAMES_PORT 53

/* Bring the loopback interface of the current namespace up. */
int net_loopback_up(struct cloche_err *e);

/* Sockets in the current namespace: TCP, listening; then where names are asked for. */
enum net_socket { NET_SOCKET_TCP, NET_SOCKET_NAMES_UDP, NET_SOCKET_NAMES_TCP, NET_SOCKETS };

/* Lead everything in the current namespace to sockets that are made here, owned by the caller. Wants CAP_NET_ADMIN and CAP_NET_BIND_SERVICE in it, and
 * loopback up. May be done again when the sockets of the last time are closed. */
int net_lead_to_sockets(int ret_fds[NET_SOCKETS], struct cloche_err *e);

/* nft.c: redirect what leaves, refuse the rest. nft(8). */
int nft_redirect(struct cloche_err *e);

#endif
