/* Measure the memory of the engine's spare boxes in /proc and control groups.
 * Runs in: a privileged helper of the CLI, with the rights of the CLI's user. */
#include "memory.h"

#include "base/fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROCESSES_MAX 8192
#define BOXES_MAX 2048
#define TEXT_BYTES 65536

struct boxes {
        struct box {
                char pid_namespace[64];
                unsigned long long started; /* of its oldest process */
                uint64_t pss, group;
                unsigned processes;
        } rows[BOXES_MAX];
        size_t count;
        char own_namespace[64];
};

/* -- /proc ---------------------------------------------------------------------------------------------------- */

static int read_text(const char *path, char *ret, size_t size)
{
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        size_t have = 0;
        ssize_t n = -1;

        while (fd >= 0 && have < size - 1 && (n = read(fd, ret + have, size - 1 - have)) > 0)
                have += (size_t)n;
        ret[have] = '\0';
        return fd < 0 || n < 0 ? -1 : 0;
}

static size_t read_children(pid_t pid, pid_t *ret, size_t room)
{
        static char text[TEXT_BYTES];
        char path[64], *at = text, *end;
        size_t count = 0;

        /* Programs that start boxes have one thread. */
        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
        if (read_text(path, text, sizeof(text)) < 0)
                return 0;
        for (long child = strtol(at, &end, 10); end != at && count < room; child = strtol(at = end, &end, 10))
                ret[count++] = (pid_t)child;
        return count;
}

static unsigned long long start_time(pid_t pid)
{
        char path[64], text[1024], *at;

        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        at = read_text(path, text, sizeof(text)) < 0 ? NULL : strrchr(text, ')');
        /* Field 22; field 3 follows the name. */
        for (int field = 2; at && field < 22; field++)
                at = strchr(at + 1, ' ');
        return at ? strtoull(at, NULL, 10) : ULLONG_MAX;
}

static uint64_t pss(pid_t pid)
{
        char path[64], text[4096];
        const char *line;

        snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
        line = read_text(path, text, sizeof(text)) < 0 ? NULL : strstr(text, "\nPss:");
        return line ? strtoull(line + 5, NULL, 10) << 10 : 0;
}

/* Uses the common mount points of control groups; version 1, then version 2. */
static uint64_t group_memory(pid_t pid)
{
        char path[64], text[4096], file[4200], number[32];
        const char *line;

        snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
        if (read_text(path, text, sizeof(text)) < 0)
                return 0;
        line = strstr(text, ":memory:");
        if (line)
                snprintf(file, sizeof(file), "/sys/fs/cgroup/memory%.*s/memory.usage_in_bytes",
                         (int)strcspn(line + 8, "\n"), line + 8);
        else if ((line = strstr(text, "0::")))
                snprintf(file, sizeof(file), "/sys/fs/cgroup%.*s/memory.current", (int)strcspn(line + 3, "\n"),
                         line + 3);
        return line && read_text(file, number, sizeof(number)) == 0 ? strtoull(number, NULL, 10) : 0;
}

/* -- boxes ---------------------------------------------------------------------------------------------------- */

/* Each box has its own pid namespace. NULL for a process outside boxes. */
static struct box *box_of(struct boxes *boxes, pid_t pid)
{
        char path[64], name[64];
        struct box *box = boxes->rows;
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
        n = readlink(path, name, sizeof(name) - 1);
        if (n < 0)
                return NULL;
        name[n] = '\0';
        if (strcmp(name, boxes->own_namespace) == 0)
                return NULL;
        while (box < boxes->rows + boxes->count && strcmp(box->pid_namespace, name) != 0)
                box++;
        if (box < boxes->rows + boxes->count)
                return box;
        if (boxes->count == BOXES_MAX)
                return NULL;
        *box = (struct box){.started = ULLONG_MAX, .group = group_memory(pid)};
        strcpy(box->pid_namespace, name);
        boxes->count++;
        return box;
}

static void add(struct boxes *boxes, pid_t pid)
{
        struct box *box = box_of(boxes, pid);
        unsigned long long started = start_time(pid);

        if (!box)
                return;
        box->pss += pss(pid);
        box->processes++;
        box->started = started < box->started ? started : box->started;
}

static void look(struct boxes *boxes, pid_t keeper)
{
        static pid_t all[PROCESSES_MAX];
        size_t count = 1;
        ssize_t n = readlink("/proc/self/ns/pid", boxes->own_namespace, sizeof(boxes->own_namespace) - 1);

        boxes->own_namespace[n < 0 ? 0 : n] = '\0';
        all[0] = keeper;
        for (size_t i = 0; i < count; i++) {
                count += read_children(all[i], all + count, PROCESSES_MAX - count);
                add(boxes, all[i]);
        }
}

static int compare_age(const void *a, const void *b)
{
        const struct box *one = a, *other = b;

        return one->started < other->started ? -1 : one->started > other->started;
}

/* A box that was made ahead has no child of the template yet: only its init. */
static int is_spare(const struct box *box)
{
        return box->processes > 1;
}

int memory_of_spares(void *data, int out_fd)
{
        static struct boxes boxes;
        static pid_t children[PROCESSES_MAX];
        size_t templates = *(unsigned *)data, count = read_children(getppid(), children, PROCESSES_MAX);
        struct spare_memory found = {0};

        if (count > 0)
                look(&boxes, children[count - 1]);
        qsort(boxes.rows, boxes.count, sizeof(boxes.rows[0]), compare_age);
        for (size_t i = templates; i < boxes.count; i++) {
                found.boxes += is_spare(&boxes.rows[i]) != 0;
                found.is_group |= boxes.rows[i].pss == 0;
        }
        for (size_t i = templates; i < boxes.count; i++)
                if (is_spare(&boxes.rows[i]))
                        found.bytes += found.is_group ? boxes.rows[i].group : boxes.rows[i].pss;
        return fd_write_full(out_fd, &found, sizeof(found)) < 0;
}
