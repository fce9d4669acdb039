/* Find message boundaries of HTTP/1.1 with one possible reading: the strict subset of RFC 9112 that
 * all parsers treat alike. It filters input for the parsers, which are lenient: libmicrohttpd for
 * requests, libhttp-parser for a guest's answers. */
#ifndef CLOCHE_DAEMON_HTTP_FRAMING_H
#define CLOCHE_DAEMON_HTTP_FRAMING_H

#include <stddef.h>
#include <stdint.h>

/* FAULT(SYMBOL, message) */
#define FRAMING_FAULTS(FAULT)                                                                                         \
        FAULT(FIRST_LINE,                                                                                             \
              "the first line must be a verb, a target and HTTP/1.0 or HTTP/1.1, with one blank between two of them") \
        FAULT(STATUS_LINE, "the first line must be HTTP/1.0 or HTTP/1.1, a status of three digits and a reason")      \
        FAULT(LINE_END, "every line must end with CR LF, and neither may stand elsewhere")                            \
        FAULT(CONTROL, "a header must have no control characters")                                                    \
        FAULT(NAME, "the name of a header must be a token, with the colon right behind it")                           \
        FAULT(FOLDED, "a header must be on one line")                                                                 \
        FAULT(LENGTH, "Content-Length must be one decimal number")                                                    \
        FAULT(LENGTH_TWICE, "Content-Length must be there once")                                                      \
        FAULT(ENCODING, "Transfer-Encoding must be chunked")                                                          \
        FAULT(ENCODING_TWICE, "Transfer-Encoding must be there once")                                                 \
        FAULT(ENCODING_VERSION, "Transfer-Encoding needs HTTP/1.1")                                                   \
        FAULT(TWO_LENGTHS, "Transfer-Encoding must be without Content-Length")                                        \
        FAULT(HOST, "Host must be the name of one host, with or without a port")                                      \
        FAULT(HOST_TWICE, "Host must be there once")                                                                  \
        FAULT(HOST_MISSING, "the header Host is missing: send HOST:PORT of the request's URL in it")                  \
        FAULT(HEAD,                                                                                                   \
              "the first line and the headers must have at most 24 KiB, each header, cookie and argument of the "     \
              "query counted with 64 bytes more, and cookies twice")                                                  \
        FAULT(CHUNK, "the size of a chunk must be a hexadecimal number, with CR LF or ';' right behind it")           \
        FAULT(CHUNK_EXTENSION, "the extensions of a chunk must be at most 256 visible characters")                    \
        FAULT(CHUNK_END, "a chunk must be as long as its size says, and end with CR LF")                              \
        FAULT(TRAILER, "a trailer must be no header that says how long a message is or for whom, and all of them at " \
                       "most 8 KiB")

enum framing_fault {
        FRAMING_SOUND,
#define FAULT(symbol, message) FRAMING_##symbol,
        FRAMING_FAULTS(FAULT)
#undef FAULT
};

enum framing_side { FRAMING_REQUESTS, FRAMING_ANSWERS };

#define FRAMING_NAME_MAX 24
#define FRAMING_VALUE_MAX 264 /* a host name has at most 253 */
#define FRAMING_REST_MAX 24

struct framing {
        enum framing_side side;
        int is_head_request; /* answers: the request was HEAD, so no body follows */
        int state;           /* enum framing_state */
        enum framing_fault fault;
        int is_get, minor, part, is_poisoned, in_trailers, is_length, is_cookie, drops_blanks;
        unsigned status;
        uint64_t heads; /* complete and valid heads so far */
        uint64_t raw_bytes;
        int hosts, lengths, encodings, has_websocket;
        uint64_t left;   /* bytes left of a body or chunk */
        uint64_t length; /* Content-Length */
        size_t digits, extension_bytes, head_bytes, trailer_bytes;
        char word[FRAMING_NAME_MAX], value[FRAMING_VALUE_MAX];
        size_t word_size, value_size;
        char rest[FRAMING_REST_MAX]; /* output for the parser before any other */
        size_t rest_size;
};

void framing_init(struct framing *f, enum framing_side side);
/* Filter size received bytes at bytes + at into the parser's input at bytes. Chunk extensions and
 * trailers are dropped. at must be 1 if framing_holds is true. room: bytes available at bytes.
 * Returns the size of the output.
 *
 * After a fault the parser receives the end of the head, or an invalid chunk, so that it finishes
 * the request; then nothing more. */
size_t framing_filter(struct framing *f, char *bytes, size_t at, size_t size, size_t room);
/* Output that did not fit: take some of it; store bytes that the caller had no room for. */
size_t framing_rest(struct framing *f, char *bytes, size_t room);
void framing_keep(struct framing *f, const char *bytes, size_t size);
/* True if a CR is held back until its LF; both are passed together. */
int framing_holds(const struct framing *f);
/* Bytes after the head of an upgrade are not inspected. Call this when the upgrade was refused. 0:
 * the next request may follow; -1: bytes have passed already. */
int framing_resume(struct framing *f);
const char *framing_message(enum framing_fault fault);

#endif
