/* The OpenAPI 3.1 document, generated from the table of operations. Pure. */
#ifndef CLOCHE_DAEMON_HTTP_OPENAPI_H
#define CLOCHE_DAEMON_HTTP_OPENAPI_H

#include <jansson.h>

/* A new reference; NULL when out of memory. */
json_t *openapi_document(void);

#endif
