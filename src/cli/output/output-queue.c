/* Queued writes to standard output and error. Runs in: the CLI, as its user. */
#include "output-queue.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct output_piece {
        STAILQ_ENTRY(output_piece) next;
        int fd;
        size_t size, written;
        char data[];
};

void output_queue_init(struct output_queue *o)
{
        *o = (struct output_queue){0};
        STAILQ_INIT(&o->pieces);
}

void output_queue_done(struct output_queue *o)
{
        struct output_piece *piece;

        while ((piece = STAILQ_FIRST(&o->pieces))) {
                STAILQ_REMOVE_HEAD(&o->pieces, next);
                free(piece);
        }
        o->waiting_bytes = 0;
}

int output_queue_put(struct output_queue *o, int fd, const void *data, size_t size)
{
        struct output_piece *piece;

        if (size == 0 || o->failed)
                return 0;
        piece = malloc(sizeof(*piece) + size);
        if (!piece)
                return -ENOMEM;
        *piece = (struct output_piece){.fd = fd, .size = size};
        memcpy(piece->data, data, size);
        STAILQ_INSERT_TAIL(&o->pieces, piece, next);
        o->waiting_bytes += size;
        if (fd == STDOUT_FILENO)
                o->last = piece->data[size - 1];
        return 0;
}

int output_queue_fd(const struct output_queue *o)
{
        const struct output_piece *piece = STAILQ_FIRST(&o->pieces);

        return piece ? piece->fd : -1;
}

/* A writable pipe accepts PIPE_BUF bytes whole. */
static ssize_t write_some(const struct output_piece *piece)
{
        size_t left = piece->size - piece->written;
        struct stat st;
        int is_file = fstat(piece->fd, &st) == 0 && S_ISREG(st.st_mode);

        return write(piece->fd, piece->data + piece->written, is_file || left < PIPE_BUF ? left : PIPE_BUF);
}

int output_queue_write(struct output_queue *o)
{
        struct output_piece *piece = STAILQ_FIRST(&o->pieces);
        ssize_t n = piece ? write_some(piece) : 0;

        if (!piece || (n < 0 && (errno == EINTR || errno == EAGAIN)))
                return 0;
        if (n < 0) {
                o->failed = errno;
                output_queue_done(o);
                return -o->failed;
        }
        piece->written += (size_t)n;
        o->waiting_bytes -= (size_t)n;
        if (piece->written == piece->size) {
                STAILQ_REMOVE_HEAD(&o->pieces, next);
                free(piece);
        }
        return 0;
}
