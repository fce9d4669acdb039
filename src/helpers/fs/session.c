/* The loop over the kernel's and the engine's requests.
 * Runs in: cloche-fs, as the mounted directory's owner or the caller, confined. */
#include "session.h"

#include "base/clock.h"
#include "base/fd.h"
#include "operations.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define BUFFER_SIZE ((1u << 20) + 65536) /* the largest write and its header */
#define SPIN_NS 100000u /* keep polling this long after a request: waking up takes longer than most requests */
#define TAKEN_NS 20000u /* a poll this slow means that another task had the processor */
#define LUCK_MAX 8      /* consecutive failures forgiven */
#define REST 512        /* requests without polling after failures: the guest computes, or shares our processor */
#define ROUND 64        /* kernel requests before the engine's turn */
#define LATE_MAX 64     /* requests that wait for room at a time */

/* A request that found no room. The room of a removed file comes back when the kernel forgets the
 * file, and fuse_dev_do_read() may send eight requests before that message. So the request
 * is tried once more at the end of the round. */
struct late {
        struct late *next;
        size_t size;
        char request[];
};

struct session {
        struct fs_mount *mount;
        struct fs_control *control;
        int fd;
        char *buffer;
        int luck;      /* credit for polling */
        unsigned rest; /* requests until polling is tried again */
        struct late *late;
        unsigned late_count;
};

/* -- patches around libfuse ----------------------------------------------------------------------------------- */

/* libfuse 3.14 does not support FUSE_HANDLE_KILLPRIV_V2. Set-user-id bits are never shown, so a
 * write has nothing to clear. Without the flag the kernel requests security.capability before each
 * write. */
static void amend_init(struct iovec *iov, int count)
{
        const struct fuse_out_header *header = iov[0].iov_base;

        if (count == 2 && header->error == 0 && iov[1].iov_len >= offsetof(struct fuse_init_out, max_background))
                ((struct fuse_init_out *)iov[1].iov_base)->flags |= FUSE_HANDLE_KILLPRIV_V2;
}

static bool init_answered, killpriv_v2; /* one session per process */
static bool may_be_late, is_late;       /* of the request that is processed */

static ssize_t write_to_kernel(int fd, struct iovec *iov, int count, void *userdata)
{
        struct fs_mount *mount = userdata;
        const struct fuse_out_header *header = iov[0].iov_base;

        if (may_be_late && header->error == -ENOSPC) {
                is_late = true;
                return (ssize_t)header->len;
        }
        if (!init_answered && killpriv_v2)
                amend_init(iov, count);
        if (!init_answered)
                passthrough_amend_init(&mount->passthrough, iov, count);
        init_answered = true;
        passthrough_amend_open(&mount->passthrough, iov, count);
        return writev(fd, iov, count);
}

static ssize_t read_from_kernel(int fd, void *buffer, size_t size, void *userdata)
{
        (void)userdata;
        return read(fd, buffer, size);
}

static ssize_t splice_to_kernel(int from_fd, off_t *from, int to_fd, off_t *to, size_t size, unsigned flags,
                                void *userdata)
{
        (void)userdata;
        return splice(from_fd, from, to_fd, to, size, flags);
}

static const struct fuse_custom_io custom_io = {
        .writev = write_to_kernel,
        .read = read_from_kernel,
        .splice_send = splice_to_kernel,
};

static void note_init(const struct fuse_in_header *header)
{
        const struct fuse_init_in *in = (const void *)(header + 1);

        if (header->opcode == FUSE_INIT &&
            header->len >= sizeof(*header) + offsetof(struct fuse_init_in, flags) + sizeof(in->flags))
                killpriv_v2 = in->flags & FUSE_HANDLE_KILLPRIV_V2;
}

/* -- the loop ------------------------------------------------------------------------------------------------- */

static void process(struct session *s, char *request, size_t size)
{
        struct fuse_in_header *header = (void *)request;
        struct fuse_buf buf = {.mem = request, .size = size};

        note_init(header);
        passthrough_note_init(&s->mount->passthrough, request, size);
        /* libfuse 3.14 does not support FUSE_TMPFILE. The request equals FUSE_CREATE, except for
         * its name ("/") and O_TMPFILE among its flags. */
        if (header->opcode == FUSE_TMPFILE)
                header->opcode = FUSE_CREATE;
        fuse_session_process_buf(s->mount->session, &buf);
}

