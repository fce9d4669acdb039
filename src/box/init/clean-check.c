/* Runs in: box-init. */
#include "clean-check.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Bounds of a set-up that is recorded: comparing a larger tree costs more than a new box. */
#define FILES_MAX 64
#define CONTENTS_BYTES_MAX (1u << 20)
#define PIECE_BYTES 16384
#define SCHED_ATTR_SIZE 56
#define COUNTERS_BYTES 8192 /* of one file: 3 KiB on Linux 6.18 */
#define NUMBERS 4

static const char *const places[] = {"/workspace", "/tmp", "/home/cloche", "/dev/shm", "/dev/mqueue"};
#define PLACES (sizeof(places) / sizeof(places[0]))

/* A change of a file or directory, or of its attributes, sets its ctime, which no process can
 * choose. Only writing through a shared mapping may not: tmpfs maps a page writable when it is
 * first read, and then sees no write (mm/memory.c, do_read_fault; mm/shmem.c has no
 * page_mkwrite). So contents are compared as well. */
struct file {
        ino_t inode;
        mode_t mode;
        off_t size;
        struct timespec modified, changed;
};

struct look {
        struct file files[FILES_MAX];
        size_t file_count;
        fsblkcnt_t blocks;
        fsfilcnt_t inodes;
        /* Attributes that a process of the same user may set on PID 1. */
        struct rlimit limits[RLIM_NLIMITS];
        int nice, io_priority;
        cpu_set_t processors;
        char scheduling[SCHED_ATTR_SIZE];
        struct rusage children; /* /proc/1/stat shows it to every process */
};

/* Counters of the box's network, also of attempts that never become a packet: a connection without
 * a route counts in snmp. The counters of netstat change only with a packet. Kept open: opening a
 * file costs as much as reading it. */
static struct counters {
        const char *path;
        int fd; /* -ENOENT: for IPv6 if the kernel has none */
        size_t size;
        char text[COUNTERS_BYTES];
} counters[] = {{.path = "/proc/net/dev"}, {.path = "/proc/net/snmp"}, {.path = "/proc/net/snmp6"}};
#define COUNTERS (sizeof(counters) / sizeof(counters[0]))

static struct look marked;
static struct {
        char *bytes;
        size_t size, compared; /* recorded; of them the files that this check has compared */
} contents;                    /* of all regular files, in the order of the list */
static int is_marked, is_disturbed;
static int64_t last_numbers[NUMBERS]; /* numbers of the objects we last made */

static void add_file(struct look *look, const struct stat *st)
{
        look->files[look->file_count++] = (struct file){st->st_ino, st->st_mode, st->st_size, st->st_mtim, st->st_ctim};
}

/* Append the contents of a file to those that are recorded. */
static int record_contents(int fd, off_t size)
{
        char *grown;
        ssize_t n = 0;

        if (size > (off_t)(CONTENTS_BYTES_MAX - contents.size))
                return -E2BIG;
        grown = realloc(contents.bytes, contents.size + (size_t)size);
        if (!grown)
                return -ENOMEM;
        contents.bytes = grown;
        for (off_t at = 0; at < size; at += n, contents.size += (size_t)n) {
                n = pread(fd, grown + contents.size, (size_t)(size - at), at);
                if (n <= 0)
                        return -EIO;
        }
        return 0;
}

static int compare_contents(int fd, off_t size)
{
        char piece[PIECE_BYTES];
        ssize_t n;

        if (size > (off_t)(contents.size - contents.compared))
                return -EIO;
        for (off_t at = 0; at < size; at += n, contents.compared += (size_t)n) {
                n = pread(fd, piece, size - at < PIECE_BYTES ? (size_t)(size - at) : PIECE_BYTES, at);
                if (n <= 0 || memcmp(piece, contents.bytes + contents.compared, (size_t)n) != 0)
                        return -EIO;
        }
        return 0;
}

static int scan_contents(struct look *look, int dir_fd, const char *name, off_t size)
{
        int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), r;

        if (fd < 0)
                return -errno;
        r = look == &marked ? record_contents(fd, size) : compare_contents(fd, size);
        close(fd);
        return r;
}

/* Depth first, each directory in its own order: the same tree gives the same list. */
static int scan_tree(struct look *look, int dir_fd, const char *name, int depth)
{
        char entries[4096];
        struct stat st;
        int fd, r = 0;
        long n;

        if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (look->file_count == FILES_MAX || depth == 8)
                return -E2BIG;
        add_file(look, &st);
        if (S_ISREG(st.st_mode) && st.st_size > 0)
                return scan_contents(look, dir_fd, name, st.st_size);
        if (!S_ISDIR(st.st_mode))
                return 0;
        fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        while (r == 0 && (n = syscall(SYS_getdents64, fd, entries, sizeof(entries))) > 0)
                for (long at = 0; r == 0 && at < n;) {
                        const char *entry = entries + at; /* u64 inode, s64 next, u16 size, u8 type, name */
                        unsigned short size;

                        memcpy(&size, entry + 16, sizeof(size));
                        if (strcmp(entry + 19, ".") != 0 && strcmp(entry + 19, "..") != 0)
                                r = scan_tree(look, fd, entry + 19, depth + 1);
                        at += size;
                }
        close(fd);
        return r;
}

static int scan_files(struct look *look)
{
        struct statvfs fs;
        int r = 0;

        for (size_t i = 0; r == 0 && i < PLACES; i++)
                r = scan_tree(look, AT_FDCWD, places[i], 0);
        if (r == 0 && statvfs("/workspace", &fs) < 0)
                r = -errno;
        look->blocks = r == 0 ? fs.f_bfree : 0;
        look->inodes = r == 0 ? fs.f_ffree : 0;
        return r;
}

