/* The root of a box: built, entered, the host's root left. Runs in: the child the keeper cloned, in
 * its own mount namespace. */
#include "root.h"

#include "accounts.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/path.h"
#include "mount.h"
#include "writable.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

extern int mount(const char *source, const char *target, const char *type, unsigned long flags, const void *data);
/* Files of a build's steps that are in no image (src/cli/build): commits and saves leave this
 * place out. */
#define SECRETS "run/secrets"
#define SECRETS_TARGET "/dev/shm/secrets"
#define MS_FLAGS_NEW_ROOT (2 | 4) /* MS_NOSUID, MS_NODEV: of <sys/mount.h>, which clashes with <linux/mount.h> */
#define MS_NOEXEC_FLAG 8
#define MS_FLAGS_TERMINALS (2 | MS_NOEXEC_FLAG) /* MS_NOSUID; with MS_NODEV they could not be opened */
/* A separate instance, so it shows no other box's terminals. All boxes together share
 * kernel.pty.max (4096). */
#define TERMINAL_OPTIONS "newinstance,ptmxmode=0666,mode=0620,max=64"

#define RUNTIME_FILES_MAX 64
#define RUNTIME_FILE_BYTES_MAX (4u << 20)

static const struct {
        const char *name;
        const char *target;
} dev_links[] = {
        {"dev/fd", "/proc/self/fd"},
        {"dev/stdin", "/proc/self/fd/0"},
        {"dev/stdout", "/proc/self/fd/1"},
        {"dev/stderr", "/proc/self/fd/2"},
};

/* Parts of /proc that show or change the host, covered by an empty directory or by /dev/null. */
static const char *const masked_proc[] = {
        "acpi",          "asound",     "bootconfig",    "buddyinfo",     "bus",        "cgroups",
        "cmdline",       "config.gz",  "consoles",      "crypto",        "devices",    "diskstats",
        "dma",           "driver",     "dynamic_debug", "execdomains",   "fb",         "fs",
        "interrupts",    "iomem",      "ioports",       "irq",           "kallsyms",   "kcore",
        "key-users",     "keys",       "kmsg",          "kpagecgroup",   "kpagecount", "kpageflags",
        "latency_stats", "locks",      "mdstat",        "misc",          "modules",    "mtrr",
        "pagetypeinfo",  "partitions", "pressure",      "sched_debug",   "schedstat",  "scsi",
        "slabinfo",      "softirqs",   "swaps",         "sysrq-trigger", "sysvipc",    "timer_list",
        "timer_stats",   "tty",        "vmallocinfo",   "vmstat",        "xen",        "zoneinfo",
};

/* Below /proc/sys, which stays readable for C libraries, except for these that show the host. */
static const char *const masked_sysctl[] = {"dev",
                                            "debug",
                                            "fs/binfmt_misc",
                                            "kernel/core_pattern",
                                            "kernel/modprobe",
                                            "kernel/random/boot_id",
                                            "kernel/usermodehelper",
                                            "kernel/hotplug"};

#define PASSWD "passwd"
#define GROUP "group"
#define RESOLV_CONF "resolv.conf"
#define HOSTS "hosts"
#define HOST_NAME "hostname"

#define OWN_ETC "run/.etc" /* the upper directory of the overlay on an image's /etc */

/* Files of /etc that are ours, even if the image has them. */
static const struct {
        const char *name, *text;
} etc_files[] = {
        {PASSWD, ""},
        {GROUP, ""},
        {HOSTS, ""},
        {HOST_NAME, ""},
        {"nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"},
        {RESOLV_CONF, ""},
};
/* A box with a root of its own has the accounts of its image, for packages name theirs, and then
 * the row of jail_accounts: the first row of a name or number counts. */
#define ACCOUNTS_BYTES_MAX (1u << 20)

/* If nothing listens there, the kernel refuses the query at once: a sandbox without a network does
 * not wait for names. */
