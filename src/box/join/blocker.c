/* Runs in: a template (guest.c). */
#include "blocker.h"

#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DESCRIPTORS_MAX 256
#define THREAD_END_MS 200

static struct {
        struct own {
                int fd;
                dev_t device;
                ino_t inode;
        } fds[DESCRIPTORS_MAX];
        size_t fd_count;
        unsigned threads;
} own;

struct text {
        char *at;
        size_t size, used;
        unsigned found;
};

static void add(struct text *text, const char *head, long number, const char *what)
{
        if (text->used < text->size)
                text->used += (size_t)snprintf(text->at + text->used, text->size - text->used, "%s%ld (%s)",
                                               text->found ? ", " : head, number, what);
        text->found++;
}

/* -- threads -------------------------------------------------------------------------------------------------- */

static unsigned count_threads(void)
{
        unsigned count = 0;
        DIR *dir = opendir("/proc/self/task");

        if (!dir)
                return 0;
        for (struct dirent *entry; (entry = readdir(dir));)
                count += entry->d_name[0] != '.';
        closedir(dir);
        return count;
}

void fork_blocker_record_threads(void)
{
        own.threads = count_threads();
}

/* An interpreter lets the joiner of a thread continue before the thread has left the kernel: so a
 * thread that was just joined gets time to end. */
static unsigned count_threads_that_stay(void)
{
        const struct timespec pause = {.tv_nsec = 1000000};
        unsigned threads = count_threads();

        for (int i = 0; threads > own.threads && i < THREAD_END_MS; i++) {
                nanosleep(&pause, NULL);
                threads = count_threads();
        }
        return threads;
}

static int find_threads(char *text, size_t size)
{
        unsigned threads = count_threads_that_stay();

        if (threads <= own.threads)
                return 0;
        threads -= own.threads;
        snprintf(text, size, "%u thread%s alive besides the interpreter's own", threads,
                 threads == 1 ? " is" : "s are");
        return -EBUSY;
}

/* -- children ------------------------------------------------------------------------------------------------- */

/* proc_pid_stat(5). The process chooses the name in parentheses; it may have any bytes in it.
 * Returns 1 for a live child of ours, with its name. */
static int read_child(int proc_fd, const char *entry, char *name, size_t size)
{
        char path[32], line[512], state;
        const char *first, *last;
        int parent;
        ssize_t n;
        _cleanup_fd_ int fd = -EBADF;

        snprintf(path, sizeof(path), "%.20s/stat", entry);
        fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
        line[n < 0 ? 0 : n] = '\0';
        first = strchr(line, '(');
        last = strrchr(line, ')');
        if (!first || !last || last < first || sscanf(last, ") %c %d", &state, &parent) != 2 || parent != getpid() ||
            strchr("ZX", state))
                return 0;
        snprintf(name, size, "%.*s", (int)(last - first - 1), first + 1);
        return 1;
}

static int find_children(const struct fork_blocker_allowed *allowed, char *ret_text, size_t size)
{
        struct text text = {.at = ret_text, .size = size};
        char name[64];
        DIR *proc = opendir("/proc");

        if (!proc)
                return 0;
        for (struct dirent *entry; (entry = readdir(proc));)
                if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
                    read_child(dirfd(proc), entry->d_name, name, sizeof(name)) &&
                    !allowed->is_fork(atoi(entry->d_name)))
                        add(&text, "child processes are alive: ", atol(entry->d_name), name);
        closedir(proc);
        return text.found ? -EBUSY : 0;
}

/* -- descriptors ---------------------------------------------------------------------------------------------- */

/* Call see for every open descriptor except that of the listing itself. */
static void each_descriptor(void (*see)(int fd, const struct stat *st, void *data), void *data)
{
        DIR *dir = opendir("/proc/self/fd");
        struct stat st;

        if (!dir)
                return;
        for (struct dirent *entry; (entry = readdir(dir));)
                if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(dir) &&
                    fstat(atoi(entry->d_name), &st) == 0)
                        see(atoi(entry->d_name), &st, data);
        closedir(dir);
}

static struct own *find_own(int fd)
{
        for (size_t i = 0; i < own.fd_count; i++)
                if (own.fds[i].fd == fd)
                        return &own.fds[i];
        return NULL;
}

static void record_descriptor(int fd, const struct stat *st, void *data)
{
        struct own *known = find_own(fd);

        if (fd == *(const int *)data)
                return;
        if (!known && own.fd_count < DESCRIPTORS_MAX)
                known = &own.fds[own.fd_count++];
        if (known)
                *known = (struct own){fd, st->st_dev, st->st_ino};
}

void fork_blocker_record_descriptors(int but_fd)
{
        each_descriptor(record_descriptor, &but_fd);
}

/* Compared by number, because the interpreter may reopen a descriptor (libuv does after a fork); a
 * file or directory must still be the same one. */
static int is_known(int fd, const struct stat *st)
{
        const struct own *known = find_own(fd);

        if (!known || !(S_ISREG(st->st_mode) || S_ISDIR(st->st_mode)))
                return !!known;
        return known->device == st->st_dev && known->inode == st->st_ino;
}

struct search {
        const struct fork_blocker_allowed *allowed;
        struct text text;
};

static void name_stranger(int fd, const struct stat *st, void *data)
{
        struct search *search = data;
        char path[64], target[128];
        ssize_t n;

        if (fd <= STDERR_FILENO || is_known(fd, st)) /* a child has its own 0, 1 and 2 */
                return;
        for (size_t i = 0; i < search->allowed->fd_count; i++)
                if (search->allowed->fds[i] == fd)
                        return;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        n = readlink(path, target, sizeof(target) - 1);
        target[n < 0 ? 0 : n] = '\0';
        add(&search->text, "descriptors are open: ", fd, target);
}

static int find_descriptors(const struct fork_blocker_allowed *allowed, char *text, size_t size)
{
        struct search search = {.allowed = allowed, .text = {.at = text, .size = size}};

        each_descriptor(name_stranger, &search);
        return search.text.found ? -EBUSY : 0;
}

int fork_blocker_find(const struct fork_blocker_allowed *allowed, char *text, size_t size)
{
        int r;

        if (size)
                text[0] = '\0';
        r = find_threads(text, size);
        if (r == 0)
                r = find_children(allowed, text, size);
        return r < 0 ? r : find_descriptors(allowed, text, size);
}
