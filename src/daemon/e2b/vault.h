/* Secrets of the API's clients. */
#ifndef CLOCHE_DAEMON_E2B_VAULT_H
#define CLOCHE_DAEMON_E2B_VAULT_H

#include "sandbox.h"

/* The text with values in the place of ${e2b.secrets.NAME}; a new reference. NULL: e
 * says why, without a value. */
json_t *e2b_secrets_fill(const struct daemon *d, const char *text, struct cloche_err *e);

#endif
