/* Parameter types: validation of values; tools/spec_compiler/openapi.py has their JSON Schema.
 * Values are in text form (spec/values.md), except for FIELD_TEXT_OR_ATTACHED. */
#ifndef CLOCHE_DAEMON_HTTP_FIELD_H
#define CLOCHE_DAEMON_HTTP_FIELD_H

#include <cloche/error.h>
#include <jansson.h>

enum field_type {
        FIELD_TEXT,             /* without NUL */
        FIELD_TEXT_OR_BYTES,    /* any text, or the tagged form of bytes */
        FIELD_TEXT_OR_ATTACHED, /* the same in frame form */
        FIELD_TEXTS,
        FIELD_TEXT_BY_NAME,
        FIELD_BOOLEAN,
        FIELD_COUNT,
        FIELD_DURATION, /* in milliseconds: at most a day */
        FIELD_ID,
        FIELD_PROTOCOL,
        FIELD_OBJECT,
        FIELD_LIST,
        FIELD_ARGUMENTS,
        FIELD_LIMITS,
        FIELD_FILES,
        FIELD_RESULT_OPTIONS,
};

/* -CLOCHE_E_INVALID_ARGUMENT names the field, the expected and the actual value. */
int field_check(enum field_type type, const char *name, const json_t *value, struct cloche_err *e);

/* Bytes of a held value (wire/value.h); NULL for anything else. */
const char *field_bytes(const json_t *value, size_t *ret_size);

#endif
