/* A scope of the service manager for this keeper, by the helper program cloche-scope. */
#ifndef CLOCHE_KEEPER_SCOPE_H
#define CLOCHE_KEEPER_SCOPE_H

#include <cloche/error.h>

/* Request that the service manager moves this process into a delegated scope; a
 * cgroup_request_scope.
 * data    const char *: the path of box-init, beside which cloche-scope lies.
 * Errors  CLOCHE_E_NOT_FOUND: no service manager serves this user; _CGROUP: it refused, or did not
 *         answer in time. */
int scope_request(const void *data, struct cloche_err *e);

#endif
