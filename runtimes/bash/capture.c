/* The function prints into a pipe, which a thread reads: not another process, because the code
 * may list and wait for its own children. */
#include "bash-agent.h"

#include "base/fd.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define CHUNK ((size_t)65536)
#define STACK_SIZE 262144
#define LOOK_MS 20

static struct {
        struct agent *agent;
        pthread_t thread;
        int stdout_fd; /* the regular one, meanwhile */
        int read_fd;
        int is_started;
        atomic_int is_over;
        pthread_mutex_t reading;
        char *data;
        size_t size, room, limit;
} capture = {.reading = PTHREAD_MUTEX_INITIALIZER};

static void fail_over_limit(void)
{
        char message[128];

        snprintf(message, sizeof(message), "the function has printed more than the limit of %zu bytes (resultBytes)",
                 capture.limit);
        agent_fail_now(capture.agent, "ResultError", message);
}

/* With system calls only: the shell may be anywhere in its allocator, and about to fork. */
static int make_room(size_t size)
{
        size_t room = capture.room ? capture.room : 2 * CHUNK;
        void *grown;

        while (room < capture.size + size)
                room *= 2;
        if (room == capture.room)
                return 0;
        grown = capture.data ? mremap(capture.data, capture.room, room, MREMAP_MAYMOVE)
                             : mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (grown == MAP_FAILED)
                return -1;
        capture.data = grown;
        capture.room = room;
        return 0;
}

/* The number of bytes read; 0 at the end. */
static size_t take(size_t size)
{
        ssize_t n;

        if (make_room(size) < 0)
                agent_fail_now(capture.agent, "ResultError", "no memory for what the function prints");
        do
                n = read(capture.read_fd, capture.data + capture.size, size);
        while (n < 0 && errno == EINTR);
        if (n <= 0)
                return 0;
        capture.size += (size_t)n;
        if (capture.size > capture.limit + 1) /* a newline at the end is not part of the result */
                fail_over_limit();
        return (size_t)n;
}

/* Read the output that is there when the function has ended; later output of jobs that live on is not awaited. */
static void take_rest(void)
{
        int left = 0;

        if (ioctl(capture.read_fd, FIONREAD, &left) < 0)
                return;
        while (left > 0) {
                size_t taken = take((size_t)left);

                if (taken == 0)
                        return;
                left -= (int)taken;
        }
}

/* 0 if there is nothing more to do. */
static int look(const struct pollfd *polled)
{
        int goes_on;

        pthread_mutex_lock(&capture.reading);
        goes_on = !capture.is_over && (polled->revents & POLLIN) && take(CHUNK) > 0;
        pthread_mutex_unlock(&capture.reading);
        return goes_on;
}

/* The shell reads the rest itself, without waiting for this thread, which notices some time
 * later: the pipe closes. The thread polls, because a job that lives on may hold the pipe open. */
static void *collect(void *unused)
{
        struct pollfd polled = {.fd = capture.read_fd, .events = POLLIN};

        while (!capture.is_over)
                if (poll(&polled, 1, LOOK_MS) > 0 && !look(&polled))
                        break;
        return unused;
}

static int start_thread(void)
{
        pthread_attr_t attributes;
        sigset_t all, before;
        int r;

        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, STACK_SIZE);
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before); /* signals are for the shell's thread */
        r = pthread_create(&capture.thread, &attributes, collect, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
        capture.is_started = r == 0;
        return r == 0 ? 0 : -1;
}

void capture_settle(void)
{
        if (capture.is_started)
                pthread_join(capture.thread, NULL);
        capture.is_started = 0;
}

static int open_pipe(int *ret_write_fd)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -1;
        capture.read_fd = loadable_move_up(fds[0]);
        *ret_write_fd = loadable_move_up(fds[1]);
        return 0;
}

/* Close stdout again if the code had closed it. */
static void restore_stdout(void)
{
        if (capture.stdout_fd < 0 || dup2(capture.stdout_fd, STDOUT_FILENO) < 0)
                close(STDOUT_FILENO);
        fd_close(&capture.stdout_fd);
}

int capture_begin(struct agent *a, size_t limit, const char **ret_why)
{
        _cleanup_fd_ int write_fd = -EBADF;

        fflush(stdout);
        capture_settle();
        capture.agent = a;
        capture.limit = limit;
        capture.size = 0;
        capture.is_over = 0;
        capture.stdout_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
        if (capture.stdout_fd >= 0)
                capture.stdout_fd = loadable_move_up(capture.stdout_fd);
        *ret_why = "no descriptor is left for the function's stdout";
        if (open_pipe(&write_fd) < 0) {
                fd_close(&capture.stdout_fd);
                return -1;
        }
        *ret_why = "no thread is left for the function's stdout";
        if (dup2(write_fd, STDOUT_FILENO) < 0 || start_thread() < 0) {
                restore_stdout();
                fd_close(&capture.read_fd);
                return -1;
        }
        return 0;
}

void capture_end(const char **ret_text, size_t *ret_size)
{
        fflush(stdout);
        restore_stdout();
        pthread_mutex_lock(&capture.reading);
        capture.is_over = 1;
        take_rest();
        fd_close(&capture.read_fd);
        pthread_mutex_unlock(&capture.reading);
        *ret_text = capture.data ? capture.data : "";
        *ret_size = capture.size;
}