static const char sandbox_resolver[] = "# Only names that the network policy allows are found here: cloche net NAME "
                                       "--add HOST, or cloched --network HOST.\n"
                                       "nameserver 127.0.0.1\noptions timeout:2 attempts:2\n";

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* -- building; the current directory is the new root ---------------------------------------------------------- */

static int make_directory(const char *path, mode_t mode, struct cloche_err *e)
{
        if (mkdir(path, mode) < 0 && errno != EEXIST)
                return err_os(e, CLOCHE_E_MOUNT, errno, "make /%s", path);
        return 0;
}

static int make_parents(const char *path, struct cloche_err *e)
{
        char part[512];

        snprintf(part, sizeof(part), "%s", path);
        for (char *slash = strchr(part, '/'); slash; slash = strchr(slash + 1, '/')) {
                int r;

                *slash = '\0';
                r = make_directory(part, 0755, e);
                *slash = '/';
                if (r < 0)
                        return r;
        }
        return 0;
}

static int write_file(const char *path, const void *text, size_t size, mode_t mode, struct cloche_err *e)
{
        _cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        int r;

        if (fd < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "make /%s", path);
        r = fd_write_full(fd, text, size);
        return r < 0 ? err_os(e, CLOCHE_E_MOUNT, -r, "write /%s", path) : 0;
}

static int attach_source(const struct root_source *source, struct cloche_err *e)
{
        struct stat st;
        int r = make_parents(source->name, e);

        if (r < 0)
                return r;
        if (source->target[0]) {
                if (symlink(source->target, source->name) < 0)
                        return err_os(e, CLOCHE_E_MOUNT, errno, "link /%s", source->name);
                return 0;
        }
        if (fstat(source->tree_fd, &st) < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "look at /%s", source->name);
        r = S_ISDIR(st.st_mode) ? make_directory(source->name, 0755, e) : write_file(source->name, "", 0, 0644, e);
        return r < 0 ? r : mount_attach(source->tree_fd, source->name, e);
}

static int make_places(struct cloche_err *e)
{
        static const char *const directories[] = {"etc", "dev",        "dev/mqueue",  "proc",
                                                  "run", ROOT_RUNTIME, ROOT_IDENTITY, ROOT_SCRATCH};
        int r = 0;

        for (size_t i = 0; r == 0 && i < COUNT(directories); i++)
                r = make_directory(directories[i], 0755, e);
        for (size_t i = 0; r == 0 && i < JAIL_PLACES; i++) {
                r = make_parents(root_places[i], e);
                if (r == 0)
                        r = make_directory(root_places[i], 0755, e);
        }
        return r;
}

#define MASK_ATTRIBUTES (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

static int make_masks(struct cloche_err *e)
{
        _cleanup_fd_ int null_fd = -EBADF;
        int r = make_directory(ROOT_MASK_DIRECTORY, 0555, e);

        if (r == 0)
                r = write_file(ROOT_MASK_FILE, "", 0, 0444, e);
        if (r == 0)
                r = mount_clone(AT_FDCWD, "dev/null", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
                                &null_fd, e);
        return r < 0 ? r : mount_attach(null_fd, ROOT_MASK_FILE, e);
}

static int mask(const char *path, struct cloche_err *e)
{
        struct stat st;

        if (lstat(path, &st) < 0)
                return errno == ENOENT ? 0 : err_os(e, CLOCHE_E_MOUNT, errno, "look at /%s", path);
        if ((st.st_mode & 07) == 0)
                return 0; /* no user of the box can open it */
        return mount_bind(S_ISDIR(st.st_mode) ? ROOT_MASK_DIRECTORY : ROOT_MASK_FILE, path, e);
}

/* A box beneath a template mounts its own over this one: the kernel permits a new /proc in a user
 * namespace only where one is fully visible already. */
