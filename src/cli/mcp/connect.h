/* A connection to a daemon on TCP. */
#ifndef CLOCHE_CLI_MCP_CONNECT_H
#define CLOCHE_CLI_MCP_CONNECT_H

#include "cli/sandbox/daemon-client.h"

/* url: http://HOST:PORT. The token is that of CLOCHE_TOKEN_FILE. */
CLOCHE_MUST_CHECK int mcp_connect(const char *url, struct daemon_client *ret, struct cloche_err *e);

#endif
