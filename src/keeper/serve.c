/* Programs of ours that work on a directory of the host: cloche-fs for a mount, and cloche-sync.
 * The keeper opens the directory, and starts them without capabilities, as the directory's owner or
 * as the caller of the request (caller.h). From their sockets it reads only the passthrough
 * requests (passthrough.c). Also cloche-egress, the network of a sandbox or run (network.c), as the
 * owner of its box.
 *
 *   keeper ── fork ──▶ upper file system, the box's memory group, owner, no rights ── execveat ──▶ cloche-fs
 *
 * Permitted are the directories on the keeper's command line and those beneath them, because the
 * engine, which sends the requests, parses hostile bytes. Runs in: the keeper, and the child it
 * forks until execveat(2). */
#include "box.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/caps.h"
#include "jail/root/mount.h"
#include "jail/userns.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#define FUSE_MAJOR 10 /* Documentation/admin-guide/devices.txt */
#define FUSE_MINOR 229
#define FIRST_FD 3                        /* first descriptor of the program's arguments */
#define SYNC_END_NS UINT64_C(10000000000) /* for running syncs when the keeper ends */
#define SYNC_POLL_NS 2000000
#define PASSTHROUGHS_A_TURN                                                                      \
        16 /* then the engine is served; servers that were not served are first in the next turn \
            */

/* -- set-up for mounts ---------------------------------------------------------------------------------------- */

