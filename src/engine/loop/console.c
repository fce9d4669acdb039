/* Runs in: the engine. All input comes from an agent that may be hijacked. */
#include "console.h"

#include "base/err.h"
#include "base/fd.h"
#include "engine.h"
#include "wire/value.h"

#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A run may have no output limit, and lines may be empty, so the memory for lines has its own
 * bound. */
#define LINE_FORM_BYTES 64
#define MEMORY_BYTES_MAX (256ull << 20)

/* text: the line, or its readable part; exact: the value of a line that is not Unicode, or NULL.
 * Both are stolen. A line that would cross the limit is dropped whole, and counted. An empty line
 * counts as a byte. exact_size: in units of 16 bits. */
static int keep_line(struct cloche_run *run, int i, json_t *text, json_t *exact, size_t exact_size,
                     struct cloche_err *e)
{
        size_t size = json_string_length(text), taken = size > exact_size ? size : exact_size > 0 ? exact_size : 1;
        uint64_t memory = size + 2 * exact_size + LINE_FORM_BYTES;
        int r = 0;

        run->console[i].total += size;
        if (run->console[i].kept + taken <= run->limits.output_bytes &&
            run->console[i].memory + memory <= MEMORY_BYTES_MAX) {
                run->console[i].kept += taken;
                run->console[i].memory += memory;
                if (run->on_output) {
                        run->on_output(run->data, run, i + 1, json_string_value(text), size);
                        run->on_output(run->data, run, i + 1, "\n", 1);
                }
                r = json_array_append(run->console[i].lines, exact ? exact : text);
        }
        json_decref(text);
        json_decref(exact);
        return r < 0 ? err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "keep a line") : 0;
}

static int keep_one(struct cloche_run *run, const json_t *params, const struct frame *f, struct cloche_err *e)
{
        const char *stream = json_string_value(json_object_get(params, "stream"));
        json_t *text = json_object_get(params, "text"), *exact = json_object_get(params, "exact"), *line = NULL;
        int i = stream && strcmp(stream, "stderr") == 0, r;

        if (!stream || (!i && strcmp(stream, "stdout") != 0) || !json_is_string(text))
                return err_set(e, CLOCHE_E_PROTOCOL, "a line of the console must have a stream and a text");
        r = exact ? value_read(exact, VALUE_FRAME, f->attachments, f->attachments_size, &line, e) : 0;
        /* The whole message counts, for the value may be no text at all. */
        return r < 0 ? r
                     : keep_line(run, i, json_incref(text), line, exact ? (f->attachments_size + f->json_size) / 2 : 0,
                                 e);
}

/* Format of a line: its size times 2, plus 1 for stderr, in 32 bits; its text. */
static int keep_many(struct cloche_run *run, const void *lines, size_t size, struct cloche_err *e)
{
        const char *data = lines;

        for (size_t at = 0; at < size;) {
                uint32_t head;
                json_t *text = NULL;
                int r;

                if (size - at >= sizeof(head)) {
                        memcpy(&head, data + at, sizeof(head));
                        head = le32toh(head);
                        at += sizeof(head);
                        if (head / 2 <= size - at)
                                text = json_stringn(data + at, head / 2);
                }
                if (!text)
                        return err_set(e, CLOCHE_E_PROTOCOL, "lines of the console that are cut off, or no UTF-8");
                at += head / 2;
                r = keep_line(run, head & 1, text, NULL, 0, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

int console_receive(struct cloche_run *run, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        const json_t *number = json_object_get(m->params, "number");

        if (strcmp(m->method, "console") == 0)
                return keep_one(run, m->params, f, e);
        if (!number) /* their memory was sent along (channel.c) */
                return 0;
        run->lines_number = json_integer_value(number);
        return keep_many(run, f->attachments, f->attachments_size, e);
}

/* The memory is read, not mapped: bytes cut off or changed meanwhile are at worst an invalid line.
 * The agent writes the size after the lines, so all of them are whole. */
void console_take_rest(struct cloche_run *run)
{
        struct {
                uint32_t number, size; /* size of lines; number of the message that would have them */
                char lines[CHANNEL_MEMORY_BYTES_MAX];
        } * rest;
        size_t size;
        ssize_t n;

        if (!run->channel.takes || run->channel.received_fd < 0)
                return;
        rest = calloc(1, sizeof(*rest));
        n = rest ? pread(run->channel.received_fd, rest, sizeof(*rest), 0) : -1;
        size = n < (ssize_t)offsetof(typeof(*rest), lines) ? 0 : le32toh(rest->size);
        /* With an older number they were sent, and the process ended before it could mark that. */
        if (size > 0 && (json_int_t)le32toh(rest->number) > run->lines_number &&
            size <= (size_t)n - offsetof(typeof(*rest), lines))
                (void)keep_many(run, rest->lines, size, NULL);
        free(rest);
}
