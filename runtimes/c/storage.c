#include "storage.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void *storage_get(size_t size)
{
        void *memory = calloc(1, size ? size : 1);

        if (!memory)
                abort();
        return memory;
}

void *storage_grow(void *array, size_t count, size_t size)
{
        array = realloc(array, count * size);
        if (!array)
                abort();
        return array;
}

char *storage_text(const char *format, ...)
{
        va_list list;
        char *made;

        va_start(list, format);
        if (vasprintf(&made, format, list) < 0)
                abort();
        va_end(list);
        return made;
}
