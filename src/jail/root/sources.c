/* The parts of the host or of an image that a box gets: trees of mounts, taken before the host's
 * root is left. Runs in: the child the keeper cloned, in its own mount namespace. */
#include "root.h"

#include "base/err.h"
#include "base/fd.h"
#include "mount.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

extern int mount(const char *source, const char *target, const char *type, unsigned long flags, const void *data);
#define MS_REC_PRIVATE (16384 | (1 << 18)) /* of <sys/mount.h>, which clashes with <linux/mount.h> */

#define MAPPED_IMAGE "/tmp" /* in our own mount namespace; root_build covers it */
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
 * CVE-2026-47766). add_etc has its /etc. */
static const char *const own_names[] = {"proc", "sys", "dev", "tmp", "run", "workspace", "lost+found", "etc"};
/* Nor these, but for directories in a box with a root of its own, whose users have homes. */
static const char *const own_without_root[] = {"boot", "home", "root"};

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

static int is_own(const struct jail_plan *plan, int image_fd, const char *name)
{
        struct stat st;

        for (size_t i = 0; i < COUNT(own_names); i++)
                if (strcmp(name, own_names[i]) == 0)
                        return 1;
        for (size_t i = 0; i < COUNT(own_without_root); i++)
                if (strcmp(name, own_without_root[i]) == 0)
                        return !plan->has_root || fstatat(image_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
                               !S_ISDIR(st.st_mode);
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

/* The image's own files in it are below ours (root_build). A link or a file there is no /etc. */
static int add_etc(struct root_sources *s, int image_fd, struct cloche_err *e)
{
        struct stat st;

        if (fstatat(image_fd, "etc", &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : err_os(e, CLOCHE_E_MOUNT, errno, "look at /etc of the image");
        if (!S_ISDIR(st.st_mode))
                return 0;
        s->has_etc = 1;
        return add_entry(s, image_fd, "etc", e);
}

/* Opened here and not by the keeper: mounts can be taken only of the mount namespace in which the
 * descriptor was opened. */
static int open_tree_image(const char *trees, const char *name)
{
        const struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                                     .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
        _cleanup_fd_ int trees_fd = open(trees, O_PATH | O_DIRECTORY | O_CLOEXEC);

        return trees_fd < 0 ? -1 : (int)syscall(SYS_openat2, trees_fd, name, &how, sizeof(how));
}

static int open_directory_image(struct root_sources *s, const struct jail_plan *plan, struct cloche_err *e)
{
        int r = plan->takes_image ? mount_attach(plan->image_fd, MAPPED_IMAGE, e) : 0, image_fd;
        DIR *dir;

        if (r < 0)
                return r;
        image_fd = plan->takes_image ? open(MAPPED_IMAGE, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                   : plan->trees     ? open_tree_image(plan->trees, plan->image)
                                     : open(plan->image, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (image_fd < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "open the image %s", plan->image);
        dir = fdopendir(image_fd);
        if (!dir) {
                close(image_fd);
                return err_os(e, CLOCHE_E_RESOURCE, errno, "list the image");
        }
        for (struct dirent *entry; r == 0 && (entry = readdir(dir));)
                if (!is_own(plan, image_fd, entry->d_name))
                        r = add_entry(s, image_fd, entry->d_name, e);
        if (r == 0)
                r = add_etc(s, image_fd, e);
        closedir(dir);
        return r;
}

int root_sources_open(const struct jail_plan *plan, struct root_sources *ret, struct cloche_err *e)
{
        int r;

        ret->count = 0;
        ret->has_etc = 0;
        ret->runtime_fd = -EBADF;
        /* Our mounts must not propagate to the host, nor its unmounts to us. */
        if (mount(NULL, "/", NULL, MS_REC_PRIVATE, NULL) < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "make all mounts private%s",
                              errno == EACCES
                                      ? " (AppArmor refuses it where kernel.apparmor_restrict_unprivileged_userns is 1)"
                                      : "");
        r = plan->image[0] ? open_directory_image(ret, plan, e) : open_host_image(ret, e);
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
