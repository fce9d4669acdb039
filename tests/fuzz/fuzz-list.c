/* The list of files that a box's init sends, whose names the guest chose. */
#include "engine/box/files.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *bytes = malloc(size + 1);
        struct files files = {0};
        struct cloche_err e;

        if (!bytes)
                return 0;
        memcpy(bytes, data, size);
        if (files_parse(bytes, size, &files, &e) == 0)
                files_done(&files);
        return 0;
}
