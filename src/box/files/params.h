/* Validate parameters by the rows of spec/sandbox.def. The engine validates them too, but this
 * program does not trust other processes of the box. Pure. */
#ifndef CLOCHE_BOX_FILES_PARAMS_H
#define CLOCHE_BOX_FILES_PARAMS_H

#include <cloche/error.h>
#include <jansson.h>

/* params: an object in frame form (spec/values.md). -CLOCHE_E_INVALID_ARGUMENT names the method's
 * field, the expected and the actual value. */
CLOCHE_MUST_CHECK int params_check(const char *method, const json_t *params, size_t attachments_size,
                                   struct cloche_err *e);

#endif