int serve_open_beside(const char *path, const char *name, int flags)
{
        char other[KEEPER_PATH_MAX + 64];
        const char *slash = strrchr(path, '/');
        int fd;

        snprintf(other, sizeof(other), "%.*s/%s", slash ? (int)(slash - path) : 0, path, name);
        fd = open(other, flags | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

/* On some hosts only root may open the host's node. A box's first process has to open it as an
 * ordinary user, so we make our own. */
static int make_fuse_node(void)
{
        static const char *const options[] = {"size", "64k", "nr_inodes", "8", "mode", "0755", NULL};
        int dir_fd = mount_make("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC), code;

        if (dir_fd < 0)
                return dir_fd;
        umask(0);
        if (mknodat(dir_fd, "fuse", S_IFCHR | 0666, makedev(FUSE_MAJOR, FUSE_MINOR)) == 0)
                return dir_fd;
        code = errno;
        close(dir_fd);
        return -code;
}

static int open_fuse_directory(const struct keeper_state *keeper)
{
        int fd;

        if (keeper->is_root && access("/dev/fuse", F_OK) == 0)
                return make_fuse_node();
        if (access("/dev/fuse", R_OK | W_OK) < 0)
                return -errno;
        fd = open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

int serve_set_up(struct keeper_state *keeper, const char *init_path, char *const *roots, size_t count,
                 struct cloche_err *e)
{
        int r = 0;

        if (count > KEEPER_ROOTS_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "at most %d directories may be named for mounts, not %zu",
                               KEEPER_ROOTS_MAX, count);
        keeper->fs_program_fd = serve_open_beside(init_path, "cloche-fs", O_PATH);
        keeper->sync_program_fd = serve_open_beside(init_path, "cloche-sync", O_PATH);
        keeper->egress_program_fd = serve_open_beside(init_path, "cloche-egress", O_PATH);
        keeper->image_program_fd = serve_open_beside(init_path, "cloche-image", O_PATH);
        keeper->fuse_dir_fd = open_fuse_directory(keeper);
        keeper->passthrough_fd = keeper->is_root ? epoll_create1(EPOLL_CLOEXEC) : -EPERM;
        for (size_t i = 0; r == 0 && i < count; i++)
                r = caller_open_root(roots[i], &keeper->roots[keeper->root_count++], e);
        return r;
}

/* -- reading past a server ------------------------------------------------------------------------------------- */

/* Passthrough only makes the mount faster, so a failure is ignored. */
static int offer_passthrough(const struct keeper_state *keeper, uint32_t box, uint32_t mount, struct passthrough *ret)
{
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)box << 32 | mount};
        int their_fd;

        ret->fd = -EBADF;
        if (keeper->passthrough_fd < 0 || passthrough_new(ret, &their_fd, NULL) < 0)
                return -EBADF;
        if (epoll_ctl(keeper->passthrough_fd, EPOLL_CTL_ADD, ret->fd, &event) == 0)
                return their_fd;
        fd_close(&ret->fd);
        fd_close(&their_fd);
        return -EBADF;
}

/* Remove it from epoll first: a child between fork and exec may still have the socket open. */
static void close_passthrough(const struct keeper_state *keeper, struct passthrough *passthrough)
{
        if (passthrough->fd >= 0)
                epoll_ctl(keeper->passthrough_fd, EPOLL_CTL_DEL, passthrough->fd, NULL);
        fd_close(&passthrough->fd);
}

void serve_close_passthroughs(struct keeper_state *keeper, struct box *box)
{
        for (uint32_t i = 0; i < box->mount_count; i++)
                close_passthrough(keeper, &box->passthroughs[i]);
}

void serve_passthroughs(struct keeper_state *keeper)
{
        struct epoll_event events[PASSTHROUGHS_A_TURN];
        int count = epoll_wait(keeper->passthrough_fd, events, PASSTHROUGHS_A_TURN, 0);

        for (int i = 0; i < count; i++) {
                struct passthrough *passthrough =
                        &keeper->boxes[events[i].data.u64 >> 32].passthroughs[(uint32_t)events[i].data.u64];

                if (passthrough_serve(passthrough) < 0)
                        close_passthrough(keeper, passthrough);
        }
}

/* -- starting a program --------------------------------------------------------------------------------------- */

struct program {
        const struct keeper_state *keeper;
        const char *name;
        int program_fd;
        int fds[5]; /* its arguments */
        size_t fd_count;
        const char *mode; /* one more argument, or NULL */
        uid_t uid;
        gid_t gid;
        const struct keeper_caller *caller; /* its supplementary groups are set too; NULL: none */
        int memory_fd;                      /* entrance of the box's memory group, or -EBADF */
        const int *processor_fd;            /* likewise, or NULL: its time is not charged to the box */
        int needs_upper;                    /* the child makes fds[2] */
        int drops_rights;                   /* by itself: it keeps the keeper's user */
        uint64_t disk_bytes, disk_inodes;
};

/* A directory of the host, and the user who works on it. */
struct directory {
        int fd;
        uid_t uid;
        gid_t gid;
        const struct keeper_caller *caller; /* room, or the caller of a root; NULL: its owner */
        struct keeper_caller room;
};

/* Find the user whose rights decide. Root has all rights; an ordinary user's keeper has only its
 * own. */
static int find_caller(const struct keeper_state *keeper, const struct keeper_root *root, int caller_fd,
                       struct directory *ret, struct cloche_err *e)
{
        int r = keeper->is_root && caller_fd >= 0 ? keeper_caller_of_socket(caller_fd, &ret->room, e) : 0;

        if (r == 1)
                ret->caller = &ret->room;
        else if (r == 0 && keeper->is_root && caller_fd < 0)
                ret->caller = root->named;
        return r < 0 ? r : 0;
}

static int open_as_keeper(const struct keeper_root *root, const char *path, struct cloche_err *e)
{
        struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
        int fd;

        /* Links must stay beneath the root. If the root is /, links may be absolute, as they lead
         * nowhere else. */
        if (!root->is_slash)
                how.resolve |= RESOLVE_BENEATH;
        fd = (int)syscall(SYS_openat2, root->fd, path[0] ? path : ".", &how, sizeof(how));
        if (fd < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "open the directory %s%.150s",
                              root->is_slash ? "/" : "", path);
        return fd;
}

static int open_directory(const struct keeper_state *keeper, const struct keeper_service_spec *spec, int caller_fd,
                          struct directory *ret, struct cloche_err *e)
{
        const struct keeper_root *root;
        struct stat st;
        int r;

        if (spec->root >= keeper->root_count)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "mount root %u is unknown: name the directory when the daemon starts (cloched "
                               "--mount-root)",
                               spec->root);
        root = &keeper->roots[spec->root];
        r = find_caller(keeper, root, caller_fd, ret, e);
        if (r < 0)
                return r;
        ret->fd = ret->caller ? caller_open(ret->caller, root, spec->path, (int)spec->is_written, e)
                              : open_as_keeper(root, spec->path, e);
        if (ret->fd < 0)
                return ret->fd;
        if (fstat(ret->fd, &st) < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "open the directory %.150s", spec->path);
        ret->uid = ret->caller ? ret->caller->uid : keeper->is_root ? st.st_uid : geteuid();
        ret->gid = ret->caller ? ret->caller->gid : keeper->is_root ? st.st_gid : getegid();
        return 0;
}

static void directory_done(struct directory *directory)
{
        fd_close(&directory->fd);
}

/* An ordinary user may mount in their own user namespace. */
static int enter_own_namespace(const struct keeper_state *keeper, struct cloche_err *e)
{
        struct userns_ids ids = {.inside_uid = JAIL_UID, .uid = geteuid(), .inside_gid = JAIL_UID, .gid = getegid()};

        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "make a user namespace");
        return userns_map(keeper->proc_fd, getpid(), &ids, e);
}

