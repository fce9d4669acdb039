/* Authentication: the token, TLS, the users of unix sockets. */
#ifndef CLOCHE_DAEMON_CORE_AUTH_H
#define CLOCHE_DAEMON_CORE_AUTH_H

#include "options.h"

#include <jansson.h>

/* Read the token, or make it. Call it before privileges are dropped. */
int auth_load_token(struct daemon_options *o, struct cloche_err *e);
/* Read the certificate and its key; only root may read the key. */
int auth_load_tls(struct daemon_options *o, struct cloche_err *e);
/* Compare in constant time. */
int auth_is_token(const struct daemon_options *o, const json_t *token);
int auth_is_token_text(const struct daemon_options *o, const char *token, size_t size);

/* Get the user at the other end of a unix socket, if that user is permitted. own_uid: the user who
 * started the daemon. */
int auth_peer(const struct daemon_options *o, int fd, uid_t own_uid, int64_t *ret_principal, struct cloche_err *e);

#endif
