/* cloche-keeper BOX-INIT [--core-scheduling] [--image=DIRECTORY] [--trees=DIRECTORY
 * [--images-written]] [--volumes=DIRECTORY] [--runtimes=DIRECTORY]
 * [[UID,GID[,GID…]:]DIRECTORY…]: the only process that may hold privilege. Runs in: a process of
 * its own, single thread, started by the engine with a SOCK_SEQPACKET socket on descriptor 3. It
 * answers requests, those that wait for other processes later (pending.h), takes a few numbers
 * from servers of mounts (passthrough.c), and reads no guest bytes. When its engine goes away it
 * kills every box and exits. Only these directories, and directories beneath them, may be
 * mounted; boxes are made only of that image, these trees and these runtimes. */
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/peer.h"
#include "base/privilege.h"
#include "box.h"
#include "guards.h"
#include "keeper/scope/scope.h"
#include "request.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#define ENGINE_FD 3
#define LEAVE_SOON_NS UINT64_C(100000000)
#define LEAVE_SOON_MS 1 /* a dead task leaves its group a moment after it was waited for */
#define LEAVE_LATE_MS 50
#define LEAVE_TIMEOUT_NS UINT64_C(5000000000)
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* Linux 6.3 */
#endif

struct exchange {
        const struct keeper_request *request;
        const int *request_fds; /* KEEPER_FORK_FDS rows, -EBADF behind the received ones */
        size_t request_fd_count;
        struct keeper_answer *answer;
        int is_deferred; /* the answer comes when the box is made or gone, or the program runs */
};

/* The engine may not call it. */
static int memory_has_attributes(void)
{
        _cleanup_fd_ int fd = memfd_create("attributes", MFD_CLOEXEC);

        return fd >= 0 && fsetxattr(fd, "user.cloche", "", 0, 0) == 0;
}

static int answer_hello(struct keeper_state *keeper, struct exchange *x, struct cloche_err *e)
{
        (void)e;
        memcpy(x->answer->guards, keeper->guards, sizeof(x->answer->guards));
        x->answer->groups = keeper->cgroups;
        x->answer->memory_has_attributes = (uint32_t)memory_has_attributes();
        return 0;
}

static int answer_ping(struct keeper_state *keeper, struct exchange *x, struct cloche_err *e)
{
        (void)keeper;
        (void)x;
        (void)e;
        return 0;
}

static int answer_make(struct keeper_state *keeper, struct exchange *x, struct cloche_err *e)
{
        int r = box_make(keeper, &x->request->spec, x->request->serial, e);

        x->is_deferred = r == 0;
        return r;
}

static int answer_fork(struct keeper_state *keeper, struct exchange *x, struct cloche_err *e)
{
        struct box *row = box_find(keeper, x->request->box, e);

        if (!row)
                return -CLOCHE_E_STATE;
        if (x->request_fd_count != (row->is_template ? KEEPER_FORK_FDS : KEEPER_FORK_FDS - 1))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "a fork comes with %d descriptors, %d for a template; not %zu", KEEPER_FORK_FDS - 1,
                               KEEPER_FORK_FDS, x->request_fd_count);
        return box_fork(keeper, x->request->box, x->request->serial, x->request_fds, e);
}

static int answer_serve(struct keeper_state *keeper, struct exchange *x, struct cloche_err *e)
{
        const struct keeper_service_spec *spec = &x->request->service;
        int has_box = spec->service == KEEPER_SERVICE_MOUNT || spec->service == KEEPER_SERVICE_NET,
            may_have_caller = spec->service == KEEPER_SERVICE_MOUNT || spec->service == KEEPER_SERVICE_SYNC;
        size_t expected = has_box ? 1 : 2;
        int has_caller = may_have_caller && x->request_fd_count == expected + 1;
        const struct serve_order order = {spec, x->request_fds, has_caller ? x->request_fds[expected] : -EBADF,
                                          has_box ? x->request->box : KEEPER_NO_BOX, x->request->serial};
        int r;

        if (!has_caller && x->request_fd_count != expected)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "the request has %zu descriptors, expected %zu for this service", expected,
                               x->request_fd_count);
        if (!has_box)
                r = spec->service == KEEPER_SERVICE_SYNC ? serve_sync(keeper, &order, e)
                                                         : serve_images(keeper, &order, e);
        else if (!box_find(keeper, x->request->box, e))
                return -CLOCHE_E_STATE;
        else
                r = spec->service == KEEPER_SERVICE_NET ? serve_net(keeper, &order, e) : serve_mount(keeper, &order, e);
        x->is_deferred = r == 0;
        return r;
}

