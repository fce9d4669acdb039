/* Handles of the loop that live on the heap, as what owns them may be gone before the loop lets go of them. */
#ifndef CLOCHE_ENGINE_HANDLE_H
#define CLOCHE_ENGINE_HANDLE_H

#include <stdlib.h>
#include <uv.h>

static inline void handle_free(uv_handle_t *handle)
{
        free(handle);
}

/* Accepts NULL. */
static inline void handle_close(void *handle)
{
        if (handle)
                uv_close(handle, handle_free);
}

#endif
