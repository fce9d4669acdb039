/* box-init: PID 1 of every box. Runs in: the box, as its ordinary user, without capabilities, under the filter; static,
 * single thread, not dumpable, so the code beside it can neither trace it nor look into /proc/1.
 * Serves init-protocol.h on descriptor 3, reaps whatever ends up with it, and exits when the engine goes away; the
 * kernel then kills the rest of the pid namespace. */
#include "init-protocol.h"
#include "renew.h"

#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <ftw.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define ENGINE_FD 3
#define SPAWN_FDS_MAX 5 /* 0, 1, 2, the channel, a template's fork socket */
#define KILL_ROUNDS_MAX 20000 /* of that pause: a second */
#define KILL_PAUSE_NS 50000
#define SPAWNED_MAX 1024 /* programs of the engine alive at once; what they start themselves is not counted */

static pid_t spawned[SPAWNED_MAX];
static rlim_t cpu_seconds; /* 0: none */

/* -- answers -------------------------------------------------------------------------------------------------- */

static void send_answer(const struct init_answer *answer, int fd)
{
        /* The engine is gone or does not read: without it there is nothing to live for. */
        if (fd_send(ENGINE_FD, answer, sizeof(*answer), &fd, fd >= 0) < 0)
                _exit(0);
}

static void send_exited(pid_t pid, int wait_status, const struct rusage *usage)
{
        struct init_answer answer = {
                .op = INIT_EXITED,
                .pid = pid,
                .wait_status = wait_status,
                .user_us = (uint64_t)usage->ru_utime.tv_sec * 1000000u + (uint64_t)usage->ru_utime.tv_usec,
                .system_us = (uint64_t)usage->ru_stime.tv_sec * 1000000u + (uint64_t)usage->ru_stime.tv_usec,
                .max_rss_bytes = (uint64_t)usage->ru_maxrss * 1024u,
        };

        send_answer(&answer, -1);
}

static void reaped(pid_t pid, int wait_status, const struct rusage *usage)
{
        for (size_t i = 0; i < SPAWNED_MAX; i++)
                if (spawned[i] == pid) {
                        spawned[i] = 0;
                        send_exited(pid, wait_status, usage);
                        return;
                }
}

/* options: WNOHANG, or 0 to wait until no child is left. */
static void reap(int options)
{
        struct rusage usage;
        int wait_status;
        pid_t pid;

        while ((pid = wait4(-1, &wait_status, options, &usage)) > 0 || (pid < 0 && errno == EINTR))
                if (pid > 0)
                        reaped(pid, wait_status, &usage);
}

/* -- files ---------------------------------------------------------------------------------------------------- */

static int open_path(const char *path, uint64_t flags, uint64_t mode)
{
        struct open_how how = {
                .flags = flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NOCTTY | O_NONBLOCK), /* openat2(2) refuses these with O_PATH */
                .mode = mode,
                .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
        };

        return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

static int make_parents(char *path, struct cloche_err *e)
{
        for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                int r;

                *slash = '\0';
                r = mkdir(path, 0755) < 0 && errno != EEXIST && errno != EROFS ? -errno : 0;
                if (r < 0)
                        r = err_os(e, CLOCHE_E_INVALID_ARGUMENT, -r, "make the directory %s", path);
                *slash = '/';
                if (r < 0)
                        return r;
        }
        return 0;
}

static int copy_piece(int to_fd, int from_fd, off_t at, off_t end)
{
        if (lseek(to_fd, at, SEEK_SET) < 0)
                return -errno;
        while (at < end) {
                ssize_t n = sendfile(to_fd, from_fd, &at, (size_t)(end - at));

                if (n <= 0)
                        return n < 0 ? -errno : 0;
        }
        return 0;
}

/* Holes stay holes, where the file system tells of them. */
static int copy_contents(int to_fd, int from_fd)
{
        struct stat st;
        off_t end = 0;
        int r = fstat(from_fd, &st) < 0 || ftruncate(to_fd, st.st_size) < 0 ? -errno : 0;

        while (r == 0 && end < st.st_size) {
                off_t start = lseek(from_fd, end, SEEK_DATA);

                if (start < 0 && errno == ENXIO)
                        break;
                start = start < 0 ? end : start;
                end = lseek(from_fd, start, SEEK_HOLE);
                end = end < 0 ? st.st_size : end;
                r = copy_piece(to_fd, from_fd, start, end);
        }
        return r;
}

