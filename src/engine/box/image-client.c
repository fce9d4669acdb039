/* Starts cloche-image and waits for its answers. Runs in: the CLI, and the engine at its start,
 * as the user who started them; cloche-image reads all that others wrote. */
#include "image-client.h"

#include "base/err.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void become_program(const char *program, const int fds[3], int is_reader)
{
        static char numbers[3][12];
        int kept[3];

        /* Above the numbers that the standard streams may have been closed to. */
        for (int i = 0; i < 3; i++) {
                kept[i] = fcntl(fds[i], F_DUPFD, 10);
                snprintf(numbers[i], sizeof(numbers[i]), "%d", kept[i]);
        }
        execl(program, IMAGE_CLIENT_PROGRAM, numbers[0], numbers[1], numbers[2], is_reader ? "read" : NULL, NULL);
        fprintf(stderr, "cloche: cannot start %s: %s\n", program, strerror(errno));
        _exit(1);
}

int image_client_start(const char *program, int store_fd, int data_fd, int is_reader, struct image_client *ret,
                       struct cloche_err *e)
{
        _cleanup_fd_ int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        int fds[2];

        if (null_fd < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "start " IMAGE_CLIENT_PROGRAM);
        ret->pid = fork();
        if (ret->pid == 0)
                become_program(program, (const int[]){store_fd, data_fd >= 0 ? data_fd : null_fd, fds[1]}, is_reader);
        close(fds[1]);
        ret->fd = fds[0];
        if (ret->pid < 0) {
                fd_close(&ret->fd);
                return err_os(e, CLOCHE_E_RESOURCE, errno, "start " IMAGE_CLIENT_PROGRAM);
        }
        wire_client_init(&ret->wire, ret->fd, FRAME_BYTES_MAX, FRAME_BYTES_MAX);
        return 0;
}

void image_client_stop(struct image_client *c)
{
        wire_client_done(&c->wire);
        fd_close(&c->fd);
        while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
                ;
}

/* -- requests ------------------------------------------------------------------------------------------------- */

static ssize_t receive(void *data, char *to, size_t room)
{
        const struct image_client *c = data;
        ssize_t n = recv(c->fd, to, room, MSG_DONTWAIT);

        return n < 0 ? -errno : n;
}

/* 1: *ret is the answer, or *e the error. */
static int take(struct image_client *c, json_int_t id, void (*on_progress)(const json_t *params), json_t **ret,
                struct cloche_err *e)
{
        struct rpc_message m = {0};
        struct frame f;
        int r;

        while ((r = wire_client_next(&c->wire, &f, &m, e)) > 0) {
                int is_answer = json_is_integer(m.id) && json_integer_value(m.id) == id;

                if (on_progress && m.kind == RPC_NOTIFICATION && strcmp(m.method, "progress") == 0)
                        on_progress(m.params);
                if (is_answer && m.kind == RPC_RESULT)
                        *ret = json_incref(m.result);
                if (is_answer && m.kind == RPC_ERROR) {
                        rpc_read_failure(&m, CLOCHE_E_PROTOCOL, e);
                        r = -(int)e->code;
                }
                rpc_message_done(&m);
                if (is_answer)
                        return r;
        }
        return r;
}

int image_client_request(struct image_client *c, const char *method, json_t *params,
                         void (*on_progress)(const json_t *params), json_t **ret, struct cloche_err *e)
{
        json_int_t id = 0;
        int r = wire_client_request(&c->wire, method, params, NULL, NULL, NULL, &id, e);

        *ret = NULL;
        while (r == 0 && (r = take(c, id, on_progress, ret, e)) == 0) {
                r = wire_client_turn(&c->wire, receive, c);
                if (r < 0)
                        return err_set(e, CLOCHE_E_INTERNAL, IMAGE_CLIENT_PROGRAM " ended before it answered: %s",
                                       strerror(-r));
        }
        return r < 0 ? r : 0;
}

int image_client_resolve(const char *libexec_dir, const char *images_dir, const char *name, json_t **ret,
                         struct cloche_err *e)
{
        _cleanup_fd_ int store_fd = open(images_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        char program[PATH_MAX];
        struct image_client c;
        json_t *opened = NULL;
        int r;

        *ret = NULL;
        if (store_fd < 0)
                return err_os(e, CLOCHE_E_NOT_FOUND, errno,
                              "'%.100s' is no directory, and no image: cannot open the image store '%.200s'", name,
                              images_dir);
        snprintf(program, sizeof(program), "%s/" IMAGE_CLIENT_PROGRAM, libexec_dir);
        r = image_client_start(program, store_fd, -EBADF, 1, &c, e);
        if (r < 0)
                return r;
        r = image_client_request(&c, "open", json_object(), NULL, &opened, e);
        json_decref(opened);
        if (r == 0)
                r = image_client_request(&c, "resolve", json_pack("{s:s}", "name", name), NULL, ret, e);
        image_client_stop(&c);
        return r;
}
