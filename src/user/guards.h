/* Sets of guards, bit 1u << enum cloche_guard. Runs in: the CLI, cloched. */
#ifndef CLOCHE_USER_GUARDS_H
#define CLOCHE_USER_GUARDS_H

#include <cloche/engine.h>
#include <stddef.h>

#define GUARDS_TEXT_BYTES 512 /* all names, with a separator of two bytes */

/* The guards that are absent or degraded on this host. */
uint32_t guards_missing(const cloche_engine *engine);
/* Their names in the order of spec/guards.def. */
void guards_join(uint32_t guards, const char *separator, char *ret, size_t size);

#endif
