/* The same library as an add-on of Node: `process.dlopen` finds napi_register_module_v1. Runs in: a
 * template and its children. Node's exports are declared here, weak: the build has no headers of
 * Node, and other interpreters, which load this library too, have none of them. Node's own state is
 * V8's heap, an event loop (libuv) and OpenSSL's random numbers. */
#include "guest.h"

#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define WEAK __attribute__((weak))
#define DESCRIPTORS_MAX 256
#define STALE_MAX 64
#define SEED_BYTES 32
#define POOL_SIZE "UV_THREADPOOL_SIZE"
#define CHILD_THREADS_MAX 2
#define TABLE_MAX 64
#define CHANNEL_COPY_LEAST 40 /* Node's own descriptors have lower numbers */

typedef struct napi_env__ *napi_env;
typedef struct napi_value__ *napi_value;
typedef struct napi_callback_info__ *napi_callback_info;
typedef napi_value (*napi_callback)(napi_env, napi_callback_info);

WEAK int napi_create_function(napi_env, const char *, size_t, napi_callback, void *, napi_value *);
WEAK int napi_set_named_property(napi_env, napi_value, const char *, napi_value);
WEAK int napi_create_double(napi_env, double, napi_value *);
WEAK int napi_create_string_utf8(napi_env, const char *, size_t, napi_value *);
WEAK int napi_get_undefined(napi_env, napi_value *);
WEAK int napi_create_external_arraybuffer(napi_env, void *, size_t, void (*)(napi_env, void *, void *), void *,
                                          napi_value *);
WEAK int napi_get_cb_info(napi_env, napi_callback_info, size_t *, napi_value *, napi_value *, void **);
WEAK int napi_get_value_int32(napi_env, napi_value, int *);
WEAK int napi_add_env_cleanup_hook(napi_env, void (*)(void *), void *);
WEAK int napi_get_uv_event_loop(napi_env, void **);
WEAK int uv_loop_fork(void *);
WEAK int uv_backend_fd(const void *);
WEAK void uv_update_time(void *);
WEAK void RAND_add(const void *, int, double);
WEAK void *v8_isolate_current(void) __asm__("_ZN2v87Isolate10GetCurrentEv");
WEAK void v8_isolate_low_memory(void *) __asm__("_ZN2v87Isolate21LowMemoryNotificationEv");
WEAK extern void *node_platform_table[] __asm__("_ZTVN4node12NodePlatformE");
WEAK int node_worker_threads(void *) __asm__("_ZN4node12NodePlatform21NumberOfWorkerThreadsEv");

CLOCHE_GUEST_API napi_value napi_register_module_v1(napi_env env, napi_value exports);

static struct {
        unsigned char is_own[DESCRIPTORS_MAX]; /* by number: opened by Node at its start */
        int channel_fd;                        /* a copy above number 3, which is replaced in a child */
        /* Descriptors of event loops whose threads do not exist in a child. */
        struct stale {
                int fd;
                ino_t pipe; /* 0: none */
        } stale[STALE_MAX];
        size_t stale_count;
        int highest_fd;          /* of all event loops */
        int plug_fds[STALE_MAX]; /* free numbers below it */
        size_t plug_count;
        unsigned char was_plug[DESCRIPTORS_MAX]; /* guest.c, in a child, took these for the interpreter's own */
        int exit_code;
        int is_child;
        char pool_size[16];
} node = {.channel_fd = -EBADF};

static napi_value number(napi_env env, double value)
{
        napi_value ret = NULL;

        napi_create_double(env, value, &ret);
        return ret;
}

static int int_argument(napi_env env, napi_callback_info info, int otherwise)
{
        size_t count = 1;
        napi_value argument = NULL;
        int ret = otherwise;

        napi_get_cb_info(env, info, &count, &argument, NULL, NULL);
        if (count > 0)
                napi_get_value_int32(env, argument, &ret);
        return ret;
}

static void *loop_of(napi_env env)
{
        void *loop = NULL;

        napi_get_uv_event_loop(env, &loop);
        return loop;
}

/* -- descriptors of loops other than the main one --------------------------------------------------------------- */

