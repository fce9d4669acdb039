/* Confines itself as cloche-image does, to the directories given, and tries refused acts, and beside them permitted
 * ones. Prints failures.
 *
 *     try-confine STORE SOURCE VICTIM [read]     VICTIM: a file elsewhere */
#include "helpers/image/confine.h"

#include "base/privilege.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

static int wrong;

static void expect(const char *what, long result, int refused)
{
        if (refused ? result != -1 || (errno != EPERM && errno != EACCES && errno != EXDEV) : result < 0) {
                printf("%s: %s (%ld, errno %d)\n", what, refused ? "it was not refused" : "it was refused", result,
                       errno);
                wrong = 1;
        }
}

static void try_refused(int store_fd, int source_fd, const char *victim)
{
        expect("read elsewhere", open(victim, O_RDONLY), 1);
        expect("write elsewhere", open(victim, O_WRONLY), 1);
        expect("truncate elsewhere", truncate(victim, 0), 1);
        expect("list elsewhere", open("/", O_RDONLY | O_DIRECTORY), 1);
        expect("read /proc", open("/proc/self/status", O_RDONLY), 1);
        expect("link the victim", linkat(AT_FDCWD, victim, store_fd, "stolen", 0), 1);
        expect("write to the source", openat(source_fd, "new", O_WRONLY | O_CREAT, 0600), 1);
        expect("change the source", openat(source_fd, "file", O_WRONLY), 1);
        expect("remove from the source", unlinkat(source_fd, "file", 0), 1);
        expect("link from the source", linkat(source_fd, "file", store_fd, "stolen", 0), 1);
        expect("a device", mknodat(store_fd, "null", S_IFCHR | 0666, makedev(1, 3)), 1);
        expect("a pipe", mknodat(store_fd, "pipe", S_IFIFO | 0666, 0), 1);
        expect("fork", syscall(SYS_fork), 1);
        expect("clone3", syscall(SYS_clone3, NULL, 0), 1);
        expect("execve", syscall(SYS_execve, "/bin/true", NULL, NULL), 1);
        expect("socket", syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0), 1);
        expect("ptrace", syscall(SYS_ptrace, 0, 0, 0, 0), 1);
        expect("kill", syscall(SYS_kill, getppid(), 0), 1);
        expect("mount", syscall(SYS_mount, "none", "/", "tmpfs", 0, NULL), 1);
        expect("chroot", syscall(SYS_chroot, "."), 1);
        expect("unshare", syscall(SYS_unshare, 0x10000000), 1);
        expect("setuid", syscall(SYS_setuid, 0), 1);
        expect("capset", syscall(SYS_capset, NULL, NULL), 1);
        expect("open_by_handle_at", syscall(SYS_open_by_handle_at, store_fd, NULL, 0), 1);
        expect("io_uring", syscall(SYS_io_uring_setup, 1, NULL), 1);
        expect("memory to run", (long)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1);
}

static void try_permitted(int store_fd, int source_fd, int keeps_ids)
{
        int fd = openat(store_fd, "file", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
        struct open_how how = {.flags = O_PATH, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};

        expect("write to the store", write(fd, "x", 1), 0);
        expect("an attribute", fsetxattr(fd, "user.x", "1", 1, 0), 0);
        if (keeps_ids)
                expect("another owner", fchown(fd, 12345, 12345), 0);
        expect("the mode of a file of others", fchmod(fd, 0755), 0);
        expect("the time of a file of others", futimens(fd, NULL), 0);
        expect("a directory", mkdirat(store_fd, "d", 0700), 0);
        expect("a directory beneath", syscall(SYS_openat2, store_fd, "d", &how, sizeof(how)), 0);
        expect("a link", symlinkat("/etc/passwd", store_fd, "l"), 0);
        expect("a hard link", linkat(store_fd, "file", store_fd, "d/file", 0), 0);
        expect("a move between directories", renameat(store_fd, "l", store_fd, "d/l"), 0);
        expect("a lock", flock(store_fd, LOCK_SH), 0);
        expect("flush", syncfs(store_fd), 0);
        expect("remove", unlinkat(store_fd, "d/l", 0), 0);
        expect("read the source", openat(source_fd, "file", O_RDONLY), 0);
        expect("memory", (long)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 0);
}

static void try_reader(int store_fd, int source_fd)
{
        int fd = openat(store_fd, "file", O_RDONLY | O_NOFOLLOW);
        char byte;

        expect("make a file", openat(store_fd, "new", O_WRONLY | O_CREAT, 0600), 1);
        expect("make a file without a name", openat(store_fd, ".", O_WRONLY | O_TMPFILE, 0600), 1);
        expect("write to a file", openat(store_fd, "file", O_WRONLY), 1);
        expect("truncate a file", openat(store_fd, "file", O_RDONLY | O_TRUNC), 1);
        expect("remove a file", unlinkat(store_fd, "file", 0), 1);
        expect("move a file", renameat(store_fd, "file", store_fd, "other"), 1);
        expect("link a file", linkat(store_fd, "file", store_fd, "other", 0), 1);
        expect("make a link", symlinkat("/", store_fd, "l"), 1);
        expect("make a directory", mkdirat(store_fd, "d", 0700), 1);
        expect("the mode of a file", fchmod(fd, 0), 1);
        expect("the mode of the store", fchmod(store_fd, 0), 1);
        expect("the owner of a file", fchown(fd, getuid(), getgid()), 1);
        expect("the time of a file", futimens(fd, NULL), 1);
        expect("an attribute", fsetxattr(fd, "user.x", "1", 1, 0), 1);
        expect("read the store", read(fd, &byte, 1), 0);
        expect("list the store", openat(store_fd, ".", O_RDONLY | O_DIRECTORY), 0);
        expect("a lock", flock(store_fd, LOCK_SH), 0);
        expect("read the source", openat(source_fd, "file", O_RDONLY), 0);
}

int main(int argc, char **argv)
{
        int store_fd = argc == 4 || argc == 5 ? open(argv[1], O_RDONLY | O_DIRECTORY) : -1,
            source_fd = store_fd < 0 ? -1 : open(argv[2], O_RDONLY | O_DIRECTORY), abi;
        const struct confinement about = {.keeps_ids = privilege_is_root(), .is_reader = argc == 5};
        struct cloche_err e = {0};

        if (source_fd < 0 || confine_capabilities(&about, &e) < 0 ||
            confine_files(&about, store_fd, source_fd, &abi, &e) < 0 || confine_calls(&about, &e) < 0) {
                printf("%s\n", e.msg);
                return 1;
        }
        try_refused(store_fd, source_fd, argv[3]);
        if (about.is_reader)
                try_reader(store_fd, source_fd);
        else
                try_permitted(store_fd, source_fd, about.keeps_ids);
        return wrong;
}
