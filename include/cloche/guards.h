/* The walls of boxes, the rights inside of them, and features of the host: the tables of
 * selftest. Part of cloche.h. */
#ifndef CLOCHE_GUARDS_H
#define CLOCHE_GUARDS_H

#include <cloche/error.h>

#ifdef __cplusplus
extern "C" {
#endif

enum cloche_guard {
#define CLOCHE_GUARD(symbol, name, profile, doc) CLOCHE_GUARD_##symbol,
#include <cloche/guards.def>
#undef CLOCHE_GUARD
        CLOCHE_GUARD_COUNT
};

enum cloche_right {
#define CLOCHE_RIGHT(symbol, name, set_up, context, doc) CLOCHE_RIGHT_##symbol,
#include <cloche/rights.def>
#undef CLOCHE_RIGHT
        CLOCHE_RIGHT_COUNT
};

/* Our programs that confine themselves with Landlock. */
enum cloche_landlocked {
#define CLOCHE_LANDLOCKED(symbol, name, doc) CLOCHE_LANDLOCKED_##symbol,
#include <cloche/landlocked.def>
#undef CLOCHE_LANDLOCKED
        CLOCHE_LANDLOCKED_COUNT
};

/* A set of guards that may be missing although they are not listed. NONE: the empty set. USER: the
 * rows of spec/guards.def that an ordinary user may lack. USER has no effect on an engine with
 * root's rights: there a missing guard stays an error. */
enum cloche_profile { CLOCHE_PROFILE_NONE, CLOCHE_PROFILE_USER };

/* OFF: the guard was not requested, so it does not count as missing. */
enum cloche_guard_state {
        CLOCHE_GUARD_ABSENT,
        CLOCHE_GUARD_DEGRADED,
        CLOCHE_GUARD_ENFORCED,
        CLOCHE_GUARD_OFF,
        CLOCHE_GUARD_STATE_COUNT
};

/* Features of the host's kernel that boxes use if present; spec/host.def. */
enum cloche_host_feature {
#define CLOCHE_HOST(symbol, name, since, without) CLOCHE_HOST_##symbol,
#include <cloche/host.def>
#undef CLOCHE_HOST
        CLOCHE_HOST_COUNT
};

CLOCHE_API const char *cloche_guard_name(enum cloche_guard guard);
CLOCHE_API const char *cloche_guard_state_name(enum cloche_guard_state
                                                       state);          /* "absent", "degraded", "enforced", "off" */
CLOCHE_API int cloche_guard_is_missing(enum cloche_guard_state state);  /* absent or degraded */
CLOCHE_API uint32_t cloche_profile_guards(enum cloche_profile profile); /* bit 1u << enum cloche_guard */

#ifdef __cplusplus
}
#endif
#endif
