/* Hand-written text: JSON, the tagged forms, and back. Accepted text must be sound and come back the same. */
#include "wire/json.h"
#include "wire/value.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_buf_ struct buf attachments = BUF_INIT(1 << 20);
        json_t *value = NULL, *framed = NULL, *text = NULL;
        struct cloche_err e;

        if (json_load_human((const char *)data, size, &value, &e) < 0)
                return 0;
        if (value_text_to_frame(value, &attachments, &framed, &e) == 0) {
                if (value_check(framed, attachments.size, &e) < 0 ||
                    value_frame_to_text(framed, attachments.data, attachments.size, &text, &e) < 0 ||
                    !json_equal(text, value))
                        abort();
                json_decref(text);
                json_decref(framed);
        }
        json_decref(value);
        return 0;
}
