/* How well a value fits a type by its kind: the basis for choosing an overload. A fit is no
 * promise that it can be converted: a number may be out of range. */
#ifndef CLOCHE_NATIVE_FIT_H
#define CLOCHE_NATIVE_FIT_H

#include "types.h"

#include <jansson.h>

enum fit {
        FIT_BEST,  /* the type is made for the value */
        FIT_NEAR,  /* a wider type: an integer for a double, one value for a pointer */
        FIT_TAKEN, /* converted: an integer for a bool */
        FIT_FAR,
        FIT_NEVER,
};

/* Elements and members count too: the worst of them decides. */
enum fit fit_of(const json_t *value, const struct type *type);

#endif
