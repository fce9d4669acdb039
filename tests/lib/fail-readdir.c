/* Preloaded into a program: readdir(3) fails with EIO in a directory that has the entry
 * unreadable-below, once that was listed. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

static _Thread_local DIR *failing;

__attribute__((visibility("default"))) struct dirent *readdir(DIR *dir)
{
        struct dirent *(*real)(DIR * dir) = (struct dirent * (*)(DIR * dir)) dlsym(RTLD_NEXT, "readdir");
        struct dirent *entry;

        if (failing == dir) {
                failing = NULL;
                errno = EIO;
                return NULL;
        }
        entry = real(dir);
        if (entry && strcmp(entry->d_name, "unreadable-below") == 0)
                failing = dir;
        return entry;
}