static int make_upper(struct program *p, struct cloche_err *e)
{
        char size[24], inodes[24], uid[12], gid[12];
        const char *const options[] = {"size", size, "nr_inodes", inodes, "mode", "0755", "uid", uid, "gid", gid, NULL};
        int r = p->keeper->is_root ? 0 : enter_own_namespace(p->keeper, e);

        if (r < 0)
                return r;
        /* 0 means no limit to tmpfs. */
        snprintf(size, sizeof(size), "%llu", p->disk_bytes == UINT64_MAX ? 0ull : (unsigned long long)p->disk_bytes);
        snprintf(inodes, sizeof(inodes), "%llu",
                 p->disk_inodes == UINT64_MAX ? 0ull : (unsigned long long)p->disk_inodes + 1);
        snprintf(uid, sizeof(uid), "%u", p->keeper->is_root ? (unsigned)p->uid : JAIL_UID);
        snprintf(gid, sizeof(gid), "%u", p->keeper->is_root ? (unsigned)p->gid : JAIL_UID);
        p->fds[2] = mount_make("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
        return p->fds[2] < 0 ? err_os(e, CLOCHE_E_MOUNT, -p->fds[2], "make the upper file system of a mount") : 0;
}

static int become_owner(const struct program *p, struct cloche_err *e)
{
        int r = p->keeper->is_root && !p->drops_rights
                        ? caps_become(p->uid, p->gid, p->caller ? p->caller->groups : NULL,
                                      p->caller ? p->caller->group_count : 0, e)
                        : 0;

        if (r < 0)
                return r;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "set no_new_privs");
        /* Set after the change of ids, which clears it. The server also ends when its socket
         * closes. */
        return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0
                       ? err_os(e, CLOCHE_E_PRIVILEGE, errno, "tie the server to the keeper")
                       : 0;
}

/* Copy descriptors to 3 and above, without close-on-exec; the keeper's own ones there are
 * closed. */
static int arrange(struct program *p, int *error_fd, struct cloche_err *e)
{
        int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        int *const all[] = {&p->program_fd, error_fd, &null_fd};

        for (size_t i = 0; i < p->fd_count; i++)
                if ((p->fds[i] = fcntl(p->fds[i], F_DUPFD_CLOEXEC, 64)) < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, errno, "arrange descriptors");
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
                if ((*all[i] = fcntl(*all[i], F_DUPFD_CLOEXEC, 64)) < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, errno, "arrange descriptors");
        for (int fd = 0; fd < FIRST_FD; fd++)
                if (dup2(null_fd, fd) < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, errno, "put /dev/null at %d", fd);
        for (size_t i = 0; i < p->fd_count; i++)
                if (dup2(p->fds[i], FIRST_FD + (int)i) < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, errno, "arrange descriptors");
        return 0;
}

static int prepare(struct program *p, int *error_fd, struct cloche_err *e)
{
        sigset_t none;
        int r = p->needs_upper ? make_upper(p, e) : 0;

        if (r == 0 && p->memory_fd >= 0)
                r = cgroup_enter(&p->memory_fd, 1, e);
        if (r == 0 && p->processor_fd && *p->processor_fd >= 0)
                r = cgroup_enter(p->processor_fd, 1, e);
        if (r == 0)
                r = arrange(p, error_fd, e);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        signal(SIGPIPE, SIG_DFL);
        return r < 0 ? r : become_owner(p, e);
}

