/* What a guest answers to a request that was passed on: parsed by libhttp-parser, bounded, and said to whoever asked. */
#ifndef CLOCHE_DAEMON_PREVIEW_ANSWER_H
#define CLOCHE_DAEMON_PREVIEW_ANSWER_H

#include "base/buf.h"
#include "http/framing.h"
#include "http/server.h"

#include <http_parser.h>

struct answer {
        struct http_request *request;
        const char *host; /* of the preview, for cookies; NULL: they are passed on as they are */
        int is_head, wants_upgrade;
        struct framing framing;
        http_parser parser;
        struct buf headers; /* "name\0value\0" … */
        unsigned header_count, informational;
        int is_in_value;
        int is_begun, is_done, is_upgrade;
        size_t read; /* of what was given last, when it is an upgrade: the rest is no HTTP */
};

void answer_init(struct answer *a, struct http_request *request, const char *host, int is_head, int wants_upgrade);
void answer_done(struct answer *a);
/* *size bytes of the guest, at bytes + 1; 0 for its end. Extensions of chunks and trailers are left out: *size bytes are then at
 * bytes. -CLOCHE_E_PROTOCOL: it is no answer of HTTP that is taken. */
int answer_take(struct answer *a, char *bytes, size_t *size, struct cloche_err *e);

#endif
