/* The MCP API (docs/mcp.md): messages of the Model Context Protocol, translated to the operations
 * of spec/sandbox.def. One handler serves POST /mcp and the operation mcp, by which the command
 * line serves standard input and output. */
#ifndef CLOCHE_DAEMON_MCP_MCP_H
#define CLOCHE_DAEMON_MCP_MCP_H

#include "daemon/core/client.h"
#include "daemon/core/daemon.h"

#include <jansson.h>

struct http_request;

/* Call it before the first request. */
int mcp_start(struct daemon *d, struct cloche_err *e);
/* Call it after the last request has ended and before the sandboxes are freed. Accepts an API
 * that was not started. */
void mcp_stop(struct daemon *d);

/* The daemon is about to end: streams without a request end. */
void mcp_leave(struct daemon *d);

/* True if the path is that of this API, and the daemon serves it over HTTP. */
int mcp_is_path(const struct daemon *d, const char *path);
/* Answer a request that was refused before it came here. */
void mcp_refuse_request(struct http_request *request, unsigned status, const struct cloche_err *e);
/* Handle a complete request, whose sender was admitted. It is answered now or later. */
void mcp_handle(struct daemon *d, struct http_request *request, int64_t principal);

/* The operation mcp: one message. */
int mcp_operate(const struct client_request *request, json_t **ret, struct cloche_err *e);

#endif
