/* Memory for the data read from a program; the process exits if there is none. */
#ifndef CLOCHE_NATIVE_STORAGE_H
#define CLOCHE_NATIVE_STORAGE_H

#include <stddef.h>

void *storage_get(size_t size); /* zeroed */
void *storage_grow(void *array, size_t count, size_t size);
char *storage_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
