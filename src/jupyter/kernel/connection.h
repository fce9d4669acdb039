/* The connection file, and the sockets that it names. */
#ifndef CLOCHE_JUPYTER_KERNEL_CONNECTION_H
#define CLOCHE_JUPYTER_KERNEL_CONNECTION_H

#include <cloche/error.h>
#include <jansson.h>

enum connection_port { PORT_SHELL, PORT_IOPUB, PORT_STDIN, PORT_CONTROL, PORT_HB, PORT_COUNT };

struct connection {
        char *key;
        char address[PORT_COUNT][160]; /* tcp://… or ipc://… */
        int fds[PORT_COUNT];           /* they listen */
        int is_ipc;
};

/* Read the file and listen. Only loopback addresses, and sockets of the file system. */
CLOCHE_MUST_CHECK int connection_open(const char *path, struct connection *ret, struct cloche_err *e);
/* Close the sockets and, for ipc, remove their names. */
void connection_close(struct connection *c);

#endif
