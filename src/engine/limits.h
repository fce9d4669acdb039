/* Limits of a run: defaults, ranges, and what of them the kernel holds. */
#ifndef CLOCHE_ENGINE_LIMITS_H
#define CLOCHE_ENGINE_LIMITS_H

#include "keeper/protocol.h"

#include <cloche/cloche.h>
#include <jansson.h>

/* Put defaults where 0 stands; -CLOCHE_E_INVALID_ARGUMENT names a limit out of its range. */
int limits_resolve(const struct cloche_limits *asked, struct cloche_limits *ret, struct cloche_err *e);
struct keeper_box_limits limits_of_box(const struct cloche_limits *limits);
/* What an object names, checked to hold numbers: 0 there is none. The rest of ret stays. */
void limits_read(const json_t *object, struct cloche_limits *ret);
/* That again: only what is not 0 in limits. */
json_t *limits_named(const struct cloche_limits *limits);
/* {"wallMs": 30000, …}; 0 for none. NULL when out of memory. */
json_t *limits_to_json(const struct cloche_limits *limits);

#define LIMITS_TEXT_BYTES 64
/* "5 s (5000 ms)", "64 MiB (67108864 bytes)": the number that a reader sees at once, and the exact one behind it where they differ. */
const char *limits_ms_text(double ms, char ret[LIMITS_TEXT_BYTES]);
const char *limits_bytes_text(uint64_t bytes, char ret[LIMITS_TEXT_BYTES]);

#endif