static int answer_volume(struct keeper_state *keeper, struct exchange *x, struct cloche_err *e)
{
        int r = volume_handle(keeper, &x->request->volume, x->request->serial, &x->answer->volume, e);

        x->is_deferred = r == 1;
        return r < 0 ? r : 0;
}

static int answer_limit(struct keeper_state *keeper, struct exchange *x, struct cloche_err *e)
{
        if (!box_find(keeper, x->request->box, e))
                return -CLOCHE_E_STATE;
        return box_limit(keeper, x->request->box, &x->request->spec.limits, e);
}

static int answer_usage(struct keeper_state *keeper, struct exchange *x, struct cloche_err *e)
{
        if (!box_find(keeper, x->request->box, e))
                return -CLOCHE_E_STATE;
        box_usage(keeper, x->request->box, &x->answer->usage);
        return 0;
}

static int answer_freeze(struct keeper_state *keeper, struct exchange *x, struct cloche_err *e)
{
        int r = box_find(keeper, x->request->box, e) ? box_freeze(keeper, x->request->box, e) : -CLOCHE_E_STATE;

        x->answer->is_frozen = r > 0;
        return r < 0 ? r : 0;
}

static int answer_thaw(struct keeper_state *keeper, struct exchange *x, struct cloche_err *e)
{
        return box_find(keeper, x->request->box, e) ? box_thaw(keeper, x->request->box, e) : -CLOCHE_E_STATE;
}

static int answer_drop(struct keeper_state *keeper, struct exchange *x, struct cloche_err *e)
{
        int r = box_find_living(keeper, x->request->box, e) ? 0 : -CLOCHE_E_STATE;

        if (r == 0)
                r = pending_cancel(keeper, x->request->box);
        if (r == 0)
                r = keeper_box_kill(keeper, x->request->box, x->request->serial, e);
        x->is_deferred = r == 0;
        return r;
}

/* Any other request, or one at the wrong time, ends the keeper and with it every box. */
static const struct {
        int (*answer)(struct keeper_state *keeper, struct exchange *x, struct cloche_err *e);
        int greeted; /* 1: only after the greeting; 0: only before it */
} requests[KEEPER_OP_COUNT] = {
#define KEEPER_REQUEST(symbol, handler, when, doc) [KEEPER_##symbol] = {answer_##handler, when},
#include <cloche/keeper.def>
#undef KEEPER_REQUEST
};

int keeper_answer(struct keeper_state *keeper, const struct keeper_answer *answer, const int fds[2])
{
        int all[3];
        size_t count = 0;

        if (answer->op == KEEPER_BOX_MAKE && !answer->err.code)
                all[count++] = keeper->boxes[answer->box].init_pidfd;
        for (size_t i = 0; i < 2; i++)
                if (fds[i] >= 0)
                        all[count++] = fds[i];
        return fd_send(ENGINE_FD, answer, answer->op == KEEPER_HELLO ? sizeof(*answer) : KEEPER_ANSWER_HEAD, all,
                       count);
}

static int serve_one(struct keeper_state *keeper, const struct keeper_request *request, size_t size, const int *fds,
                     size_t fd_count, int *greeted)
{
        struct keeper_answer answer = {.op = request->op, .serial = request->serial, .box = request->box};
        struct exchange x = {.request = request, .request_fds = fds, .request_fd_count = fd_count, .answer = &answer};
        const int none[2] = {-EBADF, -EBADF};
        int r = keeper_request_check(request, size, &answer.err);

        if (r == -CLOCHE_E_PROTOCOL)
                return -EPROTO;
        if (r == 0 && requests[request->op].greeted != *greeted)
                return -EPROTO;
        if (r == 0)
                r = requests[request->op].answer(keeper, &x, &answer.err);
        if (r == 0)
                answer.err = (struct cloche_err){0};
        *greeted = 1;
        return x.is_deferred ? 0 : keeper_answer(keeper, &answer, none);
}

