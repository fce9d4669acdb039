/* Volumes. The image of one is a file that only the keeper's user can reach, so no guest and
 * no engine ever writes the bytes that the kernel's ext4 reads: guests change them only
 * through that file system.
 *
 *   keeper ── fork ──▶ child ── makes an image and exits; removes one and exits; or
 *                          └── image, lock, loop device, ext4 in a mount namespace of its own ──▶ stays
 *   box being made ── a helper copies the mount in that namespace ──▶ attached in the box
 *
 * A scratch volume holds the files of one box: its image never has a name, so its bytes are free
 * when its last user ends, and no next one finds it.
 *
 * All disappears with its last user, however that ends: the loop device with the mount
 * (LO_FLAGS_AUTOCLEAR), the lock with the loop device, which holds the locked file. So no image
 * is mounted twice, also not by the keeper that follows a killed one. Runs in: the keeper, and
 * the children named here, with its rights; mkfs.ext4 as root without capabilities. */
#include "box.h"

#include "base/err.h"
#include "base/fd.h"
#include "helper.h"
#include "jail/caps.h"
#include "jail/root/mount.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#define REPORT_FD 3
#define LOOP_TRIES 64 /* other programs look for a free one, too */
#define TAKE_TIMEOUT_S 5
#define FILES "files" /* beside lost+found, which is root's: the directory that boxes see */
/* All, whatever the host's mke2fs.conf says. Every kernel since 4.0 knows them. */
#define FEATURES                                                                                        \
        "ext_attr,dir_index,filetype,extent,64bit,flex_bg,sparse_super,large_file,huge_file,dir_nlink," \
        "extra_isize,metadata_csum"
#define INODE_BYTES 256
#define OWN_ENTRIES 256 /* of a scratch volume: those of ext4, and those that a sandbox has before its guest */
#define IMAGE_NAME_SIZE (KEEPER_VOLUME_ID_SIZE + 4)
#define VOLUME_FDS 2 /* tree_fd, ns_fd */

struct volume_report {
        struct cloche_err err;
        struct keeper_volume_usage usage;
};

static void image_name(const char *id, char ret[IMAGE_NAME_SIZE])
{
        snprintf(ret, IMAGE_NAME_SIZE, "%.32s.img", id);
}

static int measure(int tree_fd, struct keeper_volume_usage *ret, struct cloche_err *e)
{
        struct statfs st;

        if (fstatfs(tree_fd, &st) < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "measure a volume");
        *ret = (struct keeper_volume_usage){
                .bytes = (uint64_t)st.f_blocks * (uint64_t)st.f_bsize,
                .used_bytes = (uint64_t)(st.f_blocks - st.f_bfree) * (uint64_t)st.f_bsize,
                .entries = (uint64_t)st.f_files,
                .used_entries = (uint64_t)(st.f_files - st.f_ffree),
        };
        return 0;
}

/* -- making ----------------------------------------------------------------------------------------------------- */

