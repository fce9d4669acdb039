/* POST /api/read/stream: a file as a stream of events, piece by piece. Runs in: cloched-engine, on
 * its loop, with the rights of the daemon's user. */
#include "internal.h"

#include "wire/base64.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES 65535u /* of one event; a multiple of three, for base64 */
#define PIECE_BYTES (16 * CHUNK_BYTES)

/* A file that is sent piece by piece, as fast as the client reads. */
struct reading {
        json_int_t total, offset;
        struct container_utf8 utf8;
        int is_binary, has_begun, is_waiting; /* until the client has read */
};

static void next(struct container_request *q);

static void failed(struct container_request *q, const struct door_reply *reply)
{
        const struct reading *reading = q->state;

        if (!reading->has_begun) {
                container_fail(q, reply);
                return;
        }
        container_line(q, json_pack("{s:s, s:o}", "type", "error", "error", container_words(reply->e->msg)));
        container_end(q);
}

/* Decide by the first bytes. */
static int is_binary(const char *bytes, size_t size, int is_all)
{
        return memchr(bytes, '\0', size) || !container_is_utf8(bytes, size, !is_all);
}

static void begin(struct container_request *q, const struct door_reply *reply, const char *bytes, size_t size)
{
        struct reading *reading = q->state;
        json_t *mime = json_object_get(reply->result, "mimeType");

        reading->total = json_integer_value(json_object_get(reply->result, "total"));
        reading->is_binary = is_binary(bytes, size, (json_int_t)size >= reading->total);
        reading->has_begun = 1;
        container_begin(q);
        container_line(q, json_pack("{s:s, s:O?, s:I, s:b, s:s}", "type", "metadata", "mimeType", mime, "size",
                                    reading->total, "isBinary", reading->is_binary, "encoding",
                                    reading->is_binary ? "base64" : "utf-8"));
}

/* -1: the file is not text after all; stop. */
static int chunk(struct container_request *q, const char *bytes, size_t size, int is_last)
{
        _cleanup_buf_ struct buf text = BUF_INIT(SIZE_MAX / 2);
        struct reading *reading = q->state;
        struct container_utf8 ahead = reading->utf8;
        int r;

        if (reading->is_binary) {
                r = base64_encode(&text, bytes, size);
        } else {
                r = container_utf8_append(&reading->utf8, bytes, size, is_last, &text);
                /* Each input byte is in the output or held: else some were replaced. */
                if (r == 0 && text.size + reading->utf8.held_size != size + ahead.held_size)
                        r = -1;
        }
        if (r < 0)
                return -1;
        if (text.size > 0)
                container_line(q, json_pack("{s:s, s:s%}", "type", "chunk", "data", text.data, text.size));
        reading->offset += (json_int_t)size;
        return 0;
}

static void no_text(struct container_request *q)
{
        const struct reading *reading = q->state;

        container_line(q, json_pack("{s:s, s:o}", "type", "error", "error",
                                    json_sprintf("the file began as text, but is none behind byte %lld; read it with "
                                                 "the encoding base64",
                                                 (long long)reading->offset)));
        container_end(q);
}

static void was_read(struct container_request *q, const struct door_reply *reply)
{
        struct reading *reading = q->state;
        const char *bytes = "";
        size_t size = 0;
        int is_last;

        (void)door_bytes(json_object_get(reply->result, "content"), reply->attachments, &bytes, &size);
        if (!reading->has_begun)
                begin(q, reply, bytes, size);
        is_last = size == 0 || reading->offset + (json_int_t)size >= reading->total;
        for (size_t at = 0; at < size; at += CHUNK_BYTES) {
                size_t n = size - at < CHUNK_BYTES ? size - at : CHUNK_BYTES;

                if (chunk(q, bytes + at, n, is_last && at + n == size) < 0) {
                        no_text(q);
                        return;
                }
        }
        if (is_last) {
                container_line(q, json_pack("{s:s, s:I}", "type", "complete", "bytesRead", reading->offset));
                container_end(q);
                return;
        }
        reading->is_waiting = container_is_full(q);
        if (!reading->is_waiting)
                next(q);
}

static void on_room(struct container_request *q)
{
        struct reading *reading = q->state;

        if (!reading->is_waiting)
                return;
        reading->is_waiting = 0;
        next(q);
}

static void next(struct container_request *q)
{
        const struct reading *reading = q->state;

        q->fail = failed;
        container_call(q, "file.read",
                       json_pack("{s:o, s:I, s:i}", "path", container_path(q, "path"), "offset", reading->offset,
                                 "limit", PIECE_BYTES),
                       NULL, was_read);
}

void container_read_stream(struct container_request *q)
{
        q->state = calloc(1, sizeof(struct reading));
        q->state_done = free;
        q->on_room = on_room;
        if (q->state)
                next(q);
        else
                container_refuse(q, CONTAINER_INTERNAL_ERROR, q->route->failed, NULL, "out of memory");
}
