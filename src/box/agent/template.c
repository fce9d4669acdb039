/* Runs in: the agents in C, within a box, with the rights of the user's code. */
#include "agent-internal.h"

#include "box/join/guest.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

int template_fork_children(void)
{
        struct sigaction before, plain = {.sa_handler = SIG_DFL};

        /* The template itself must see exits of children, not a handler of the language or the
         * code. */
        sigaction(SIGCHLD, &plain, &before);
        while (cloche_guest_wait() == 1) {
                pid_t pid = fork();

                if (pid == 0) {
                        int is_template = cloche_guest_child();

                        sigaction(SIGCHLD, &before, NULL);
                        return is_template;
                }
                cloche_guest_parent(pid < 0 ? -errno : pid);
        }
        _exit(0);
}
