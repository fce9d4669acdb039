/* Storage of the guest's contents: numbered files in one directory, their bytes counted. */
#ifndef CLOCHE_HELPERS_FS_TREE_UPPER_H
#define CLOCHE_HELPERS_FS_TREE_UPPER_H

#include <stdint.h>
#include <sys/types.h>

struct upper {
        int dir_fd;
        uint64_t last; /* number given */
        uint64_t bytes_used, bytes_max;
};

#define UPPER_NAME_SIZE 17

/* The name of a numbered file. */
void upper_name(uint64_t number, char ret[UPPER_NAME_SIZE]);

/* Create an empty file; its descriptor (read and write) or -errno. */
int upper_create(struct upper *upper, uint64_t *ret_number);
int upper_open(const struct upper *upper, uint64_t number, int flags);
void upper_remove(struct upper *upper, uint64_t number);

/* Bytes of disk space of a file. After a change, upper_count() adds the difference to the figure
 * from before. */
uint64_t upper_measure(int fd);
void upper_count(struct upper *upper, int fd, uint64_t before);
/* 0, or -ENOSPC if size more bytes exceed the limit. */
int upper_has_room(const struct upper *upper, uint64_t size);

/* Copy all of from, with its holes, sharing blocks where the file systems support it; 0 or
 * -errno. */
int upper_copy(struct upper *upper, int to_fd, int from_fd, uint64_t size);

#endif
