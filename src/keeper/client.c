#include "client.h"

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
#include <sys/wait.h>
#include <unistd.h>

#define PENDING_STEP 64
/* More whole requests would fill the keeper's socket, while it fills ours. */
#define MAKING_MAX 8
/* One that takes longer fills no socket: the keeper waits for whoever makes that box, code of a template perhaps, and holds up nobody else meanwhile. */
#define MAKING_STUCK_NS UINT64_C(1000000000)

struct keeper {
        pid_t pid;
        int socket_fd, is_stopping;
        struct keeper_guard guards[CLOCHE_GUARD_COUNT];
        struct cgroup_host groups;
        uint32_t serial;
        struct pending {
                uint32_t serial, op; /* serial 0: the row is free */
                keeper_done done;
                void *data;
                uint64_t since_ns;              /* when it was sent */
                struct keeper_box_spec *unsent; /* of a box that is asked for once fewer are being made; owned */
        } *pending;
        size_t pending_room;
        void (*on_held)(void *data); /* or NULL */
        void *on_held_data;
        struct keeper_request request; /* 8 KiB: too large for a library's stack */
        struct keeper_answer answer;
};

static struct pending *find_pending(struct keeper *k, uint32_t serial)
{
        for (size_t i = 0; i < k->pending_room; i++)
                if (k->pending[i].serial == serial)
                        return &k->pending[i];
        return NULL;
}

static void free_row(struct pending *row)
{
        free(row->unsent);
        *row = (struct pending){0};
}

static void hand_over(struct keeper *k, const struct pending *row, const struct cloche_err *error, int *fds, size_t fd_count)
{
        struct keeper_reply reply = {.answer = &k->answer, .error = error, .fds = fds, .fd_count = fd_count};

        if (row->done)
                row->done(row->data, &reply);
        else if (row->op == KEEPER_BOX_MAKE && !error && keeper_box_drop_later(k, k->answer.box, NULL, NULL, NULL) < 0)
                return; /* the box was for somebody who has gone (keeper_detach); now the keeper has gone too, and all boxes with it */
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
                if (row->unsent)
                        free_row(row);
        }
        return count;
}

/* Nobody will answer any more. */
static int lose(struct keeper *k, int code, struct cloche_err *e)
{
        struct cloche_err error = {0};

        err_os(&error, CLOCHE_E_KEEPER, code, "hear from the keeper");
        for (size_t i = 0; i < k->pending_room; i++) {
                struct pending row = k->pending[i];

                free_row(&k->pending[i]);
                if (row.serial)
                        hand_over(k, &row, &error, NULL, 0);
        }
        if (e)
                *e = error;
        return -CLOCHE_E_KEEPER;
}

/* Boxes that are asked for or waited for, but for those that are stuck. */
static unsigned count_making(const struct keeper *k, int with_unsent)
{
        uint64_t now_ns = clock_now_ns();
        unsigned count = 0;

        for (size_t i = 0; i < k->pending_room; i++) {
                const struct pending *row = &k->pending[i];

                if (row->serial && row->op == KEEPER_BOX_MAKE)
                        count += row->unsent ? with_unsent : now_ns - row->since_ns < MAKING_STUCK_NS;
        }
        return count;
}

int keeper_may_make(const struct keeper *k)
{
        return count_making(k, 1) < MAKING_MAX;
}

static int find_free_row(struct keeper *k, struct pending **ret, struct cloche_err *e)
{
        struct pending *grown;

        *ret = find_pending(k, 0);
        if (*ret)
                return 0;
        grown = realloc(k->pending, (k->pending_room + PENDING_STEP) * sizeof(*grown));
        if (!grown)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "ask the keeper");
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

/* k->request has its op, box, serial and the members that belong to op. */
static int send_request(struct keeper *k, struct pending *row, const int *fds, size_t fd_count, struct cloche_err *e)
{
        int r = fd_send(k->socket_fd, &k->request, keeper_request_size(k->request.op), fds, fd_count);

        if (r < 0)
                return err_os(e, CLOCHE_E_KEEPER, -r, "ask the keeper");
        row->since_ns = clock_now_ns();
        return 0;
}

static struct pending *first_unsent(struct keeper *k)
{
        struct pending *first = NULL;