static int mount_proc(struct cloche_err *e)
{
        return mount_new("proc", "proc", MS_FLAGS_NEW_ROOT | MS_NOEXEC_FLAG, NULL, e);
}

static int close_to_writes(const char *path, struct cloche_err *e)
{
        _cleanup_fd_ int fd = -EBADF;
        int r = mount_clone(AT_FDCWD, path, MASK_ATTRIBUTES | MOUNT_ATTR_NOEXEC, &fd, e);

        return r == 0 ? mount_attach(fd, path, e) : r;
}

static int mask_proc(const struct jail_plan *plan, struct cloche_err *e)
{
        char path[64];
        int r = close_to_writes("proc/sys", e);

        if (r == 0 && plan->init_is_roots)
                r = close_to_writes("proc/1", e);
        for (size_t i = 0; r == 0 && i < COUNT(masked_proc); i++) {
                snprintf(path, sizeof(path), "proc/%s", masked_proc[i]);
                r = mask(path, e);
        }
        for (size_t i = 0; r == 0 && i < COUNT(masked_sysctl); i++) {
                snprintf(path, sizeof(path), "proc/sys/%s", masked_sysctl[i]);
                r = mask(path, e);
        }
        return r;
}

static int copy_file(int dir_fd, const char *name, struct cloche_err *e)
{
        _cleanup_fd_ int from_fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), to_fd = -EBADF;
        char path[300];
        struct stat st;

        if (from_fd < 0 || fstat(from_fd, &st) < 0)
                return err_os(e, CLOCHE_E_MISSING_RUNTIME, errno, "open the runtime's file %s", name);
        if (!S_ISREG(st.st_mode))
                return 0;
        if (st.st_size > RUNTIME_FILE_BYTES_MAX)
                return err_set(e, CLOCHE_E_TOO_LARGE, "the runtime's file %s has more than %u bytes", name,
                               RUNTIME_FILE_BYTES_MAX);
        snprintf(path, sizeof(path), ROOT_RUNTIME "/%s", name);
        to_fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st.st_mode & 0111 ? 0555 : 0444);
        if (to_fd < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "make /%s", path);
        for (off_t left = st.st_size; left > 0;) {
                ssize_t n = sendfile(to_fd, from_fd, NULL, (size_t)left);

                if (n <= 0)
                        return err_os(e, CLOCHE_E_MOUNT, n < 0 ? errno : EIO, "copy /%s", path);
                left -= n;
        }
        return 0;
}

/* Takes fd. The files are copied, not bound: /proc/self/mountinfo shows the host path of a bind
 * mount. */
static int copy_runtime(int fd, struct cloche_err *e)
{
        int r = 0, files = 0;
        DIR *dir;

        if (fd < 0)
                return 0;
        dir = fdopendir(fd);
        if (!dir) {
                close(fd);
                return err_os(e, CLOCHE_E_RESOURCE, errno, "list the runtime");
        }
        for (struct dirent *entry; r == 0 && (entry = readdir(dir));) {
                if (entry->d_name[0] == '.' || entry->d_type == DT_DIR)
                        continue;
                if (++files > RUNTIME_FILES_MAX)
                        r = err_set(e, CLOCHE_E_TOO_LARGE, "the runtime has more than %d files", RUNTIME_FILES_MAX);
                else
                        r = copy_file(dirfd(dir), entry->d_name, e);
        }
        closedir(dir);
        return r;
}

#define GUEST_LIBRARY ROOT_RUNTIME "/libcloche-guest.so"
#define SUDO JAIL_BIN "/sudo"

/* One of our files; from_fd: -EBADF for none. */
static int copy_own(int from_fd, const char *path, mode_t mode, struct cloche_err *e)
{
        _cleanup_fd_ int to_fd = -EBADF;
        off_t at = 0;
        ssize_t n;

        if (from_fd < 0)
                return 0;
        to_fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (to_fd < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "make /%s", path);
        while ((n = sendfile(to_fd, from_fd, &at, RUNTIME_FILE_BYTES_MAX)) > 0)
                ;
        return n < 0 ? err_os(e, CLOCHE_E_MOUNT, errno, "copy /%s", path) : 0;
}

