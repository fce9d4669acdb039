/* Operations over HTTP: a request is a client that asks once. Errors, as all of HTTP says them. */
#ifndef CLOCHE_DAEMON_WEB_ASK_H
#define CLOCHE_DAEMON_WEB_ASK_H

#include "client.h"
#include "http/server.h"

/* What the path says is added to what the body says. */
void web_ask_begin(struct daemon *d, struct http_request *request, int64_t principal, int peer_fd, const struct operation *operation, const json_t *from_path);

void web_refuse(struct http_request *request, const struct cloche_err *e);
/* data: further members of the error, stolen, or NULL. */
void web_refuse_with(struct http_request *request, unsigned status, const struct cloche_err *e, json_t *data);
unsigned web_status(const struct cloche_err *e);
/* {"error": …} as text, owned by the caller; NULL without memory. data as above. */
char *web_error_text(const struct cloche_err *e, json_t *data);
/* An object as the whole answer; stolen. */
void web_answer(struct http_request *request, unsigned status, json_t *object);

#endif
