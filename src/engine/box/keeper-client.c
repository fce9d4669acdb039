/* The engine's end of the keeper's socket: requests are sent or held, answers delivered. Runs in:
 * the engine, which has none of the keeper's rights. */
#include "keeper-client.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PENDING_STEP 64
#define FULL_RETRY_MS 20
#define END_MS 60000 /* the keeper kills and removes every box in this time: it gives up on each after some seconds */

/* A request that is not sent yet. Owned, with its descriptors. */
struct unsent {
        int fds[KEEPER_FORK_FDS];
        size_t fd_count, size;
        _Alignas(struct keeper_request) unsigned char bytes[];
};

struct keeper {
        pid_t pid;
        int socket_fd;
        int is_full;           /* the socket buffer is full: requests are queued */
        int is_silent;         /* given up, though its socket is open */
        struct cloche_err end; /* the reason why no more answers come; code 0: they still come */
        struct keeper_guard guards[CLOCHE_GUARD_COUNT];
        struct cgroup_host groups;
        int memory_has_attributes;
        uint32_t serial;
        struct pending {
                uint32_t serial, op; /* serial 0: the row is free */
                keeper_done done;
                void *data;
                uint64_t since_ns;     /* when it was sent */
                struct unsent *unsent; /* the request until it is sent; else NULL */
        } * pending;
        size_t pending_room;
        void (*on_held)(void *data); /* or NULL */
        void *on_held_data;
        struct keeper_request request; /* 8 KiB: too large for the stack of a library */
        struct keeper_answer answer;
};

static struct pending *find_pending(struct keeper *k, uint32_t serial)
{
        for (size_t i = 0; i < k->pending_room; i++)
                if (k->pending[i].serial == serial)
                        return &k->pending[i];
        return NULL;
}

static void free_unsent(struct pending *row)
{
        for (size_t i = 0; row->unsent && i < row->unsent->fd_count; i++)
                fd_close(&row->unsent->fds[i]);
        free(row->unsent);
        row->unsent = NULL;
}

static void free_row(struct pending *row)
{
        free_unsent(row);
        *row = (struct pending){0};
}

static void hand_over(struct keeper *k, const struct pending *row, const struct cloche_err *error, int *fds,
                      size_t fd_count)
{
        struct keeper_reply reply = {.answer = &k->answer, .error = error, .fds = fds, .fd_count = fd_count};

        if (row->done)
                row->done(row->data, &reply);
        else if (row->op == KEEPER_BOX_MAKE && !error && keeper_box_drop_async(k, k->answer.box, NULL, NULL, NULL) < 0)
                return; /* the receiver of the box was detached (keeper_detach), and now the keeper is gone with all
                           boxes */
}

unsigned keeper_detach(struct keeper *k, const void *data)
{
        unsigned count = 0;

        for (size_t i = 0; i < k->pending_room; i++) {
                struct pending *row = &k->pending[i];

                if (!row->serial || !row->done || row->data != data)
                        continue;
                row->done = NULL;
                count++;
                if (row->unsent && row->op == KEEPER_BOX_MAKE)
                        free_row(row);
        }
        return count;
}

/* No more answers will come; k->end has the reason. */
static int lose(struct keeper *k, struct cloche_err *e)
{
        for (size_t i = 0; i < k->pending_room; i++) {
                struct pending row = k->pending[i];

                free_row(&k->pending[i]);
                if (row.serial)
                        hand_over(k, &row, &k->end, NULL, 0);
        }
        if (e)
                *e = k->end;
        return -CLOCHE_E_KEEPER;
}

static int lose_for(struct keeper *k, int code, struct cloche_err *e)
{
        err_os(&k->end, CLOCHE_E_KEEPER, code, "read an answer of the keeper");
        return lose(k, e);
}

void keeper_give_up(struct keeper *k, const char *why)
{
        k->is_silent = 1;
        err_set(&k->end, CLOCHE_E_KEEPER, "%s", why);
        (void)lose(k, NULL);
}

