/* Where the host has its controllers, and our directory in each. */
#include "cgroup-internal.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUR_PREFIX "cloche-"

static int list_has(const char *list, const char *word)
{
        size_t size = strlen(word);

        for (const char *at = list; at && *at; at = strpbrk(at, ", \n") ? strpbrk(at, ", \n") + 1 : NULL)
                if (strncmp(at, word, size) == 0 && (at[size] == '\0' || strchr(", \n", at[size])))
                        return 1;
        return 0;
}

/* Our path in a hierarchy: the line "ID:controllers:PATH" of /proc/self/cgroup; v2 has no controllers there. */
static int own_path(const char *own_groups, const char *controller, char *ret, size_t size)
{
        char *text = strdup(own_groups), *rest = text, *line;
        int found = -ENOENT;

        while (text && (line = strsep(&rest, "\n"))) {
                char *id = strsep(&line, ":"), *names = strsep(&line, ":");

                (void)id;
                if (!names || !line)
                        continue;
                if (controller ? !list_has(names, controller) : names[0] != '\0')
                        continue;
                found = snprintf(ret, size, "%s", strcmp(line, "/") == 0 ? "" : line) < (int)size ? 0 : -ENAMETOOLONG;
        }
        free(text);
        return found;
}

struct hierarchy {
        const char *mount_point, *type, *options;
};

/* One line of mountinfo: "… root MOUNTPOINT options … - TYPE source SUPEROPTIONS". proc_pid_mountinfo(5). */
static int parse_mount(char *line, struct hierarchy *ret)
{
        char *rest = strstr(line, " - ");

        if (!rest)
                return -EINVAL;
        *rest = '\0';
        rest += 3;
        for (int i = 0; i < 4; i++)
                strsep(&line, " ");
        ret->mount_point = strsep(&line, " ");
        ret->type = strsep(&rest, " ");
        strsep(&rest, " ");
        ret->options = rest;
        return ret->mount_point && ret->options ? 0 : -EINVAL;
}

static void use(struct cgroup_place *place, int version, const char *mount_point, const char *path)
{
        if (place->version)
                return;
        if ((size_t)snprintf(place->base, sizeof(place->base), "%s%s", mount_point, path) < sizeof(place->base))
                place->version = version;
}

static void use_version_2(struct cgroup_host *host, const char *mount_point, const char *own_groups)
{
        char path[CGROUP_PATH_MAX], file[2 * CGROUP_PATH_MAX + 32], controllers[512];

        if (own_path(own_groups, NULL, path, sizeof(path)) < 0)
                return;
        snprintf(file, sizeof(file), "%s%s/cgroup.controllers", mount_point, path);
        if (cgroup_read_text(file, controllers, sizeof(controllers)) < 0)
                return;
        for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
                /* Time is counted and groups are frozen without any controller in version 2 (Linux 4.15, 5.2). */
                int core = c == CGROUP_CPUACCT || (c == CGROUP_FREEZER && path[0]);

                if (core || list_has(controllers, cgroup_controller_names[c]))
                        use(&host->places[c], 2, mount_point, path);
        }
}

void cgroup_host_find(struct cgroup_host *host, const char *mountinfo, const char *own_groups)
{
        char *text = strdup(mountinfo), *rest = text, *line, path[CGROUP_PATH_MAX];
        char version_2[CGROUP_PATH_MAX] = "";

        *host = (struct cgroup_host){0};
        while (text && (line = strsep(&rest, "\n"))) {
                struct hierarchy mount;

                if (parse_mount(line, &mount) < 0)
                        continue;
                if (strcmp(mount.type, "cgroup2") == 0)
                        snprintf(version_2, sizeof(version_2), "%s", mount.mount_point);
                if (strcmp(mount.type, "cgroup") != 0)
                        continue;
                for (int c = 0; c < CGROUP_CONTROLLERS; c++)
                        if (list_has(mount.options, cgroup_controller_names[c]) &&
                            own_path(own_groups, cgroup_controller_names[c], path, sizeof(path)) == 0)
                                use(&host->places[c], 1, mount.mount_point, path);
        }
        free(text);
        /* Controllers that version 1 holds are not in version 2: a controller is in one place at a time. */
        if (version_2[0])
                use_version_2(host, version_2, own_groups);
        for (int c = 0; c < CGROUP_CONTROLLERS; c++)
                if (!host->places[c].version)
                        snprintf(host->places[c].reason, sizeof(host->places[c].reason),
                                 "the host mounts no %s controller, neither version 1 nor 2", cgroup_controller_names[c]);
}

