/* The keeper's side of passthrough alone, on the socket FD: for mounts that are tested without a keeper. Ends with the
 * socket; 1 when it was cut off. */
#include "keeper/passthrough.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
        struct passthrough passthrough = {.fd = argc == 2 ? atoi(argv[1]) : -1};
        struct pollfd fd = {passthrough.fd, POLLIN, 0};
        int r = fcntl(passthrough.fd, F_SETFL, O_NONBLOCK);

        while (r == 0 && poll(&fd, 1, -1) > 0)
                r = passthrough_serve(&passthrough);
        return r != -EPIPE;
}
