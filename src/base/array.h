/* Arrays that grow by one row at a time. */
#ifndef CLOCHE_BASE_ARRAY_H
#define CLOCHE_BASE_ARRAY_H

#include <errno.h>
#include <stdlib.h>

/* Make room for one more row behind `count` rows. On -ENOMEM the array is as it was. */
#define ARRAY_GROW(rows, count, room) array_grow((void **)&(rows), count, &(room), sizeof(*(rows)))

static inline int array_grow(void **rows, size_t count, size_t *room, size_t size)
{
        size_t more = *room ? *room * 2 : 32;
        void *grown;

        if (count < *room)
                return 0;
        grown = reallocarray(*rows, more, size);
        if (!grown)
                return -ENOMEM;
        *rows = grown;
        *room = more;
        return 0;
}

#endif