/* Count the boxes whose making is requested or under way, except stuck ones. */
static unsigned count_making(const struct keeper *k, int with_unsent)
{
        uint64_t now_ns = clock_now_ns();
        unsigned count = 0;

        for (size_t i = 0; i < k->pending_room; i++) {
                const struct pending *row = &k->pending[i];

                if (row->serial && row->op == KEEPER_BOX_MAKE)
                        count += row->unsent ? with_unsent : now_ns - row->since_ns < KEEPER_STUCK_NS;
        }
        return count;
}

int keeper_may_make(const struct keeper *k)
{
        return count_making(k, 1) < KEEPER_MAKING_MAX;
}

static int find_free_row(struct keeper *k, struct pending **ret, struct cloche_err *e)
{
        struct pending *grown;

        *ret = find_pending(k, 0);
        if (*ret)
                return 0;
        grown = realloc(k->pending, (k->pending_room + PENDING_STEP) * sizeof(*grown));
        if (!grown)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "send a request to the keeper");
        memset(grown + k->pending_room, 0, PENDING_STEP * sizeof(*grown));
        k->pending = grown;
        *ret = grown + k->pending_room;
        k->pending_room += PENDING_STEP;
        return 0;
}

static uint32_t next_serial(struct keeper *k)
{
        if (++k->serial == 0)
                k->serial = 1;
        return k->serial;
}

/* Find the oldest request that may be sent. */
static struct pending *first_unsent(struct keeper *k)
{
        int may_make = count_making(k, 0) < KEEPER_MAKING_MAX;
        struct pending *first = NULL;

        for (size_t i = 0; i < k->pending_room; i++) {
                struct pending *row = &k->pending[i];

                if (row->unsent && (row->op != KEEPER_BOX_MAKE || may_make) &&
                    (!first || row->serial - first->serial > UINT32_MAX / 2))
                        first = row;
        }
        return first;
}

static int has_unsent(const struct keeper *k)
{
        for (size_t i = 0; i < k->pending_room; i++)
                if (k->pending[i].unsent)
                        return 1;
        return 0;
}

/* Returns 0 or -errno. -EAGAIN: the socket is full, there is no memory for the message, or too many
 * descriptors are in flight. */
static int send_bytes(struct keeper *k, struct pending *row, const void *bytes, size_t size, const int *fds,
                      size_t fd_count)
{
        int r = fd_send(k->socket_fd, bytes, size, fds, fd_count);

        if (r == -ENOBUFS || r == -ENOMEM || r == -ETOOMANYREFS)
                r = -EAGAIN;
        k->is_full = r == -EAGAIN;
        row->since_ns = clock_now_ns();
        return r;
}

static void send_unsent(struct keeper *k)
{
        struct pending *row;

        while ((row = first_unsent(k))) {
                const struct unsent *unsent = row->unsent;

                if (send_bytes(k, row, unsent->bytes, unsent->size, unsent->fds, unsent->fd_count) <
                    0) /* keeper_receive meets the error too */
                        return;
                free_unsent(row);
        }
        k->is_full = 0;
}

/* Milliseconds until the next box that is being made counts as stuck. */
static int next_stuck_ms(const struct keeper *k)
{
        uint64_t now_ns = clock_now_ns(), least_ns = UINT64_MAX;

        for (size_t i = 0; i < k->pending_room; i++) {
                const struct pending *row = &k->pending[i];
                uint64_t age_ns = now_ns - row->since_ns;

                if (row->serial && row->op == KEEPER_BOX_MAKE && !row->unsent && age_ns < KEEPER_STUCK_NS &&
                    KEEPER_STUCK_NS - age_ns < least_ns)
                        least_ns = KEEPER_STUCK_NS - age_ns;
        }
        return least_ns == UINT64_MAX ? -1 : (int)(least_ns / 1000000) + 1;
}

int keeper_send_held(struct keeper *k)
{
        if (k->end.code)
                return -1;
        send_unsent(k);
        return k->is_full ? FULL_RETRY_MS : next_stuck_ms(k);
}

void keeper_on_held(struct keeper *k, void (*on_held)(void *data), void *data)
{
        k->on_held = on_held;
        k->on_held_data = data;
}

