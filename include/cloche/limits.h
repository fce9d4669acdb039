/* The limits of a run. Part of cloche.h. */
#ifndef CLOCHE_LIMITS_H
#define CLOCHE_LIMITS_H

#include <stdint.h>

/* Limits of a run. 0: the safe default of spec/limits.def; CLOCHE_UNLIMITED: no limit. */
#define CLOCHE_UNLIMITED UINT64_MAX
struct cloche_limits {
#define CLOCHE_LIMIT(field, ...) uint64_t field;
#include <cloche/limits.def>
#undef CLOCHE_LIMIT
};

#endif
