/* The settings of an image: what cloche-image reads from its configuration, and the engine applies. */
#ifndef CLOCHE_PROTO_IMAGE_H
#define CLOCHE_PROTO_IMAGE_H

#include <stddef.h>
#include <string.h>

#define IMAGE_ENV_MAX 1024              /* variables */
#define IMAGE_ENV_BYTES_MAX (64u << 10) /* of all names and values */
#define IMAGE_DIRECTORY_SIZE 1024       /* of the working directory's path and its NUL */

/* True for a variable that belongs to the box (spec/variables.def). */
static inline int image_variable_is_box(const char *name, size_t size)
{
        static const char *const names[] = {
#define CLOCHE_VARIABLE(name, reason) name,
#include <cloche/variables.def>
#undef CLOCHE_VARIABLE
        };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (strlen(names[i]) == size && memcmp(names[i], name, size) == 0)
                        return 1;
        return 0;
}

#endif
