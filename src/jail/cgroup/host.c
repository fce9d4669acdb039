/* The hierarchies in which the host has its controllers, and our directory in each. Runs in: the
 * keeper, at its start. */
#include "home.h"
#include "internal.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/privilege.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUR_PREFIX "cloche-"
#define NAMES_MAX 16 /* for one pid */

static int list_has(const char *list, const char *word)
{
        size_t size = strlen(word);

        for (const char *at = list; at && *at; at = strpbrk(at, ", \n") ? strpbrk(at, ", \n") + 1 : NULL)
                if (strncmp(at, word, size) == 0 && (at[size] == '\0' || strchr(", \n", at[size])))
                        return 1;
        return 0;
}

struct hierarchy {
        const char *root, *mount_point, *type, *options;
};

/* One line of mountinfo: "id parent major:minor root MOUNTPOINT options … - TYPE source
 * SUPEROPTIONS". proc_pid_mountinfo(5). */
static int parse_mount(char *line, struct hierarchy *ret)
{
        char *rest = strstr(line, " - ");

        if (!rest)
                return -EINVAL;
        *rest = '\0';
        rest += 3;
        for (int i = 0; i < 3; i++)
                strsep(&line, " ");
        ret->root = strsep(&line, " ");
        ret->mount_point = strsep(&line, " ");
        ret->type = strsep(&rest, " ");
        strsep(&rest, " ");
        ret->options = rest;
        return ret->mount_point && ret->options ? 0 : -EINVAL;
}

/* Return path as seen below a mount whose root is not the topmost group, as in containers. */
static const char *below_root(const char *path, const char *root)
{
        size_t size = strcmp(root, "/") == 0 ? 0 : strlen(root);

        if (strncmp(path, root, size) != 0 || (path[size] != '/' && path[size] != '\0'))
                return NULL;
        return strcmp(path + size, "/") == 0 ? "" : path + size;
}

/* This process's group in a hierarchy: the line "ID:controllers:PATH" of /proc/self/cgroup;
 * version 2 has no controllers there. */
static int own_path(const char *own_groups, const char *controller, const char *root, char *ret, size_t size)
{
        char *text = strdup(own_groups), *rest = text, *line;
        int found = -ENOENT;

        while (text && (line = strsep(&rest, "\n"))) {
                char *id = strsep(&line, ":"), *names = strsep(&line, ":");
                const char *path;

                (void)id;
                if (!names || !line)
                        continue;
                if (controller ? !list_has(names, controller) : names[0] != '\0')
                        continue;
                path = below_root(line, root);
                found = path && snprintf(ret, size, "%s", path) < (int)size ? 0 : -ENAMETOOLONG;
        }
        free(text);
        return found;
}

static void use_version_1(struct cgroup_host *host, const struct hierarchy *mount, const char *own_groups)
{
        char path[CGROUP_PATH_MAX];

        for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
                struct cgroup_place *place = &host->places[c];

                if (!place->version && list_has(mount->options, cgroup_controller_names[c]) &&
                    own_path(own_groups, cgroup_controller_names[c], mount->root, path, sizeof(path)) == 0 &&
                    (size_t)snprintf(place->base, sizeof(place->base), "%s%s", mount->mount_point, path) <
                            sizeof(place->base))
                        place->version = 1;
        }
}

/* Version 2 counts time and freezes groups without any controller (Linux 4.15, 5.2). */
static int is_core(int controller)
{
        return controller == CGROUP_CPUACCT || controller == CGROUP_FREEZER;
}

static void use_version_2(struct cgroup_host *host, const struct cgroup_unified *unified)
{
        int has_any = 0;

        for (int c = 0; c < CGROUP_CONTROLLERS; c++)
                has_any = has_any || (!is_core(c) && !host->places[c].version &&
                                      list_has(unified->controllers, cgroup_controller_names[c]));
        for (int c = 0; has_any && c < CGROUP_CONTROLLERS; c++) {
                struct cgroup_place *place = &host->places[c];

                if (!place->version && (is_core(c) || list_has(unified->controllers, cgroup_controller_names[c])))
                        place->version = 2;
        }
}

static void find_unified(const struct hierarchy *mount, const char *own_groups, struct cgroup_unified *ret)
{
        char file[CGROUP_PATH_MAX + 32];

        if (ret->mount_point[0] || own_path(own_groups, NULL, mount->root, ret->own, sizeof(ret->own)) < 0 ||
            (size_t)snprintf(file, sizeof(file), "%s/cgroup.controllers", mount->mount_point) >= sizeof(file) ||
            cgroup_read_text(file, ret->controllers, sizeof(ret->controllers)) < 0)
                return;
        snprintf(ret->mount_point, sizeof(ret->mount_point), "%s", mount->mount_point);
}

