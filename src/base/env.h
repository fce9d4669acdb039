/* Names of environment variables. */
#ifndef CLOCHE_BASE_ENV_H
#define CLOCHE_BASE_ENV_H

#include <stddef.h>
#include <string.h>

/* Return the size of the name at the beginning of a text, [A-Za-z_][A-Za-z0-9_]*; 0 if there is
 * none. */
static inline size_t env_name_size(const char *text)
{
        if (*text >= '0' && *text <= '9')
                return 0;
        return strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
}

#endif
