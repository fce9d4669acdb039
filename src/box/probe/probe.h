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

/* Rights of a template's code: spec/rights.def.
 * processes  numbers that processes above the box have there; borrowed for good
 * 0 or -errno. */
int rights_try_home(int count, char **processes);
/* In the box that comes with an order to fork: between cloche_guest_wait and the fork. */
void rights_try_beneath(void);
/* A line for each right of which every way was tried: name, open or refused, the ways. */
void rights_tell(void);

/* A line for each program of spec/landlocked.def: name, enforced or absent, what was seen. Returns the exit status. */
int landlock_try_all(void);

#endif
