/* cloche-probe [--template] [NAME:[INODE]]…: climbs the walls of the box it runs in and says which held. Runs in: a box that
 * `cloche selftest` made with small limits, as an ordinary guest; with --template as a template, whose forked children are the
 * guests. Arguments: the namespaces of the host, as readlink("/proc/self/ns/NAME") gives them there. A line per guard: name,
 * enforced or absent, what was seen; tab between. Guards that cannot be seen from inside (cpu, freezer, dies-with-owner) are not
 * named. */
#include "probe.h"

#include "guest/guest.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int serve_as_template(int count, char **outer)
{
        struct probe_view own;
        char hindrance[256];

        if (cloche_guest_start() != 1 || cloche_guest_freeze(CLOCHE_GUEST_CHANNEL_FD, hindrance, sizeof(hindrance)) < 0)
                return 1;
        own = probe_look();
        while (cloche_guest_wait() == 1) {
                pid_t pid = fork();

                if (pid == 0) {
                        cloche_guest_child();
                        close(CLOCHE_GUEST_CHANNEL_FD);
                        probe_walls(count, outer, &own);
                        return 0;
                }
                cloche_guest_parent(pid < 0 ? -errno : pid);
        }
        return 0;
}

int main(int argc, char **argv)
{
        if (argc > 1 && strcmp(argv[1], "--template") == 0)
                return serve_as_template(argc - 2, argv + 2);
        probe_walls(argc - 1, argv + 1, NULL);
        return 0;
}
