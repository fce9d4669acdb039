/* Limits of a run: defaults, ranges, and those that the kernel enforces. */
#ifndef CLOCHE_ENGINE_BOX_LIMITS_H
#define CLOCHE_ENGINE_BOX_LIMITS_H

#include "proto/keeper.h"

#include <cloche/limits.h>
#include <jansson.h>

/* Replace 0 by the default. -CLOCHE_E_INVALID_ARGUMENT names a limit out of its range. */
int limits_resolve(const struct cloche_limits *asked, struct cloche_limits *ret, struct cloche_err *e);
struct keeper_box_limits limits_of_box(const struct cloche_limits *limits);
/* Read the limits named in object, whose members were checked to be numbers; 0 is no limit. Other
 * members of ret stay. */
void limits_read(const json_t *object, struct cloche_limits *ret);
/* Make that object: only the limits that are not 0. */
json_t *limits_named(const struct cloche_limits *limits);
/* Make {"wallMs": 30000, …}; 0 for no limit. NULL without memory. */
json_t *limits_to_json(const struct cloche_limits *limits);

#define LIMITS_TEXT_BYTES 64
/* Format "5 s (5000 ms)", "64 MiB (67108864 bytes)": a readable number, and the exact one if it
 * differs. */
const char *limits_ms_text(double ms, char ret[LIMITS_TEXT_BYTES]);
const char *limits_bytes_text(uint64_t bytes, char ret[LIMITS_TEXT_BYTES]);

#endif