static ino_t inode_of(int fd)
{
        struct stat st;

        return fstat(fd, &st) < 0 ? 0 : st.st_ino;
}

/* True if the main loop watches it, or it is the other end of a pipe that the loop watches.
 * uv_loop_fork recreates those. proc_pid_fdinfo(5): "tfd: N" for each descriptor that an epoll
 * instance watches. */
static int is_of_loop(int fd, int epoll_fd, int is_pipe)
{
        char path[64], line[256];
        FILE *info;
        int watched, ret = fd == epoll_fd;

        snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", epoll_fd);
        info = fopen(path, "re");
        if (!info)
                return 1;
        while (!ret && fgets(line, sizeof(line), info))
                ret = sscanf(line, "tfd: %d", &watched) == 1 &&
                      (watched == fd || (is_pipe && inode_of(watched) == inode_of(fd)));
        fclose(info);
        return ret;
}

static void remember_own(void)
{
        for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
                node.is_own[fd] = fd < CHANNEL_COPY_LEAST && fcntl(fd, F_GETFD) >= 0;
}

/* Code in a child that has these descriptors could write to a loop of the template, which would
 * trust the bytes: pointers, on the pipe of its signals. */
static void find_stale(int epoll_fd)
{
        DIR *dir = opendir("/proc/self/fd");
        char target[64];

        if (!dir)
                return;
        for (struct dirent *entry; (entry = readdir(dir));) {
                ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
                int fd = atoi(entry->d_name), is_pipe;

                target[n < 0 ? 0 : n] = '\0';
                is_pipe = strncmp(target, "pipe:", 5) == 0;
                if (fd <= CLOCHE_GUEST_CHANNEL_FD || fd >= DESCRIPTORS_MAX || !node.is_own[fd] ||
                    (!is_pipe && strcmp(target, "anon_inode:[eventpoll]") != 0 &&
                     strcmp(target, "anon_inode:[eventfd]") != 0))
                        continue;
                if (fd > node.highest_fd)
                        node.highest_fd = fd;
                if (node.stale_count < STALE_MAX && !is_of_loop(fd, epoll_fd, is_pipe))
                        node.stale[node.stale_count++] = (struct stale){.fd = fd, .pipe = is_pipe ? inode_of(fd) : 0};
        }
        closedir(dir);
}

/* With no lower number free, a descriptor that libuv closes and reopens in a child keeps its
 * number, by which cloche_guest_freeze recognizes the interpreter's own. */
static void plug_holes(void)
{
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        while (fd >= 0 && fd < node.highest_fd && node.plug_count < STALE_MAX) {
                node.plug_fds[node.plug_count++] = fd;
                fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        }
        fd_close(&fd);
}

static void pull_plugs(void)
{
        while (node.plug_count > 0) {
                int fd = node.plug_fds[--node.plug_count];

                close(fd);
                if (fd < DESCRIPTORS_MAX)
                        node.was_plug[fd] = 1;
        }
}

/* In a context: find descriptors that user code has opened at the number of a plug. */
static int find_in_holes(char *text, size_t size)
{
        char path[64], target[128];

        for (int fd = 0; node.is_child && fd < DESCRIPTORS_MAX; fd++) {
                ssize_t n;

                if (!node.was_plug[fd] || node.is_own[fd] || fcntl(fd, F_GETFD) < 0)
                        continue;
                snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
                n = readlink(path, target, sizeof(target) - 1);
                target[n < 0 ? 0 : n] = '\0';
                if (strcmp(target, "/dev/null") == 0)
                        continue; /* replaces a dead loop's descriptor, or is a plug */
                snprintf(text, size, "descriptors are open: %d (%s)", fd, target);
                return -EBUSY;
        }
        return 0;
}

/* Their numbers stay taken, because stale code may write to them. */
static void replace_stale(void)
{
        int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

        for (size_t i = 0; i < node.stale_count; i++) {
                const struct stale *s = &node.stale[i];

                if (s->pipe && inode_of(s->fd) != s->pipe)
                        continue; /* libuv recreated it after the fork */
                if (null_fd < 0 || dup3(null_fd, s->fd, O_CLOEXEC) < 0)
                        close(s->fd);
        }
        fd_close(&null_fd);
        node.stale_count = 0;
}