static _Noreturn void become_mkfs(int image_fd, const struct keeper_volume_spec *spec)
{
        static const char *const programs[] = {"/sbin/mkfs.ext4", "/usr/sbin/mkfs.ext4"};
        int is_scratch = spec->action == KEEPER_VOLUME_SCRATCH;
        char path[32], entries[24];
        /* The bytes are reserved: nothing may punch holes, and blocks that nobody wrote read as
         * zeros. No scratch volume is mounted twice, so it needs no journal. */
        char *argv[] = {(char *)"mkfs.ext4",
                        (char *)"-q",
                        (char *)"-F",
                        (char *)"-b",
                        (char *)"4096",
                        (char *)"-I",
                        (char *)"256",
                        (char *)(is_scratch ? "-N" : "-i"),
                        is_scratch ? entries : (char *)"16384",
                        (char *)"-m",
                        (char *)"0",
                        (char *)"-O",
                        (char *)(is_scratch ? "none," FEATURES : "none,has_journal," FEATURES),
                        (char *)"-E",
                        (char *)"nodiscard,lazy_itable_init=1,lazy_journal_init=1",
                        path,
                        NULL};
        char *const environment[] = {(char *)"MKE2FS_CONFIG=/dev/null", NULL};
        int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        struct cloche_err e;

        snprintf(path, sizeof(path), "/proc/self/fd/%d", image_fd);
        snprintf(entries, sizeof(entries), "%llu", (unsigned long long)(spec->entries + OWN_ENTRIES));
        for (int fd = 0; fd < REPORT_FD; fd++)
                if (dup2(null_fd, fd) < 0)
                        _exit(126);
        if (fcntl(image_fd, F_SETFD, 0) < 0 || caps_become(0, 0, NULL, 0, &e) < 0 ||
            prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
                _exit(126);
        for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
                execve(programs[i], argv, environment);
        _exit(127);
}

static int format(int image_fd, const struct keeper_volume_spec *spec, struct cloche_err *e)
{
        pid_t pid = fork();
        int status = 0;

        if (pid < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "fork");
        if (pid == 0)
                become_mkfs(image_fd, spec);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
                return err_set(e, CLOCHE_E_SPAWN,
                               "volumes need the program mkfs.ext4: install it (Debian: apt install e2fsprogs)");
        return status ? err_set(e, CLOCHE_E_SPAWN, "mkfs.ext4 failed (wait status %d)", status) : 0;
}

/* The size of an image in which that many bytes are for files: the tables of inodes, bitmaps and
 * descriptors of groups come to it, and blocks of large files' extents. */
static uint64_t image_bytes(const struct keeper_volume_spec *spec)
{
        uint64_t bytes = spec->size_bytes;

        if (spec->action == KEEPER_VOLUME_SCRATCH)
                bytes += (spec->entries + OWN_ENTRIES) * INODE_BYTES + bytes / 512 + (UINT64_C(1) << 20);
        return bytes & ~UINT64_C(4095);
}

/* A file system keeps blocks for root, so that the host goes on when users have filled it. They are
 * not for callers, though this process may take them. */
static int reserve(int fd, uint64_t bytes, struct cloche_err *e)
{
        struct statfs fs;
        int is_full = fstatfs(fd, &fs) == 0 && fs.f_blocks > 0 && bytes > (uint64_t)fs.f_bavail * (uint64_t)fs.f_frsize;

        if (!is_full && fallocate(fd, 0, 0, (off_t)bytes) == 0)
                return 0;
        return err_os(e, CLOCHE_E_RESOURCE, is_full ? ENOSPC : errno, "reserve %llu bytes in the directory of volumes",
                      (unsigned long long)bytes);
}

/* A new image has no name yet. All its bytes are reserved: a file system that runs out of bytes
 * below it loses data that was written to it without an error. */
static int make_unnamed(int dir_fd, const struct keeper_volume_spec *spec, struct cloche_err *e)
{
        _cleanup_fd_ int fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        int r;

        if (fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a file in the directory of volumes");
        r = reserve(fd, image_bytes(spec), e);
        if (r == 0)
                r = format(fd, spec, e);
        return r < 0 ? r : TAKE_FD(fd);
}

/* It has its name only when it is whole. */
static int make(int dir_fd, const struct keeper_volume_spec *spec, struct cloche_err *e)
{
        _cleanup_fd_ int fd = make_unnamed(dir_fd, spec, e);
        char name[IMAGE_NAME_SIZE], path[32];

        if (fd < 0)
                return fd;
        image_name(spec->id, name);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (fsync(fd) < 0 || linkat(AT_FDCWD, path, dir_fd, name, AT_SYMLINK_FOLLOW) < 0 || fsync(dir_fd) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "keep the new volume");
        return 0;
}

/* -- mounting --------------------------------------------------------------------------------------------------- */

/* Open and lock it. A former user that is ending is waited for, within the deadline of the
 * request. */
static int open_image(int dir_fd, const char *id, struct cloche_err *e)
{
        _cleanup_fd_ int fd = -EBADF;
        char name[IMAGE_NAME_SIZE];
        struct stat st;

        image_name(id, name);
        fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd >= 0 && flock(fd, LOCK_EX) < 0)
                return err_os(e, CLOCHE_E_MOUNT, errno, "lock the image of a volume");
        if ((fd < 0 && errno == ENOENT) || (fd >= 0 && fstat(fd, &st) == 0 && st.st_nlink == 0))
                return err_set(e, CLOCHE_E_NOT_FOUND, "the image of the volume, %s, is not in the directory of volumes",
                               name);
        return fd < 0 ? err_os(e, CLOCHE_E_MOUNT, errno, "open the image of a volume") : TAKE_FD(fd);
}

/* The kernel chooses a free number, and somebody may take it first. */
static int attach_loop(int image_fd, char *ret_path, size_t size, struct cloche_err *e)
{
        _cleanup_fd_ int control_fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
        struct loop_config config = {
                .fd = (unsigned)image_fd,
                .block_size = 4096,
                .info = {.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO, .lo_file_name = "cloche volume"},
        };

        for (int i = 0; control_fd >= 0 && i < LOOP_TRIES; i++) {
                int number = ioctl(control_fd, LOOP_CTL_GET_FREE);
                _cleanup_fd_ int fd = -EBADF;

                if (number < 0)
                        break;
                snprintf(ret_path, size, "/dev/loop%d", number);
                fd = open(ret_path, O_RDWR | O_CLOEXEC);
                if (fd < 0)
                        break;
                if (ioctl(fd, LOOP_CONFIGURE, &config) == 0)
                        return TAKE_FD(fd);
                if (errno != EBUSY)
                        break;
        }
        return err_os(e, CLOCHE_E_MOUNT, errno,
                      "volumes need loop devices: open one (root loads them with modprobe loop; a container needs "
                      "/dev/loop-control and the devices)");
}

static int mount_image(int image_fd, uint64_t attributes, struct cloche_err *e)
{
        char path[32];
        /* noinit_itable: the kernel would write zeros over zeros. */
        const char *const options[] = {"source", path, "errors", "remount-ro", "noinit_itable", NULL, NULL};
        _cleanup_fd_ int loop_fd = -EBADF;
        int fd;

        loop_fd = attach_loop(image_fd, path, sizeof(path), e);
        if (loop_fd < 0)
                return loop_fd;
        fd = mount_make("ext4", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | attributes);
        return fd < 0 ? err_os(e, CLOCHE_E_MOUNT, -fd, "mount the ext4 of a volume") : fd;
}

/* A mount can be copied only in its own namespace, so it gets one, in which nothing else is. */
static int move_into(int mount_fd, const char *place, int *ret_ns_fd, struct cloche_err *e)
{
        int r;

        if (unshare(CLONE_NEWNS) < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "make a mount namespace");
        *ret_ns_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
        if (*ret_ns_fd < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "open a mount namespace");
        r = mount_part(e);
        if (r == 0)
                r = mount_attach(mount_fd, place, e);
        if (r == 0 && fchdir(mount_fd) < 0)
                r = err_os(e, CLOCHE_E_MOUNT, errno, "enter a volume");
        return r < 0 ? r : mount_turn(e);
}

static int open_files(struct cloche_err *e)
{
        _cleanup_fd_ int fd = -EBADF;
        struct stat st;

        if (mkdir(FILES, 0755) < 0 && errno != EEXIST)
                return err_os(e, CLOCHE_E_MOUNT, errno, "make the directory of a volume");
        fd = open(FILES, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0 ||
            (st.st_uid != JAIL_UID && fchownat(fd, "", JAIL_UID, JAIL_UID, AT_EMPTY_PATH) < 0))
                return err_os(e, CLOCHE_E_MOUNT, errno, "open the directory of a volume");
        return TAKE_FD(fd);
}

static int open_volume(int dir_fd, const struct keeper_volume_spec *spec, const char *place, int ret_fds[VOLUME_FDS],
                       struct keeper_volume_usage *ret_usage, struct cloche_err *e)
{
        int is_scratch = spec->action == KEEPER_VOLUME_SCRATCH;
        _cleanup_fd_ int image_fd = is_scratch ? make_unnamed(dir_fd, spec, e) : open_image(dir_fd, spec->id, e);
        /* A later run in the same box must not see when an earlier one read a file. */
        _cleanup_fd_ int mount_fd =
                image_fd < 0 ? image_fd : mount_image(image_fd, is_scratch ? MOUNT_ATTR_NOATIME : 0, e);
        int r = mount_fd < 0 ? mount_fd : move_into(mount_fd, place + 1, &ret_fds[1], e);

        if (r == 0)
                r = ret_fds[0] = open_files(e);
        return r < 0 ? r : measure(ret_fds[0], ret_usage, e);
}

static int remove_image(int dir_fd, const char *id, struct cloche_err *e)
{
        _cleanup_fd_ int fd = open_image(dir_fd, id, e);
        char name[IMAGE_NAME_SIZE];

        if (fd < 0)
                return fd == -CLOCHE_E_NOT_FOUND ? 0 : fd;
        image_name(id, name);
        return unlinkat(dir_fd, name, 0) < 0 ? err_os(e, CLOCHE_E_RESOURCE, errno, "remove the image of a volume") : 0;
}

/* -- the child -------------------------------------------------------------------------------------------------- */

static int open_directory(const char *path, int makes, struct cloche_err *e)
{
        _cleanup_fd_ int fd = -EBADF;
        char parent[KEEPER_PATH_MAX];
        int r;

        snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(path, '/') - path), path);
        if (makes && parent[0])
                (void)mkdir(parent, 0755); /* the next call fails without it */
        if (makes && mkdir(path, 0700) < 0 && errno != EEXIST)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "make the directory of volumes %s", path);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return err_os(e, errno == ENOENT ? CLOCHE_E_NOT_FOUND : CLOCHE_E_UNREADABLE_FILE, errno,
                              "open the directory of volumes %s", path);
        r = sources_check_private(fd, "volumes", path, e);
        return r < 0 ? r : TAKE_FD(fd);
}

