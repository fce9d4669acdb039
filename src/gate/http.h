/* What a guest says in HTTP/1.x, read before it goes on: every request's host is asked about, and what a server might read otherwise than we do is cut.
 * The head is parsed by http_parser, after a look at its lines that permits one reading only; bodies are counted. RFC 9112. Pure; fuzzed. */
#ifndef CLOCHE_GATE_HTTP_H
#define CLOCHE_GATE_HTTP_H

#include "policy.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HTTP_HEAD_MAX 32768

enum http_looks { HTTP_LOOKS_OTHER, HTTP_LOOKS_OPEN, HTTP_LOOKS_HTTP };
/* Of a connection's first bytes; OPEN: more are needed. is_all: none will come. */
enum http_looks http_looks(const char *bytes, size_t size, int is_all);

/* Whom a request is for. */
struct http_host {
        int is_name; /* else an address */
        char name[HOST_NAME_MAX_BYTES + 1];
        uint32_t address;
        unsigned port; /* 0: none was said */
};

struct http_face {
        /* 0, or negative with *ret_why: it is not allowed. is_tunnel: CONNECT. */
        int (*ask)(void *data, const struct http_host *host, int is_tunnel, const char **ret_why);
        void *data;
};

enum http_state { HTTP_AT_HEAD, HTTP_IN_BODY, HTTP_IN_CHUNKS, HTTP_IS_SWITCHING, HTTP_IS_SWITCHED, HTTP_IS_CUT };

struct http {
        enum http_state state;
        uint64_t body_left;
        unsigned chunk_state, trailer_size;
        unsigned requests;
        int is_tunnel;                           /* HTTP_IS_SWITCHING: by CONNECT, to */
        struct http_host target;
};

/* How many of the bytes may go on, in order: those behind are to be given again, with what follows them. Negative with *ret_why: cut the
 * connection. */
ssize_t http_read(struct http *http, const char *bytes, size_t size, const struct http_face *face, const char **ret_why);

/* In HTTP_IS_SWITCHING nothing goes on until the server has answered: its first bytes. 1 it has switched, 0 it has not and requests go on,
 * -1 more are needed. */
int http_answer(struct http *http, const char *bytes, size_t size);

/* HOST or HOST:PORT. 0 or -1. */
int http_host_parse(const char *text, size_t size, struct http_host *ret);

#endif
