/* Sandboxes as the API describes them. All return a new reference, NULL without memory. described: as sandbox.get
 * returns it. */
#ifndef CLOCHE_DAEMON_E2B_SANDBOX_H
#define CLOCHE_DAEMON_E2B_SANDBOX_H

#include "internal.h"

json_t *e2b_describe_access(const struct e2b_request *q, const json_t *described); /* Sandbox */
json_t *e2b_describe(const struct e2b_request *q, const json_t *described);        /* ListedSandbox */
json_t *e2b_describe_in_detail(const struct e2b_request *q, const json_t *described);

#endif