/* Serve one request. Returns 0, or nonzero when no more will come. */
static int receive_one(struct keeper_state *keeper, int *greeted)
{
        static struct keeper_request request;
        int fds[KEEPER_FORK_FDS], r;
        size_t fd_count = KEEPER_FORK_FDS;
        ssize_t n = fd_receive(ENGINE_FD, &request, sizeof(request), fds, &fd_count, 0);

        if (n <= 0)
                return n == 0 ? -EPIPE : (int)n;
        r = serve_one(keeper, &request, (size_t)n, fds, fd_count, greeted);
        for (size_t i = 0; i < fd_count; i++)
                if (request.op == KEEPER_SERVE) /* one may belong to a caller */
                        peer_close_copy(&fds[i]);
                else
                        fd_close(&fds[i]);
        return r;
}

static int send_dropped(struct box *row, uint32_t box, const struct cloche_err *error)
{
        struct keeper_answer answer = {.op = KEEPER_BOX_DROP,
                                       .serial = row->drop_serial,
                                       .box = box,
                                       .err = *error,
                                       .usage = row->last_usage};

        row->drop_serial = 0;
        return fd_send(ENGINE_FD, &answer, KEEPER_ANSWER_HEAD, NULL, 0);
}

/* Remove the groups of leaving boxes. A drop is answered when they are gone, or after a timeout;
 * other requests are served meanwhile. */
static int serve_leaving(struct keeper_state *keeper)
{
        struct cloche_err fine = {0}, stuck = {0};
        uint64_t now_ns = clock_now_ns();
        int r = 0;

        for (uint32_t box = 0, left = keeper->leaving; r == 0 && left > 0; box++) {
                struct box *row = &keeper->boxes[box];

                if (row->state != BOX_LEAVING)
                        continue;
                left--;
                if (box_leave(keeper, box)) {
                        r = row->drop_serial ? send_dropped(row, box, &fine) : 0;
                } else if (row->drop_serial && now_ns - row->leaves_since_ns > LEAVE_TIMEOUT_NS) {
                        err_os(&stuck, CLOCHE_E_CGROUP, EBUSY, "remove the groups of box %u", box);
                        r = send_dropped(row, box, &stuck);
                }
        }
        return r;
}

/* Milliseconds until the groups of leaving boxes are tried again. */
static int leaving_timeout_ms(const struct keeper_state *keeper)
{
        uint64_t now_ns = clock_now_ns();

        if (!keeper->leaving)
                return -1;
        for (uint32_t box = 0; box < KEEPER_BOXES_MAX; box++)
                if (keeper->boxes[box].state == BOX_LEAVING &&
                    now_ns - keeper->boxes[box].leaves_since_ns < LEAVE_SOON_NS)
                        return LEAVE_SOON_MS;
        return LEAVE_LATE_MS;
}

static int timeout_ms(const struct keeper_state *keeper)
{
        int leaving_ms = leaving_timeout_ms(keeper), pending_ms = pending_timeout_ms(keeper);

        return leaving_ms < 0 || (pending_ms >= 0 && pending_ms < leaving_ms) ? pending_ms : leaving_ms;
}

static int is_making_network(const struct box *row)
{
        return row->state == BOX_LIVING && row->next_network_fd >= 0;
}

static void serve_box(struct keeper_state *keeper, uint32_t box, const struct pollfd *polled)
{
        struct box *row = &keeper->boxes[box];

        if (polled->revents && polled->fd == row->init_pidfd)
                box_reap(keeper, box);
        else if (polled->revents && is_making_network(row) && polled->fd == row->next_network_fd)
                box_nested_keep_network(keeper, row);
}

enum { POLLED_ENGINE, POLLED_PASSTHROUGH, POLLED_BOXES };

/* Rows from POLLED_BOXES on: dying boxes, templates whose next network is being made, then the
 * descriptors of pending requests. *ret_pending: the first of the latter. */
static nfds_t fill_polled(const struct keeper_state *keeper, struct pollfd *polled, uint32_t *boxes,
                          nfds_t *ret_pending)
{
        nfds_t count = POLLED_BOXES;

        polled[POLLED_ENGINE] = (struct pollfd){.fd = ENGINE_FD, .events = POLLIN};
        polled[POLLED_PASSTHROUGH] = (struct pollfd){.fd = keeper->passthrough_fd, .events = POLLIN};
        for (uint32_t box = 0; count - POLLED_BOXES < keeper->dying; box++)
                if (keeper->boxes[box].state == BOX_DYING) {
                        boxes[count] = box;
                        polled[count++] = (struct pollfd){.fd = box_shared_closed_fd(keeper, box), .events = POLLIN};
                }
        for (uint32_t box = 0, left = keeper->making_networks; left > 0 && box < KEEPER_BOXES_MAX; box++)
                if (is_making_network(&keeper->boxes[box])) {
                        left--;
                        boxes[count] = box;
                        polled[count++] = (struct pollfd){.fd = keeper->boxes[box].next_network_fd, .events = POLLIN};
                }
        *ret_pending = count;
        return count + pending_fill(keeper, polled + count);
}