void cgroup_host_find(struct cgroup_host *host, struct cgroup_unified *ret_unified, const char *mountinfo,
                      const char *own_groups)
{
        char *text = strdup(mountinfo), *rest = text, *line;

        *host = (struct cgroup_host){0};
        *ret_unified = (struct cgroup_unified){0};
        while (text && (line = strsep(&rest, "\n"))) {
                struct hierarchy mount;

                if (parse_mount(line, &mount) < 0)
                        continue;
                if (strcmp(mount.type, "cgroup2") == 0)
                        find_unified(&mount, own_groups, ret_unified);
                if (strcmp(mount.type, "cgroup") == 0)
                        use_version_1(host, &mount, own_groups);
        }
        free(text);
        /* Controllers that version 1 holds are not in version 2: a controller is in one place at
         * a time. */
        use_version_2(host, ret_unified);
        for (int c = 0; c < CGROUP_CONTROLLERS; c++)
                if (!host->places[c].version)
                        snprintf(host->places[c].reason, sizeof(host->places[c].reason),
                                 "the host mounts no %s controller, neither version 1 nor 2",
                                 cgroup_controller_names[c]);
}

/* -- our directory in each ------------------------------------------------------------------------------------ */

static void remove_tree(const char *base)
{
        char path[CGROUP_PATH_MAX + 300];
        DIR *dir = opendir(base);

        for (struct dirent *entry; dir && (entry = readdir(dir));) {
                if (strncmp(entry->d_name, "box", 3) != 0)
                        continue;
                snprintf(path, sizeof(path), "%s/%s/freezer.state", base, entry->d_name);
                (void)cgroup_write_text(path, "THAWED"); /* only version 1 has it */
                snprintf(path, sizeof(path), "%s/%s", base, entry->d_name);
                rmdir(path);
        }
        if (dir)
                closedir(dir);
        rmdir(base);
}

/* Its owner holds the lock of a directory until it ends: a pid tells nothing of a
 * process in another pid namespace. Returns the descriptor, -EWOULDBLOCK if another
 * process owns it, or -errno. */
static int lock(const char *base)
{
        _cleanup_fd_ int fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : TAKE_FD(fd);
}

/* Remove the directory of a dead process: its boxes died with it, so the groups are empty. But a
 * frozen task of version 1 takes no signal: those of a keeper that was killed while a sandbox
 * was paused die now, and a later call removes their groups. */
static void sweep(const char *parent)
{
        char path[CGROUP_PATH_MAX + 300];
        DIR *dir = opendir(parent);

        for (struct dirent *entry; dir && (entry = readdir(dir));) {
                _cleanup_fd_ int lock_fd = -EBADF;
                char *end;
                pid_t pid;

                if (strncmp(entry->d_name, OUR_PREFIX, sizeof(OUR_PREFIX) - 1) != 0)
                        continue;
                pid = (pid_t)strtol(strrchr(entry->d_name, '-') + 1, &end, 10);
                if (*end || pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH)
                        continue;
                snprintf(path, sizeof(path), "%s/%s", parent, entry->d_name);
                lock_fd = lock(path);
                if (lock_fd >= 0)
                        remove_tree(path);
        }
        if (dir)
                closedir(dir);
}

/* Version 2 passes a controller down only if every directory on the way enables it. */
static int enable_controller(const char *directory, const char *controller)
{
        char path[CGROUP_PATH_MAX + 64], text[64];

        snprintf(path, sizeof(path), "%s/cgroup.subtree_control", directory);
        snprintf(text, sizeof(text), "+%s", controller);
        return cgroup_write_text(path, text);
}

