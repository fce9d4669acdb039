/* The protections that this host and this keeper can give. */
#ifndef CLOCHE_KEEPER_GUARDS_H
#define CLOCHE_KEEPER_GUARDS_H

#include "box.h"

/* Fill keeper->guards from the findings: control groups, privilege, the kernel's
 * results for namespaces. Walls that every box is built with need no guess here: making
 * the box fails without them. */
void guards_fill(struct keeper_state *keeper);

#endif