/* Process the request; keep it if it found no room and there is memory for it. */
static void process_or_keep(struct session *s, size_t size)
{
        struct late *late;

        may_be_late = s->late_count < LATE_MAX;
        is_late = false;
        process(s, s->buffer, size);
        may_be_late = false;
        if (!is_late)
                return;
        late = malloc(sizeof(*late) + size);
        if (!late) {
                process(s, s->buffer, size);
                return;
        }
        late->next = s->late;
        late->size = size;
        memcpy(late->request, s->buffer, size);
        s->late = late;
        s->late_count++;
}

static void process_late(struct session *s)
{
        while (s->late) {
                struct late *late = s->late;

                s->late = late->next;
                process(s, late->request, late->size);
                free(late);
        }
        s->late_count = 0;
}

/* 1: there may be more; 0: none is pending; -1: the connection is over. */
static int take_request(struct session *s)
{
        ssize_t n = read(s->fd, s->buffer, BUFFER_SIZE);

        if (n >= (ssize_t)sizeof(struct fuse_in_header)) {
                process_or_keep(s, (size_t)n);
                return fuse_session_exited(s->mount->session) ? -1 : 1;
        }
        if (n < 0 && errno == EAGAIN && s->late) {
                process_late(s);
                return 1;
        }
        if (n < 0 && errno == EAGAIN)
                return 0;
        /* ENOENT: the request was interrupted before it was read. */
        return n < 0 && (errno == EINTR || errno == ENOENT) ? 1 : -1;
}

/* Poll for a while. Returns like take_request(). */
static int poll_request(struct session *s)
{
        uint64_t now, last, until;
        int r;

        if (s->rest > 0) {
                s->rest--;
                return 0;
        }
        now = clock_now_ns();
        until = now + SPIN_NS;
        do {
                last = now;
                r = take_request(s);
                now = clock_now_ns();
        } while (r == 0 && now < until && now - last < TAKEN_NS);
        if (r == 0 && now - last >= TAKEN_NS)
                s->luck = 0; /* other tasks need the processor: a sleeping process is woken before they run */
        if (r > 0)
                s->luck += s->luck < LUCK_MAX;
        else if (--s->luck < 0) {
                s->luck = 0;
                s->rest = REST;
        }
        return r;
}

/* Serve the kernel's requests until none arrives for a while or it is the engine's turn. */
static int take_round(struct session *s)
{
        for (int i = 0; i < ROUND; i++) {
                int r = take_request(s);

                if (r == 0)
                        r = poll_request(s);
                if (r <= 0)
                        return r;
        }
        process_late(s);
        return 1;
}

static void serve(struct session *s)
{
        int busy = 0;

        while (busy >= 0) {
                struct pollfd fds[2] = {{s->control->server.transport.socket_fd, server_events(&s->control->server), 0},
                                        {s->fd, POLLIN, 0}};

                if (poll(fds, 2, busy ? 0 : -1) < 0 && errno != EINTR)
                        return;
                if (fds[0].revents && server_turn(&s->control->server) < 0)
                        return;
                busy = fds[1].revents || busy ? take_round(s) : 0;
        }
}

int session_serve(struct fs_mount *mount, struct fs_control *control, int fuse_fd)
{
        struct session s = {.mount = mount,
                            .control = control,
                            .fd = fuse_fd,
                            .buffer = aligned_alloc(4096, BUFFER_SIZE)};
        char name[] = "cloche-fs";
        char *argv[] = {name, NULL};
        struct fuse_args args = FUSE_ARGS_INIT(1, argv);
        int r = -1;

        mount->session = fuse_session_new(&args, &operations, sizeof(operations), mount);
        if (s.buffer && mount->session && fuse_session_custom_io(mount->session, &custom_io, fuse_fd) == 0 &&
            fcntl(fuse_fd, F_SETFL, O_NONBLOCK) == 0) {
                serve(&s);
                r = 0;
        }
        free(s.buffer);
        return r;
}
