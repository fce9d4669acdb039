/* Inspect a guest's HTTP/1.x before it passes. Every request's host is checked, and a request that
 * a server might read otherwise than we do closes the connection. http_parser parses the head after
 * a check that its lines permit one reading only; bodies are counted. RFC 9112. Pure; fuzzed. */
#ifndef CLOCHE_HELPERS_EGRESS_READ_HTTP_H
#define CLOCHE_HELPERS_EGRESS_READ_HTTP_H

#include "policy.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HTTP_HEAD_MAX 32768

enum http_guess { HTTP_GUESS_OTHER, HTTP_GUESS_OPEN, HTTP_GUESS_HTTP };
/* Classify a connection's first bytes; OPEN: more are needed. is_all: none will follow. */
enum http_guess http_guess(const char *bytes, size_t size, int is_all);

/* The destination of a request. */
struct http_host {
        int is_name; /* otherwise an address */
        char name[HOST_NAME_MAX_BYTES + 1];
        uint32_t address;
        unsigned port; /* 0: not given */
};

struct http_face {
        /* 0, or negative with *ret_why: not allowed. is_tunnel: CONNECT. */
        int (*check_host)(void *data, const struct http_host *host, int is_tunnel, const char **ret_why);
        /* After a head's hosts. 1: the head is to be changed: http_read() returns behind
         * it, and edit_size is its size. 0: it passes. Negative with *ret_why: not
         * allowed. NULL: all pass. */
        int (*check_head)(void *data, int is_trace, const char **ret_why);
        void *data;
};

enum http_state { HTTP_AT_HEAD, HTTP_IN_BODY, HTTP_IN_CHUNKS, HTTP_IS_SWITCHING, HTTP_IS_SWITCHED, HTTP_IS_CUT };

struct http {
        enum http_state state;
        uint64_t body_left;
        unsigned chunk_state, trailer_size;
        unsigned requests;
        int is_tunnel;    /* HTTP_IS_SWITCHING: by CONNECT, to target */
        size_t edit_size; /* of the head that ends the bytes which may pass; 0: it passes as it is */
        struct http_host target;
};

/* Return how many bytes may pass, in order; the rest is passed in again with later data. Negative
 * with *ret_why: close the connection. */
ssize_t http_read(struct http *http, const char *bytes, size_t size, const struct http_face *face,
                  const char **ret_why);

/* In HTTP_IS_SWITCHING nothing passes until the server has answered. bytes: the start of its
 * answer. 1: switched; 0: refused, requests continue; -1: more bytes are needed. */
int egress_http_answer(struct http *http, const char *bytes, size_t size);

/* HOST or HOST:PORT. 0 or -1. */
int http_host_parse(const char *text, size_t size, struct http_host *ret);

#endif
