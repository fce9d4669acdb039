/* Linked into objects that are loaded in images, whose C library may be older than the one built
 * with: system calls in place of functions that are newer than that library. They are hidden, so
 * they take precedence over the library's own. Runs in: interpreters of an image. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden"), used))

/* Names of glibc 2.33; older versions had inline functions around other names. The structure is the
 * kernel's on 64-bit machines. */
HIDDEN int stat_by_call(const char *path, struct stat *ret) __asm__("stat64");
HIDDEN int fstat_by_call(int fd, struct stat *ret) __asm__("fstat64");
HIDDEN int plain_stat_by_call(const char *path, struct stat *ret) __asm__("stat") __attribute__((alias("stat64")));
HIDDEN int plain_fstat_by_call(int fd, struct stat *ret) __asm__("fstat") __attribute__((alias("fstat64")));
/* glibc 2.34. */
HIDDEN int close_range_by_call(unsigned first, unsigned last, int flags) __asm__("close_range");

int stat_by_call(const char *path, struct stat *ret)
{
        return (int)syscall(SYS_newfstatat, AT_FDCWD, path, ret, 0);
}

int fstat_by_call(int fd, struct stat *ret)
{
        return (int)syscall(SYS_fstat, fd, ret);
}

int close_range_by_call(unsigned first, unsigned last, int flags)
{
        return (int)syscall(SYS_close_range, first, last, flags);
}