static int act(const struct keeper_state *keeper, const struct keeper_volume_spec *spec, int ret_fds[VOLUME_FDS],
               struct keeper_volume_usage *ret_usage, struct cloche_err *e)
{
        int makes = spec->action == KEEPER_VOLUME_MAKE || spec->action == KEEPER_VOLUME_SCRATCH;
        _cleanup_fd_ int dir_fd = open_directory(keeper->volumes_dir, makes, e);

        if (dir_fd < 0)
                return dir_fd == -CLOCHE_E_NOT_FOUND && spec->action == KEEPER_VOLUME_REMOVE ? 0 : dir_fd;
        if (spec->action == KEEPER_VOLUME_MAKE)
                return make(dir_fd, spec, e);
        if (spec->action == KEEPER_VOLUME_REMOVE)
                return remove_image(dir_fd, spec->id, e);
        return open_volume(dir_fd, spec, keeper->volumes_dir, ret_fds, ret_usage, e);
}

/* The child, as long as the volume is open. */
static int stays(uint32_t action)
{
        return action == KEEPER_VOLUME_OPEN || action == KEEPER_VOLUME_SCRATCH;
}

static _Noreturn void work(const struct keeper_state *keeper, const struct keeper_volume_spec *spec, int report_fd,
                           pid_t parent)
{
        struct volume_report report = {0};
        int fds[VOLUME_FDS] = {-EBADF, -EBADF}, r;
        sigset_t none;
        char byte;

        if (dup2(report_fd, REPORT_FD) < 0 || close_range(REPORT_FD + 1, ~0u, 0) < 0 ||
            prctl(PR_SET_NAME, "cloche-volume") < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ||
            getppid() != parent)
                _exit(126);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        r = act(keeper, spec, fds, &report.usage, &report.err);
        if (r == 0)
                report.err = (struct cloche_err){0};
        if (fd_send(REPORT_FD, &report, sizeof(report), fds, r == 0 && fds[0] >= 0 ? VOLUME_FDS : 0) < 0 || r < 0)
                _exit(1);
        for (size_t i = 0; i < VOLUME_FDS; i++)
                fd_close(&fds[i]);
        while (stays(spec->action) && read(REPORT_FD, &byte, 1) < 0 && errno == EINTR)
                ;
        _exit(0);
}

