/* A guest's answer to a forwarded request: parsed by libhttp-parser, limited, and sent on. */
#ifndef CLOCHE_DAEMON_PREVIEW_ANSWER_H
#define CLOCHE_DAEMON_PREVIEW_ANSWER_H

#include "base/buf.h"
#include "daemon/http/framing.h"
#include "daemon/http/server.h"

#include <http_parser.h>

struct answer {
        struct http_request *request;
        const char *host; /* of the preview, to check cookies; NULL: cookies are passed unchanged */
        int is_head, wants_upgrade;
        struct framing framing;
        http_parser parser;
        struct buf headers; /* "name\0value\0" … */
        unsigned header_count, informational;
        int is_in_value;
        int is_begun, is_done, is_upgrade;
        size_t read; /* for an upgrade: parsed bytes of the last input; the rest is not HTTP */
};

void answer_init(struct answer *a, struct http_request *request, const char *host, int is_head, int wants_upgrade);
void answer_done(struct answer *a);
/* Parse *size bytes from the guest, at bytes + 1; 0 at its end of file. Chunk extensions and
 * trailers are removed: *size bytes are then at bytes. Fails with -CLOCHE_E_PROTOCOL if the answer
 * is not acceptable HTTP. */
int answer_take(struct answer *a, char *bytes, size_t *size, struct cloche_err *e);

#endif
