/* Parts of cloche-probe. Each prints lines of fields, separated by tabs. */
#ifndef CLOCHE_BOX_PROBE_PROBE_H
#define CLOCHE_BOX_PROBE_PROBE_H

#include <stddef.h>
#include <stdint.h>

#define PROBE_NAMESPACES 7
#define PROBE_LINK_BYTES 64

/* A process's view of its own box. */
struct probe_view {
        char namespaces[PROBE_NAMESPACES]
                       [PROBE_LINK_BYTES]; /* as readlink("/proc/self/ns/NAME") returns them; "": none */
        uint64_t core_cookie;              /* 0: none */
};

struct probe_view probe_look(void);
/* Print a line for each guard that is visible from inside: name, enforced or absent, observation.
 * outer        namespaces of the host
 * forked_from  the view of the template, or NULL */
void probe_walls(int count, char **outer, const struct probe_view *forked_from);

/* Try the rights of a template's code: spec/rights.def.
 * processes  pids of processes above the box; borrowed for good
 * Returns 0 or -errno. */
int rights_try_home(int count, char **processes);
/* Try them in the box of a fork request: between cloche_guest_wait and the fork. */
void rights_try_beneath(void);
/* Print a line for each right whose ways were all tried: name, open or refused, the ways. */
void rights_tell(void);

/* Print a line for each program of spec/landlocked.def: name, enforced or absent, observation.
 * Returns the exit status. */
int landlock_try_all(void);

#endif
