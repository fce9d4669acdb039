/* The parts of a message on ZeroMQ: identities, "<IDS|MSG>", signature, four JSON texts, buffers.
 * Pure; anyone who reaches the port sends them. */
#ifndef CLOCHE_JUPYTER_KERNEL_FRAMES_H
#define CLOCHE_JUPYTER_KERNEL_FRAMES_H

#include "base/buf.h"
#include "jupyter/jupyter.h"

#include <cloche/error.h>

#define FRAMES_MAX 64
#define FRAMES_JSON 4                 /* header, parent, metadata, content */
#define FRAMES_SIGNATURE_SIZE 65      /* hex, with its NUL */
#define FRAMES_REPLAY_MAX 65536       /* signatures that are remembered */
#define FRAMES_BYTES_MAX (32u << 20)  /* of a part */
#define FRAMES_HEADER_MAX (64u << 10) /* of a header, which each message for the request repeats */

struct frames_part {
        const void *data;
        size_t size;
};

/* The key of the connection file and the signatures that were seen. */
struct frames_key {
        char *key; /* "": messages are not signed */
        size_t size;
        struct replay *replay;
};

int frames_key_init(struct frames_key *key, const char *text);
void frames_key_done(struct frames_key *key);

struct frames_message {
        unsigned char address[JUPYTER_ADDRESS_BYTES]; /* the identities, each with its size before it */
        size_t address_size;
        json_t *header, *content; /* owned */
        size_t size;              /* of their texts */
};

/* Check the signature, refuse one that was seen before, and load header and content.
 * -CLOCHE_E_FORBIDDEN: the signature; other errors: the form. */
CLOCHE_MUST_CHECK int frames_parse(struct frames_key *key, const struct frames_part *parts, size_t count,
                                   struct frames_message *ret, struct cloche_err *e);
void frames_message_done(struct frames_message *m);

/* The signature of four texts; "" without a key. */
void frames_sign(const struct frames_key *key, const struct frames_part texts[FRAMES_JSON],
                 char ret[FRAMES_SIGNATURE_SIZE]);
/* The next identity of an address; NULL: there are no more. *at begins with 0. */
const void *frames_identity(const void *address, size_t size, size_t *at, size_t *ret_size);

#endif