static int copy_fds(struct unsent *unsent, const int *fds, size_t fd_count)
{
        for (; unsent->fd_count < fd_count; unsent->fd_count++) {
                unsent->fds[unsent->fd_count] = fcntl(fds[unsent->fd_count], F_DUPFD_CLOEXEC, 3);
                if (unsent->fds[unsent->fd_count] < 0)
                        return -errno;
        }
        return 0;
}

static int hold_back(struct keeper *k, struct pending *row, const int *fds, size_t fd_count, struct cloche_err *e)
{
        size_t size = keeper_request_size(k->request.op);
        int r;

        row->unsent = malloc(sizeof(*row->unsent) + size);
        if (!row->unsent)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "send a request to the keeper");
        row->unsent->fd_count = 0;
        row->unsent->size = size;
        memcpy(row->unsent->bytes, &k->request, size);
        r = copy_fds(row->unsent, fds, fd_count);
        if (r < 0) {
                free_unsent(row);
                return err_os(e, CLOCHE_E_RESOURCE, -r, "send a request to the keeper");
        }
        if (k->on_held)
                k->on_held(k->on_held_data);
        return 0;
}

/* k->request has its op and the members that belong to it. A request never blocks: the keeper may
 * be stopped, or wait until we read its answers. */
static int send_request(struct keeper *k, uint32_t box, const int *fds, size_t fd_count, keeper_done done, void *data,
                        struct cloche_err *e)
{
        struct pending *row;
        int r = find_free_row(k, &row, e);

        if (r < 0)
                return r;
        k->request.serial = next_serial(k);
        k->request.box = box;
        r = -EAGAIN;
        if (!k->is_full && (k->request.op != KEEPER_BOX_MAKE || count_making(k, 1) < KEEPER_MAKING_MAX))
                r = send_bytes(k, row, &k->request, keeper_request_size(k->request.op), fds, fd_count);
        if (r < 0)
                r = r == -EAGAIN ? hold_back(k, row, fds, fd_count, e)
                                 : err_os(e, CLOCHE_E_KEEPER, -r, "send a request to the keeper");
        if (r < 0)
                return r;
        row->serial = k->request.serial;
        row->op = k->request.op;
        row->done = done;
        row->data = data;
        return 0;
}

/* Send the queued requests first. Afterwards the caller may set the members of k->request that
 * belong to op. */
static int prepare(struct keeper *k, enum keeper_op op, struct cloche_err *e)
{
        if (k->end.code) {
                if (e)
                        *e = k->end;
                return -CLOCHE_E_KEEPER;
        }
        send_unsent(k);
        k->request.op = op;
        return 0;
}

static int send_plain_request(struct keeper *k, enum keeper_op op, uint32_t box, keeper_done done, void *data,
                              struct cloche_err *e)
{
        int r = prepare(k, op, e);

        return r < 0 ? r : send_request(k, box, NULL, 0, done, data, e);
}

/* is_cut: the packet is complete, but its descriptors could not be received. */
static int is_answer(struct keeper *k, ssize_t size, int is_cut, struct pending **ret)
{
        size_t expected = k->answer.op == KEEPER_HELLO ? sizeof(k->answer) : KEEPER_ANSWER_HEAD;

        if ((!is_cut && (size_t)size != expected) || err_check(&k->answer.err) < 0 || !k->answer.serial)
                return 0;
        *ret = find_pending(k, k->answer.serial);
        return *ret && !(*ret)->unsent && (*ret)->op == k->answer.op;
}

/* A box without its descriptors is useless. */
static void give_up(struct keeper *k)
{
        uint32_t box = k->answer.box;

        err_os(&k->answer.err, CLOCHE_E_RESOURCE, EMFILE, "take a box from the keeper");
        if (k->answer.op == KEEPER_BOX_MAKE && keeper_box_drop_async(k, box, NULL, NULL, NULL) < 0)
                return; /* the keeper is gone with all boxes */
}