        for (size_t i = 0; i < k->pending_room; i++)
                if (k->pending[i].unsent && (!first || k->pending[i].serial - first->serial > UINT32_MAX / 2))
                        first = &k->pending[i];
        return first;
}

/* In the order in which they were asked for. */
static void send_unsent(struct keeper *k)
{
        struct pending *row;

        while (count_making(k, 0) < MAKING_MAX && (row = first_unsent(k))) {
                k->request.op = KEEPER_BOX_MAKE;
                k->request.serial = row->serial;
                k->request.box = 0;
                k->request.spec = *row->unsent;
                free(row->unsent);
                row->unsent = NULL;
                if (send_request(k, row, NULL, 0, NULL) < 0) /* whoever hears next meets its end, and tells everybody */
                        return;
        }
}

/* Until the next of those that are being made counts as stuck. */
static int next_stuck_ms(const struct keeper *k)
{
        uint64_t now_ns = clock_now_ns(), least_ns = UINT64_MAX;

        for (size_t i = 0; i < k->pending_room; i++) {
                const struct pending *row = &k->pending[i];
                uint64_t age_ns = now_ns - row->since_ns;

                if (row->serial && row->op == KEEPER_BOX_MAKE && !row->unsent && age_ns < MAKING_STUCK_NS && MAKING_STUCK_NS - age_ns < least_ns)
                        least_ns = MAKING_STUCK_NS - age_ns;
        }
        return least_ns == UINT64_MAX ? -1 : (int)(least_ns / 1000000) + 1;
}

int keeper_send_held(struct keeper *k)
{
        send_unsent(k);
        return next_stuck_ms(k);
}

void keeper_on_held(struct keeper *k, void (*on_held)(void *data), void *data)
{
        k->on_held = on_held;
        k->on_held_data = data;
}

/* An answer, or its end. Boxes that are stuck give room meanwhile. */
static void await_answer(struct keeper *k)
{
        struct pollfd polled = {.fd = k->socket_fd, .events = POLLIN};
        int timeout_ms;

        while ((timeout_ms = keeper_send_held(k)) >= 0 && first_unsent(k) && poll(&polled, 1, timeout_ms) == 0)
                ;
}

static int hold_back(struct keeper *k, struct pending *row, const struct keeper_box_spec *spec, struct cloche_err *e)
{
        row->unsent = malloc(sizeof(*row->unsent));
        if (!row->unsent)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "ask the keeper");
        *row->unsent = *spec;
        if (k->on_held)
                k->on_held(k->on_held_data);
        return 0;
}

/* A request never waits for the keeper to be quick: the keeper waits for boxes to die, which wait for templates, which wait for us to hear them. */
static int ask_later(struct keeper *k, uint32_t op, uint32_t box, const struct keeper_box_spec *spec, const struct keeper_service_spec *service,
                     const int *fds, size_t fd_count, keeper_done done, void *data, struct cloche_err *e)
{
        struct pending *row;
        int r = k->is_stopping ? err_os(e, CLOCHE_E_KEEPER, ECANCELED, "ask the keeper") : find_free_row(k, &row, e);

        if (r < 0)
                return r;
        send_unsent(k);
        k->request.op = op;
        k->request.serial = next_serial(k);
        k->request.box = box;
        if (spec)
                k->request.spec = *spec;
        if (service)
                k->request.service = *service;
        if (op == KEEPER_BOX_MAKE && count_making(k, 1) >= MAKING_MAX)
                r = hold_back(k, row, spec, e);
        else
                r = send_request(k, row, fds, fd_count, e);
        if (r < 0)
                return r;
        row->serial = k->request.serial;
        row->op = op;
        row->done = done;
        row->data = data;
        return 0;
}

