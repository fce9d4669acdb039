/* Ports of sandboxes: exposed ports, connections to them, events. */
#ifndef CLOCHE_SANDBOX_NETWORK_PORT_H
#define CLOCHE_SANDBOX_NETWORK_PORT_H

#include "sandbox/core/sandboxes.h"

struct port {
        TAILQ_ENTRY(port) link;
        unsigned number;
        char token[17], *name;
        uint64_t exposed_at_ms;
};

void sandbox_ports_on_box_closed(struct sandbox
                                         *s); /* the sandbox stopped: connections and watches end, exposed ports stay */
void sandbox_ports_free(struct sandbox *s);
void sandbox_dials_hang_up(struct sandbox *s, unsigned port); /* connections of previews */
void sandbox_dials_close(struct sandbox *s);
void sandbox_port_watch_need(struct sandbox *s); /* start or stop it, as there are followers of port events or not */
/* Wait until a port accepts connections and answers GET path with a status in range. done is called
 * once, never from within. */
struct probe;
int sandbox_probe_start(struct sandbox *s, unsigned port, const char *path, int first, int last, uint64_t timeout_ms,
                        void (*done)(void *data, int status, const struct cloche_err *e), void *data,
                        struct probe **ret, struct cloche_err *e);
void sandbox_probe_cancel(struct probe *probe);
void sandbox_probes_on_box_closed(struct sandbox *s);

#endif