int keeper_receive(struct keeper *k, struct cloche_err *e)
{
        int fds[KEEPER_ANSWER_FDS], is_cut;
        size_t fd_count = KEEPER_ANSWER_FDS;
        struct pending *row, taken;
        ssize_t n = fd_receive(k->socket_fd, &k->answer, sizeof(k->answer), fds, &fd_count, 0);

        if (n == -EAGAIN)
                return 0;
        is_cut = n == -EMFILE;
        if (is_cut)
                fd_count = 0;
        else if (n <= 0)
                return lose_for(k, n == 0 ? EPIPE : (int)-n, e);
        if (!is_answer(k, n, is_cut, &row)) {
                for (size_t i = 0; i < fd_count; i++)
                        close(fds[i]);
                return lose_for(k, EPROTO, e);
        }
        taken = *row;
        free_row(row);
        if (is_cut)
                give_up(k);
        hand_over(k, &taken, k->answer.err.code ? &k->answer.err : NULL, fds, fd_count);
        for (size_t i = 0; i < fd_count; i++)
                fd_close(&fds[i]);
        send_unsent(k);
        return 1;
}

/* -- waiting ---------------------------------------------------------------------------------------------------- */

void keeper_on_waited(void *data, struct keeper_reply *reply)
{
        struct keeper_wait *w = data;

        w->is_answered = 1;
        if (reply->error) {
                w->error = *reply->error;
                return;
        }
        w->box = reply->answer->box;
        w->usage = reply->answer->usage;
        for (; w->fd_count < reply->fd_count; w->fd_count++)
                w->fds[w->fd_count] = TAKE_FD(reply->fds[w->fd_count]);
}

int keeper_wait(struct keeper *k, const struct keeper_wait *w, struct cloche_err *e)
{
        struct pollfd polled = {.fd = k->socket_fd, .events = POLLIN};
        int r = 0;

        while (r >= 0 && !w->is_answered) {
                int timeout_ms = keeper_send_held(k);

                if (poll(&polled, 1, has_unsent(k) ? timeout_ms : -1) > 0)
                        r = keeper_receive(k, e);
        }
        if (r >= 0 && w->error.code && e)
                *e = w->error;
        return r < 0 ? r : -(int)w->error.code;
}

/* -- starting and stopping -------------------------------------------------------------------------------------- */

/* Runs between fork and exec of a process that may have threads: system calls only. */
static _Noreturn void become_keeper(int socket_fd, int error_fd, const char *program, char *const argv[])
{
        char *const environment[] = {NULL};
        int high_error_fd = fcntl(error_fd, F_DUPFD_CLOEXEC, 4), code;
        sigset_t none;

        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        /* dup2 onto itself would leave close-on-exec set. */
        if (high_error_fd >= 0 && (socket_fd == 3 ? fcntl(3, F_SETFD, 0) : dup2(socket_fd, 3)) >= 0)
                execve(program, argv, environment);
        code = errno;
        if (write(high_error_fd < 0 ? error_fd : high_error_fd, &code, sizeof(code)) < 0)
                _exit(126);
        _exit(127);
}

static int start_process(struct keeper *k, int socket_fd, const char *program, char *const argv[], struct cloche_err *e)
{
        _cleanup_fd_ int read_fd = -EBADF, write_fd = -EBADF;
        int pair[2], code = 0;

        if (pipe2(pair, O_CLOEXEC) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a pipe");
        read_fd = pair[0];
        write_fd = pair[1];
        k->pid = fork();
        if (k->pid < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "fork");
        if (k->pid == 0)
                become_keeper(socket_fd, write_fd, program, argv);
        fd_close(&write_fd);
        if (fd_read_full(read_fd, &code, sizeof(code)) == 0)
                return err_os(e, CLOCHE_E_KEEPER, code, "start %s", program);
        return 0;
}

static void keep_groups(const struct cgroup_host *theirs, struct cgroup_host *ret)
{
        *ret = *theirs;
        for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
                struct cgroup_place *place = &ret->places[c];

                place->base[sizeof(place->base) - 1] = place->reason[sizeof(place->reason) - 1] = '\0';
        }
}

static int name_directory(const char *word, const char *path, char *text, size_t size, char **argv, size_t *argc,
                          struct cloche_err *e)
{
        if ((size_t)snprintf(text, size, "%s%s", word, path) >= size)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "the path of the image, of the images, of the volumes or of the runtimes is too long");
        argv[(*argc)++] = text;
        return 0;
}