/* -- the keeper's side ------------------------------------------------------------------------------------------ */

struct working {
        struct pending p; /* fd: of the child's report */
        struct volume *volume;
        uint32_t action;
};

/* Its child ends then. It stays in the table until it is reaped. */
static void release(struct volume *volume)
{
        volume->id[0] = '\0';
        volume->is_unwanted = 0;
        fd_close(&volume->tree_fd);
        fd_close(&volume->ns_fd);
        fd_close(&volume->socket_fd); /* last: a mount that we still held would be ours to unmount */
}

static int advance_work(struct keeper_state *keeper, struct pending *p, int ret_fds[2], struct cloche_err *e)
{
        struct working *w = (struct working *)p;
        struct volume_report report;
        int fds[VOLUME_FDS] = {-EBADF, -EBADF};
        size_t fd_count = VOLUME_FDS;
        ssize_t n = fd_receive(p->fd, &report, sizeof(report), fds, &fd_count, MSG_DONTWAIT);

        (void)keeper;
        (void)ret_fds;
        if (n == -EAGAIN)
                return 0;
        if (n != sizeof(report) || err_check(&report.err) < 0 ||
            (!report.err.code && fd_count != (stays(w->action) ? VOLUME_FDS : 0)))
                return err_set(e, CLOCHE_E_MOUNT, "the process that was at work on the volume was killed");
        if (report.err.code) {
                *e = report.err;
                return -(int)report.err.code;
        }
        p->volume = report.usage;
        w->volume->tree_fd = fds[0];
        w->volume->ns_fd = fds[1];
        w->volume->socket_fd = TAKE_FD(p->fd);
        if (!stays(w->action) || w->volume->is_unwanted)
                release(w->volume);
        return 1;
}

