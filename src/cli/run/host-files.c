/* Open files of mounted directories in a privileged helper.
 * Runs in: the CLI, as its user; a run that root started drops to a user of its own first. */
#include "host-files.h"

#include "base/fd.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define PATH_BYTES 4096

struct question {
        uint32_t source;
        char path[PATH_BYTES];
};

static int open_file(const struct host_files *files, const struct question *question)
{
        struct open_how how = {
                .flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
        };
        _cleanup_fd_ int dir_fd = -EBADF;
        struct stat st;
        int fd;

        if (question->source >= files->count || !memchr(question->path, '\0', PATH_BYTES))
                return -EINVAL;
        dir_fd = open(files->sources[question->source], O_PATH | O_DIRECTORY | O_CLOEXEC);
        fd = dir_fd < 0 ? -1 : (int)syscall(SYS_openat2, dir_fd, question->path, &how, sizeof(how));
        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
                return fd;
        close(fd);
        return S_ISDIR(st.st_mode) ? -EISDIR : -ENXIO;
}

static int answer(void *data, int socket_fd)
{
        struct question question;
        int r = 0;

        while (r == 0 && fd_read_full(socket_fd, &question, sizeof(question)) == 0) {
                _cleanup_fd_ int fd = open_file(data, &question);
                int32_t code = fd < 0 ? fd : 0;

                r = fd_send(socket_fd, &code, sizeof(code), &fd, fd >= 0);
        }
        return 0;
}

int host_files_prepare(struct privileged_helper *helper, struct host_files *files)
{
        int bad = privileged_helper_prepare(helper, answer, files);

        if (bad == 0)
                (void)privileged_helper_start(helper);
        return bad;
}

int host_files_open(struct privileged_helper *helper, size_t source, const char *path)
{
        struct question question = {.source = (uint32_t)source};
        int32_t code = 0;
        size_t fd_count = 1;
        int fd = -EBADF;

        if (strlen(path) >= PATH_BYTES)
                return -ENAMETOOLONG;
        strcpy(question.path, path);
        if (fd_write_full(helper->fd, &question, sizeof(question)) < 0 ||
            fd_receive(helper->fd, &code, sizeof(code), &fd, &fd_count, 0) != sizeof(code))
                return -EIO;
        return code < 0 ? code : fd_count == 1 ? fd : -EIO;
}
