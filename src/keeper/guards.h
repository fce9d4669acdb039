/* What protections this host and this keeper can give. */
#ifndef CLOCHE_KEEPER_GUARDS_H
#define CLOCHE_KEEPER_GUARDS_H

#include "box.h"

/* Fill keeper->guards from what was found: control groups, privilege, the kernel's own word on namespaces. Walls that
 * every box is built with are enforced or the making of the box fails, so they need no guess here. */
void guards_fill(struct keeper_state *keeper);

#endif