static int put_directory(const struct init_request *request, struct cloche_err *e)
{
        _cleanup_fd_ int fd = -EBADF;

        if (mkdir(request->path, 0755) < 0 && errno != EEXIST)
                return err_os(e, CLOCHE_E_INVALID_ARGUMENT, errno, "make the directory %s", request->path);
        fd = open_path(request->path, O_RDONLY | O_DIRECTORY, 0);
        if (fd < 0 || fchmod(fd, request->mode & 0777) < 0)
                return err_os(e, CLOCHE_E_INVALID_ARGUMENT, errno, "set the mode of %s", request->path);
        return 0;
}

static int put_link(const struct init_request *request, int target_fd, struct cloche_err *e)
{
        char target[INIT_PATH_MAX];
        ssize_t n = pread(target_fd, target, sizeof(target) - 1, 0);

        if (n <= 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the symbolic link %s has no target", request->path);
        target[n] = '\0';
        if (symlink(target, request->path) < 0)
                return err_os(e, CLOCHE_E_INVALID_ARGUMENT, errno, "make the symbolic link %s", request->path);
        return 0;
}

static int put(struct init_request *request, int *fds, size_t fd_count, struct cloche_err *e)
{
        _cleanup_fd_ int to_fd = -EBADF;
        int r;

        if (fd_count != 1)
                return err_set(e, CLOCHE_E_PROTOCOL, "a file comes with one descriptor, not %zu", fd_count);
        r = make_parents(request->path, e);
        if (r < 0)
                return r;
        if (S_ISDIR(request->mode))
                return put_directory(request, e);
        if (S_ISLNK(request->mode))
                return put_link(request, fds[0], e);
        to_fd = open_path(request->path, O_WRONLY | O_CREAT | O_TRUNC, request->mode & 0777);
        if (to_fd < 0)
                return err_os(e, CLOCHE_E_INVALID_ARGUMENT, errno, "place the file %s", request->path);
        r = copy_contents(to_fd, fds[0]);
        if (r < 0)
                return err_os(e, CLOCHE_E_INVALID_ARGUMENT, -r, "place the file %s", request->path);
        /* The mask of open(2) is not the caller's wish. */
        if (fchmod(to_fd, request->mode & 0777) < 0)
                return err_os(e, CLOCHE_E_INVALID_ARGUMENT, errno, "set the mode of %s", request->path);
        return 0;
}

static int get(const struct init_request *request, int *ret_fd, struct cloche_err *e)
{
        _cleanup_fd_ int fd = open_path(request->path, O_RDONLY, 0);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "open %s", request->path);
        if (!S_ISREG(st.st_mode))
                return err_set(e, CLOCHE_E_UNREADABLE_FILE, "open %s: not a regular file", request->path);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

static int read_link(const struct init_request *request, int *ret_fd, struct cloche_err *e)
{
        char target[INIT_PATH_MAX];
        _cleanup_fd_ int fd = open_path(request->path, O_PATH | O_NOFOLLOW, 0);
        ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", target, sizeof(target));

        if (n < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "read the link %s", request->path);
        *ret_fd = fd_from_bytes("target", target, (size_t)n);
        return *ret_fd < 0 ? err_os(e, CLOCHE_E_RESOURCE, -*ret_fd, "read the link %s", request->path) : 0;
}

/* nftw(3) has no argument of ours to pass on; one listing runs at a time. */
static FILE *listing;
static size_t listing_size;

static uint64_t time_ns(struct timespec t)
{
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int list_entry(const char *path, const struct stat *st, int type, struct FTW *where)
{
        struct init_entry entry = {
                .size = (uint64_t)st->st_size,
                .mtime_ns = time_ns(st->st_mtim),
                .ctime_ns = time_ns(st->st_ctim),
                .inode = st->st_ino,
                .mode = st->st_mode,
        };
        size_t size;

        (void)type;
        if (where->level == 0)
                return 0;
        path += 2; /* "./" */
        size = strlen(path);
        if (size >= INIT_PATH_MAX)
                return 0; /* deeper than any path an open call takes */
        listing_size += sizeof(entry) + size;
        if (listing_size > INIT_LIST_MAX)
                return EFBIG;
        entry.path_size = (uint32_t)size;
        return fwrite(&entry, sizeof(entry), 1, listing) == 1 && fwrite(path, 1, size, listing) == size ? 0 : EIO;
}

static int list(const struct init_request *request, int *ret_fd, struct cloche_err *e)
{
        _cleanup_fd_ int fd = memfd_create("list", MFD_CLOEXEC);
        int copy_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0), r;

        listing = copy_fd < 0 ? NULL : fdopen(copy_fd, "w");
        if (!listing)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "list %s", request->path);
        listing_size = 0;
        /* FTW_CHDIR: trees may be deeper than PATH_MAX. Nothing else runs in the box now, so none can move. */
        r = chdir(request->path) < 0 ? -1 : nftw(".", list_entry, 32, FTW_PHYS | FTW_MOUNT | FTW_CHDIR);
        if (r < 0)
                r = errno;
        if (fclose(listing) != 0 && r == 0)
                r = errno;
        if (chdir("/") < 0 && r == 0)
                r = errno;
        if (r != 0)
                return err_os(e, CLOCHE_E_RESOURCE, r, "list %s", request->path);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* Everything in the namespace but us. A fork that slipped through between two looks is met in the next round; the kernel
 * answers ESRCH when nobody is left. A child of a template is reaped there, which may take as long as the template likes. */
static int kill_all(struct cloche_err *e)
{
        const struct timespec pause = {.tv_nsec = KILL_PAUSE_NS};

        for (int round = 0; kill(-1, SIGKILL) == 0; round++) {
                reap(0);
                if (round > KILL_ROUNDS_MAX)
                        return err_set(e, CLOCHE_E_STATE, "what was killed in the box is not reaped");
                if (round > 0)
                        nanosleep(&pause, NULL);
        }
        reap(WNOHANG);
        return 0;
}

static int quiesce(struct init_answer *answer)
{
        struct statvfs fs;
        int r = kill_all(&answer->err);

        if (r < 0)
                return r;
        /* One file system at four places, of which this is never covered by a mount. */
        if (statvfs("/dev/shm", &fs) < 0)
                return 0;
        answer->disk_bytes_used = (fs.f_blocks - fs.f_bfree) * fs.f_frsize;
        answer->disk_bytes_free = fs.f_bfree * fs.f_frsize;
        answer->disk_inodes_used = fs.f_files - fs.f_ffree;
        answer->disk_inodes_free = fs.f_ffree;
        return 0;
}

/* -- programs ------------------------------------------------------------------------------------------------- */

struct program {
        char *strings;
        size_t size;
        char **vector; /* cwd, arguments, NULL, environment, NULL */
        char **argv, **environment;
};

static void program_done(struct program *p)
{
        free(p->strings);
        free(p->vector);
}

static int split_strings(struct program *p, uint32_t argc, uint32_t envc)
{
        char *at = p->strings, *end = p->strings + p->size;
        size_t n = 0;

        for (uint64_t i = 0; i < 1 + (uint64_t)argc + envc; i++) {
                char *zero = at < end ? memchr(at, '\0', (size_t)(end - at)) : NULL;

                if (!zero)
                        return -EPROTO;
                if (i == 1 + (uint64_t)argc)
                        p->vector[n++] = NULL;
                p->vector[n++] = at;
                at = zero + 1;
        }
        if (envc == 0)
                p->vector[n++] = NULL;
        p->vector[n] = NULL;
        p->argv = p->vector + 1;
        p->environment = p->vector + 1 + argc + 1;
        return at == end ? 0 : -EPROTO;
}

static int read_program(const struct init_request *request, int fd, struct program *ret)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return -errno;
        if (st.st_size <= 0 || st.st_size > INIT_STRINGS_MAX || request->argc == 0 || request->argc > st.st_size ||
            request->envc > st.st_size)
                return -EPROTO;
        ret->size = (size_t)st.st_size;
        ret->strings = malloc(ret->size);
        ret->vector = calloc((size_t)request->argc + request->envc + 3, sizeof(char *));
        if (!ret->strings || !ret->vector)
                return -ENOMEM;
        if (pread(fd, ret->strings, ret->size, 0) != (ssize_t)ret->size)
                return -EIO;
        return split_strings(ret, request->argc, request->envc);
}