int keeper_start(const char *libexec_dir, const struct keeper_options *opt, struct keeper **ret, struct cloche_err *e)
{
        char program[KEEPER_PATH_MAX], init[KEEPER_PATH_MAX], image[KEEPER_PATH_MAX + sizeof(KEEPER_IMAGE)],
                trees[KEEPER_PATH_MAX + sizeof(KEEPER_TREES)], volumes[KEEPER_PATH_MAX + sizeof(KEEPER_VOLUMES)],
                runtimes[KEEPER_PATH_MAX + sizeof(KEEPER_RUNTIMES)];
        char *argv[8 + KEEPER_ROOTS_MAX + 1] = {(char *)"cloche-keeper", init};
        size_t argc = 2;
        _cleanup_fd_ int theirs_fd = -EBADF;
        struct keeper_wait hello = {0};
        struct keeper *k;
        int pair[2], r;

        if ((size_t)snprintf(program, sizeof(program), "%s/cloche-keeper", libexec_dir) >= sizeof(program) ||
            (size_t)snprintf(init, sizeof(init), "%s/cloche-box-init", libexec_dir) >= sizeof(init))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the program directory's name is too long");
        if (opt->root_count > KEEPER_ROOTS_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "at most %d directories may be named for mounts, not %zu",
                               KEEPER_ROOTS_MAX, opt->root_count);
        if (opt->core_scheduling)
                argv[argc++] = (char *)KEEPER_CORE_SCHEDULING;
        if ((opt->image && opt->image[0] &&
             name_directory(KEEPER_IMAGE, opt->image, image, sizeof(image), argv, &argc, e) < 0) ||
            (opt->trees && name_directory(KEEPER_TREES, opt->trees, trees, sizeof(trees), argv, &argc, e) < 0) ||
            (opt->volumes &&
             name_directory(KEEPER_VOLUMES, opt->volumes, volumes, sizeof(volumes), argv, &argc, e) < 0) ||
            (opt->runtimes &&
             name_directory(KEEPER_RUNTIMES, opt->runtimes, runtimes, sizeof(runtimes), argv, &argc, e) < 0))
                return -(int)e->code;
        if (opt->images_are_written)
                argv[argc++] = (char *)KEEPER_IMAGES_WRITTEN;
        for (size_t i = 0; i < opt->root_count; i++)
                argv[argc++] = (char *)opt->roots[i];
        k = calloc(1, sizeof(*k));
        if (!k)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start the keeper");
        k->socket_fd = -EBADF;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
                free(k);
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make the keeper's socket");
        }
        k->socket_fd = pair[0];
        theirs_fd = pair[1];
        fcntl(k->socket_fd, F_SETFL, O_NONBLOCK); /* our end only */
        r = start_process(k, theirs_fd, program, argv, e);
        fd_close(&theirs_fd);
        if (r == 0)
                r = send_plain_request(k, KEEPER_HELLO, 0, keeper_on_waited, &hello, e);
        if (r == 0)
                r = keeper_wait(k, &hello, e);
        if (r < 0) {
                keeper_stop(k);
                return r;
        }
        memcpy(k->guards, k->answer.guards, sizeof(k->guards));
        keep_groups(&k->answer.groups, &k->groups);
        k->memory_has_attributes = (int)k->answer.memory_has_attributes;
        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++)
                k->guards[g].reason[sizeof(k->guards[g].reason) - 1] = '\0';
        *ret = k;
        return 0;
}

/* A keeper that hangs is left running: it removes its boxes if it continues. */
static void await_end(const struct keeper *k)
{
        struct pollfd polled = {.fd = (int)syscall(SYS_pidfd_open, k->pid, 0), .events = POLLIN};

        if (polled.fd >= 0 && !k->is_silent)
                while (poll(&polled, 1, END_MS) < 0 && errno == EINTR)
                        ;
        fd_close(&polled.fd);
        while (waitpid(k->pid, NULL, WNOHANG) < 0 && errno == EINTR)
                ;
}

void keeper_stop(struct keeper *k)
{
        if (!k)
                return;
        if (!k->end.code)
                (void)lose_for(k, ECANCELED, NULL);
        fd_close(&k->socket_fd); /* the keeper drops all boxes at end of file, then exits */
        if (k->pid > 0)
                await_end(k);
        free(k->pending);
        free(k);
}