static void cancel_work(struct keeper_state *keeper, struct pending *p, int is_late)
{
        struct working *w = (struct working *)p;

        (void)keeper;
        (void)is_late;
        if (w->volume->pid)
                kill(w->volume->pid, SIGKILL);
        release(w->volume);
}

static const struct pending_kind working_kind = {"work on the volume", advance_work, cancel_work};

static struct volume *find(struct keeper_state *keeper, const char *id)
{
        for (size_t i = 0; i < KEEPER_VOLUMES_MAX; i++)
                if (strcmp(keeper->volumes[i].id, id) == 0)
                        return &keeper->volumes[i];
        return NULL;
}

static struct volume *find_free(struct keeper_state *keeper)
{
        for (size_t i = 0; i < KEEPER_VOLUMES_MAX; i++)
                if (!keeper->volumes[i].id[0] && !keeper->volumes[i].pid)
                        return &keeper->volumes[i];
        return NULL;
}

static int start(struct keeper_state *keeper, const struct keeper_volume_spec *spec, uint32_t serial,
                 struct cloche_err *e)
{
        struct volume *volume = find_free(keeper);
        _cleanup_fd_ int ours_fd = -EBADF, theirs_fd = -EBADF;
        struct working *w;
        pid_t parent = getpid(), pid;
        int pair[2], r;

