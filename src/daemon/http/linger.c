/* Runs in: cloched, on its loop. */
#include "linger.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>

#define LINGERS_MAX 64
#define LINGER_NS UINT64_C(30000000000)
#define READ_BYTES (64u << 10)

struct http_linger {
        TAILQ_ENTRY(http_linger) link;
        struct http_lingers *all;
        int fd;
        uv_poll_t poll;
        uint64_t left, until_ns;
};

static void on_closed(uv_handle_t *handle)
{
        struct http_linger *linger = handle->data;

        fd_close(&linger->fd);
        free(linger);
}

static void end(struct http_linger *linger)
{
        TAILQ_REMOVE(&linger->all->list, linger, link);
        linger->all->count--;
        uv_close((uv_handle_t *)&linger->poll, on_closed);
}

/* Read one piece a turn of the loop, so that a fast sender delays no other connection. */
static void on_readable(uv_poll_t *poll, int status, int events)
{
        static char bytes[READ_BYTES];
        struct http_linger *linger = poll->data;
        ssize_t n = status < 0 ? 0 : recvfrom(linger->fd, bytes, sizeof(bytes), MSG_DONTWAIT, NULL, NULL);

        (void)events;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        linger->left -= n > 0 && (uint64_t)n < linger->left ? (uint64_t)n : linger->left;
        if (n <= 0 || linger->left == 0)
                end(linger);
}

void lingers_init(struct http_lingers *all, uv_loop_t *loop)
{
        *all = (struct http_lingers){.loop = loop};
        TAILQ_INIT(&all->list);
}

void lingers_sweep(struct http_lingers *all, uint64_t now_ns)
{
        struct http_linger *linger, *following;

        for (linger = TAILQ_FIRST(&all->list); linger; linger = following) {
                following = TAILQ_NEXT(linger, link);
                if (now_ns > linger->until_ns)
                        end(linger);
        }
}

void lingers_done(struct http_lingers *all)
{
        while (!TAILQ_EMPTY(&all->list))
                end(TAILQ_FIRST(&all->list));
}

void linger_begin(struct http_lingers *all, int fd, uint64_t bytes_max, uint64_t now_ns)
{
        struct http_linger *linger = all->count < LINGERS_MAX ? malloc(sizeof(*linger)) : NULL;

        if (!linger)
                return;
        *linger = (struct http_linger){.all = all, .left = bytes_max, .until_ns = now_ns + LINGER_NS};
        linger->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        if (linger->fd < 0 || uv_poll_init(all->loop, &linger->poll, linger->fd) < 0) {
                fd_close(&linger->fd);
                free(linger);
                return;
        }
        (void)shutdown(linger->fd, SHUT_WR);
        linger->poll.data = linger;
        TAILQ_INSERT_TAIL(&all->list, linger, link);
        all->count++;
        uv_poll_start(&linger->poll, UV_READABLE, on_readable);
}
