/* What the spares of an engine hold, seen from the host. */
#ifndef CLOCHE_CLI_MEMORY_H
#define CLOCHE_CLI_MEMORY_H

#include <stdint.h>

struct spare_memory {
        uint32_t boxes;
        uint32_t is_group; /* of their memory control groups: smaps_rollup could not be read */
        uint64_t bytes;    /* of all together */
};

/* Work of an errand: writes a struct spare_memory. data: the number of templates, an unsigned. Looks at the keeper this
 * process' parent started last; of its boxes the templates are the oldest. */
int memory_of_spares(void *data, int out_fd);

#endif
