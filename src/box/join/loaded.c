/* Runs in: a template, and in its forked children before they serve. The table is memory of the
 * interpreter: code of others may change it, which misleads only its own forks. */
#include "loaded.h"

#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define LOADED_MAX 4096
#define PATH_SIZE 256
#define PLAIN "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._+-"

static struct {
        struct file {
                char *path;
                off_t size;
                struct timespec changed;
        } * files;
        size_t count, room;
} loaded;

/* Files of boxes are not compared: only the image's are the same in the template and in its
 * fork. */
static int is_read_only(const char *path)
{
        struct statvfs fs;

        return statvfs(path, &fs) == 0 && (fs.f_flag & ST_RDONLY);
}

static int make_room(void)
{
        struct file *grown;

        if (loaded.count < loaded.room)
                return 1;
        if (loaded.room == LOADED_MAX)
                return 0;
        grown = realloc(loaded.files, (loaded.room + 256) * sizeof(*grown));
        if (!grown)
                return 0;
        loaded.files = grown;
        loaded.room += 256;
        return 1;
}

void loaded_add(const char *path)
{
        struct stat st;

        /* The path comes in a message without quoting. /run is of our programs. */
        if (path[0] != '/' || strncmp(path, "/run/", 5) == 0 || path[strspn(path, PLAIN)] || strlen(path) >= PATH_SIZE)
                return;
        for (size_t i = 0; i < loaded.count; i++)
                if (strcmp(loaded.files[i].path, path) == 0)
                        return;
        if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || !is_read_only(path) || !make_room())
                return;
        loaded.files[loaded.count] = (struct file){strdup(path), st.st_size, st.st_ctim};
        loaded.count += loaded.files[loaded.count].path != NULL;
}

void loaded_record(void)
{
        FILE *maps = fopen("/proc/self/maps", "re");
        char line[PATH_SIZE + 128];

        while (maps && fgets(line, sizeof(line), maps)) {
                char *path = strchr(line, '/'), *end = path ? strchr(path, '\n') : NULL;

                if (!end)
                        continue;
                *end = '\0';
                loaded_add(path);
        }
        if (maps)
                fclose(maps);
}

/* The time of a change tells enough: a guest cannot set it, and an overlay copies a file before
 * it is changed, which is a change itself. The number of the inode may differ in an overlay. */
static int is_unchanged(const struct file *file)
{
        struct stat st;

        return stat(file->path, &st) == 0 && st.st_size == file->size && st.st_ctim.tv_sec == file->changed.tv_sec &&
               st.st_ctim.tv_nsec == file->changed.tv_nsec;
}

int loaded_check(struct cloche_err *e)
{
        if (loaded.count == 0 || is_read_only(loaded.files[0].path))
                return 0;
        for (size_t i = 0; i < loaded.count; i++)
                if (!is_unchanged(&loaded.files[i])) {
                        err_set(e, CLOCHE_E_STATE,
                                "programs of the sandbox changed %s, which the prepared interpreter has in memory",
                                loaded.files[i].path);
                        e->os_errno = ESTALE; /* the engine starts another interpreter then */
                        return -CLOCHE_E_STATE;
                }
        return 0;
}
