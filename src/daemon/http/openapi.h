/* The OpenAPI 3.1 document of all operations, JSON text. tools/spec writes the C file at build
 * time. */
#ifndef CLOCHE_DAEMON_HTTP_OPENAPI_H
#define CLOCHE_DAEMON_HTTP_OPENAPI_H

extern const char openapi_document[];

#endif