static int scan_self(struct look *look)
{
        for (int i = 0; i < RLIM_NLIMITS; i++)
                if (getrlimit((__rlimit_resource_t)i, &look->limits[i]) < 0)
                        return -errno;
        errno = 0;
        look->nice = getpriority(PRIO_PROCESS, 0);
        look->io_priority = (int)syscall(SYS_ioprio_get, 1 /* IOPRIO_WHO_PROCESS */, 0);
        if (errno || getrusage(RUSAGE_CHILDREN, &look->children) < 0 ||
            sched_getaffinity(0, sizeof(look->processors), &look->processors) < 0 ||
            syscall(SYS_sched_getattr, 0, look->scheduling, sizeof(look->scheduling), 0) < 0)
                return -EIO;
        return 0;
}

static int look(struct look *look)
{
        int r;

        memset(look, 0, sizeof(*look)); /* compared as bytes */
        if (look == &marked)
                contents.size = 0;
        contents.compared = 0;
        r = scan_files(look);
        return r < 0 ? r : scan_self(look);
}

/* Return the inode number of a new file without a name. The file system of all places is at
 * /dev/shm too, where no mount covers it. */
static int64_t next_file(void)
{
        struct stat st;
        int fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), r = fd < 0 ? -1 : fstat(fd, &st);

        if (fd >= 0)
                close(fd);
        return r < 0 ? -1 : (int64_t)st.st_ino;
}

/* Numbers of System V objects and of files are assigned in turn (ipc/util.c, idr_alloc_cyclic;
 * mm/shmem.c, next_ino). So we detect an object that was made in between, even if it is gone and
 * never had a name. */
static void next_numbers(int64_t numbers[NUMBERS])
{
        int ids[] = {shmget(IPC_PRIVATE, 4096, 0600), semget(IPC_PRIVATE, 1, 0600), msgget(IPC_PRIVATE, 0600)};

        for (int i = 0; i < 3; i++)
                numbers[i] = ids[i];
        numbers[3] = next_file();
        if (ids[0] >= 0)
                shmctl(ids[0], IPC_RMID, NULL);
        if (ids[1] >= 0)
                semctl(ids[1], 0, IPC_RMID);
        if (ids[2] >= 0)
                msgctl(ids[2], IPC_RMID, NULL);
}

static int are_numbers_untouched(void)
{
        int64_t numbers[NUMBERS];
        int untouched = 1;

        next_numbers(numbers);
        for (int i = 0; i < NUMBERS; i++)
                /* When the numbers wrap, the box is given up: once in some dozen runs. */
                untouched &= numbers[i] >= 0 && numbers[i] == last_numbers[i] + 1;
        memcpy(last_numbers, numbers, sizeof(numbers));
        return untouched;
}

static ssize_t read_counters(const struct counters *c, char text[COUNTERS_BYTES])
{
        ssize_t n = c->fd == -ENOENT ? 0
                                     : pread(c->fd, text, COUNTERS_BYTES,
                                             0); /* the whole file; if it fills the buffer, that is too small */

        return n < 0 || n == COUNTERS_BYTES ? -EIO : n;
}

static int mark_network(void)
{
        for (size_t i = 0; i < COUNTERS; i++) {
                ssize_t n;

                if (!is_marked && (counters[i].fd = open(counters[i].path, O_RDONLY | O_CLOEXEC)) < 0)
                        counters[i].fd = -errno;
                n = read_counters(&counters[i], counters[i].text);
                if (n < 0)
                        return (int)n;
                counters[i].size = (size_t)n;
        }
        return 0;
}

static int is_network_untouched(void)
{
        char text[COUNTERS_BYTES];

        for (size_t i = 0; i < COUNTERS; i++) {
                ssize_t n = read_counters(&counters[i], text);

                if (n < 0 || (size_t)n != counters[i].size || memcmp(text, counters[i].text, counters[i].size) != 0)
                        return 0;
        }
        return 1;
}

/* /proc/1/status counts our wake-ups. */
static int is_undisturbed(void)
{
        sigset_t waiting;

        return !is_disturbed && sigpending(&waiting) == 0 && sigismember(&waiting, SIGCHLD) == 0;
}

void clean_check_disturb(void)
{
        is_disturbed = 1;
}

static int is_after(const struct timespec *a, const struct timespec *b)
{
        return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* Before Linux 6.13 a change gets the time of the last tick
 * (Documentation/filesystems/multigrain-ts.rst): a change in the tick of the scan would not show.
 * There we wait for the next tick. */
static int is_stamped_finely(void)
{
        struct timespec tick;
        struct stat st;

        if (stat(places[0], &st) < 0 || chmod(places[0], st.st_mode & 07777) < 0 || stat(places[0], &st) < 0 ||
            clock_gettime(CLOCK_REALTIME_COARSE, &tick) < 0)
                return 0;
        return is_after(&st.st_ctim, &tick);
}

/* Both clocks advance with a tick, but real time may be set back. */
static void wait_for_tick(void)
{
        const struct timespec pause = {.tv_nsec = 500000};
        struct timespec from, now;

        clock_gettime(CLOCK_MONOTONIC_COARSE, &from);
        do {
                nanosleep(&pause, NULL);
                clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
        } while (!is_after(&now, &from));
}

void clean_check_record(void)
{
        int is_fine = is_stamped_finely(), r = look(&marked);

        if (r == 0)
                r = mark_network();
        is_marked = r == 0;
        is_disturbed = 0;
        if (r == 0 && !is_fine)
                wait_for_tick();
        next_numbers(last_numbers);
}

int clean_check_passes(void)
{
        static struct look now;

        return is_marked && is_undisturbed() && is_network_untouched() && look(&now) == 0 &&
               memcmp(&now, &marked, sizeof(now)) == 0 && are_numbers_untouched();
}