/* -- memory ----------------------------------------------------------------------------------------------------- */

/* V8 marks its heap as not copied by fork(2). Only smaps shows the marked mappings (VmFlags "dc"),
 * and the kernel walks all pages for it. So all are unmarked: on an unmarked mapping, or one of the
 * kernel's, this changes nothing. */
static void make_forkable(void)
{
        FILE *maps = fopen("/proc/self/maps", "re");
        unsigned long from, to;
        char line[512];

        if (!maps)
                return;
        while (fgets(line, sizeof(line), maps))
                if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
                        madvise((void *)from, to - from, MADV_DOFORK);
        fclose(maps);
}

/* -- worker threads ----------------------------------------------------------------------------------------------- */

static int no_worker_threads(void *platform)
{
        (void)platform;
        return 0;
}

/* Node has at least one worker thread for V8, whatever its command line. A child has none. But V8
 * would still give them parts of each garbage collection (and do these itself in the end), and Node
 * would wait for ever for those parts before an event loop ends. So the platform's table of virtual
 * functions, the only place for this, reports that there are none. If Node has no such table,
 * nothing changes. */
static void hide_worker_threads(void)
{
        size_t page = (size_t)sysconf(_SC_PAGESIZE);

        if (!node_platform_table || !node_worker_threads)
                return;
        for (size_t i = 2; i < TABLE_MAX && node_platform_table[i]; i++) {
                void **place = &node_platform_table[i];
                char *from = (char *)((uintptr_t)place & ~(page - 1));

                if (*place != (void *)(uintptr_t)node_worker_threads)
                        continue;
                if (mprotect(from, page, PROT_READ | PROT_WRITE) < 0)
                        return;
                *place = (void *)(uintptr_t)no_worker_threads;
                mprotect(from, page, PROT_READ);
                return;
        }
}

/* libuv's own threads cannot be stopped once a set-up has used them; a child starts new ones when
 * needed. In templates there is at most one of them, so that no other thread is taken for one. */
static void limit_pool(void)
{
        const char *size = getenv(POOL_SIZE);

        snprintf(node.pool_size, sizeof(node.pool_size), "%s", size ? size : "");
        setenv(POOL_SIZE, "1", 1);
}

static void free_pool(void)
{
        if (node.pool_size[0])
                setenv(POOL_SIZE, node.pool_size, 1);
        else
                unsetenv(POOL_SIZE);
}

static int count_threads(void)
{
        struct stat st;

        return stat("/proc/self/task", &st) < 0 ? 0 : (int)st.st_nlink - 2;
}

/* -- pending requests ------------------------------------------------------------------------------------------- */

/* The start of libuv's uv_loop_t, which is the same in all of version 1. */
struct loop_begin {
        void *data;
        unsigned active_handles;
        void *handle_queue[2];
        union {
                void *unused;
                unsigned count;
        } active_reqs;
};

/* Some of Node's work on other threads (crypto, zlib) is in no list that JavaScript can see. It
 * would never end in a child. */
static int find_requests(napi_env env, char *text, size_t size)
{
        const struct loop_begin *loop = loop_of(env);

        if (!loop || loop->active_reqs.count == 0)
                return 0;
        snprintf(text, size, "requests are under way: %u", loop->active_reqs.count);
        return -EBUSY;
}

/* -- functions for JavaScript ----------------------------------------------------------------------------------- */

/* Returns 1, 0 or -errno, as cloche_guest_start. */
static napi_value start(napi_env env, napi_callback_info info)
{
        int r;

        (void)info;
        remember_own();
        r = cloche_guest_start();
        if (r == 1) {
                hide_worker_threads();
                limit_pool();
                cloche_guest_copy_code();
        }
        return number(env, r);
}

/* Collect all garbage, and give up the memory for new objects that the start needed:
 * V8 would keep it, and each fork copies its tables. Returns 1, or 0 if this Node does
 * not export the functions. */