static int serve(struct keeper_state *keeper)
{
        static struct pollfd polled[POLLED_BOXES + KEEPER_BOXES_MAX + PENDING_MAX];
        static uint32_t boxes[POLLED_BOXES + KEEPER_BOXES_MAX];
        int greeted = 0, r = 0;

        while (r == 0) {
                nfds_t pending, count = fill_polled(keeper, polled, boxes, &pending);
                int ready = poll(polled, count, keeper->wants_ahead ? 0 : timeout_ms(keeper));

                if (ready < 0 && errno == EINTR)
                        continue;
                if (ready < 0)
                        return 1;
                if (ready == 0 && keeper->wants_ahead)
                        box_make_groups_ahead(keeper);
                for (nfds_t i = POLLED_BOXES; i < pending; i++)
                        serve_box(keeper, boxes[i], &polled[i]);
                r = serve_leaving(keeper);
                if (r == 0)
                        r = pending_serve(keeper, polled + pending, count - pending);
                if (r == 0 && polled[POLLED_ENGINE].revents)
                        r = receive_one(keeper, &greeted);
                if (polled[POLLED_PASSTHROUGH].revents)
                        serve_passthroughs(keeper);
                serve_reap_syncs(keeper, 0);
                volumes_reap(keeper);
        }
        return r == -EPIPE ? 0 : 1;
}

/* Load the program into a sealed memory file: PID 1 runs beside hostile code, which could otherwise
 * write to its file through /proc/1/exe, whoever owns the file on disk (CVE-2019-5736). PID 1 may
 * execute it and not read it, so it is not dumpable from its first instruction on (would_dump,
 * fs/exec.c). Then root's memory belongs to the user namespace of the file's owner, where no guest
 * has a capability. */
