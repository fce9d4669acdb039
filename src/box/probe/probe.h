/* Parts of cloche-probe. Each prints lines of words with a tab between. */
#ifndef CLOCHE_BOX_PROBE_H
#define CLOCHE_BOX_PROBE_H

#include <stddef.h>
#include <stdint.h>

#define PROBE_NAMESPACES 7
#define PROBE_LINK_BYTES 64

/* What a process sees of itself that a box has of its own. */
struct probe_view {
        char namespaces[PROBE_NAMESPACES][PROBE_LINK_BYTES]; /* as readlink("/proc/self/ns/NAME") gives them; "": none */
        uint64_t core_cookie; /* 0: none */
};

struct probe_view probe_look(void);
/* A line for each guard that can be seen from inside: name, enforced or absent, what was seen.
 * outer        namespaces of the host
 * forked_from  what the template saw, or NULL */
void probe_walls(int count, char **outer, const struct probe_view *forked_from);

#endif