#define NOBODY 65534
#define ETC_TEXT_SIZE 256

/* The text of one of etc_files. ret: room for one that is made. */
static const char *etc_text(const struct jail_plan *plan, size_t file, char ret[ETC_TEXT_SIZE])
{
        const struct jail_user *user = &plan->user;
        const char *name = etc_files[file].name;

        if (strcmp(name, HOSTS) == 0)
                return root_hosts_text(plan, ret);
        if (strcmp(name, HOST_NAME) == 0)
                snprintf(ret, ETC_TEXT_SIZE, "%s\n", plan->host_name);
        else if (strcmp(name, PASSWD) == 0)
                snprintf(ret, ETC_TEXT_SIZE, "%s:x:%u:%u:%s:%s:/bin/%s\n%s", user->name, user->uid, user->gid,
                         user->name, user->home, plan->is_sandbox ? "bash" : "sh", /* the shell of its sessions */
                         user->uid == NOBODY ? "" : "nobody:x:65534:65534:nobody:/:/bin/false\n");
        else if (strcmp(name, GROUP) == 0)
                snprintf(ret, ETC_TEXT_SIZE, "%s:x:%u:\n%s", user->gid == 0 ? "root" : user->name, user->gid,
                         user->gid == NOBODY ? "" : "nogroup:x:65534:\n");
        else
                return plan->is_sandbox && strcmp(name, RESOLV_CONF) == 0 ? sandbox_resolver : etc_files[file].text;
        return ret;
}

/* root_furnish mounts here; the root is read-only by then. */
static int make_terminal_places(struct cloche_err *e)
{
        if (symlink("pts/ptmx", "dev/ptmx") < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "link /dev/ptmx");
        return make_directory("dev/pts", 0755, e);
}

/* An overlay costs 0.05 ms for any number of entries, a mount of each 0.9 ms for 120 of them; and a
 * mount alone cannot add a file that the image lacks. The overlay covers the mount of its lower
 * directory, which stays: umount(2) would wait for a grace period of the kernel. The relative names
 * are all that mountinfo shows of the two. */
static int lay_over_etc(struct cloche_err *e)
{
        static const char *const options[] = {"lowerdir", OWN_ETC ":etc", NULL};
        _cleanup_fd_ int tree_fd =
                mount_make("overlay", options, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);

        if (tree_fd == -EINVAL)
                return err_set(e, CLOCHE_E_MOUNT,
                               "the image's /etc cannot be the lower directory of an overlay: something is mounted in "
                               "it, or it is on an overlay of an overlay; copy the image to another directory");
        if (tree_fd == -ENODEV)
                return err_set(e, CLOCHE_E_MOUNT,
                               "an image's /etc needs overlayfs, which this kernel lacks: root loads it with modprobe "
                               "overlay");
        return tree_fd < 0 ? err_os(e, CLOCHE_E_MOUNT, -tree_fd, "mount an overlay on the image's /etc")
                           : mount_attach(tree_fd, "etc", e);
}

