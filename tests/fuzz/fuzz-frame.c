/* The stream of a guest's channel: frames, then messages, then values, as the engine reads them. */
#include "wire/frame.h"
#include "wire/rpc.h"
#include "wire/value.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_at(const struct frame *frame)
{
        struct rpc_message m;
        struct cloche_err e;
        json_t *text = NULL;

        if (rpc_parse(frame, &m, &e) < 0)
                return;
        if (m.result && value_frame_to_text(m.result, frame->attachments, frame->attachments_size, &text, &e) == 0)
                json_decref(text);
        rpc_message_done(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct frame_reader reader;
        struct frame frame;
        struct cloche_err e;
        size_t piece = size ? data[0] % 64 + 1u : 1;
        int r = 0;

        frame_reader_init(&reader, 1 << 16);
        for (size_t at = size ? 1 : 0; r >= 0 && at < size; at += piece) {
                size_t room, n = size - at < piece ? size - at : piece;

                memcpy(frame_reader_room(&reader, &room), data + at, n);
                frame_reader_filled(&reader, n);
                while ((r = frame_reader_next(&reader, &frame, &e)) == 1)
                        look_at(&frame);
        }
        frame_reader_done(&reader);
        return 0;
}
