/* Texts and values of a guest, as front ends get them. Pure. */
#ifndef CLOCHE_JUPYTER_TEXT_H
#define CLOCHE_JUPYTER_TEXT_H

#include "base/buf.h"

#include <jansson.h>

/* A stream of text in pieces: characters and control sequences that a piece ends within are kept
 * until the next one. */
#define TEXT_HELD_BYTES 64
struct text_stream {
        char held[TEXT_HELD_BYTES];
        size_t held_size;
};

/* The next piece as text for a terminal; NULL: there is nothing yet, or no memory. Invalid UTF-8
 * becomes U+FFFD. Colours, and moves of the cursor that progress bars make, are kept; the escape
 * character of any other control sequence becomes a picture of it. */
json_t *text_stream_take(struct text_stream *s, const void *bytes, size_t size);
/* The held bytes, when there is no more. */
json_t *text_stream_end(struct text_stream *s);
/* The same for one text that is whole. */
json_t *text_of(const char *bytes, size_t size);
json_t *text_of_json(const json_t *text);

/* A value of spec/values.md in its text form as plain JSON: bytes become base64, tagged objects
 * plain objects, others their text. A new reference. */
json_t *text_plain_value(const json_t *value);
/* {data, metadata} of a display for a message; NULL: the display is invalid. */
json_t *text_bundle(const json_t *display, const void *attachments, size_t attachments_size);

#endif
