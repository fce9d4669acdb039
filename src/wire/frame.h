/* Frames: u32 length · u32 json_length · JSON · attachments, little endian (spec/values.md).
 * Pure. */
#ifndef CLOCHE_WIRE_FRAME_H
#define CLOCHE_WIRE_FRAME_H

#include "base/buf.h"

#include <cloche/error.h>
#include <sys/types.h>

#define FRAME_BYTES_MAX (1u << 30)
#define FRAME_JSON_BYTES_MAX (256u << 20)

struct frame {
        const char *json; /* not terminated */
        size_t json_size;
        const unsigned char *attachments;
        size_t attachments_size;
};

/* Return the size of the frame at the start of bytes, or 0: it is incomplete. The views in *ret
 * are of bytes. Errors as frame_reader_next; they need only the frame's head. */
ssize_t frame_parse(const char *bytes, size_t size, size_t max_bytes, struct frame *ret, struct cloche_err *e);

/* Collects bytes of a stream and splits them into frames; never holds more than max_bytes and
 * one read. */
struct frame_reader {
        struct buf in;
        size_t max_bytes; /* of one frame, counted as its length is: without the length itself */
        size_t read;      /* bytes of earlier frames; the next read reuses their room */
        size_t given;     /* bytes of the last returned frame, which is valid until the next call */
};

void frame_reader_init(struct frame_reader *r, size_t max_bytes);
void frame_reader_done(struct frame_reader *r);
/* Another maximum from the next frame on. */
void frame_reader_limit(struct frame_reader *r, size_t max_bytes);

/* Return the place for the next bytes of the stream, and its size; NULL without memory. */
char *frame_reader_room(struct frame_reader *r, size_t *ret_size);
/* Call it after putting size bytes there. */
void frame_reader_filled(struct frame_reader *r, size_t size);

/* Number of bytes of an incomplete frame. */
size_t frame_reader_pending(const struct frame_reader *r);

/* 1: *ret is a frame, its views valid until the next call on r. 0: more bytes are needed.
 * -CLOCHE_E_TOO_LARGE, -CLOCHE_E_PROTOCOL: the stream cannot be read any further. */
int frame_reader_next(struct frame_reader *r, struct frame *ret, struct cloche_err *e);

/* Append a frame to out. -CLOCHE_E_TOO_LARGE over a hard maximum or that of out,
 * -CLOCHE_E_RESOURCE. */
int frame_build(struct buf *out, const char *json, size_t json_size, const void *attachments, size_t attachments_size,
                struct cloche_err *e);

#endif
