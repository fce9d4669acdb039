/* Convert a value to plain JSON, readable by any program: the tagged forms of spec/values.md are
 * replaced. Runs in: the command line. */
#ifndef CLOCHE_CLI_OUTPUT_PLAIN_VALUE_H
#define CLOCHE_CLI_OUTPUT_PLAIN_VALUE_H

#include "base/buf.h"

#include <jansson.h>

/* Maps and objects become objects; sets and typed arrays arrays; big integers digits; bytes and
 * buffers base64 text; dates and regular expressions text; errors objects of name, message and
 * their fields; undefined, NaN and infinities null. 0, or the negative errno of buf_append. */
int plain_value(struct buf *out, const json_t *value);

#endif
