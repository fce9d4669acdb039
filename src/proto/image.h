/* The settings of an image: what cloche-image reads from its configuration, and the engine
 * applies. */
#ifndef CLOCHE_PROTO_IMAGE_H
#define CLOCHE_PROTO_IMAGE_H

#include <stddef.h>
#include <string.h>

#define IMAGE_ENV_MAX 1024              /* variables */
#define IMAGE_ENV_BYTES_MAX (64u << 10) /* of all names and values */
#define IMAGE_DIRECTORY_SIZE 1024       /* of the working directory's path and its NUL */
#define IMAGE_COMMAND_BYTES_MAX (16u << 10)
#define IMAGE_READY_MS_MAX 600000 /* also if the image states none */

/* Labels of an image: the command that each of its sandboxes starts, and the one that succeeds when
 * that is ready, within so many milliseconds. Labels pass through all tools of images. */
#define IMAGE_LABEL_START "cloche.start"
#define IMAGE_LABEL_READY "cloche.ready"
#define IMAGE_LABEL_READY_MS "cloche.ready-ms"

/* True for a variable that belongs to the box (spec/variables.def). */
static inline int image_variable_is_box(const char *name, size_t size)
{
        static const char *const names[] = {
#define CLOCHE_VARIABLE(name, reason) name,
#include <cloche/variables.def>
#undef CLOCHE_VARIABLE
        };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (strlen(names[i]) == size && memcmp(names[i], name, size) == 0)
                        return 1;
        return 0;
}

/* True for a name at the top of which a box with a root of its own has the image's directory, and
 * others their own. */
static inline int image_top_is_roots(const char *name, size_t size)
{
        return size == 4 &&
               (memcmp(name, "boot", 4) == 0 || memcmp(name, "home", 4) == 0 || memcmp(name, "root", 4) == 0);
}

/* True for a name at the top of which a box has a directory of its own, whatever the image has
 * there. */
static inline int image_top_is_box(const char *name, size_t size)
{
        static const char *const names[] = {"boot", "dev", "home", "proc", "root", "run", "sys", "tmp", "workspace"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (strlen(names[i]) == size && memcmp(names[i], name, size) == 0)
                        return 1;
        return 0;
}

/* The mode of a directory that a sandbox has at its top or in one there even if its image has not
 * (jail/root/writable.c); 0 for others. It belongs to the box's user. */
static inline unsigned image_path_made_mode(const char *path)
{
        static const char *const paths[] = {"app", "boot", "data", "home",        "mnt",       "opt",     "root",
                                            "src", "srv",  "var",  "var/backups", "var/cache", "var/lib", "var/log"};

        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
                if (strcmp(paths[i], path) == 0)
                        return 0755;
        return strcmp(path, "var/tmp") == 0 ? 01777 : 0;
}

/* True for a file of /etc of which boxes have their own (jail/root/root.c). */
static inline int image_path_is_box(const char *path)
{
        static const char *const paths[] = {"etc/passwd",   "etc/group",         "etc/hosts",
                                            "etc/hostname", "etc/nsswitch.conf", "etc/resolv.conf"};

        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
                if (strcmp(paths[i], path) == 0)
                        return 1;
        return 0;
}

#endif