/* Write the image's file and the row of our user. */
static int write_accounts(size_t file, int has_image_etc, const char *path, struct cloche_err *e)
{
        _cleanup_fd_ int from_fd = -EBADF, to_fd = -EBADF;
        struct stat st = {0};
        char place[32], last = '\n';
        off_t at = 0;
        int r;

        snprintf(place, sizeof(place), "%s", jail_accounts[file].path);
        from_fd = has_image_etc ? open(place, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -EBADF;
        if (from_fd >= 0 && (fstat(from_fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > ACCOUNTS_BYTES_MAX))
                return err_set(e, CLOCHE_E_MOUNT, "the image's /%s is no plain file of at most %u bytes", place,
                               ACCOUNTS_BYTES_MAX);
        to_fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (to_fd < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "make /%s", path);
        while (at < st.st_size)
                if (sendfile(to_fd, from_fd, &at, (size_t)(st.st_size - at)) <= 0)
                        return err_os(e, CLOCHE_E_MOUNT, errno, "copy /%s", path);
        if (st.st_size > 0 && pread(from_fd, &last, 1, st.st_size - 1) != 1)
                return err_os(e, CLOCHE_E_MOUNT, errno, "read /%s", place);
        r = from_fd < 0    ? fd_write_full(to_fd, jail_accounts[file].own, strlen(jail_accounts[file].own))
            : last != '\n' ? fd_write_full(to_fd, "\n", 1)
                           : 0;
        if (r == 0)
                r = fd_write_full(to_fd, jail_accounts[file].row, strlen(jail_accounts[file].row));
        return r < 0 ? err_os(e, CLOCHE_E_MOUNT, -r, "write /%s", path) : 0;
}

static int write_etc_file(const struct jail_plan *plan, size_t file, int has_image_etc, const char *path,
                          struct cloche_err *e)
{
        char room[ETC_TEXT_SIZE];
        const char *text;

        for (size_t i = 0; plan->has_root && i < JAIL_ACCOUNTS; i++)
                if (strcmp(jail_accounts[i].path + strlen("etc/"), etc_files[file].name) == 0)
                        return write_accounts(i, has_image_etc, path, e);
        text = etc_text(plan, file, room);
        return write_file(path, text, strlen(text), 0644, e);
}

static int make_etc(const struct jail_plan *plan, int has_image_etc, struct cloche_err *e)
{
        const char *directory = has_image_etc ? OWN_ETC : "etc";
        int r = make_directory(directory, 0755, e);
        char path[64];

        for (size_t i = 0; r == 0 && i < COUNT(etc_files); i++) {
                snprintf(path, sizeof(path), "%s/%s", directory, etc_files[i].name);
                r = write_etc_file(plan, i, has_image_etc, path, e);
        }
        return r == 0 && has_image_etc ? lay_over_etc(e) : r;
}

static int make_own_files(const struct jail_plan *plan, const struct root_sources *sources, struct cloche_err *e)
{
        int r = plan->is_sandbox ? make_terminal_places(e) : root_link_home(plan, AT_FDCWD, e);

        for (size_t i = 0; r == 0 && i < COUNT(dev_links); i++)
                if (symlink(dev_links[i].target, dev_links[i].name) < 0)
                        r = err_os(e, CLOCHE_E_MOUNT, errno, "link /%s", dev_links[i].name);
        return r < 0 ? r : make_etc(plan, sources->has_etc, e);
}

#define PROCESSORS "sys/devices/system/cpu"

/* No box shows the host's /sys. One with a root of its own has programs of packages that
 * end without these (lscpu); sched_getaffinity(2) and /proc say as much. */
static int make_sys(struct cloche_err *e)
{
        static const char *const names[] = {"possible", "present", "online"};
        const long count = sysconf(_SC_NPROCESSORS_CONF);
        char text[32], path[64];
        int r = make_parents(PROCESSORS "/x", e),
            size = snprintf(text, sizeof(text), count > 1 ? "0-%ld\n" : "0\n", count - 1);

        for (size_t i = 0; r == 0 && i < COUNT(names); i++) {
                snprintf(path, sizeof(path), PROCESSORS "/%s", names[i]);
                r = write_file(path, text, (size_t)size, 0444, e);
        }
        return r;
}

static int has_mount_at_top(const struct jail_plan *plan, size_t before, const char *top)
{
        size_t size = strlen(top);

        for (size_t i = 0; i < before; i++)
                if (strncmp(plan->mounts[i] + 1, top, size) == 0 && strchr("/", plan->mounts[i][size + 1]))
                        return 1;
        return 0;
}

/* A box has only the directory of its own user in /home. */
static int is_beside_home(const char *path)
{
        return strncmp(path, "home/", 5) == 0 && path[5];
}

/* One that lies in another of them: its place is none that can be made here. */
static int is_inner(const struct jail_plan *plan, size_t mount)
{
        for (size_t i = 0; i < plan->mount_count; i++)
                if (i != mount && path_is_at_or_below(plan->mounts[mount], plan->mounts[i]))
                        return 1;
        return 0;
}

/* The directory or file that a mount is attached to. */
static int make_point(const struct jail_plan *plan, size_t mount, struct cloche_err *e)
{
        const char *path = plan->mounts[mount] + 1;
        int r = make_parents(path, e);

        if (r < 0 || !(plan->file_mounts & 1u << mount))
                return r < 0 ? r : make_directory(path, 0755, e);
        return access(path, F_OK) == 0 ? 0 : write_file(path, "", 0, 0644, e);
}

/* The host's root is still the root here: a link of the image would lead to the host's files. */
static int check_no_link(const char *path, struct cloche_err *e)
{
        struct stat st;
        char part[512];

        snprintf(part, sizeof(part), "%s", path);
        for (char *slash = strchrnul(part, '/');; slash = strchrnul(slash + 1, '/')) {
                const int is_last = *slash == '\0';

                *slash = '\0';
                if (lstat(part, &st) < 0)
                        return 0; /* the rest is made */
                if (S_ISLNK(st.st_mode))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "a mount at /%s would go through /%s, a link of the image: choose another place",
                                       path, part);
                if (is_last)
                        return 0;
                *slash = '/';
        }
}

/* The mount point of a mount outside of the writable places: below a directory at the top that
 * holds only mounts, or a file at the top. */
static int make_mount_place(const struct jail_plan *plan, size_t mount, struct cloche_err *e)
{
        const char *path = plan->mounts[mount] + 1;
        char top[256];
        int r;

        if (root_is_writable(path) || is_inner(plan, mount))
                return 0;
        snprintf(top, sizeof(top), "%.*s", (int)strcspn(path, "/"), path);
        if (!has_mount_at_top(plan, mount, top) && !is_beside_home(path) &&
            faccessat(AT_FDCWD, top, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "a mount at /%s would cover what the box has at /%s: choose another place", path, top);
        r = check_no_link(path, e);
        return r < 0 ? r : make_point(plan, mount, e);
}

static int build(const struct jail_plan *plan, struct root_sources *sources, struct cloche_err *e)
{
        int r = make_places(e);

        if (r == 0 && plan->has_writable_root)
                r = make_directory(JAIL_CHANGES, 0755, e);
        if (r == 0 && plan->has_writable_root && symlink(SECRETS_TARGET, SECRETS) < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, errno, "make /" SECRETS);
        for (unsigned i = 0; r == 0 && i < sources->count; i++)
                r = attach_source(&sources->rows[i], e);
        if (r == 0)
                r = make_own_files(plan, sources, e);
        if (r == 0)
                r = copy_runtime(TAKE_FD(sources->runtime_fd), e);
        if (r == 0)
                r = copy_own(plan->guest_fd, GUEST_LIBRARY, 0444, e);
        if (r == 0 && plan->has_root)
                r = make_directory(JAIL_BIN, 0755, e);
        if (r == 0)
                r = copy_own(plan->sudo_fd, SUDO, 0555, e);
        if (r == 0 && plan->has_root)
                r = make_directory("run/lock", 0755, e);
        if (r == 0 && plan->has_root)
                r = make_sys(e);
        if (r == 0)
                r = make_masks(e);
        if (r == 0)
                r = mount_proc(e);
        for (size_t i = 0; r == 0 && i < plan->mount_count; i++)
                r = make_mount_place(plan, i, e);
        return r;
}

static int leave_host_root(struct cloche_err *e)
{
        int r = mount_turn(e);

        return r < 0 ? r : mount_restrict("/", MOUNT_ATTR_RDONLY, e);
}

int root_build(const struct jail_plan *plan, struct root_sources *sources, struct cloche_err *e)
{
        int r;

        umask(022);
        /* Covers /tmp in our own mount namespace only. The size holds the runtime's
         * copies and a few small files. */
        r = mount_new("tmpfs", "/tmp", MS_FLAGS_NEW_ROOT, "mode=0755,size=64m,nr_inodes=1024", e);
        if (r < 0)
                return r;
        if (chdir("/tmp") < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "enter the new root");
        r = build(plan, sources, e);
        return r < 0 ? r : leave_host_root(e);
}

/* Some random generators compare getpid() to detect a fork (OpenSSL's, Python's tempfile). They
 * would miss ours if template and child had the same pid, each in its own namespace. So pids start
 * at a random number, in another class modulo 4 than the template's. */
static int seed_pids(unsigned depth, struct cloche_err *e)
{
        _cleanup_fd_ int fd = open("proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
        uint32_t chance;
        char text[16];
        int size;

        if (fd < 0 || getrandom(&chance, sizeof(chance), 0) != sizeof(chance))
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "open ns_last_pid (CONFIG_CHECKPOINT_RESTORE)");
        size = snprintf(text, sizeof(text), "%u", 64 + chance % 7000 * 4 + depth % 4 - 1);
        return write(fd, text, (size_t)size) != size ? err_os(e, CLOCHE_E_NAMESPACE, errno, "set the first pid") : 0;
}

/* The kernel also counts these for the owner of the template's user namespace, over all boxes
 * beneath it together (as a rule 128, user_namespaces(7)). So each box gets a share of its own. */
static int bound_shared(struct cloche_err *e)
{
        _cleanup_fd_ int fd = open("proc/sys/user/max_inotify_instances", O_WRONLY | O_CLOEXEC);

        if (fd < 0 && errno == ENOENT)
                return 0;
        return fd < 0 || write(fd, "16", 2) != 2
                       ? err_os(e, CLOCHE_E_NAMESPACE, errno, "bound the box's inotify instances")
                       : 0;
}

int root_furnish(const struct jail_plan *plan, struct cloche_err *e)
{
        _cleanup_fd_ int root_fd = -EBADF;
        int r;

        umask(022);
        if (chdir("/") < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "enter the root");
        r = plan->places_fds ? root_attach_writable(plan->places_fds, &root_fd, e)
                             : root_make_writable(plan, &root_fd, e);
        if (r == 0) /* makes the message queues of the box visible */
                r = mount_new("mqueue", "dev/mqueue", MS_FLAGS_NEW_ROOT | MS_NOEXEC_FLAG, NULL, e);
        if (r == 0 && plan->is_sandbox)
                r = mount_new("devpts", "dev/pts", MS_FLAGS_TERMINALS, TERMINAL_OPTIONS, e);
        if (r == 0 && plan->nested)
                r = mount_proc(e);
        if (r == 0 && (plan->nested || plan->is_template))
                r = seed_pids(plan->depth, e);
        if (r == 0 && plan->nested)
                r = bound_shared(e);
        if (r == 0)
                r = mask_proc(plan, e);
        if (r == 0)
                r = root_identify(plan, e);
        return r < 0 || root_fd < 0 ? r : root_turn(root_fd, plan->layers_fd, e);
}

/* A file system for the runtime in a copy of a sandbox's root. No guest can take its place away:
 * it is in a root that nobody can write to, or a mount itself. */
static int make_runtime_place(struct cloche_err *e)
{
        static const char *const options[] = {"mode", "755", "size", "64m", "nr_inodes", "1024", NULL};
        _cleanup_fd_ int tree_fd = mount_make("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);

        return tree_fd < 0 ? err_os(e, CLOCHE_E_MOUNT, -tree_fd, "make a place for the runtime")
                           : mount_attach(tree_fd, ROOT_RUNTIME, e);
}

int root_fill_runtime(int runtime_fd, struct cloche_err *e)
{
        int r = copy_runtime(runtime_fd, e);

        return r < 0 ? r : mount_restrict(ROOT_RUNTIME, MOUNT_ATTR_RDONLY, e);
}

int root_share(const struct jail_plan *plan, struct cloche_err *e)
{
        int r;

        umask(022);
        if (chdir("/") < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "enter the root");
        /* Mounted over the sandbox's: the kernel permits a new /proc only where another is visible
         * (user_namespaces(7)). */
        r = mount_proc(e);
        if (r == 0)
                r = mask_proc(plan, e);
        if (r == 0 && plan->runtime_fd >= 0)
                r = make_runtime_place(e);
        return r < 0 ? r : root_show_boot_id(plan, e);
}

/* -- mounts of the engine ------------------------------------------------------------------------------------- */

/* default_permissions: the kernel checks modes, for the server tells them; allow_other:
 * for everybody in the box. */
static int make_fuse(const struct jail_plan *plan, size_t mount, int fuse_fd)
{
        char fd[12], uid[12], gid[12];
        const char *const options[] = {
                "source",
                "fuse.cloche",
                "subtype",
                "cloche",
                "fd",
                fd,
                "rootmode",
                plan->file_mounts & 1u << mount ? "100000" : "40000",
                "user_id",
                uid,
                "group_id",
                gid,
                "allow_other",
                NULL,
                "default_permissions",
                NULL,
                "max_read",
                "1048576",
                NULL,
        };

        snprintf(fd, sizeof(fd), "%d", fuse_fd);
        snprintf(uid, sizeof(uid), "%u", plan->user.uid);
        snprintf(gid, sizeof(gid), "%u", plan->user.gid);
        return mount_make("fuse", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

int root_make_fuse(const struct jail_plan *plan, size_t mount, int *ret_fuse_fd, int *ret_tree_fd, struct cloche_err *e)
{
        _cleanup_fd_ int fuse_fd = openat(plan->fuse_dir_fd, "fuse", O_RDWR | O_CLOEXEC);

        if (fuse_fd < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "open the device fuse");
        *ret_tree_fd = make_fuse(plan, mount, fuse_fd);
        if (*ret_tree_fd < 0)
                return err_os(e, CLOCHE_E_MOUNT, -*ret_tree_fd, "mount fuse on %s", plan->mounts[mount]);
        *ret_fuse_fd = TAKE_FD(fuse_fd);
        return 0;
}

int root_mount_fuse(const struct jail_plan *plan, size_t mount, int *ret_fuse_fd, int *ret_tree_fd,
                    struct cloche_err *e)
{
        _cleanup_fd_ int fuse_fd = -EBADF, tree_fd = -EBADF;
        int r = is_inner(plan, mount) ? 0 : make_point(plan, mount, e);

        if (r == 0)
                r = root_make_fuse(plan, mount, &fuse_fd, &tree_fd, e);
        if (r < 0)
                return r;
        if (is_inner(plan, mount))
                *ret_tree_fd = TAKE_FD(tree_fd);
        else
                r = mount_attach(tree_fd, plan->mounts[mount] + 1, e);
        if (r == 0)
                *ret_fuse_fd = TAKE_FD(fuse_fd);
        return r;
}

int root_attach_made(const struct jail_plan *plan, int ret_tree_fds[JAIL_MOUNTS_MAX], struct cloche_err *e)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < plan->mount_count; i++) {
                if (is_inner(plan, i)) {
                        ret_tree_fds[i] = plan->mount_fds[i];
                        continue;
                }
                r = make_point(plan, i, e);
                if (r == 0)
                        r = mount_attach(plan->mount_fds[i], plan->mounts[i] + 1, e);
        }
        return r;
}
