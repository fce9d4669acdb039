/* Files copied out of one box, to keep them or to put them into another. Runs in: cloched-engine,
 * on its loop, with the rights of the daemon's user. */
#include "copy.h"
#include "spawn.h"

#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

struct copy {
        TAILQ_ENTRY(copy) link;
        struct sandbox *sandbox;
        struct control *control;
        int fd; /* to pack into; -EBADF: this copy unpacks */
        int is_in;
        int32_t pid; /* 0: not started yet */
        off_t size;  /* of the file at the last look */
        unsigned silent_looks;
        int is_stalled;
        copy_done done;
        void *data;
};

static void copy_free(struct copy *copy)
{
        TAILQ_REMOVE(&copy->sandbox->copies, copy, link);
        control_detach(copy->control, copy);
        fd_close(&copy->fd);
        free(copy);
}

void sandbox_copy_cancel(struct copy *copy)
{
        if (!copy)
                return;
        if (copy->pid && copy->control->fd >= 0)
                (void)sandbox_send_kill(copy->control, copy->pid, SIGKILL, 0, NULL, 0, NULL, NULL, NULL);
        copy_free(copy);
}

/* The packed files must not change, whatever the box does with its descriptor. */
static int seal(int fd)
{
        if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
                return -errno;
        return 0;
}

static void conclude(struct copy *copy, int wait_status)
{
        int fd = TAKE_FD(copy->fd), r = 0;
        const char *what = copy->is_in ? "written" : "read";
        copy_done done = copy->done;
        void *data = copy->data;
        struct cloche_err e = {0};

        if (copy->is_stalled)
                r = err_set(&e, CLOCHE_E_RESOURCE,
                            "the files could not be %s: no byte came for %d s, as if a program of the sandbox had "
                            "stopped the one that reads them",
                            what, SANDBOX_STALLED_LOOKS);
        else if (wait_status)
                r = err_set(&e, CLOCHE_E_RESOURCE, "the files could not be %s: the file program ended with %s %d", what,
                            WIFSIGNALED(wait_status) ? "signal" : "status",
                            WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status));
        else if (fd >= 0 && (r = seal(fd)) < 0)
                r = err_os(&e, CLOCHE_E_RESOURCE, -r, "keep the files");
        copy_free(copy);
        if (r < 0)
                fd_close(&fd);
        done(data, fd, r < 0 ? &e : NULL);
}

/* Only of those that pack: nothing of a guest runs beside the others. */
void sandbox_copies_tidy(struct sandbox *s)
{
        struct copy *copy;

        TAILQ_FOREACH (copy, &s->copies, link) {
                struct stat st;

                if (copy->fd < 0 || copy->is_in || !copy->pid || fstat(copy->fd, &st) < 0)
                        continue;
                copy->silent_looks = st.st_size == copy->size ? copy->silent_looks + 1 : 0;
                copy->size = st.st_size;
                if (copy->silent_looks < SANDBOX_STALLED_LOOKS)
                        continue;
                copy->is_stalled = 1;
                (void)sandbox_send_kill(copy->control, copy->pid, SIGKILL, 0, NULL, 0, NULL, NULL, NULL);
        }
}

void sandbox_copies_exited(struct sandbox *s, const struct control *control, const struct init_answer *exit)
{
        struct copy *copy;

        TAILQ_FOREACH (copy, &s->copies, link)
                if (copy->control == control && copy->pid == exit->pid) {
                        conclude(copy, exit->wait_status);
                        return;
                }
}

static void on_spawned(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        struct copy *copy = data;
        struct cloche_err error;
        copy_done done = copy->done;
        void *done_data = copy->data;

        fd_close(&fd);
        if (!e) {
                copy->pid = answer->pid;
                return;
        }
        error = *e;
        copy_free(copy);
        done(done_data, -EBADF, &error);
}

static struct copy *copy_new(struct sandbox *s, struct control *control, copy_done done, void *data,
                             struct cloche_err *e)
{
        struct copy *copy = calloc(1, sizeof(*copy));

        if (!copy) {
                err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "copy the files");
                return NULL;
        }
        *copy = (struct copy){.sandbox = s, .control = control, .fd = -EBADF, .done = done, .data = data};
        TAILQ_INSERT_TAIL(&s->copies, copy, link);
        return copy;
}

static int copy_out(struct sandbox *s, struct control *control, const char *const *argv, copy_done done, void *data,
                    struct copy **ret, struct cloche_err *e)
{
        struct copy *copy = copy_new(s, control, done, data, e);
        int r;

        if (!copy)
                return -(int)e->code;
        copy->fd = memfd_create("files", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        r = copy->fd < 0 ? err_os(e, CLOCHE_E_RESOURCE, errno, "copy the files")
                         : sandbox_start_files(s, control, argv, -EBADF, copy->fd, on_spawned, copy, e);
        if (r < 0)
                copy_free(copy);
        else
                *ret = copy;
        return r;
}

int sandbox_copy_reopen(int fd)
{
        char path[64];
        int r;

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        r = open(path, O_RDONLY | O_CLOEXEC);
        return r < 0 ? -errno : r;
}

int sandbox_copy_out(struct sandbox *s, struct control *control, const char *path, copy_done done, void *data,
                     struct copy **ret, struct cloche_err *e)
{
        const char *const argv[] = {"cloche-files", "--pack", path, NULL};

        return copy_out(s, control, argv, done, data, ret, e);
}

int sandbox_copy_system(struct sandbox *s, copy_done done, void *data, struct copy **ret, struct cloche_err *e)
{
        static const char *const argv[] = {"cloche-files", "--pack-system", NULL};

        return copy_out(s, &s->control, argv, done, data, ret, e);
}

int sandbox_copy_in(struct sandbox *s, struct control *control, int fd, int empties, copy_done done, void *data,
                    struct copy **ret, struct cloche_err *e)
{
        const char *const argv[] = {"cloche-files", "--unpack", "/", empties ? WORKSPACE : NULL, NULL};
        struct copy *copy = copy_new(s, control, done, data, e);
        _cleanup_fd_ int own_fd = -EBADF;
        int r;

        if (!copy)
                return -(int)e->code;
        copy->is_in = 1;
        own_fd = sandbox_copy_reopen(fd); /* other copies may read it at the same time */
        r = own_fd < 0 ? err_os(e, CLOCHE_E_RESOURCE, -own_fd, "copy the files")
                       : sandbox_start_files(s, control, argv, own_fd, -EBADF, on_spawned, copy, e);
        if (r < 0)
                copy_free(copy);
        else
                *ret = copy;
        return r;
}
