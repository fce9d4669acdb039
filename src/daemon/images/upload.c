/* Archives on their way from a client to cloche-image. Runs in: cloched-engine, on its loop,
 * with the rights of the daemon's user; it passes the bytes on. */
#include "upload.h"
#include "operations.h"
#include "pace.h"
#include "program.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "engine/loop/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#define HELD_BYTES (1u << 20)
#define HELD_BYTES_MAX (1u << 30) /* one piece is as large as a request */

struct image_upload {
        TAILQ_ENTRY(image_upload) link;
        struct daemon *daemon;
        struct image_program *program;
        struct image_request *request;
        const struct image_upload_face *face;
        void *data;
        int fd;              /* -EBADF: the program needs no more */
        struct watch *watch; /* NULL: likewise */
        struct buf out;
        uint64_t bytes;
        struct pace pace;
        int is_whole, was_full;
};

/* -- the end -------------------------------------------------------------------------------------------------- */

static void close_source(struct image_upload *u)
{
        watch_close(u->watch);
        u->watch = NULL;
        fd_close(&u->fd);
}

/* The program is closed first, so that it does not report the end of its source. */
void image_upload_close(struct image_upload *u)
{
        if (!u)
                return;
        if (u->request)
                image_request_detach(u->request);
        image_program_close(u->program);
        close_source(u);
        TAILQ_REMOVE(&u->daemon->image_uploads, u, link);
        buf_done(&u->out);
        free(u);
}

static void on_answer(void *data, const json_t *result, const struct cloche_err *e)
{
        struct image_upload *u = data;

        u->request = NULL;
        u->face->on_end(u->data, result, e);
}

void image_uploads_sweep(struct daemon *d, uint64_t now_ns)
{
        struct image_upload *u, *next;
        struct cloche_err e = {0};

        for (u = TAILQ_FIRST(&d->image_uploads); u; u = next) {
                next = TAILQ_NEXT(u, link);
                if (u->is_whole || !pace_is_slow(&u->pace, now_ns))
                        continue;
                err_set(&e, CLOCHE_E_TIMEOUT, "the import has got less than %u KiB in %llu s", PACE_BYTES >> 10,
                        (unsigned long long)(PACE_NS / 1000000000));
                u->face->on_end(u->data, NULL, &e);
                return; /* other uploads may have ended with it */
        }
}

/* -- writing -------------------------------------------------------------------------------------------------- */

/* The program closes its end when it has failed, and its answer says why. */
static void flush(struct image_upload *u)
{
        while (u->fd >= 0 && u->out.size > 0) {
                ssize_t n = send(u->fd, u->out.data, u->out.size, MSG_DONTWAIT | MSG_NOSIGNAL);

                if (n > 0)
                        buf_consume(&u->out, (size_t)n);
                else if (n < 0 && errno == EAGAIN)
                        break;
                else if (n == 0 || errno != EINTR)
                        close_source(u);
        }
        if (u->fd < 0)
                u->out.size = 0;
        if (u->fd >= 0 && u->out.size == 0 && u->is_whole)
                (void)shutdown(u->fd, SHUT_WR);
        if (u->watch)
                watch_set(u->watch, u->out.size > 0 ? UV_WRITABLE : 0);
}

static void on_writable(void *data, int status, int events)
{
        struct image_upload *u = data;

        (void)status;
        (void)events;
        pace_renew(&u->pace, clock_now_ns());
        flush(u);
        if (u->was_full && !image_upload_is_full(u)) {
                u->was_full = 0;
                u->face->on_room(u->data);
        }
}

int image_upload_is_full(const struct image_upload *u)
{
        return u->out.size >= HELD_BYTES;
}

uint64_t image_upload_bytes(const struct image_upload *u)
{
        return u->bytes;
}

int image_upload_write(struct image_upload *u, const void *bytes, size_t size, struct cloche_err *e)
{
        uint64_t max = u->daemon->options.image_bytes_max;

        pace_add(&u->pace, size, clock_now_ns());
        if (size > max - u->bytes)
                return err_set(e, CLOCHE_E_TOO_LARGE,
                               "the archive has more than %llu MiB: compress it, or start the daemon with a larger "
                               "cloched --max-image",
                               (unsigned long long)(max >> 20));
        u->bytes += size;
        if (u->fd < 0)
                return 0;
        if (buf_append(&u->out, bytes, size) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "hold a piece of an archive");
        flush(u);
        u->was_full |= image_upload_is_full(u);
        return 0;
}

void image_upload_end(struct image_upload *u)
{
        u->is_whole = 1;
        flush(u);
}

/* -- the beginning -------------------------------------------------------------------------------------------- */

/* A socket whose near end has a byte that is never read: if it is closed before shutdown(2),
 * its reader gets ECONNRESET, not the end of the archive (decision 0037). The kernel does this
 * also for a daemon that dies. */
static int open_source(int *ret_near, int *ret_far, struct cloche_err *e)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make the source of an import");
        *ret_near = pair[0];
        *ret_far = pair[1];
        return send(pair[1], "", 1, MSG_NOSIGNAL) == 1 ? 0 : err_os(e, CLOCHE_E_RESOURCE, errno, "prepare an import");
}

static int watch(struct image_upload *u, struct cloche_err *e)
{
        int r = watch_new(&u->daemon->loop, u->fd, &u->watch);

        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "watch an import");
        watch_on_event(u->watch, on_writable, u);
        return 0;
}

static int start(struct image_upload *u, int far_fd, int64_t principal, const json_t *params, struct cloche_err *e)
{
        int r = watch(u, e);

        if (r == 0)
                r = image_program_start(u->daemon, principal, far_fd, 1, &u->program, e);
        if (r < 0)
                return r;
        return image_program_request(u->program, "import",
                                     json_pack("{s:s, s:O, s:O*, s:b}", "source", "the archive", "name",
                                               json_object_get(params, "image"), "tag", json_object_get(params, "tag"),
                                               "keep", !images_is_owner(u->daemon, principal)),
                                     on_answer, u, &u->request, e);
}

int image_upload_begin(struct daemon *d, int64_t principal, const json_t *params, const struct image_upload_face *face,
                       void *data, struct image_upload **ret, struct cloche_err *e)
{
        _cleanup_fd_ int far_fd = -EBADF;
        struct image_upload *u;
        int r = images_check_change(d, principal, 1, e);

        if (r < 0)
                return r;
        u = calloc(1, sizeof(*u));
        if (!u)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "begin an import");
        *u = (struct image_upload){.daemon = d,
                                   .face = face,
                                   .data = data,
                                   .fd = -EBADF,
                                   .out = BUF_INIT(HELD_BYTES_MAX),
                                   .pace = {.since_ns = clock_now_ns()}};
        TAILQ_INSERT_TAIL(&d->image_uploads, u, link);
        r = open_source(&u->fd, &far_fd, e);
        if (r == 0)
                r = start(u, far_fd, principal, params, e);
        if (r < 0)
                image_upload_close(u);
        else
                *ret = u;
        return r;
}
