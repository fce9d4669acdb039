/* Filter every byte that libmicrohttpd reads from its connections through framing.h.
 *
 * libmicrohttpd accepts heads that other parsers read otherwise: a lone CR or LF as a line end,
 * continuation lines, Content-Length twice. It has no option against that (0.9.75) and no hook
 * before its parser. So the program defines the two functions through which it reads, recv and
 * gnutls_record_recv: the dynamic linker prefers the program's definitions for every library. A
 * relay in front would cost two more descriptors, two copies of every byte, and our own TLS. */
#ifndef CLOCHE_DAEMON_HTTP_INTAKE_H
#define CLOCHE_DAEMON_HTTP_INTAKE_H

#include "server-internal.h"

/* Register the connection; libmicrohttpd owns the descriptor from now on. 0 or -ENOMEM. */
int intake_add(struct http_connection *connection);
void intake_remove(const struct http_connection *connection);
/* Record progress in this turn: a request, an answer, or a part of one. */
void intake_progress(void);
/* True if libmicrohttpd only waited for handshakes since the last call. It then requests an
 * immediate next run, without end (0.9.75). */
int intake_only_waited(void);

#endif
