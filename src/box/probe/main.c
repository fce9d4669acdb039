/* cloche-probe --landlock: tries rules of programs on the host (landlock.c).
 * cloche-probe [--template] [NAME:[INODE]]… [PID]…: the guest of `cloche selftest`. Runs in: a box
 * that was made with small limits, as an ordinary guest; with --template as a template, whose
 * forked children are guests, or templates in turn. Arguments: the namespaces of the host, as
 * readlink("/proc/self/ns/NAME") returns them there, and pids of the host.
 *
 * A guest that was started here, or forked from the first template, tries to climb the walls of its
 * box (walls.c). A child that was forked as a template tries the rights that a caller's code has
 * there (rights.c), and also tries them in the box of its first requested fork; that fork exits at
 * once. Both print their results on standard output and close it. Guards that are invisible from
 * inside (cpu, freezer, dies-with-owner) are left out. */
#include "probe.h"

#include "box/join/guest.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct host {
        char **namespaces, **processes;
        int namespace_count, process_count;
};

/* The pids come last. */
static struct host read_arguments(int count, char **arguments)
{
        int names = 0;

        while (names < count && !isdigit((unsigned char)arguments[names][0]))
                names++;
        return (struct host){.namespaces = arguments,
                             .namespace_count = names,
                             .processes = arguments + names,
                             .process_count = count - names};
}

/* Returns 1: this process is a child, and a template; 0: a child, and no template; -1: no more
 * forks are requested. */
static int serve_forks(int has_rights)
{
        int has_told = 0;

        while (cloche_guest_wait() == 1) {
                pid_t pid;

                if (has_rights && !has_told) {
                        rights_try_beneath();
                        rights_tell();
                        has_told = dup2(STDIN_FILENO, STDOUT_FILENO) >= 0; /* /dev/null */
                }
                pid = fork();
                if (pid == 0)
                        return cloche_guest_child();
                cloche_guest_parent(pid < 0 ? -errno : pid);
        }
        return -1;
}

static int be_template(const struct host *host)
{
        struct probe_view view;
        char hindrance[256];
        int depth = 0, r = cloche_guest_start() == 1 ? 1 : -1;

        for (; r == 1; depth++) {
                if (depth > 0 && rights_try_home(host->process_count, host->processes) < 0)
                        return 1;
                if (cloche_guest_freeze(CLOCHE_GUEST_CHANNEL_FD, hindrance, sizeof(hindrance)) < 0)
                        return 1;
                view = probe_look();
                r = serve_forks(depth > 0);
        }
        if (r == 0 && depth == 1) {
                close(CLOCHE_GUEST_CHANNEL_FD);
                probe_walls(host->namespace_count, host->namespaces, &view);
        }
        return r < 0 && depth == 0;
}

int main(int argc, char **argv)
{
        int is_template = argc > 1 && strcmp(argv[1], "--template") == 0;
        struct host host = read_arguments(argc - 1 - is_template, argv + 1 + is_template);

        if (argc == 2 && strcmp(argv[1], "--landlock") == 0)
                return landlock_try_all();
        if (is_template)
                return be_template(&host);
        probe_walls(host.namespace_count, host.namespaces, NULL);
        return 0;
}
