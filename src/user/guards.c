/* Sets of guards and their names. Runs in: the CLI and cloched, as the user who started them. */
#include "guards.h"

#include <cloche/cloche.h>
#include <stdio.h>

uint32_t guards_missing(const cloche_engine *engine)
{
        uint32_t missing = 0;

        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++)
                if (cloche_guard_is_missing(cloche_engine_guard(engine, (enum cloche_guard)g, NULL)))
                        missing |= 1u << g;
        return missing;
}

void guards_join(uint32_t guards, const char *separator, char *ret, size_t size)
{
        size_t used = 0;

        ret[0] = '\0';
        for (int g = 0; g < CLOCHE_GUARD_COUNT && used < size; g++)
                if (guards & 1u << g)
                        used += (size_t)snprintf(ret + used, size - used, "%s%s", used ? separator : "",
                                                 cloche_guard_name((enum cloche_guard)g));
}
