/* Preloaded into cloched: prints a line on standard error for each successful fsync(2) and
 * renameat(2). While the file in HOLD_FSYNC exists, fsync(2) waits, and prints a line about it; only
 * of paths with HOLD_FSYNC_OF in them, if that is set. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void wait_while_held(const char *path)
{
        const char *held = getenv("HOLD_FSYNC"), *of = getenv("HOLD_FSYNC_OF");

        if (!held || access(held, F_OK) < 0 || (of && !strstr(path, of)))
                return;
        dprintf(STDERR_FILENO, "fsync waits\n");
        while (access(held, F_OK) == 0)
                usleep(1000);
}

__attribute__((visibility("default"))) int fsync(int fd)
{
        int (*real)(int fd) = (int (*)(int fd))dlsym(RTLD_NEXT, "fsync");
        char link[64], path[4096];
        ssize_t n;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, path, sizeof(path) - 1);
        path[n < 0 ? 0 : n] = '\0';
        wait_while_held(path);
        if (real(fd) < 0)
                return -1;
        dprintf(STDERR_FILENO, "fsync %s\n", path);
        return 0;
}

__attribute__((visibility("default"))) int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
        int (*real)(int from_fd, const char *from, int to_fd, const char *to) =
                (int (*)(int from_fd, const char *from, int to_fd, const char *to))dlsym(RTLD_NEXT, "renameat");

        if (real(from_fd, from, to_fd, to) < 0)
                return -1;
        dprintf(STDERR_FILENO, "rename %s %s\n", from, to);
        return 0;
}