static int arrange_descriptors(const int *fds, size_t count, int error_fd)
{
        int high[SPAWN_FDS_MAX];

        for (size_t i = 0; i < count; i++) {
                high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 16);
                if (high[i] < 0)
                        return -errno;
        }
        for (size_t i = 0; i < count; i++)
                if (dup2(high[i], (int)i) < 0)
                        return -errno;
        /* The error pipe is the one above the rest; it goes with exec. */
        if (dup3(error_fd, (int)count, O_CLOEXEC) < 0 && errno != EINVAL)
                return -errno;
        return close_range((unsigned)count + 1, ~0u, 0) < 0 ? -errno : 0;
}

static int prepare_child(const struct program *p)
{
        struct rlimit cpu = {cpu_seconds, cpu_seconds};
        _cleanup_fd_ int score_fd = -EBADF;
        sigset_t none;

        /* A process that is not dumpable may not write its own files in /proc. Nothing of PID 1's is open any more. */
        if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
                return -errno;
        /* When the box's memory runs out, PID 1 is to be the last. */
        score_fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
        if (score_fd < 0 || fd_write_full(score_fd, "500", 3) < 0)
                return -errno;
        if (cpu_seconds && setrlimit(RLIMIT_CPU, &cpu) < 0)
                return -errno;
        signal(SIGPIPE, SIG_DFL);
        signal(SIGXFSZ, SIG_DFL);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        setsid();
        if (mkdir(p->vector[0], 0755) < 0 && errno != EEXIST && errno != EROFS)
                return -errno;
        return chdir(p->vector[0]) < 0 ? -errno : 0;
}