static int load_program(const char *path, struct cloche_err *e)
{
        _cleanup_fd_ int file_fd = open(path, O_RDONLY | O_CLOEXEC), memory_fd = -EBADF;
        struct stat st;

        if (file_fd < 0 || fstat(file_fd, &st) < 0)
                return err_os(e, CLOCHE_E_KEEPER, errno, "open %s", path);
        memory_fd = memfd_create("box-init", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
        if (memory_fd < 0 && errno == EINVAL) /* before MFD_EXEC every memory file was executable */
                memory_fd = memfd_create("box-init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (memory_fd < 0)
                return err_os(e, CLOCHE_E_KEEPER, errno, "make a memory file");
        for (off_t left = st.st_size; left > 0;) {
                ssize_t n = sendfile(memory_fd, file_fd, NULL, (size_t)left);

                if (n <= 0)
                        return err_os(e, CLOCHE_E_KEEPER, n < 0 ? errno : EIO, "copy %s", path);
                left -= n;
        }
        if (fchmod(memory_fd, 0111) < 0 ||
            fcntl(memory_fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
                return err_os(e, CLOCHE_E_KEEPER, errno, "seal %s", path);
        return TAKE_FD(memory_fd);
}

static int set_up(struct keeper_state *keeper, const char *init_path, struct cloche_err *e)
{
        _cleanup_fd_ int score_fd = -EBADF;

        keeper->is_root = privilege_is_root();
        keeper->init_program_fd = load_program(init_path, e);
        if (keeper->init_program_fd < 0)
                return -(int)e->code;
        keeper->guest_fd = serve_open_beside(init_path, "libcloche-guest.so", O_RDONLY);
        keeper->sudo_fd = serve_open_beside(init_path, "cloche-sudo", O_RDONLY);
        keeper->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
        keeper->own_pid_fd = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
        if (keeper->proc_fd < 0 || keeper->own_pid_fd < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "open /proc");
        /* The value that a privileged process writes here is the lowest its children may
         * set. Without it, if the keeper was started with a protected score, a guest
         * could make itself unkillable. */
        score_fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
        if (score_fd < 0 || fd_write_full(score_fd, "0", 1) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "set the out-of-memory score");
        cgroup_host_open(&keeper->cgroups, scope_request, init_path);
        guards_fill(keeper);
        return 0;
}

static void drop_all(struct keeper_state *keeper)
{
        pending_end(keeper);
        /* Kill first, then wait: boxes die side by side, together with templates that would not
         * reap them. */
        for (uint32_t box = 0; box < KEEPER_BOXES_MAX; box++)
                if (keeper->boxes[box].state == BOX_LIVING)
                        (void)keeper_box_kill(keeper, box, 0, NULL);
        volumes_close(keeper);
        serve_reap_syncs(keeper, 1);
        /* Reap in the order in which they die: the init of a template ends after the boxes beneath
         * it, once we reaped these. */
        while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
                ;
        for (uint32_t box = 0; box < KEEPER_BOXES_MAX; box++)
                if (keeper->boxes[box].state == BOX_DYING)
                        box_reap(keeper, box);
        for (uint32_t box = 0; box < KEEPER_BOXES_MAX; box++)
                if (keeper->boxes[box].state == BOX_LEAVING && keeper->boxes[box].shared_with == KEEPER_NO_BOX &&
                    cgroup_remove(&keeper->cgroups, box, NULL) == 0)
                        ids_release(&keeper->boxes[box].ids);
        box_remove_groups_ahead(keeper);
        cgroup_host_close(&keeper->cgroups);
}

/* A keeper that cannot start sends its error as the answer to the greeting, then exits. */
static int refuse(const struct cloche_err *error)
{
        static struct keeper_request request;
        struct keeper_answer answer = {.op = KEEPER_HELLO, .err = *error};
        size_t no_fds = 0;

        if (fd_receive(ENGINE_FD, &request, sizeof(request), NULL, &no_fds, 0) > 0) {
                answer.serial = request.serial;
                (void)fd_send(ENGINE_FD, &answer, sizeof(answer), NULL, 0);
        }
        return 1;
}

/* Returns 0 if the word is a directory that may be mounted. */
static int take_word(struct keeper_state *keeper, const char *word)
{
        if (strcmp(word, KEEPER_CORE_SCHEDULING) == 0)
                keeper->wants_core_scheduling = 1;
        else if (strncmp(word, KEEPER_IMAGE, strlen(KEEPER_IMAGE)) == 0)
                keeper->image = word + strlen(KEEPER_IMAGE);
        else if (strncmp(word, KEEPER_TREES, strlen(KEEPER_TREES)) == 0)
                keeper->trees = word + strlen(KEEPER_TREES);
        else if (strcmp(word, KEEPER_IMAGES_WRITTEN) == 0)
                keeper->images_are_written = 1;
        else if (strncmp(word, KEEPER_VOLUMES, strlen(KEEPER_VOLUMES)) == 0)
                keeper->volumes_dir = word + strlen(KEEPER_VOLUMES);
        else if (strncmp(word, KEEPER_RUNTIMES, strlen(KEEPER_RUNTIMES)) == 0)
                keeper->runtimes = word + strlen(KEEPER_RUNTIMES);
        else
                return 0;
        return 1;
}

int main(int argc, char **argv)
{
        static struct keeper_state keeper = {.init_program_fd = -EBADF, .image = ""};
        struct cloche_err error = {0};
        int type = 0, status, rest = 2;
        socklen_t size = sizeof(type);

        if (argc < 2 || getsockopt(ENGINE_FD, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_SEQPACKET) {
                fprintf(stderr, "cloche-keeper: started by the cloche engine only\n");
                return 2;
        }
        fcntl(ENGINE_FD, F_SETFD, FD_CLOEXEC);
        close_range(ENGINE_FD + 1, ~0u, 0);
        /* The signals of a terminal are for the engine, which then drops its boxes in order. */
        setsid();
        signal(SIGPIPE, SIG_IGN);
        /* An ordinary user's keeper must stay dumpable: it writes its children's maps in /proc.
         * Boxes cannot reach it, as they are in other user and pid namespaces (ptrace(2), access
         * mode checking). */
        if (privilege_is_root())
                prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        if (clearenv() != 0 || chdir("/") < 0)
                return 1;
        while (rest < argc && take_word(&keeper, argv[rest]))
                rest++;
        if (set_up(&keeper, argv[1], &error) < 0)
                return refuse(&error);
        if (serve_set_up(&keeper, argv[1], argv + rest, (size_t)(argc - rest), &error) < 0) {
                cgroup_host_close(&keeper.cgroups);
                return refuse(&error);
        }
        fd_raise_limit(); /* one descriptor for a box, five for a template; boxes have their own limit */
        status = serve(&keeper);
        drop_all(&keeper);
        return status;
}
