/* cloche-fs: serve one mount. Runs in: its own process, as the owner of the mounted directory,
 * outside the box.
 *
 *     cloche-fs FUSE_FD LOWER_FD UPPER_FD CONTROL_FD [KEEPER_FD]
 *
 * FUSE_FD is /dev/fuse, already mounted. LOWER_FD is the host's directory; it is never written.
 * UPPER_FD is an empty directory for the guest's writes, on a size-limited file system. CONTROL_FD
 * is a stream socket to the engine (README.md). KEEPER_FD, or "-", is a socket to the process that
 * lets the kernel read large files directly (passthrough.h). The process exits when the control
 * socket or the connection closes. */
#include "control.h"
#include "helpers/fs/tree/overlay.h"
#include "seed.h"
#include "session.h"

#include "base/err.h"
#include "base/fd.h"
#include "jail/caps.h"
#include "jail/filter/filter.h"
#include "jail/filter/landlock.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

enum { FUSE_FD = 3, LOWER_FD, UPPER_FD, CONTROL_FD, KEEPER_FD, FD_END };
#define SPARE_FDS (DIRECTORIES_KEPT + 32) /* beside the guest's open files */
#define KEEP_S 1.0                        /* timeout of a directory's descriptor */

static struct fs_mount mount;
static const struct sock_filter calls[] = {
#include "fs-filter-rows.inc"
};

/* -- process setup -------------------------------------------------------------------------------------------- */

/* Move the descriptors to fixed numbers and close all others but the standard ones.
 * The last may be missing. */
static int arrange_descriptors(int count, char **argv)
{
        if (count > 0 && strcmp(argv[count - 1], "-") == 0)
                count--;
        if (count != FD_END - FUSE_FD && count != KEEPER_FD - FUSE_FD)
                return -1;
        if (fd_arrange(argv, count, FUSE_FD) < 0)
                return -1;
        passthrough_init(&mount.passthrough, FUSE_FD, count > KEEPER_FD - FUSE_FD ? KEEPER_FD : -EBADF, LOWER_FD);
        return 0;
}

static int raise_descriptors(size_t wanted)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return -1;
        if (limit.rlim_cur < wanted)
                limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
        return setrlimit(RLIMIT_NOFILE, &limit);
}

/* -- configuring ---------------------------------------------------------------------------------------------- */

static void drop_content(void *argument, uint64_t content)
{
        upper_remove(argument, content);
}

static void notify_denial(void *argument, const struct denial *denial)
{
        (void)server_notify(argument, "permissionDenied",
                            denial_log_denial_json(denial)); /* the list of denials has it in any case */
}

static int restrict_files(int *ret_abi, struct cloche_err *e)
{
        const struct landlock_place places[] = {{LOWER_FD, 0}, {UPPER_FD, 1}};
        int r = landlock_enter(places, 2, ret_abi, e);

        if (r == -CLOCHE_E_GUARD_MISSING && mount.settings.landlock_optional) {
                *ret_abi = 0;
                return 0;
        }
        return r;
}

/* Runs last: the filter forbids Landlock and setrlimit, too. */
static int restrict_calls(bool *ret_restricted, struct cloche_err *e)
{
        int r = FILTER_ENTER(calls, e);

        *ret_restricted = r == 0;
        return r == -CLOCHE_E_GUARD_MISSING && mount.settings.seccomp_optional ? 0 : r;
}

