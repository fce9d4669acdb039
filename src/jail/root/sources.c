/* The parts of the host or of an image that a box gets: trees of mounts, taken before the host's
 * root is left. */
#include "root.h"

#include "base/err.h"
#include "base/fd.h"
#include "mount.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern int mount(const char *source, const char *target, const char *type, unsigned long flags, const void *data);
#define MS_REC_PRIVATE (16384 | (1 << 18)) /* of <sys/mount.h>, which clashes with <linux/mount.h> */

#define IMAGE_ATTRIBUTES (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* The entries of the host's /etc that a box may see: programs of /usr need them to start, and they
 * reveal nothing about the host. */
static const char *const etc_names[] = {
        "alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ssl/certs",  "ssl/openssl.cnf",
        "php",          "python3",     "python3.11", "fonts",        "mime.types", "magic",
        "magic.mime",   "services",    "protocols",  "matplotlibrc", "terminfo",   "ImageMagick-6",
        "perl",         "gemrc",       "localtime",  "os-release",
};

/* The image never decides these: they are ours, even if the image has them (CVE-2021-30465,
 * CVE-2026-47766). */
static const char *const own_names[] = {"proc",      "sys",  "dev",  "tmp",  "run",
                                        "workspace", "home", "root", "boot", "lost+found"};

static const char *const devices[] = {"null", "zero", "full", "random", "urandom"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct root_source *new_source(struct root_sources *s, const char *name, struct cloche_err *e)
{
        struct root_source *row;

        if (s->count == COUNT(s->rows) || strlen(name) >= sizeof(s->rows[0].name)) {
                err_set(e, CLOCHE_E_MOUNT, "the image has more than %zu entries at its top, or one with a long name",
                        COUNT(s->rows));
                return NULL;
        }
        row = &s->rows[s->count++];
        *row = (struct root_source){.tree_fd = -EBADF};
        strcpy(row->name, name);
        return row;
}

static int add_link(struct root_sources *s, int dir_fd, const char *name, struct cloche_err *e)
{
        struct root_source *row = new_source(s, name, e);
        ssize_t n;

        if (!row)
                return -(int)e->code;
        n = readlinkat(dir_fd, name, row->target, sizeof(row->target));
        if (n < 0 || (size_t)n >= sizeof(row->target))
                return err_os(e, CLOCHE_E_MOUNT, n < 0 ? errno : ENAMETOOLONG, "read the link /%s of the image", name);
        row->target[n] = '\0';
        return 0;
}

static int add_entry(struct root_sources *s, int dir_fd, const char *name, struct cloche_err *e)
{
        struct root_source *row;
        struct stat st;

        if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : err_os(e, CLOCHE_E_MOUNT, errno, "look at /%s of the image", name);
        if (S_ISLNK(st.st_mode))
                return add_link(s, dir_fd, name, e);
        if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
                return 0; /* devices, sockets and pipes are not part of an image */
        row = new_source(s, name, e);
        if (!row)
                return -(int)e->code;
        return mount_clone(dir_fd, name, IMAGE_ATTRIBUTES, &row->tree_fd, e);
}

static int is_own(const char *name)
{
        for (size_t i = 0; i < COUNT(own_names); i++)
                if (strcmp(name, own_names[i]) == 0)
                        return 1;
        return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int open_host_image(struct root_sources *s, struct cloche_err *e)
{
        static const char *const top[] = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"};
        _cleanup_fd_ int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        char name[64];
        int r = 0;

        if (root_fd < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "open /");
        for (size_t i = 0; r == 0 && i < COUNT(top); i++)
                r = add_entry(s, root_fd, top[i], e);
        for (size_t i = 0; r == 0 && i < COUNT(etc_names); i++) {
                snprintf(name, sizeof(name), "etc/%s", etc_names[i]);
                r = add_entry(s, root_fd, name, e);
        }
        return r;
}

/* The image's /etc is bound entry by entry, so that some of its files can be ours (root_makes). */
static int open_directory(struct root_sources *s, int image_fd, const char *below, struct cloche_err *e)
{
        int fd = openat(image_fd, below, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r = 0;
        char name[512];
        DIR *dir;

        if (fd < 0)
                return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
                               ? 0
                               : err_os(e, CLOCHE_E_MOUNT, errno, "open /%s of the image", below);
        dir = fdopendir(fd);
        if (!dir) {
                close(fd);
                return err_os(e, CLOCHE_E_RESOURCE, errno, "list /%s of the image", below);
        }
        for (struct dirent *entry; r == 0 && (entry = readdir(dir));) {
                int top = below[0] == '.';

                if (is_own(entry->d_name) && (top || entry->d_name[0] == '.'))
                        continue;
                if (top && strcmp(entry->d_name, "etc") == 0)
                        continue;
                snprintf(name, sizeof(name), "%s%s", top ? "" : "etc/", entry->d_name);
                if (!root_makes(name))
                        r = add_entry(s, image_fd, name, e);
        }
        closedir(dir);
        return r;
}

static int open_directory_image(struct root_sources *s, const char *path, struct cloche_err *e)
{
        _cleanup_fd_ int image_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        int r;

        if (image_fd < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "open the image %s", path);
        r = open_directory(s, image_fd, ".", e);
        return r < 0 ? r : open_directory(s, image_fd, "etc", e);
}

int root_sources_open(const struct jail_plan *plan, struct root_sources *ret, struct cloche_err *e)
{
        int r;

        ret->count = 0;
        ret->runtime_fd = -EBADF;
        /* Our mounts must not propagate to the host, nor its unmounts to us. */
        if (mount(NULL, "/", NULL, MS_REC_PRIVATE, NULL) < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "make all mounts private%s",
                              errno == EACCES
                                      ? " (AppArmor refuses it where kernel.apparmor_restrict_unprivileged_userns is 1)"
                                      : "");
        r = plan->image[0] ? open_directory_image(ret, plan->image, e) : open_host_image(ret, e);
        for (size_t i = 0; r == 0 && i < COUNT(devices); i++) {
                char name[32];
                struct root_source *row;

                snprintf(name, sizeof(name), "dev/%s", devices[i]);
                row = new_source(ret, name, e);
                if (!row)
                        return -(int)e->code;
                snprintf(name, sizeof(name), "/dev/%s", devices[i]);
                r = mount_clone(AT_FDCWD, name, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, &row->tree_fd, e);
        }
        if (r < 0)
                return r;
        if (plan->runtime_dir[0]) {
                ret->runtime_fd = open(plan->runtime_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (ret->runtime_fd < 0)
                        return err_os(e, CLOCHE_E_MISSING_RUNTIME, errno, "open the runtime %s", plan->runtime_dir);
        }
        return 0;
}

void root_sources_done(struct root_sources *sources)
{
        for (unsigned i = 0; i < sources->count; i++)
                fd_close(&sources->rows[i].tree_fd);
        fd_close(&sources->runtime_fd);
        sources->count = 0;
}
