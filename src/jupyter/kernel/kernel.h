/* The kernel process: a carrier of the translator between ZeroMQ and a connection to cloched. */
#ifndef CLOCHE_JUPYTER_KERNEL_KERNEL_H
#define CLOCHE_JUPYTER_KERNEL_KERNEL_H

#include "connection.h"
#include "jupyter/jupyter.h"

/* broker_fd: a socket to the broker. The exit code. */
int kernel_run(struct connection *c, const struct jupyter_options *options, int broker_fd);

#endif