static int prepare(const json_t *params, struct cloche_err *e)
{
        uint64_t seed[2];
        double keep_s;
        int r = fs_settings_load(params, &mount.settings, e);

        if (r == 0)
                r = loading_new(&mount.settings, &mount.loading, e);
        if (r < 0)
                return r;
        keep_s = mount.settings.cache_s < KEEP_S ? mount.settings.cache_s : KEEP_S;
        directories_init(&mount.directories, &mount.lower, (uint64_t)(keep_s * 1e9), mount.lower_path);
        mount.upper.bytes_max = mount.settings.upper_bytes;
        if (getrandom(seed, sizeof(seed), 0) != sizeof(seed) ||
            tree_init(&mount.tree, &mount.settings.tree, seed) < 0 ||
            denial_log_init(&mount.denial_log, mount.settings.denials, mount.settings.warnings) < 0 ||
            raise_descriptors(mount.settings.open_files + SPARE_FDS) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "prepare the mount");
        mount.tree.drop_content = drop_content;
        mount.tree.argument = &mount.upper;
        r = lower_stat(&mount.lower, "", &mount.tree.root->st);
        return r < 0 ? err_os(e, CLOCHE_E_MOUNT, -r, "read the attributes of the mounted directory") : 0;
}

/* A mount of one file: its inode is the connection's root, and no other is ever asked for. */
static int show_file(struct cloche_err *e)
{
        struct node *node = NULL;
        int r = mount.settings.file ? overlay_lookup(&mount, mount.tree.root, mount.settings.file, NULL, &node) : 0;

        if (!mount.settings.file)
                return 0;
        if (r == -ENOENT && mount.settings.max_file_bytes)
                return err_set(e, CLOCHE_E_UNREADABLE_FILE,
                               "the file %.150s is not there, or larger than maxFileSize: name another one, or raise "
                               "that limit",
                               mount.settings.file);
        if (r < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, -r, "open the file %.150s", mount.settings.file);
        if (node->kind != S_IFREG)
                return err_set(e, CLOCHE_E_UNREADABLE_FILE,
                               "%.150s is not a file: a link is not followed, and a directory is mounted without "
                               "\"kind\"",
                               mount.settings.file);
        node->pins++;
        mount.file = node;
        return 0;
}

/* A failure ends the process: a partial configuration is not repeated. */
static int configure(struct fs_control *control, const json_t *params, json_t **ret, struct cloche_err *e)
{
        int abi = 0, r = prepare(params, e);
        bool filtered = false;

        if (r == 0)
                r = restrict_files(&abi, e);
        if (r == 0)
                r = restrict_calls(&filtered, e);
        if (r < 0)
                return r;
        mount.tree.root->ino = mount.tree.root->st.st_ino;
        mount.denial_log.on_denial = notify_denial;
        mount.denial_log.argument = &control->server;
        r = points_make(&mount, e);
        if (r < 0)
                return r;
        r = overlay_load_eagerly(&mount);
        if (r < 0)
                return err_os(e, CLOCHE_E_TOO_LARGE, -r, "load the directory");
        r = show_file(e);
        if (r < 0)
                return r;
        *ret = json_pack("{s:i, s:b, s:b}", "landlock", abi, "seccomp", filtered, "passthrough",
                         mount.passthrough.keeper_fd >= 0);
        return 0;
}

static int wait_for_configuration(struct server *server)
{
        while (server->state != SERVER_OPEN) {
                struct pollfd polled = {server->transport.socket_fd, server_events(server), 0};

                if ((poll(&polled, 1, -1) < 0 && errno != EINTR) || server_turn(server) < 0)
                        return -1;
        }
        return 0;
}

int main(int argc, char **argv)
{
        struct fs_control control;

        if (arrange_descriptors(argc - 1, argv + 1) < 0) {
                fprintf(stderr, "usage: cloche-fs FUSE_FD LOWER_FD UPPER_FD CONTROL_FD [KEEPER_FD]\n");
                return 2;
        }
        if (caps_give_up() < 0) {
                perror("cloche-fs: drop privilege");
                return 1;
        }
        signal(SIGPIPE, SIG_IGN);
        umask(0);
        mount.lower.root_fd = LOWER_FD;
        mount.upper.dir_fd = UPPER_FD;
        fs_control_init(&control, CONTROL_FD, &mount);
        control.configure = configure;
        if (wait_for_configuration(&control.server) < 0)
                return 0;
        return session_serve(&mount, &control, FUSE_FD) < 0;
}