        if (!volume)
                return err_set(e, CLOCHE_E_RESOURCE,
                               "%d volumes are in use already: try again when sandboxes with some of them have stopped",
                               KEEPER_VOLUMES_MAX);
        r = helper_open_pair(pair, e);
        if (r < 0)
                return r;
        ours_fd = pair[0];
        theirs_fd = pair[1];
        w = malloc(sizeof(*w));
        pid = w ? fork() : -1;
        if (pid < 0) {
                free(w);
                return err_os(e, CLOCHE_E_RESOURCE, errno, "fork");
        }
        if (pid == 0)
                work(keeper, spec, theirs_fd, parent);
        *volume = (struct volume){.pid = pid,
                                  .socket_fd = -EBADF,
                                  .tree_fd = -EBADF,
                                  .ns_fd = -EBADF,
                                  .is_scratch = spec->action == KEEPER_VOLUME_SCRATCH};
        memcpy(volume->id, spec->id, sizeof(volume->id));
        *w = (struct working){.p = {.kind = &working_kind,
                                    .op = KEEPER_VOLUME,
                                    .serial = serial,
                                    .box = KEEPER_NO_BOX,
                                    .fd = TAKE_FD(ours_fd)},
                              .volume = volume,
                              .action = spec->action};
        pending_begin(keeper, &w->p);
        return 1;
}

int volume_check(const struct keeper_state *keeper, struct cloche_err *e)
{
        if (!keeper->is_root)
                return err_set(e, CLOCHE_E_FORBIDDEN,
                               "volumes need a daemon of root: only root can mount a file system of fixed size");
        if (!keeper->volumes_dir)
                return err_set(e, CLOCHE_E_FORBIDDEN, "this daemon has no volumes: its operator sets --volumes");
        return 0;
}

int volume_handle(struct keeper_state *keeper, const struct keeper_volume_spec *spec, uint32_t serial,
                  struct keeper_volume_usage *ret_usage, struct cloche_err *e)
{
        struct volume *volume = find(keeper, spec->id);
        int r = volume_check(keeper, e);

        if (r < 0)
                return r;
        if (spec->action == KEEPER_VOLUME_CLOSE) {
                if (volume && volume->tree_fd < 0)
                        volume->is_unwanted = 1;
                else if (volume)
                        release(volume);
                return 0;
        }
        if (!volume)
                return start(keeper, spec, serial, e);
        if (spec->action == KEEPER_VOLUME_OPEN && volume->tree_fd >= 0)
                return measure(volume->tree_fd, ret_usage, e);
        return err_set(e, CLOCHE_E_STATE, "the volume is in use");
}

struct taking {
        const struct keeper_state *keeper;
        const struct keeper_box_spec *spec;
};

static int take(const void *data, int *ret_fds, struct cloche_err *e)
{
        const struct taking *t = data;
        int r = 0, count = 0;

        for (uint32_t i = 0; r == 0 && i < t->spec->mount_count; i++) {
                const struct volume *volume;
                uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

                if (!(t->spec->volume_mounts >> i & 1))
                        continue;
                volume = find((struct keeper_state *)t->keeper, t->spec->volumes[i]);
                if (t->spec->read_only >> i & 1)
                        attributes |= MOUNT_ATTR_RDONLY;
                if (setns(volume->ns_fd, CLONE_NEWNS) < 0)
                        return err_os(e, CLOCHE_E_NAMESPACE, errno, "join the namespace of a volume");
                r = mount_clone_alone(volume->tree_fd, "", attributes, &ret_fds[count++], e);
        }
        return r;
}

int volumes_take(const struct keeper_state *keeper, const struct keeper_box_spec *spec, int ret_fds[KEEPER_MOUNTS_MAX],
                 struct cloche_err *e)
{
        const struct taking taking = {keeper, spec};
        int fds[KEEPER_MOUNTS_MAX], count = 0, r;

