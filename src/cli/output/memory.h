/* The memory of an engine's spare boxes, measured from the host. */
#ifndef CLOCHE_CLI_OUTPUT_MEMORY_H
#define CLOCHE_CLI_OUTPUT_MEMORY_H

#include <stdint.h>

struct spare_memory {
        uint32_t boxes;
        uint32_t is_group; /* from their memory control groups: smaps_rollup was unreadable */
        uint64_t bytes;    /* of all boxes together */
};

/* Work of a privileged helper: write a struct spare_memory. data: the number of templates,
 * an unsigned. Inspects the keeper that this process' parent started last; its oldest
 * boxes are the templates. */
int memory_of_spares(void *data, int out_fd);

#endif
