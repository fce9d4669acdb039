/* Where what the guest wrote is kept: files by number in one directory, their bytes counted. */
#ifndef CLOCHE_FS_UPPER_H
#define CLOCHE_FS_UPPER_H

#include <stdint.h>
#include <sys/types.h>

struct upper {
        int dir_fd;
        uint64_t last; /* number given */
        uint64_t bytes_used, bytes_max;
};

#define UPPER_NAME_SIZE 17

/* How the file of a number is called. */
void upper_name(uint64_t number, char ret[UPPER_NAME_SIZE]);

/* A new, empty file: its descriptor (reads and writes) or -errno. */
int upper_create(struct upper *upper, uint64_t *ret_number);
int upper_open(const struct upper *upper, uint64_t number, int flags);
void upper_remove(struct upper *upper, uint64_t number);

/* Bytes a file takes on the disk. What a change of it took or gave is counted with the figure from before. */
uint64_t upper_measure(int fd);
void upper_count(struct upper *upper, int fd, uint64_t before);
/* 0, or -ENOSPC when size more bytes would be over the bound. */
int upper_has_room(const struct upper *upper, uint64_t size);

/* All of from, holes kept, shared blocks where the file systems can; 0 or -errno. */
int upper_copy(struct upper *upper, int to_fd, int from_fd, uint64_t size);

#endif
