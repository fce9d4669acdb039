/* Runs in: every program that sends or receives frames. */
#include "frame.h"

#include "base/err.h"

#include <errno.h>
#include <string.h>

#define LENGTH_SIZE 4
#define HEAD_SIZE 8
#define READ_SIZE 65536

static uint32_t get_u32(const char *at)
{
        const unsigned char *b = (const unsigned char *)at;

        return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static void put_u32(char *at, uint32_t value)
{
        for (int i = 0; i < 4; i++)
                at[i] = (char)(value >> (8 * i));
}

void frame_reader_init(struct frame_reader *r, size_t max_bytes)
{
        *r = (struct frame_reader){.max_bytes = max_bytes < FRAME_BYTES_MAX ? max_bytes : FRAME_BYTES_MAX};
        r->in = BUF_INIT(r->max_bytes + HEAD_SIZE + READ_SIZE);
}

void frame_reader_limit(struct frame_reader *r, size_t max_bytes)
{
        size_t room;

        r->max_bytes = max_bytes < FRAME_BYTES_MAX ? max_bytes : FRAME_BYTES_MAX;
        room = r->max_bytes + HEAD_SIZE + READ_SIZE;
        r->in.max = room > r->in.size ? room : r->in.size;
}

void frame_reader_done(struct frame_reader *r)
{
        buf_done(&r->in);
}

/* Consumed bytes are moved once for all frames that arrived together. */
static void drop_read(struct frame_reader *r)
{
        buf_consume(&r->in, r->read + r->given);
        r->read = r->given = 0;
}

char *frame_reader_room(struct frame_reader *r, size_t *ret_size)
{
        size_t left;

        drop_read(r);
        /* The first bytes of a frame must not double the buffer: realloc(3) would copy all of
         * it. */
        left = r->in.room - r->in.size;
        *ret_size = left >= READ_SIZE / 2 && left < READ_SIZE ? left : READ_SIZE;
        return buf_reserve(&r->in, *ret_size);
}

void frame_reader_filled(struct frame_reader *r, size_t size)
{
        r->in.size += size;
}

size_t frame_reader_pending(const struct frame_reader *r)
{
        return r->in.size - r->read - r->given;
}

ssize_t frame_parse(const char *bytes, size_t size, size_t max_bytes, struct frame *ret, struct cloche_err *e)
{
        uint32_t length, json_size;

        if (size < LENGTH_SIZE)
                return 0;
        length = get_u32(bytes);
        /* Checked before the rest arrives: we neither wait nor make room for a frame with a
         * false length. */
        if (length < HEAD_SIZE - LENGTH_SIZE)
                return err_set(e, CLOCHE_E_PROTOCOL, "a frame of length %u, expected at least 4", length);
        if (length > max_bytes)
                return err_set(e, CLOCHE_E_TOO_LARGE, "a frame of %u bytes, at most %zu are accepted", length,
                               max_bytes);
        if (size < HEAD_SIZE)
                return 0;
        json_size = get_u32(bytes + LENGTH_SIZE);
        if (json_size > length - LENGTH_SIZE)
                return err_set(e, CLOCHE_E_PROTOCOL, "a frame of %u bytes says its JSON has %u, expected at most %u",
                               length, json_size, length - LENGTH_SIZE);
        if (json_size > FRAME_JSON_BYTES_MAX)
                return err_set(e, CLOCHE_E_TOO_LARGE, "a frame with %u bytes of JSON, at most %u are accepted",
                               json_size, FRAME_JSON_BYTES_MAX);
        if (size < (size_t)length + LENGTH_SIZE)
                return 0;
        *ret = (struct frame){
                .json = bytes + HEAD_SIZE,
                .json_size = json_size,
                .attachments = (const unsigned char *)bytes + HEAD_SIZE + json_size,
                .attachments_size = length - LENGTH_SIZE - json_size,
        };
        return (ssize_t)length + LENGTH_SIZE;
}

int frame_reader_next(struct frame_reader *r, struct frame *ret, struct cloche_err *e)
{
        ssize_t n;

        r->read += r->given;
        r->given = 0;
        if (r->in.size == r->read)
                return 0;
        n = frame_parse(r->in.data + r->read, r->in.size - r->read, r->max_bytes, ret, e);
        r->given = n > 0 ? (size_t)n : 0;
        return n > 0 ? 1 : (int)n;
}

int frame_build(struct buf *out, const char *json, size_t json_size, const void *attachments, size_t attachments_size,
                struct cloche_err *e)
{
        size_t total;
        char *at;

        if (json_size > FRAME_JSON_BYTES_MAX || attachments_size > FRAME_BYTES_MAX ||
            json_size + attachments_size > FRAME_BYTES_MAX - HEAD_SIZE)
                return err_set(e, CLOCHE_E_TOO_LARGE, "a message of %zu and %zu bytes, at most %u and %u are sent",
                               json_size, attachments_size, FRAME_JSON_BYTES_MAX, FRAME_BYTES_MAX);
        total = HEAD_SIZE + json_size + attachments_size;
        at = buf_reserve(out, total);
        if (!at)
                return total > out->max - out->size
                               ? err_set(e, CLOCHE_E_TOO_LARGE, "a message of %zu bytes, there is room for %zu", total,
                                         out->max - out->size)
                               : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "hold a message of %zu bytes", total);
        put_u32(at, (uint32_t)(total - LENGTH_SIZE));
        put_u32(at + LENGTH_SIZE, (uint32_t)json_size);
        memcpy(at + HEAD_SIZE, json, json_size);
        if (attachments_size)
                memcpy(at + HEAD_SIZE + json_size, attachments, attachments_size);
        out->size += total;
        return 0;
}