static _Noreturn void run(struct program *p, int error_fd)
{
        char numbers[5][4];
        char *argv[8] = {(char *)p->name}, *const environment[] = {NULL};
        struct cloche_err error = {0};

        for (size_t i = 0; i < p->fd_count; i++) {
                snprintf(numbers[i], sizeof(numbers[i]), "%d", FIRST_FD + (int)i);
                argv[i + 1] = numbers[i];
        }
        argv[p->fd_count + 1] = (char *)p->mode;
        if (prepare(p, &error_fd, &error) == 0) {
                syscall(SYS_execveat, p->program_fd, "", argv, environment, AT_EMPTY_PATH);
                err_os(&error, CLOCHE_E_SPAWN, errno, "start %s", p->name);
        }
        _exit(fd_write_full(error_fd, &error, sizeof(error)) < 0 ? 126 : 127);
}

/* A child before its exec, perhaps in the groups of a box that takes all of the processor. */
struct starting {
        struct pending p; /* fd: carries an error, closed by exec */
        const char *name;
        pid_t *place;                    /* holds its pid as long as it lives */
        struct passthrough *passthrough; /* closed if the child does not start; or NULL */
};

static int advance_start(struct keeper_state *keeper, struct pending *p, int ret_fds[2], struct cloche_err *e)
{
        const struct starting *s = (struct starting *)p;
        struct cloche_err theirs;

        (void)keeper;
        (void)ret_fds;
        if (fd_read_full(p->fd, &theirs, sizeof(theirs)) < 0)
                return 1;
        if (err_check(&theirs) < 0 || theirs.code == CLOCHE_OK)
                return err_set(e, CLOCHE_E_INTERNAL, "%s could not be started", s->name);
        *e = theirs;
        return -(int)theirs.code;
}

static void cancel_start(struct keeper_state *keeper, struct pending *p, int is_late)
{
        struct starting *s = (struct starting *)p;

        (void)is_late;
        if (*s->place > 0) /* not reaped yet */
                kill(*s->place, SIGKILL);
        while (*s->place > 0 && waitpid(*s->place, NULL, 0) < 0 && errno == EINTR)
                ;
        *s->place = 0;
        if (s->passthrough)
                close_passthrough(keeper, s->passthrough);
}

static const struct pending_kind starting_kind = {"start a program for the box", advance_start, cancel_start};

/* The request is answered when the program runs, or with the child's error before exec. place: set
 * at once. */
static int start(struct keeper_state *keeper, struct program *p, const struct serve_order *order, pid_t *place,
                 struct passthrough *passthrough, struct cloche_err *e)
{
        _cleanup_fd_ int read_fd = -EBADF, write_fd = -EBADF;
        struct starting *s;
        int pair[2];
        pid_t pid;