int keeper_hear(struct keeper *k, int flags, struct cloche_err *e)
{
        int fds[KEEPER_ANSWER_FDS];
        size_t fd_count = KEEPER_ANSWER_FDS;
        struct pending *row, taken;
        ssize_t n;

        if (!(flags & MSG_DONTWAIT))
                await_answer(k);
        n = fd_receive(k->socket_fd, &k->answer, sizeof(k->answer), fds, &fd_count, flags);
        if (n == -EAGAIN)
                return 0;
        if (n <= 0)
                return lose(k, n == 0 ? EPIPE : (int)-n, e);
        row = (size_t)n == (k->answer.op == KEEPER_HELLO ? sizeof(k->answer) : KEEPER_ANSWER_HEAD) && err_check(&k->answer.err) == 0 && k->answer.serial ? find_pending(k, k->answer.serial) : NULL;
        if (!row || row->op != k->answer.op) {
                for (size_t i = 0; i < fd_count; i++)
                        close(fds[i]);
                return lose(k, EPROTO, e);
        }
        taken = *row;
        free_row(row);
        hand_over(k, &taken, k->answer.err.code ? &k->answer.err : NULL, fds, fd_count);
        for (size_t i = 0; i < fd_count; i++)
                fd_close(&fds[i]);
        send_unsent(k);
        return 1;
}

/* One exchange; answers to others are handed over on the way. */
struct waiting {
        int answered;
        struct cloche_err *e;
        int r;
        uint32_t box;
        struct keeper_usage *usage;
        int *fds; /* room for KEEPER_ANSWER_FDS, or NULL */
        size_t fd_count;
};

static void on_waited(void *data, struct keeper_reply *reply)
{
        struct waiting *w = data;

        w->answered = 1;
        if (reply->error) {
                if (w->e)
                        *w->e = *reply->error;
                w->r = -(int)reply->error->code;
                return;
        }
        w->box = reply->answer->box;
        if (w->usage)
                *w->usage = reply->answer->usage;
        for (size_t i = 0; w->fds && i < reply->fd_count; i++)
                w->fds[w->fd_count++] = TAKE_FD(reply->fds[i]);
}

static int ask(struct keeper *k, uint32_t op, uint32_t box, const struct keeper_box_spec *spec, struct waiting *w)
{
        int r = ask_later(k, op, box, spec, NULL, NULL, 0, on_waited, w, w->e);

        while (r >= 0 && !w->answered)
                r = keeper_hear(k, 0, w->e);
        return r < 0 ? r : w->r;
}

/* Between fork and exec of a process that may have threads: system calls only. */
static _Noreturn void become_keeper(int socket_fd, int error_fd, const char *program, char *const argv[])
{
        char *const environment[] = {NULL};
        int spare_fd = fcntl(error_fd, F_DUPFD_CLOEXEC, 4), code;
        sigset_t none;

        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        /* dup2 onto itself would leave close-on-exec set. */
        if (spare_fd >= 0 && (socket_fd == 3 ? fcntl(3, F_SETFD, 0) : dup2(socket_fd, 3)) >= 0)
                execve(program, argv, environment);
        code = errno;
        if (write(spare_fd < 0 ? error_fd : spare_fd, &code, sizeof(code)) < 0)
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

int keeper_start(const char *libexec_dir, const char *const *roots, size_t root_count, struct keeper **ret, struct cloche_err *e)
{
        char program[KEEPER_PATH_MAX], init[KEEPER_PATH_MAX];
        char *argv[2 + KEEPER_ROOTS_MAX + 1] = {(char *)"cloche-keeper", init};
        _cleanup_fd_ int theirs_fd = -EBADF;
        struct waiting hello = {.e = e};
        struct keeper *k;
        int pair[2], r;

        if ((size_t)snprintf(program, sizeof(program), "%s/cloche-keeper", libexec_dir) >= sizeof(program) ||
            (size_t)snprintf(init, sizeof(init), "%s/cloche-box-init", libexec_dir) >= sizeof(init))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the program directory's name is too long");
        if (root_count > KEEPER_ROOTS_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "at most %d directories may be named for mounts, not %zu", KEEPER_ROOTS_MAX, root_count);
        for (size_t i = 0; i < root_count; i++)
                argv[2 + i] = (char *)roots[i];
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
        r = start_process(k, theirs_fd, program, argv, e);
        fd_close(&theirs_fd);
        if (r == 0)
                r = ask(k, KEEPER_HELLO, 0, NULL, &hello);
        if (r < 0) {
                keeper_stop(k);
                return r;
        }
        memcpy(k->guards, k->answer.guards, sizeof(k->guards));
        keep_groups(&k->answer.groups, &k->groups);
        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++)
                k->guards[g].reason[sizeof(k->guards[g].reason) - 1] = '\0';
        *ret = k;
        return 0;
}

