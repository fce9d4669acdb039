/* Operations over HTTP: each request is a client with one operation. Also all HTTP errors. */
#ifndef CLOCHE_DAEMON_WEB_REQUEST_H
#define CLOCHE_DAEMON_WEB_REQUEST_H

#include "daemon/core/client.h"
#include "daemon/http/server.h"

/* Begin a request. Its parameters are those of the path and of the body. */
void web_request_begin(struct daemon *d, struct http_request *request, int64_t principal, int peer_fd,
                       const struct operation *operation, const json_t *from_path);

void web_refuse(struct http_request *request, const struct cloche_err *e);
/* data: further members of the error, stolen, or NULL. */
void web_refuse_with(struct http_request *request, unsigned status, const struct cloche_err *e, json_t *data);
unsigned web_status(const struct cloche_err *e);
/* Send an object as the whole answer; stolen. */
void web_answer(struct http_request *request, unsigned status, json_t *object);

#endif
