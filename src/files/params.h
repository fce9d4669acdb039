/* Parameters, checked by the rows of spec/sandbox.def. The engine checks them too; in a box nobody is taken at his word. Pure. */
#ifndef CLOCHE_FILES_PARAMS_H
#define CLOCHE_FILES_PARAMS_H

#include <cloche/cloche.h>
#include <jansson.h>

/* params: an object in frame form (spec/values.md). -CLOCHE_E_INVALID_ARGUMENT names the method's field, what was expected and what was there. */
CLOCHE_MUST_CHECK int params_check(const char *method, const json_t *params, size_t attachments_size, struct cloche_err *e);

#endif