static napi_value shrink(napi_env env, napi_callback_info info)
{
        int can = v8_isolate_current && v8_isolate_low_memory;

        (void)info;
        if (can)
                v8_isolate_low_memory(v8_isolate_current());
        return number(env, can);
}

/* Returns undefined, or the fork blockers. */
static napi_value freeze(napi_env env, napi_callback_info info)
{
        int channel_fd = int_argument(env, info, CLOCHE_GUEST_CHANNEL_FD);
        char text[1024] = "";
        napi_value ret = NULL;
        int r;

        if (node.channel_fd < 0)
                node.channel_fd = fcntl(channel_fd, F_DUPFD_CLOEXEC, CHANNEL_COPY_LEAST);
        r = node.channel_fd < 0 ? -errno : cloche_guest_freeze(node.channel_fd, text, sizeof(text));
        if (r == 0 && node.is_child)
                r = find_requests(env, text, sizeof(text));
        if (r == 0)
                r = find_in_holes(text, sizeof(text));
        if (r == 0 && node.is_child && count_threads() > CHILD_THREADS_MAX) {
                r = -EBUSY;
                snprintf(text, sizeof(text), "threads are alive besides the interpreter's own");
        }
        if (r == 0)
                napi_get_undefined(env, &ret);
        else
                napi_create_string_utf8(env, text[0] ? text : strerror(-r), (size_t)-1, &ret);
        return ret;
}

/* OpenSSL detects forks by their pid, and siblings all have the same pid, each in its box. */
static void reinitialize(void *loop)
{
        unsigned char seed[SEED_BYTES];

        if (uv_loop_fork(loop) != 0)
                _exit(1);
        pull_plugs();
        replace_stale();
        uv_update_time(loop);
        if (RAND_add) {
                if (getrandom(seed, sizeof(seed), 0) != sizeof(seed))
                        _exit(1);
                RAND_add(seed, sizeof(seed), sizeof(seed));
        }
}

/* The event loop has ended. The next steps in Node would wait for threads that a child does not
 * have. */
static void end(void *data)
{
        (void)data;
        _exit(node.exit_code);
}

/* No JavaScript runs from here to the fork, because it could allocate memory that is not copied. */
static void stand_still(napi_env env)
{
        find_stale(uv_backend_fd(loop_of(env)));
        plug_holes();
        make_forkable();
}

/* In the child, once the plugs are gone: returns 1 if it is a template too. */
static napi_value go_on(napi_env env)
{
        int is_template = cloche_guest_child();

        node.channel_fd = -EBADF;
        reinitialize(loop_of(env));
        remember_own();
        if (!node.is_child)
                napi_add_env_cleanup_hook(env, end, NULL);
        node.is_child = 1;
        if (!is_template)
                free_pool();
        return number(env, is_template);
}

/* The loop of a template: returns in a child only. */
static napi_value children(napi_env env, napi_callback_info info)
{
        (void)info;
        stand_still(env);
        cloche_guest_collapse(0); /* a TypeScript template has 33 MB of malloc's, in 8,000 small pages */
        for (;;) {
                int pid;

                if (cloche_guest_wait() != 1)
                        _exit(0);
                pid = fork();
                if (pid == 0)
                        return go_on(env);
                cloche_guest_parent(pid < 0 ? -errno : pid);
        }
}

/* The loop of a context, from a `branch` to the next request. Returns -1 in the context itself. */
static napi_value branches(napi_env env, napi_callback_info info)
{
        (void)info;
        stand_still(env);
        while (cloche_guest_wait_for(node.channel_fd) == 1) {
                int pid = fork();

                if (pid == 0)
                        return go_on(env);
                cloche_guest_parent(pid < 0 ? -errno : pid);
        }
        pull_plugs();
        node.stale_count = 0;
        uv_update_time(loop_of(env));
        return number(env, -1);
}

/* Reports branches that have ended. */
static napi_value reap(napi_env env, napi_callback_info info)
{
        napi_value ret = NULL;

        (void)info;
        cloche_guest_reap();
        napi_get_undefined(env, &ret);
        return ret;
}