        for (uint32_t i = 0; i < spec->mount_count; i++) {
                const struct volume *volume =
                        spec->volume_mounts >> i & 1 ? find((struct keeper_state *)keeper, spec->volumes[i]) : NULL;

                if (spec->volume_mounts >> i & 1 && (!volume || volume->tree_fd < 0 || volume->is_scratch))
                        return err_set(e, CLOCHE_E_STATE, "the volume of the mount %.100s is not open",
                                       spec->mounts[i]);
                count += volume != NULL;
        }
        r = helper_fetch(take, &taking, (size_t)count, TAKE_TIMEOUT_S, fds, e);
        if (r < 0)
                return r;
        for (uint32_t i = 0, next = 0; i < spec->mount_count; i++)
                if (spec->volume_mounts >> i & 1)
                        ret_fds[i] = fds[next++];
        return 0;
}

static int take_scratch(const void *data, int *ret_fds, struct cloche_err *e)
{
        const struct volume *volume = data;

        if (setns(volume->ns_fd, CLONE_NEWNS) < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "join the namespace of a volume");
        return mount_clone_alone(volume->tree_fd, "", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, ret_fds, e);
}

int volume_take_scratch(struct keeper_state *keeper, const char *id, int *ret_fd, struct cloche_err *e)
{
        struct volume *volume = find(keeper, id);

        if (!volume || volume->tree_fd < 0 || !volume->is_scratch || volume->is_taken)
                return err_set(e, CLOCHE_E_STATE, "there is no open scratch volume for this box");
        volume->is_taken = 1;
        return helper_fetch(take_scratch, volume, 1, TAKE_TIMEOUT_S, ret_fd, e);
}

/* Files of a volume belong to JAIL_UID on the disk, whichever number the box shows; those of a
 * box with a root of its own have the numbers that it shows. */
static int open_map(const struct keeper_state *keeper, const struct box *row, int *ret_fd, struct cloche_err *e)
{
        int is_same = row->ids.fd >= 0 || (row->user.uid == JAIL_UID && row->user.gid == JAIL_UID);

        return is_same ? box_open_namespace(keeper, row->init_pid, "user", ret_fd, e)
                       : sources_make_map(keeper, &(struct userns_range){JAIL_UID, box_user(keeper, row), 1}, ret_fd,
                                          e);
}

int volumes_map(const struct keeper_state *keeper, const struct box *row, const int *mount_fds, uint32_t volumes,
                struct cloche_err *e)
{
        _cleanup_fd_ int user_fd = -EBADF;
        int r = open_map(keeper, row, &user_fd, e);

        for (int i = 0; r == 0 && volumes >> i; i++)
                if (volumes >> i & 1 && (r = mount_map_users(mount_fds[i], user_fd)) < 0)
                        r = err_os(e, CLOCHE_E_MOUNT, -r, "map the users of a volume");
        return r;
}

int volume_map_scratch(const struct keeper_state *keeper, const struct box *row, int files_fd, struct cloche_err *e)
{
        _cleanup_fd_ int user_fd = -EBADF;
        int r = open_map(keeper, row, &user_fd, e);

        if (r == 0 && (r = mount_map_users(files_fd, user_fd)) < 0)
                r = err_os(e, CLOCHE_E_MOUNT, -r, "map the users of a scratch volume");
        return r;
}

void volumes_reap(struct keeper_state *keeper)
{
        for (size_t i = 0; i < KEEPER_VOLUMES_MAX; i++)
                if (keeper->volumes[i].pid && waitpid(keeper->volumes[i].pid, NULL, WNOHANG) != 0)
                        keeper->volumes[i].pid = 0;
}

void volumes_close(struct keeper_state *keeper)
{
        for (size_t i = 0; i < KEEPER_VOLUMES_MAX; i++)
                if (keeper->volumes[i].id[0])
                        release(&keeper->volumes[i]);
}