static void lose(struct cgroup_place *place, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void lose(struct cgroup_place *place, const char *format, ...)
{
        char reason[sizeof(place->reason)]; /* the arguments may point into place */
        va_list ap;

        va_start(ap, format);
        vsnprintf(reason, sizeof(reason), format, ap);
        va_end(ap);
        *place = (struct cgroup_place){0};
        memcpy(place->reason, reason, sizeof(reason));
}

/* True if the path still names this directory, not one that another process made in its place. */
static int is_at(int fd, const char *base)
{
        struct stat own, present;

        return fstat(fd, &own) == 0 && stat(base, &present) == 0 && own.st_dev == present.st_dev &&
               own.st_ino == present.st_ino;
}

/* Make this directory, and lock it until this process ends. -EWOULDBLOCK, -EEXIST: it is another's;
 * -ENOENT: another one removed it before it was locked. */
static int make_locked(const char *base)
{
        int fd = lock(base);

        if (fd == -EWOULDBLOCK)
                return fd;
        /* A killed keeper may have had our pid: its old counts must not appear in our groups. */
        if (fd >= 0)
                remove_tree(base);
        fd_close(&fd);
        if (mkdir(base, 0755) < 0)
                return -errno;
        fd = lock(base);
        if (fd >= 0 && !is_at(fd, base)) {
                fd_close(&fd);
                return -ENOENT;
        }
        return fd < 0 ? fd : 0;
}

/* Make our directory beneath parent. In each pid namespace a keeper may have our pid. Returns 0 or
 * -errno. */
static int make_base(const char *parent, char *ret)
{
        int r = -EWOULDBLOCK;

        sweep(parent);
        for (int i = 0; i < NAMES_MAX && (r == -EWOULDBLOCK || r == -EEXIST || r == -ENOENT); i++) {
                char number[16] = "";
                int n;

                if (i > 0)
                        snprintf(number, sizeof(number), "%d-", i);
                n = snprintf(ret, CGROUP_PATH_MAX, "%s/" OUR_PREFIX "%s%d", parent, number, (int)getpid());
                if (n < 0 || n >= CGROUP_PATH_MAX)
                        return -ENAMETOOLONG;
                r = make_locked(ret);
        }
        return r;
}

static void make_place_1(struct cgroup_place *place)
{
        char parent[CGROUP_PATH_MAX];
        struct stat st;
        int r;

        memcpy(parent, place->base, sizeof(parent));
        /* The owner of a group may rename and replace everything beneath it. */
        if (privilege_is_root() && stat(parent, &st) == 0 && st.st_uid != 0)
                return lose(place,
                            "%.90s is a group of user %u, who could take it from root: start as root from outside of "
                            "that session",
                            parent, (unsigned)st.st_uid);
        r = make_base(parent, place->base);
        if (r < 0)
                lose(place, "make a group in %.90s: %s", parent, strerror(-r));
}

static void make_place_2(struct cgroup_place *place, int controller, const char *home, const char *base)
{
        int r = is_core(controller) ? 0 : enable_controller(home, cgroup_controller_names[controller]);

        if (r == -ENOENT)
                return lose(place,
                            "the %s controller is not delegated to %.100s: Delegate= of its unit names those that are",
                            cgroup_controller_names[controller], home);
        if (r == 0 && !is_core(controller))
                r = enable_controller(base, cgroup_controller_names[controller]);
        if (r < 0)
                return lose(place, "hand the %s controller down from %.90s: %s", cgroup_controller_names[controller],
                            home, strerror(-r));
        memcpy(place->base, base, sizeof(place->base));
}

static void make_places_2(struct cgroup_host *host, const struct cgroup_unified *unified,
                          cgroup_request_scope request_scope, const void *data)
{
        char home[CGROUP_PATH_MAX], base[CGROUP_PATH_MAX];
        struct cloche_err e = {0};
        int r = cgroup_home_open(unified, request_scope, data, home, &e);

        if (r == 0 && (r = make_base(home, base)) < 0)
                err_os(&e, CLOCHE_E_CGROUP, -r, "make a group in %s", home);
        for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
                if (host->places[c].version != 2)
                        continue;
                if (r < 0)
                        lose(&host->places[c], "%s", e.msg);
                else
                        make_place_2(&host->places[c], c, home, base);
        }
}

static char *read_whole(const char *path)
{
        size_t size = 1u << 20;
        char *text = calloc(1, size);

        if (text && cgroup_read_text(path, text, size) < 0)
                text[0] = '\0';
        return text;
}

static void find_own(struct cgroup_host *host, struct cgroup_unified *ret_unified)
{
        char *mountinfo = read_whole("/proc/self/mountinfo"), *own_groups = read_whole("/proc/self/cgroup");

        cgroup_host_find(host, ret_unified, mountinfo ? mountinfo : "", own_groups ? own_groups : "");
        free(mountinfo);
        free(own_groups);
}

int cgroup_read_own(struct cgroup_unified *unified)
{
        struct cgroup_host host;

        find_own(&host, unified);
        return unified->mount_point[0] ? 0 : -ENOENT;
}

static int uses_version(const struct cgroup_host *host, int version)
{
        for (int c = 0; c < CGROUP_CONTROLLERS; c++)
                if (host->places[c].version == version)
                        return 1;
        return 0;
}

void cgroup_host_open(struct cgroup_host *host, cgroup_request_scope request_scope, const void *data)
{
        struct cgroup_unified unified;

        find_own(host, &unified);
        for (int c = 0; c < CGROUP_CONTROLLERS; c++)
                if (host->places[c].version == 1)
                        make_place_1(&host->places[c]);
        if (uses_version(host, 2))
                make_places_2(host, &unified, request_scope, data);
}

void cgroup_thaw_left(void)
{
        struct cgroup_host host;
        struct cgroup_unified unified;

        find_own(&host, &unified);
        if (host.places[CGROUP_FREEZER].version == 1)
                sweep(host.places[CGROUP_FREEZER].base);
}

void cgroup_host_close(struct cgroup_host *host)
{
        for (int c = 0; c < CGROUP_CONTROLLERS; c++)
                if (host->places[c].version)
                        remove_tree(host->places[c].base);
}