/* The frame that the descriptor goes with: the sizes of itself and of its JSON, little endian, and
 * `lines` without params (spec/agent.md, Lines). */
#define LINES_JSON "{\"jsonrpc\":\"2.0\",\"method\":\"lines\"}"
#define LINES_BYTES 65536

static const struct __attribute__((packed)) {
        uint32_t size, json_size;
        char json[sizeof(LINES_JSON) - 1];
} lines_frame = {4 + sizeof(LINES_JSON) - 1, sizeof(LINES_JSON) - 1, LINES_JSON};

static int send_memory(int fd)
{
        union {
                char bytes[CMSG_SPACE(sizeof(int))];
                struct cmsghdr align;
        } control = {0};
        struct iovec iov = {(void *)&lines_frame, sizeof(lines_frame)};
        struct msghdr msg = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
        struct cmsghdr *rights = CMSG_FIRSTHDR(&msg);
        struct pollfd polled = {.fd = CLOCHE_GUEST_CHANNEL_FD, .events = POLLOUT};

        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(rights), &fd, sizeof(int));
        for (;;) {
                /* A frame this small goes whole or not at all. */
                ssize_t n = sendmsg(CLOCHE_GUEST_CHANNEL_FD, &msg, MSG_NOSIGNAL);

                if (n >= 0)
                        return n == (ssize_t)sizeof(lines_frame) ? 0 : -EIO;
                if (errno != EAGAIN && errno != EINTR)
                        return -errno;
                poll(&polled, 1, -1);
        }
}

/* Memory for lines of the console, which the engine can read when this process was killed;
 * undefined when there is none. */
static napi_value lines(napi_env env, napi_callback_info info)
{
        int fd = memfd_create("lines", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        napi_value ret = NULL;
        void *at = MAP_FAILED;

        (void)info;
        if (fd >= 0 && ftruncate(fd, LINES_BYTES) == 0 &&
            fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
                at = mmap(NULL, LINES_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED || send_memory(fd) < 0 ||
            napi_create_external_arraybuffer(env, at, LINES_BYTES, NULL, NULL, &ret) != 0)
                napi_get_undefined(env, &ret);
        if (fd >= 0)
                close(fd);
        return ret;
}

/* For a rehearsal: a socket whose peer has sent a frame and closed. Returns the descriptor, or
 * -1. */
static napi_value lonely_socket(napi_env env, napi_callback_info info)
{
        int fds[2];

        (void)info;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
                return number(env, -1);
        if (write(fds[1], &lines_frame, sizeof(lines_frame)) != sizeof(lines_frame))
                fd_close(&fds[0]);
        close(fds[1]);
        return number(env, fds[0]);
}

/* True if a request is waiting already. */
static napi_value is_requested(napi_env env, napi_callback_info info)
{
        struct pollfd polled = {.fd = CLOCHE_GUEST_CHANNEL_FD, .events = POLLIN};

        (void)info;
        return number(env, poll(&polled, 1, 0) != 0);
}

static napi_value pid(napi_env env, napi_callback_info info)
{
        (void)info;
        return number(env, getpid());
}

/* For an exit without process.exit. */
static napi_value exit_code(napi_env env, napi_callback_info info)
{
        napi_value ret = NULL;

        node.exit_code = int_argument(env, info, 0);
        napi_get_undefined(env, &ret);
        return ret;
}

static napi_value leave(napi_env env, napi_callback_info info)
{
        _exit(int_argument(env, info, 0));
}

napi_value napi_register_module_v1(napi_env env, napi_value exports)
{
        static const struct {
                const char *name;
                napi_callback call;
        } rows[] = {
                {"start", start},       {"shrink", shrink}, {"freeze", freeze},        {"children", children},
                {"branches", branches}, {"reap", reap},     {"isAsked", is_requested}, {"pid", pid},
                {"lines", lines},       {"exit", leave},    {"exitCode", exit_code},   {"lonelySocket", lonely_socket},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                napi_value function = NULL;

                if (napi_create_function(env, rows[i].name, (size_t)-1, rows[i].call, NULL, &function) == 0)
                        napi_set_named_property(env, exports, rows[i].name, function);
        }
        return exports;
}
