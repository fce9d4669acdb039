/* Who may ask. */
#ifndef CLOCHE_DAEMON_AUTH_H
#define CLOCHE_DAEMON_AUTH_H

#include "options.h"

#include <jansson.h>

/* Read the token, or make it; before privilege goes. */
int auth_load_token(struct daemon_options *o, struct cloche_err *e);
/* The certificate and its key, of which only root may read the latter. */
int auth_load_tls(struct daemon_options *o, struct cloche_err *e);
/* In constant time. */
int auth_is_token(const struct daemon_options *o, const json_t *token);
int auth_is_token_text(const struct daemon_options *o, const char *token, size_t size);

/* Who is at the other end of a unix socket. own_uid: who started the daemon. */
int auth_peer(const struct daemon_options *o, int fd, uid_t own_uid, int64_t *ret_principal, struct cloche_err *e);

#endif