/* -- our directory in each ------------------------------------------------------------------------------------ */

static void remove_tree(const char *base)
{
        char path[CGROUP_PATH_MAX + 300];
        DIR *dir = opendir(base);

        for (struct dirent *entry; dir && (entry = readdir(dir));) {
                if (strncmp(entry->d_name, "box", 3) != 0)
                        continue;
                snprintf(path, sizeof(path), "%s/%s", base, entry->d_name);
                rmdir(path);
        }
        if (dir)
                closedir(dir);
        rmdir(base);
}

/* "cloche-PID" of a process that is no more: its boxes died with it, their groups are empty. */
static void sweep(const char *parent)
{
        char path[CGROUP_PATH_MAX + 300];
        DIR *dir = opendir(parent);

        for (struct dirent *entry; dir && (entry = readdir(dir));) {
                pid_t pid;

                if (strncmp(entry->d_name, OUR_PREFIX, sizeof(OUR_PREFIX) - 1) != 0)
                        continue;
                pid = (pid_t)strtol(entry->d_name + sizeof(OUR_PREFIX) - 1, NULL, 10);
                if (pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH)
                        continue;
                snprintf(path, sizeof(path), "%s/%s", parent, entry->d_name);
                remove_tree(path);
        }
        if (dir)
                closedir(dir);
}

/* Version 2 hands controllers down only when every directory on the way says so. */
static int enable_controller(const char *directory, const char *controller)
{
        char path[CGROUP_PATH_MAX + 64], text[64];

        snprintf(path, sizeof(path), "%s/cgroup.subtree_control", directory);
        snprintf(text, sizeof(text), "+%s", controller);
        return cgroup_write_text(path, text);
}

static void lose(struct cgroup_place *place, int os_errno, const char *what)
{
        char reason[sizeof(place->reason)];

        snprintf(reason, sizeof(reason), "%s in %.60s: %s", what, place->base, strerror(os_errno));
        memcpy(place->reason, reason, sizeof(reason));
        place->version = 0;
}

static void make_place(struct cgroup_place *place, int controller)
{
        char parent[CGROUP_PATH_MAX];
        int core = controller == CGROUP_CPUACCT || controller == CGROUP_FREEZER, r = 0, n;

        memcpy(parent, place->base, sizeof(parent));
        sweep(parent);
        n = snprintf(place->base, sizeof(place->base), "%.*s/" OUR_PREFIX "%d", CGROUP_PATH_MAX - 32, parent,
                     (int)getpid());
        if (n < 0 || (size_t)n >= sizeof(place->base))
                return lose(place, ENAMETOOLONG, "no room for a group");
        if (place->version == 2 && !core)
                r = enable_controller(parent, cgroup_controller_names[controller]);
        if (r < 0)
                return lose(place, -r, "cannot hand the controller down");
        if (mkdir(place->base, 0755) < 0 && errno != EEXIST)
                return lose(place, errno, "cannot make a group");
        if (place->version == 2 && !core)
                r = enable_controller(place->base, cgroup_controller_names[controller]);
        if (r < 0) {
                rmdir(place->base);
                lose(place, -r, "cannot hand the controller down");
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

static void find_own(struct cgroup_host *host)
{
        char *mountinfo = read_whole("/proc/self/mountinfo"), *own_groups = read_whole("/proc/self/cgroup");

        cgroup_host_find(host, mountinfo ? mountinfo : "", own_groups ? own_groups : "");
        free(mountinfo);
        free(own_groups);
}

void cgroup_host_open(struct cgroup_host *host)
{
        find_own(host);
        for (int c = 0; c < CGROUP_CONTROLLERS; c++)
                if (host->places[c].version)
                        make_place(&host->places[c], c);
}

void cgroup_host_watch(struct cgroup_host *host, pid_t keeper)
{
        find_own(host);
        for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
                struct cgroup_place *place = &host->places[c];
                size_t size = strlen(place->base);

                if (place->version)
                        snprintf(place->base + size, sizeof(place->base) - size, "/" OUR_PREFIX "%d", (int)keeper);
                if (place->version && access(place->base, R_OK | X_OK) < 0)
                        lose(place, errno, "cannot be read");
        }
}

void cgroup_host_close(struct cgroup_host *host)
{
        for (int c = 0; c < CGROUP_CONTROLLERS; c++)
                if (host->places[c].version)
                        remove_tree(host->places[c].base);
}
