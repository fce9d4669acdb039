/* Network namespace: empty but for a loopback of its own. network_namespaces(7), netdevice(7). */
#ifndef CLOCHE_JAIL_NET_H
#define CLOCHE_JAIL_NET_H

#include <cloche/cloche.h>

/* Bring the loopback interface of the current namespace up. */
int net_loopback_up(struct cloche_err *e);

#endif
