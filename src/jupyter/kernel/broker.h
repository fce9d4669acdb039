/* The part of cloche-kernel that keeps its user's rights: it connects to a daemon, or starts
 * one, when the other part requests it by a byte, and reads nothing else from it. */
#ifndef CLOCHE_JUPYTER_KERNEL_BROKER_H
#define CLOCHE_JUPYTER_KERNEL_BROKER_H

#include <cloche/error.h>
#include <sys/types.h>

struct broker_options {
        const char *socket;            /* NULL: $CLOCHE_SOCKET, or the user's daemon, or a private one */
        int starts;                    /* the user's daemon is started if there is none, in place of a private one */
        const char *sandbox, *context; /* the context is deleted when the process fails */
};

/* A packet; a descriptor comes with it unless e.code is set. */
struct broker_answer {
        struct cloche_err e;
};

/* Serve until the process pid has ended; its exit code. */
int broker_serve(const struct broker_options *options, int socket_fd, pid_t pid);

#endif
