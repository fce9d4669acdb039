/* The root of a sandbox, which its guest owns. */
#ifndef CLOCHE_BASE_ROOT_H
#define CLOCHE_BASE_ROOT_H

#include <sys/stat.h>
#include <unistd.h>

/* Without rights to its root no program of the guest could start that gives them back, nor the one
 * that saves the files. */
static inline void root_keep_open(void)
{
        struct stat st;

        if (stat("/", &st) == 0 && (st.st_mode & 0700) != 0700 && st.st_uid == getuid())
                (void)chmod("/", (st.st_mode & 07777) | 0700); /* what fails without it reports the error */
}

#endif
