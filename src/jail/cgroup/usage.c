/* The counters of a box's groups. Runs in: the keeper and the engine, which only reads. */
#include "internal.h"

#include "base/fd.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES 4096 /* the kernel returns these files in one read, and none is as long */

/* Names of both versions; key: of the line that holds the number, or NULL if the file is a
 * number. */
static const struct counter {
        enum cgroup_controller controller;
        const char *files[2], *keys[2];
} counters[CGROUP_COUNTERS] = {
        [CGROUP_MEMORY_PEAK] = {CGROUP_MEMORY, {"memory.max_usage_in_bytes", "memory.peak"}, {NULL, NULL}},
        [CGROUP_OOM_KILLS] = {CGROUP_MEMORY, {"memory.oom_control", "memory.events"}, {"oom_kill", "oom_kill"}},
        [CGROUP_CPU_TIME] = {CGROUP_CPUACCT, {"cpuacct.usage", "cpu.stat"}, {NULL, "usage_usec"}},
        [CGROUP_PIDS_PEAK] = {CGROUP_PIDS, {"pids.peak", "pids.peak"}, {NULL, NULL}},
        [CGROUP_PIDS_REFUSED] = {CGROUP_PIDS, {"pids.events", "pids.events"}, {"max", "max"}},
};

/* Return a descriptor, or -errno. */
static int open_counter(const struct cgroup_place *place, unsigned box, const struct counter *counter)
{
        char path[CGROUP_PATH_MAX + 64];
        int r, fd;

        if (!place->version)
                return -ENOENT;
        r = cgroup_box_path(path, sizeof(path), place, box, counter->files[place->version - 1]);
        if (r < 0)
                return r;
        fd = open(path, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

int cgroup_usage_open(const struct cgroup_host *host, unsigned box, struct cgroup_usage_files *ret)
{
        struct cgroup_usage_files files = {.is_open = 1};
        int r = 0;

        for (int i = 0; i < CGROUP_COUNTERS; i++) {
                const struct cgroup_place *place = &host->places[counters[i].controller];

                files.versions[i] = place->version;
                files.fds[i] = r < 0 ? -EBADF : open_counter(place, box, &counters[i]);
                /* A counter that is missing for lack of resources would read as 0 for the box's
                 * whole life. */
                if (files.fds[i] == -EMFILE || files.fds[i] == -ENFILE || files.fds[i] == -ENOMEM)
                        r = files.fds[i];
        }
        if (r < 0)
                cgroup_usage_close(&files);
        *ret = files;
        return r;
}

void cgroup_usage_close(struct cgroup_usage_files *files)
{
        for (int i = 0; files->is_open && i < CGROUP_COUNTERS; i++)
                fd_close(&files->fds[i]);
        files->is_open = 0;
}

/* Return the text after "key ", or NULL. */
static const char *find_key(const char *text, const char *key)
{
        size_t size = strlen(key);

        while (text && (strncmp(text, key, size) != 0 || text[size] != ' ')) {
                text = strchr(text, '\n');
                if (text)
                        text++;
        }
        return text ? text + size + 1 : NULL;
}

/* 1: *ret is the number. A group that was removed has no numbers any more (ENODEV). */
static int read_counter(const struct cgroup_usage_files *files, enum cgroup_counter counter, uint64_t *ret)
{
        const char *key = files->versions[counter] ? counters[counter].keys[files->versions[counter] - 1] : NULL;
        char text[TEXT_BYTES];
        const char *at = text;
        ssize_t n;

        if (files->fds[counter] < 0)
                return 0;
        do
                n = pread(files->fds[counter], text, sizeof(text) - 1, 0);
        while (n < 0 && errno == EINTR);
        if (n <= 0)
                return 0;
        text[n] = '\0';
        if (key)
                at = find_key(text, key);
        if (at)
                *ret = strtoull(at, NULL, 10);
        return at != NULL;
}

void cgroup_usage_read(const struct cgroup_usage_files *files, struct cgroup_usage *ret)
{
        *ret = (struct cgroup_usage){0};
        ret->memory_known = read_counter(files, CGROUP_MEMORY_PEAK, &ret->memory_peak_bytes);
        (void)read_counter(files, CGROUP_OOM_KILLS, &ret->oom_kills);
        ret->cpu_known = read_counter(files, CGROUP_CPU_TIME, &ret->cpu_ns);
        if (files->versions[CGROUP_CPU_TIME] == 2)
                ret->cpu_ns *= 1000;
        ret->pids_known = read_counter(files, CGROUP_PIDS_PEAK, &ret->pids_peak);
        (void)read_counter(files, CGROUP_PIDS_REFUSED, &ret->pids_refused);
}

void cgroup_read_present(const struct cgroup_host *host, unsigned box, struct cgroup_present *ret)
{
        static const char *const memory[] = {"memory.usage_in_bytes", "memory.current"};
        const struct cgroup_place *places = host->places;
        unsigned version = places[CGROUP_MEMORY].version;

        *ret = (struct cgroup_present){0};
        ret->memory_known = version && cgroup_read_number(&places[CGROUP_MEMORY], box, memory[version - 1],
                                                          &ret->memory_bytes) == 0;
        ret->pids_known = places[CGROUP_PIDS].version &&
                          cgroup_read_number(&places[CGROUP_PIDS], box, "pids.current", &ret->pids) == 0;
}

void cgroup_read_usage(const struct cgroup_host *host, unsigned box, struct cgroup_usage *ret)
{
        struct cgroup_usage_files files;

        *ret = (struct cgroup_usage){0};
        if (cgroup_usage_open(host, box, &files) < 0)
                return;
        cgroup_usage_read(&files, ret);
        cgroup_usage_close(&files);
}