void keeper_stop(struct keeper *k)
{
        if (!k)
                return;
        k->is_stopping = 1;
        (void)lose(k, ECANCELED, NULL);
        fd_close(&k->socket_fd); /* the keeper drops all boxes at end of file, then exits */
        if (k->pid > 0)
                while (waitpid(k->pid, NULL, 0) < 0 && errno == EINTR)
                        ;
        free(k->pending);
        free(k);
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

int keeper_ping_later(struct keeper *k, keeper_done done, void *data, struct cloche_err *e)
{
        return ask_later(k, KEEPER_PING, 0, NULL, NULL, NULL, 0, done, data, e);
}

int keeper_box_make_later(struct keeper *k, const struct keeper_box_spec *spec, keeper_done done, void *data, struct cloche_err *e)
{
        return ask_later(k, KEEPER_BOX_MAKE, 0, spec, NULL, NULL, 0, done, data, e);
}

int keeper_box_make(struct keeper *k, const struct keeper_box_spec *spec, struct keeper_box *ret, struct cloche_err *e)
{
        int fds[KEEPER_ANSWER_FDS];
        struct waiting w = {.e = e, .fds = fds};
        int r = ask(k, KEEPER_BOX_MAKE, 0, spec, &w);

        return r < 0 ? r : keeper_box_take(w.box, fds, w.fd_count, ret, e);
}

int keeper_box_take(uint32_t box, int *fds, size_t fd_count, struct keeper_box *ret, struct cloche_err *e)
{
        if (fd_count < 2)
                return err_set(e, CLOCHE_E_KEEPER, "the keeper's answer lacks descriptors");
        *ret = (struct keeper_box){
                .id = box,
                .pidfd = TAKE_FD(fds[0]),
                .control_fd = TAKE_FD(fds[1]),
                .fork_fd = fd_count > 2 ? TAKE_FD(fds[2]) : -EBADF,
        };
        return 0;
}

int keeper_box_fork_later(struct keeper *k, uint32_t box, const int *fds, size_t fd_count, keeper_done done, void *data,
                          uint32_t *ret_fork, struct cloche_err *e)
{
        int r = ask_later(k, KEEPER_BOX_FORK, box, NULL, NULL, fds, fd_count, done, data, e);

        if (r == 0)
                *ret_fork = k->serial;
        return r;
}

int keeper_serve_later(struct keeper *k, uint32_t box, const struct keeper_service_spec *spec, const int *fds, size_t fd_count,
                       keeper_done done, void *data, struct cloche_err *e)
{
        return ask_later(k, KEEPER_SERVE, box, NULL, spec, fds, fd_count, done, data, e);
}

int keeper_box_limit(struct keeper *k, uint32_t box, const struct keeper_box_limits *limits, struct cloche_err *e)
{
        struct keeper_box_spec *spec = calloc(1, sizeof(*spec));
        struct waiting w = {.e = e};
        int r;

        if (!spec)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "set a limit");
        spec->limits = *limits;
        r = ask(k, KEEPER_BOX_LIMIT, box, spec, &w);
        free(spec);
        return r;
}

int keeper_box_usage(struct keeper *k, uint32_t box, struct keeper_usage *ret, struct cloche_err *e)
{
        struct waiting w = {.e = e, .usage = ret};

        return ask(k, KEEPER_BOX_USAGE, box, NULL, &w);
}

int keeper_box_freeze(struct keeper *k, uint32_t box, struct cloche_err *e)
{
        struct waiting w = {.e = e};

        return ask(k, KEEPER_BOX_FREEZE, box, NULL, &w);
}

int keeper_box_thaw(struct keeper *k, uint32_t box, struct cloche_err *e)
{
        struct waiting w = {.e = e};

        return ask(k, KEEPER_BOX_THAW, box, NULL, &w);
}

int keeper_box_drop_later(struct keeper *k, uint32_t box, keeper_done done, void *data, struct cloche_err *e)
{
        return ask_later(k, KEEPER_BOX_DROP, box, NULL, NULL, NULL, 0, done, data, e);
}

int keeper_box_drop(struct keeper *k, uint32_t box, struct keeper_usage *ret, struct cloche_err *e)
{
        struct waiting w = {.e = e, .usage = ret};

        return ask(k, KEEPER_BOX_DROP, box, NULL, &w);
}