int keeper_memory_has_attributes(const struct keeper *k)
{
        return k->memory_has_attributes;
}

const struct keeper_guard *keeper_guard(const struct keeper *k, enum cloche_guard guard)
{
        return &k->guards[guard];
}

pid_t keeper_pid(const struct keeper *k)
{
        return k->pid;
}

const struct cgroup_host *keeper_groups(const struct keeper *k)
{
        return &k->groups;
}

int keeper_fd(const struct keeper *k)
{
        return k->socket_fd;
}

/* -- requests --------------------------------------------------------------------------------------------------- */

int keeper_ping_async(struct keeper *k, keeper_done done, void *data, struct cloche_err *e)
{
        return send_plain_request(k, KEEPER_PING, 0, done, data, e);
}

int keeper_box_make_async(struct keeper *k, const struct keeper_box_spec *spec, keeper_done done, void *data,
                          struct cloche_err *e)
{
        int r = prepare(k, KEEPER_BOX_MAKE, e);

        k->request.spec = *spec;
        return r < 0 ? r : send_request(k, 0, NULL, 0, done, data, e);
}

int keeper_box_take(uint32_t box, int *fds, size_t fd_count, struct keeper_box *ret, struct cloche_err *e)
{
        if (fd_count < 2)
                return err_set(e, CLOCHE_E_KEEPER, "the keeper sent an invalid answer: descriptors are missing");
        *ret = (struct keeper_box){
                .id = box,
                .pidfd = TAKE_FD(fds[0]),
                .control_fd = TAKE_FD(fds[1]),
                .fork_fd = fd_count > 2 ? TAKE_FD(fds[2]) : -EBADF,
        };
        return 0;
}

int keeper_box_fork_async(struct keeper *k, uint32_t box, const int *fds, size_t fd_count, keeper_done done, void *data,
                          uint32_t *ret_fork, struct cloche_err *e)
{
        int r = prepare(k, KEEPER_BOX_FORK, e);

        if (r == 0)
                r = send_request(k, box, fds, fd_count, done, data, e);
        if (r == 0)
                *ret_fork = k->request.serial;
        return r;
}

int keeper_serve_async(struct keeper *k, uint32_t box, const struct keeper_service_spec *spec, const int *fds,
                       size_t fd_count, keeper_done done, void *data, struct cloche_err *e)
{
        int r = prepare(k, KEEPER_SERVE, e);

        k->request.service = *spec;
        return r < 0 ? r : send_request(k, box, fds, fd_count, done, data, e);
}

int keeper_volume_async(struct keeper *k, const struct keeper_volume_spec *spec, keeper_done done, void *data,
                        struct cloche_err *e)
{
        int r = prepare(k, KEEPER_VOLUME, e);

        if (r < 0)
                return r;
        k->request.volume = *spec;
        return send_request(k, KEEPER_NO_BOX, NULL, 0, done, data, e);
}

int keeper_box_limit_async(struct keeper *k, uint32_t box, const struct keeper_box_limits *limits, keeper_done done,
                           void *data, struct cloche_err *e)
{
        int r = prepare(k, KEEPER_BOX_LIMIT, e);

        k->request.spec = (struct keeper_box_spec){.limits = *limits};
        return r < 0 ? r : send_request(k, box, NULL, 0, done, data, e);
}

int keeper_box_usage_async(struct keeper *k, uint32_t box, keeper_done done, void *data, struct cloche_err *e)
{
        return send_plain_request(k, KEEPER_BOX_USAGE, box, done, data, e);
}

int keeper_box_freeze_async(struct keeper *k, uint32_t box, int is_frozen, keeper_done done, void *data,
                            struct cloche_err *e)
{
        return send_plain_request(k, is_frozen ? KEEPER_BOX_FREEZE : KEEPER_BOX_THAW, box, done, data, e);
}

int keeper_box_drop_async(struct keeper *k, uint32_t box, keeper_done done, void *data, struct cloche_err *e)
{
        return send_plain_request(k, KEEPER_BOX_DROP, box, done, data, e);
}
