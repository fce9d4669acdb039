/* A body of multipart/form-data (RFC 7578) in pieces, by libmicrohttpd. */
#ifndef CLOCHE_DAEMON_HTTP_FORM_H
#define CLOCHE_DAEMON_HTTP_FORM_H

#include <stddef.h>
#include <stdint.h>

struct http_form;
struct http_request;

struct http_form_handler {
        /* A piece of a part. file_name: NULL: the part states none. offset: 0 begins the part.
         * Nonzero ends the parsing. */
        int (*on_piece)(void *data, const char *name, const char *file_name, uint64_t offset, const char *bytes,
                        size_t size);
};

/* NULL: the body of the request is no form, or no memory. handler and data must live as long as
 * the form. */
struct http_form *http_form_new(const struct http_request *request, const struct http_form_handler *handler,
                                void *data);
/* 0, or -1: the body is malformed, or on_piece ended it. */
int http_form_feed(struct http_form *form, const void *bytes, size_t size);
/* Accepts NULL. Returns 0 if the body was complete. */
int http_form_free(struct http_form *form);

#endif
