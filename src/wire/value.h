/* Values (spec/values.md) in three forms. They differ in the place of bytes: a frame has "at" and
 * "n" into its attachments, text has "b64", and the held form, used inside a program, has the bytes
 * themselves in a jansson string, which is not text and must not be dumped. Pure. */
#ifndef CLOCHE_WIRE_VALUE_H
#define CLOCHE_WIRE_VALUE_H

#include "base/buf.h"

#include <cloche/error.h>
#include <jansson.h>

#define VALUE_ATTACHMENTS_MAX 65536
#define VALUE_DEPTH_MAX 200 /* nested containers; a tagged form counts as the one container it represents */

#define VALUE_HELD_BYTES "raw" /* key of the bytes, in a tagged form that is held */

enum value_form { VALUE_FRAME, VALUE_TEXT };

/* Check a whole value, whose references name containers of it, and hold it. attachments: of a
 * frame, else NULL. *ret is owned by the caller and may share immutable parts with value. Refusals
 * name the path of the offending value: -CLOCHE_E_PROTOCOL for a frame, -CLOCHE_E_INVALID_JSON and
 * -CLOCHE_E_TOO_LARGE for a text. */
int value_read(const json_t *value, enum value_form form, const void *attachments, size_t attachments_size,
               json_t **ret, struct cloche_err *e);

/* Check a value of a frame with this many bytes of attachments. -CLOCHE_E_PROTOCOL. */
int value_check(const json_t *value, size_t attachments_size, struct cloche_err *e);

/* Write a held tree, also several values and the objects between them, in another form. Bytes that
 * are base64 already (paths in lists of changes) are accepted as well. attachments: those of the
 * frame, which grow; else NULL. *ret is owned by the caller and may share leaves with held.
 * -CLOCHE_E_TOO_LARGE, -CLOCHE_E_RESOURCE, and -CLOCHE_E_PROTOCOL if such bytes are not base64. */
int value_write(const json_t *held, enum value_form form, struct buf *attachments, json_t **ret, struct cloche_err *e);

/* Convert from one form to the other, for programs that only pass a value on:
 * value_read and value_write. */
int value_text_to_frame(const json_t *value, struct buf *attachments, json_t **ret, struct cloche_err *e);
int value_frame_to_text(const json_t *value, const void *attachments, size_t attachments_size, json_t **ret,
                        struct cloche_err *e);

/* Return a held tree as JSON text, with jansson's flags; owned by the caller. NULL without
 * memory. */
char *value_dump(const json_t *held, size_t flags);

/* Hold an error: a new object, whose value members ("exact": texts that are not Unicode, and
 * "fields") are held, each a value of its own. A malformed member is left out, because the error
 * itself matters more. NULL: no memory, or no object. */
json_t *value_failure_read(const json_t *failure, enum value_form form, const void *attachments,
                           size_t attachments_size);

#endif
