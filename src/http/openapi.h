/* The OpenAPI 3.1 document, made of the table of operations. Pure. */
#ifndef CLOCHE_HTTP_OPENAPI_H
#define CLOCHE_HTTP_OPENAPI_H

#include <jansson.h>

/* A new reference; NULL without memory. */
json_t *openapi_document(void);

#endif