        if (p->program_fd < 0)
                return err_os(e, CLOCHE_E_KEEPER, -p->program_fd, "open %s beside box-init", p->name);
        if (pipe2(pair, O_CLOEXEC) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a pipe");
        read_fd = pair[0];
        write_fd = pair[1];
        s = malloc(sizeof(*s));
        pid = s ? fork() : -1;
        if (pid < 0) {
                free(s);
                return err_os(e, CLOCHE_E_RESOURCE, errno, "fork");
        }
        if (pid == 0)
                run(p, write_fd);
        *place = pid;
        *s = (struct starting){.p = {.kind = &starting_kind,
                                     .op = KEEPER_SERVE,
                                     .serial = order->serial,
                                     .box = order->box,
                                     .fd = TAKE_FD(read_fd)},
                               .name = p->name,
                               .place = place,
                               .passthrough = passthrough};
        pending_begin(keeper, &s->p);
        return 0;
}

/* -- the servers ------------------------------------------------------------------------------------------------ */

int serve_mount(struct keeper_state *keeper, const struct serve_order *order, struct cloche_err *e)
{
        const struct keeper_service_spec *spec = order->spec;
        struct box *row = &keeper->boxes[order->box];
        __attribute__((cleanup(directory_done))) struct directory directory = {.fd = -EBADF};
        _cleanup_fd_ int memory_fd = -EBADF, passthrough_fd = -EBADF;
        int r;

        if (spec->mount >= row->mount_count || row->fuse_fds[spec->mount] < 0)
                return err_set(e, CLOCHE_E_STATE, "box %u has no mount %u that waits to be served", order->box,
                               spec->mount);
        r = open_directory(keeper, spec, order->caller_fd, &directory, e);
        if (r < 0)
                return r;
        r = cgroup_open_memory(&keeper->cgroups, order->box, &memory_fd, e);
        if (r < 0)
                return r;
        passthrough_fd = offer_passthrough(keeper, order->box, spec->mount, &row->passthroughs[spec->mount]);
        r = start(keeper,
                  &(struct program){
                          .keeper = keeper,
                          .name = "cloche-fs",
                          .program_fd = keeper->fs_program_fd,
                          .fds = {row->fuse_fds[spec->mount], directory.fd, -EBADF, order->fds[0], passthrough_fd},
                          .fd_count = passthrough_fd < 0 ? 4 : 5,
                          .uid = directory.uid,
                          .gid = directory.gid,
                          .caller = directory.caller,
                          .memory_fd = memory_fd,
                          .needs_upper = 1,
                          .disk_bytes = row->limits.disk_bytes,
                          .disk_inodes = row->limits.disk_inodes,
                  },
                  order, &row->server_pids[spec->mount], &row->passthroughs[spec->mount], e);
        if (r < 0)
                close_passthrough(keeper, &row->passthroughs[spec->mount]);
        /* If we kept a copy open, the guest would wait for ever for a server that died. */
        fd_close(&row->fuse_fds[spec->mount]);
        return r;
}

/* The first place from `first` on that is free; NULL: none. */
static pid_t *find_place(pid_t *pids, size_t first, size_t count)
{
        for (size_t i = first; i < count; i++)
                if (!pids[i])
                        return &pids[i];
        return NULL;
}

int serve_sync(struct keeper_state *keeper, const struct serve_order *order, struct cloche_err *e)
{
        __attribute__((cleanup(directory_done))) struct directory directory = {.fd = -EBADF};
        pid_t *place = find_place(keeper->sync_pids, 0, KEEPER_SYNCS_MAX);
        int r;

        if (!place)
                return err_set(e, CLOCHE_E_RESOURCE, "%d syncs are under way already: try again when one has ended",
                               KEEPER_SYNCS_MAX);
        r = open_directory(keeper, order->spec, order->caller_fd, &directory, e);
        if (r < 0)
                return r;
        return start(keeper,
                     &(struct program){
                             .keeper = keeper,
                             .name = "cloche-sync",
                             .program_fd = keeper->sync_program_fd,
                             .fds = {directory.fd, order->fds[0], order->fds[1]},
                             .fd_count = 3,
                             .uid = directory.uid,
                             .gid = directory.gid,
                             .caller = directory.caller,
                             .memory_fd = -EBADF,
                     },
                     order, place, NULL, e);
}

/* A reader and a writer differ by an argument, after which the program gives up rights for good
 * before it reads a byte of the store. */
int serve_images(struct keeper_state *keeper, const struct serve_order *order, struct cloche_err *e)
{
        _cleanup_fd_ int store_fd = -EBADF;
        pid_t *place;
        int r;

        if (order->spec->is_written && !keeper->images_are_written)
                return err_set(e, CLOCHE_E_FORBIDDEN,
                               "this daemon may not change its image store: start it with cloched --image-changes, or "
                               "use cloche image on its machine");
        place = find_place(keeper->image_pids, order->spec->is_written ? KEEPER_IMAGE_READERS : 0,
                           KEEPER_IMAGE_PROGRAMS_MAX);
        if (!place)
                return err_set(e, CLOCHE_E_RESOURCE,
                               "too many requests to the image store are under way already: try again when one has "
                               "ended");
        r = sources_open_store(keeper, &store_fd, e);
        if (r < 0)
                return r;
        return start(keeper,
                     &(struct program){
                             .keeper = keeper,
                             .name = "cloche-image",
                             .program_fd = keeper->image_program_fd,
                             .fds = {store_fd, order->fds[0], order->fds[1]},
                             .fd_count = 3,
                             .mode = order->spec->is_written ? NULL : "read",
                             .drops_rights = 1,
                             .memory_fd = -EBADF,
                     },
                     order, place, NULL, e);
}

/* A sandbox's box, a context's, and those of forks of contexts. */
static int may_have_egress(const struct keeper_state *keeper, const struct box *row)
{
        if (row->is_sandbox || row->parent == KEEPER_NO_BOX)
                return row->is_sandbox;
        return row->shared_with != KEEPER_NO_BOX || may_have_egress(keeper, &keeper->boxes[row->parent]);
}

/* An egress program that ended may be followed by another. */
static int check_egress(const struct keeper_state *keeper, struct box *row, uint32_t box, struct cloche_err *e)
{
        if (!may_have_egress(keeper, row))
                return err_set(e, CLOCHE_E_STATE, "box %u is of a kind that has no network of its own", box);
        if (row->egress_pid && waitpid(row->egress_pid, NULL, WNOHANG) == 0)
                return err_set(e, CLOCHE_E_STATE, "the network of box %u is served already", box);
        row->egress_pid = 0;
        return 0;
}

int serve_net(struct keeper_state *keeper, const struct serve_order *order, struct cloche_err *e)
{
        uint32_t box = order->box;
        struct box *row = &keeper->boxes[box];
        int sockets[NETWORK_FDS], r = check_egress(keeper, row, box, e);
        _cleanup_fd_ int memory_fd = -EBADF, processor_fd = -EBADF;

        if (r == 0)
                r = cgroup_open_memory(&keeper->cgroups, box_shared_groups(keeper, box), &memory_fd, e);
        if (r == 0)
                r = cgroup_open_processor(&keeper->cgroups, box_shared_groups(keeper, box), &processor_fd, e);
        if (r == 0)
                r = network_make_sockets(keeper, row, sockets, e);
        if (r < 0)
                return r;
        r = start(keeper,
                  &(struct program){
                          .keeper = keeper,
                          .name = "cloche-egress",
                          .program_fd = keeper->egress_program_fd,
                          .fds = {order->fds[0], sockets[0], sockets[1], sockets[2]},
                          .fd_count = 1 + NETWORK_FDS,
                          .uid = keeper->is_root ? box_owner(box) : geteuid(),
                          .gid = keeper->is_root ? box_owner(box) : getegid(),
                          .memory_fd = memory_fd,
                          .processor_fd = &processor_fd, /* a flood of connections is charged to the box */
                  },
                  order, &row->egress_pid, NULL, e);
        /* If we kept copies, open connections would wait for ever for an egress program that
         * died. */
        for (size_t i = 0; i < NETWORK_FDS; i++)
                fd_close(&sockets[i]);
        return r;
}

/* -- ending --------------------------------------------------------------------------------------------------- */

void serve_kill(struct box *box)
{
        for (uint32_t i = 0; i < box->mount_count; i++)
                if (box->server_pids[i])
                        kill(box->server_pids[i], SIGKILL);
        if (box->egress_pid)
                kill(box->egress_pid, SIGKILL);
}

void serve_reap(struct box *box)
{
        for (uint32_t i = 0; i < box->mount_count; i++)
                while (box->server_pids[i] && waitpid(box->server_pids[i], NULL, 0) < 0 && errno == EINTR)
                        ;
        while (box->egress_pid && waitpid(box->egress_pid, NULL, 0) < 0 && errno == EINTR)
                ;
}

/* Syncs, and programs of the image store. Returns the number of those that run. */
static size_t reap_ended(pid_t *pids, size_t count)
{
        size_t left = 0;

        for (size_t i = 0; i < count; i++) {
                if (pids[i] && waitpid(pids[i], NULL, WNOHANG) != 0)
                        pids[i] = 0;
                left += pids[i] != 0;
        }
        return left;
}

static size_t reap_all_ended(struct keeper_state *keeper)
{
        return reap_ended(keeper->sync_pids, KEEPER_SYNCS_MAX) +
               reap_ended(keeper->image_pids, KEEPER_IMAGE_PROGRAMS_MAX);
}

static void kill_all(pid_t *pids, size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (pids[i] && kill(pids[i], SIGKILL) == 0 && waitpid(pids[i], NULL, 0) > 0)
                        pids[i] = 0;
}

void serve_reap_syncs(struct keeper_state *keeper, int is_end)
{
        const struct timespec pause = {.tv_nsec = SYNC_POLL_NS};
        uint64_t deadline_ns = clock_now_ns() + SYNC_END_NS;

        while (reap_all_ended(keeper) > 0 && is_end && clock_now_ns() < deadline_ns)
                nanosleep(&pause, NULL);
        if (!is_end)
                return;
        /* The caller whose user it runs as may have stopped it. Its journal is complete at each
         * step (decision 0010), and the image store is whole at each step of an import. */
        kill_all(keeper->sync_pids, KEEPER_SYNCS_MAX);
        kill_all(keeper->image_pids, KEEPER_IMAGE_PROGRAMS_MAX);
}
