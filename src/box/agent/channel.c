/* Runs in: the agents in C, within a box, with the rights of the user's code. */
#include "channel.h"

#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#define HEAD_SIZE 8
#define RETRY_MS 100
#define READY_SIZE 4096

/* In memory that forked processes share: none of them reads an answer that another waits for. */
struct agent_channel_shared {
        pthread_mutex_t requesting, writing;
        uint64_t last_id;
};

static struct agent_channel_shared *open_shared(void)
{
        struct agent_channel_shared *shared =
                mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        pthread_mutexattr_t attributes;

        if (shared == MAP_FAILED)
                return NULL;
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
        pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
        pthread_mutex_init(&shared->requesting, &attributes);
        pthread_mutex_init(&shared->writing, &attributes);
        pthread_mutexattr_destroy(&attributes);
        return shared;
}

/* High numbers avoid conflicts with code that opens or closes descriptors by number; the low ones
 * are for a small RLIMIT_NOFILE. */
static int move_up(int fd)
{
        static const int numbers[] = {1000, 500, 200, 60, 15, 4};

        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
                int moved_fd = fcntl(fd, F_DUPFD_CLOEXEC, numbers[i]);

                if (moved_fd >= 0) {
                        close(fd);
                        return moved_fd;
                }
        }
        return -errno;
}

int agent_channel_open(struct agent_channel *c, int fd, int is_shared)
{
        struct stat status;
        int flags, moved_fd = move_up(fd);

        if (moved_fd < 0)
                return moved_fd;
        if (fstat(moved_fd, &status) < 0)
                return -errno;
        flags = fcntl(moved_fd, F_GETFL);
        fcntl(moved_fd, F_SETFL, flags & ~O_NONBLOCK);
        *c = (struct agent_channel){.fd = moved_fd, .pid = getpid(), .device = status.st_dev, .inode = status.st_ino};
        frame_reader_init(&c->reader, FRAME_BYTES_MAX);
        if (is_shared)
                c->shared = open_shared();
        return is_shared && !c->shared ? -ENOMEM : 0;
}

void agent_channel_get_ready(struct agent_channel *c)
{
        size_t room;
        char *at = frame_reader_room(&c->reader, &room);

        if (at)
                memset(at, 0, room < READY_SIZE ? room : READY_SIZE);
}

void agent_channel_detach(struct agent_channel *c)
{
        c->fd = -EBADF;
        frame_reader_done(&c->reader);
        /* Siblings must not share it. */
        if (c->shared)
                munmap(c->shared, sizeof(*c->shared));
        c->shared = NULL;
}

void agent_channel_close(struct agent_channel *c)
{
        fd_close(&c->fd);
}

/* The code may have closed the descriptor, and another file may have its number now. */
static int is_ours(const struct agent_channel *c)
{
        struct stat status;

        return c->fd >= 0 && fstat(c->fd, &status) == 0 && status.st_dev == c->device && status.st_ino == c->inode;
}

static int wait_for_input(const struct agent_channel *c)
{
        struct pollfd polled = {.fd = c->fd, .events = POLLIN};

        if (!is_ours(c))
                return -1;
        while (poll(&polled, 1, -1) < 0)
                if (errno != EINTR)
                        return -1;
        return is_ours(c) ? 0 : -1;
}

/* Read exactly size bytes; 1, or 0 at the end of the stream. */
static int fill(struct agent_channel *c, size_t size)
{
        while (size > 0) {
                size_t room;
                char *at = frame_reader_room(&c->reader, &room);
                ssize_t n;

                if (!at)
                        return 0;
                n = recv(c->fd, at, size < room ? size : room, MSG_WAITALL);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return 0;
                frame_reader_filled(&c->reader, (size_t)n);
                size -= (size_t)n;
        }
        return 1;
}

static uint32_t length_of(const struct frame_reader *reader)
{
        const unsigned char *b = (const unsigned char *)reader->in.data;

        return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static int read_frame(struct agent_channel *c, struct frame *ret, struct cloche_err *e)
{
        int r;

        if (!fill(c, HEAD_SIZE))
                return 0;
        r = frame_reader_next(&c->reader, ret, e); /* refuses an invalid head */
        if (r == 0) {
                if (!fill(c, length_of(&c->reader) - (HEAD_SIZE - 4)))
                        return 0;
                r = frame_reader_next(&c->reader, ret, e);
        }
        return r < 0 ? -1 : r;
}

int agent_channel_read(struct agent_channel *c, struct frame *ret, struct cloche_err *e)
{
        sigset_t all, before;
        int r;

        if (wait_for_input(c) < 0)
                return 0;
        /* If a signal ended a process in the middle, the others would read a torn frame. */
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, &before);
        r = read_frame(c, ret, e);
        sigprocmask(SIG_SETMASK, &before, NULL);
        return r;
}

int agent_channel_has_input(const struct agent_channel *c)
{
        struct pollfd polled = {.fd = c->fd, .events = POLLIN};

        return poll(&polled, 1, 0) == 1;
}

int agent_channel_await_input(const struct agent_channel *c, int (*gives_up)(void))
{
        struct pollfd polled = {.fd = c->fd, .events = POLLIN};

        while (!gives_up())
                if (poll(&polled, 1, RETRY_MS) > 0)
                        return 1;
        return 0;
}

static int write_all(int fd, const char *at, size_t size)
{
        while (size > 0) {
                ssize_t n = send(fd, at, size, MSG_NOSIGNAL);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -1;
                at += n;
                size -= (size_t)n;
        }
        return 0;
}

/* The last owner may have been killed: its frame or request is over. */
static void lock(pthread_mutex_t *mutex)
{
        if (pthread_mutex_lock(mutex) == EOWNERDEAD)
                pthread_mutex_consistent(mutex);
}

int agent_channel_write(const struct agent_channel *c, const void *data, size_t size)
{
        static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
        pthread_mutex_t *writing = c->shared ? &c->shared->writing : &own;
        sigset_t all, before;
        int r;

        if (!is_ours(c))
                return -1;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, &before);
        lock(writing);
        r = write_all(c->fd, data, size);
        pthread_mutex_unlock(writing);
        sigprocmask(SIG_SETMASK, &before, NULL);
        return r;
}

/* Returns 0, or -1 on timeout. */
static int lock_for_a_while(pthread_mutex_t *mutex)
{
        struct timespec until;
        int r;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += RETRY_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        r = pthread_mutex_timedlock(mutex, &until);
        if (r == EOWNERDEAD)
                pthread_mutex_consistent(mutex);
        return r == 0 || r == EOWNERDEAD ? 0 : -1;
}

uint64_t agent_channel_begin_request(struct agent_channel *c, int (*gives_up)(void))
{
        static uint64_t last_id;

        if (!c->shared)
                return ++last_id;
        if (!gives_up)
                lock(&c->shared->requesting);
        while (gives_up && lock_for_a_while(&c->shared->requesting) < 0)
                if (gives_up())
                        return 0;
        return ++c->shared->last_id;
}

void agent_channel_end_request(struct agent_channel *c)
{
        if (c->shared)
                pthread_mutex_unlock(&c->shared->requesting);
}
