/* How well a value suits a type by its kind: what overloads are chosen by. That it suits does not say that it can be
 * converted: a number may be out of range. */
#ifndef CLOCHE_NATIVE_FIT_H
#define CLOCHE_NATIVE_FIT_H

#include "types.h"

#include <jansson.h>

enum fit {
        FIT_BEST,  /* what the type is for */
        FIT_NEAR,  /* of wider use: an integer for a double, one value for a pointer */
        FIT_TAKEN, /* converted: an integer for a bool */
        FIT_FAR,
        FIT_NEVER,
};

/* Elements and members count too, the worst of them. */
enum fit fit_of(const json_t *value, const struct type *type);

#endif
