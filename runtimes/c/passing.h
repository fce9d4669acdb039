/* Types in libffi's form. */
#ifndef CLOCHE_NATIVE_PASSING_H
#define CLOCHE_NATIVE_PASSING_H

#include "types.h"

#include <ffi.h>

/* The type of an argument or result that is passed by value; NULL: it cannot be. *ret_is_empty: such an argument is not
 * passed at all (classes without members). */
ffi_type *passing_type(const struct type *type, int *ret_is_empty);

#endif
