/* Every byte libmicrohttpd reads of its connections goes through framing.h first.
 *
 * It takes heads that others read otherwise (a lone CR or LF for an end of a line, continuation lines, Content-Length twice), and has neither an option against
 * that (0.9.75) nor a place before its parser. So the program defines the two functions by which it reads, recv and gnutls_record_recv: the dynamic linker takes
 * those of the program for every library's. A relay of our own before it would cost two more descriptors and two copies of every byte, and a TLS of our own. */
#ifndef CLOCHE_HTTP_INTAKE_H
#define CLOCHE_HTTP_INTAKE_H

#include "server-internal.h"

/* The connection's descriptor is libmicrohttpd's from now on. 0 or -ENOMEM. */
int intake_add(struct http_connection *connection);
void intake_remove(const struct http_connection *connection);
/* Something came of a turn: a request, an answer, a part of one. */
void intake_progress(void);
/* Whether all that libmicrohttpd did since it was asked last was to wait for handshakes: it has itself called again at once then, without end (0.9.75). */
int intake_only_waited(void);

#endif
