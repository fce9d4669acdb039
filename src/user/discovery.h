/* Errors of the search for a daemon. Runs in: the CLI, cloched; as the user who started them. */
#ifndef CLOCHE_USER_DISCOVERY_H
#define CLOCHE_USER_DISCOVERY_H

#include <cloche/error.h>

enum discovery_fault {
#define DISCOVERY_FAULT(symbol, code, text) DISCOVERY_##symbol,
#include <cloche/discovery-faults.def>
#undef DISCOVERY_FAULT
};

/* Set the error in the words of its row, filled in with about and more, NULL: none. Returns its
 * code, negative. */
int discovery_fault(struct cloche_err *e, enum discovery_fault fault, const char *about, const char *more);

#endif
