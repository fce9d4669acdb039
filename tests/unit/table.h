/* A full table of descriptors. */
#ifndef CLOCHE_TESTS_TABLE_H
#define CLOCHE_TESTS_TABLE_H

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

/* Use up all descriptors, until setrlimit(RLIMIT_NOFILE) with the returned limit. */
static inline struct rlimit table_fill(void)
{
        struct rlimit before = {0}, full;
        int lowest_fd = fcntl(0, F_DUPFD_CLOEXEC, 0);

        close(lowest_fd);
        getrlimit(RLIMIT_NOFILE, &before);
        full = (struct rlimit){(rlim_t)lowest_fd, before.rlim_max};
        setrlimit(RLIMIT_NOFILE, &full);
        return before;
}

#endif