static _Noreturn void run_child(const struct program *p, const int *fds, size_t count, int error_fd)
{
        int moved_fd = fcntl(error_fd, F_DUPFD_CLOEXEC, 32);
        int r = moved_fd < 0 ? -errno : arrange_descriptors(fds, count, moved_fd);

        if (r == 0) {
                moved_fd = (int)count;
                r = prepare_child(p);
        }
        if (r == 0) {
                environ = p->environment;
                execvp(p->argv[0], p->argv);
                r = -errno;
        }
        if (write(moved_fd, &r, sizeof(r)) < 0)
                _exit(126);
        _exit(127);
}

static pid_t *free_row(void)
{
        for (size_t i = 0; i < SPAWNED_MAX; i++)
                if (!spawned[i])
                        return &spawned[i];
        return NULL;
}

static int start(const struct program *p, const int *fds, size_t count, pid_t *ret_pid, struct cloche_err *e)
{
        _cleanup_fd_ int read_fd = -EBADF, write_fd = -EBADF;
        pid_t *row = free_row(), pid;
        int pair[2], code = 0;

        if (!row)
                return err_set(e, CLOCHE_E_RESOURCE, "%d programs run in the box already", SPAWNED_MAX);
        if (pipe2(pair, O_CLOEXEC) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a pipe in the box");
        read_fd = pair[0];
        write_fd = pair[1];
        pid = fork();
        if (pid < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "fork in the box");
        if (pid == 0)
                run_child(p, fds, count, write_fd);
        fd_close(&write_fd);
        if (fd_read_full(read_fd, &code, sizeof(code)) == 0) {
                waitpid(pid, NULL, 0);
                return err_os(e, CLOCHE_E_SPAWN, -code, "start %s", p->argv[0]);
        }
        *row = *ret_pid = pid;
        return 0;
}

static int spawn(const struct init_request *request, const int *fds, size_t fd_count, pid_t *ret_pid,
                 struct cloche_err *e)
{
        __attribute__((cleanup(program_done))) struct program p = {0};
        int r;

        if (fd_count < 4 || fd_count > 1 + SPAWN_FDS_MAX)
                return err_set(e, CLOCHE_E_PROTOCOL, "a program comes with 4 to %d descriptors, not %zu", 1 + SPAWN_FDS_MAX, fd_count);
        r = read_program(request, fds[0], &p);
        if (r < 0)
                return err_os(e, CLOCHE_E_PROTOCOL, -r, "read the program's strings");
        return start(&p, fds + 1, fd_count - 1, ret_pid, e);
}

/* -- the loop ------------------------------------------------------------------------------------------------- */

static int answer_request(struct init_request *request, int *fds, size_t fd_count, struct init_answer *answer,
                          int *ret_fd)
{
        switch ((enum init_op)request->op) {
        case INIT_PUT:
                return put(request, fds, fd_count, &answer->err);
        case INIT_SPAWN:
                return spawn(request, fds, fd_count, &answer->pid, &answer->err);
        case INIT_QUIESCE:
                return quiesce(answer);
        case INIT_LIST:
                return list(request, ret_fd, &answer->err);
        case INIT_GET:
                return get(request, ret_fd, &answer->err);
        case INIT_READLINK:
                return read_link(request, ret_fd, &answer->err);
        case INIT_MARK:
                return renew_mark() < 0 ? err_set(&answer->err, CLOCHE_E_STATE, "the box cannot be remembered") : 0;
        case INIT_RENEW:
                answer->is_clean = kill_all(NULL) == 0 && renew_is_clean();
                return 0;
        case INIT_EXITED:
                break;
        }
        return err_set(&answer->err, CLOCHE_E_PROTOCOL, "there is no request %u", request->op);
}

static void make_absolute(struct init_request *request)
{
        char path[INIT_PATH_MAX];

        request->path[INIT_PATH_MAX - 1] = '\0';
        if (request->path[0] == '/')
                return;
        memcpy(path, request->path, sizeof(path));
        snprintf(request->path, sizeof(request->path), "/workspace/%.*s", INIT_PATH_MAX - 16, path);
}

static void serve_one(void)
{
        static struct init_request request;
        static struct init_answer answer;
        int fds[FD_MESSAGE_MAX], answer_fd = -EBADF;
        size_t fd_count = FD_MESSAGE_MAX;
        ssize_t n = fd_receive(ENGINE_FD, &request, sizeof(request), fds, &fd_count, 0);

        if (n != sizeof(request))
                _exit(n == 0 ? 0 : 1);
        make_absolute(&request);
        answer = (struct init_answer){.op = request.op};
        if (answer_request(&request, fds, fd_count, &answer, &answer_fd) == 0)
                answer.err = (struct cloche_err){0};
        for (size_t i = 0; i < fd_count; i++)
                close(fds[i]);
        send_answer(&answer, answer_fd);
        fd_close(&answer_fd);
}

static void serve(int signal_fd)
{
        struct pollfd polled[] = {{.fd = ENGINE_FD, .events = POLLIN}, {.fd = signal_fd, .events = POLLIN}};
        struct signalfd_siginfo ignored;

        for (;;) {
                if (poll(polled, 2, -1) < 0) {
                        if (errno == EINTR)
                                continue;
                        _exit(1);
                }
                /* Ends are told before the answer to a request that came later. */
                if (polled[1].revents && read(signal_fd, &ignored, sizeof(ignored)) > 0)
                        reap(WNOHANG);
                if (polled[0].revents)
                        serve_one();
        }
}

int main(int argc, char **argv)
{
        sigset_t children;
        int signal_fd;

        if (getpid() != 1) {
                fprintf(stderr, "cloche-box-init: started by cloche-keeper as PID 1 of a box only\n");
                return 2;
        }
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return 1;
        cpu_seconds = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
        fcntl(ENGINE_FD, F_SETFD, FD_CLOEXEC);
        signal(SIGPIPE, SIG_IGN);
        signal(SIGXFSZ, SIG_IGN); /* a file over the limit is an error of that request */
        umask(022);
        sigemptyset(&children);
        sigaddset(&children, SIGCHLD);
        sigprocmask(SIG_BLOCK, &children, NULL);
        signal_fd = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
        if (signal_fd < 0)
                return 1;
        serve(signal_fd);
        return 0;
}
