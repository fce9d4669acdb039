/* cloche-probe, started by `cloche selftest`: small boxes for it, and its output. Runs in: the
 * engine; every call blocks. */
#ifndef CLOCHE_ENGINE_SELFTEST_PROBE_H
#define CLOCHE_ENGINE_SELFTEST_PROBE_H

#include "engine/loop/engine.h"

/* /dev/null, and a pipe for its output. */
struct probe_streams {
        int null_fd, read_fd, write_fd;
};
#define PROBE_STREAMS_INIT             \
        {                              \
                -EBADF, -EBADF, -EBADF \
        }
#define _cleanup_probe_streams_ __attribute__((cleanup(probe_streams_close)))

int probe_streams_open(struct probe_streams *ret, struct cloche_err *e);
void probe_streams_close(struct probe_streams *streams);

/* Make a box in which any guard may be missing. parent: a template's box, or KEEPER_NO_BOX. */
int probe_make_box(cloche_engine *engine, uint32_t parent, int is_template, struct box *ret, struct cloche_err *e);
/* Drop the box. e may be NULL if an earlier error is reported. */
int probe_drop(cloche_engine *engine, struct box *box, struct cloche_err *e);
/* Start cloche-probe there. fds: 0, 1, 2, and for a template its channel and its fork socket;
 * borrowed. */
int probe_spawn(cloche_engine *engine, struct box *box, const int *fds, size_t fd_count, struct cloche_err *e);
/* Fork the parent template into the box. fds: 0, 1, 2, the channel, and for a template its fork
 * socket; borrowed. */
int probe_fork(cloche_engine *engine, const struct box *box, const int *fds, size_t fd_count, struct cloche_err *e);
/* Read lines, words with a tab between, to the end of the stream. on_line may change the line. */
int probe_read(int fd, void (*on_line)(void *data, char *line), void *data, struct cloche_err *e);

#endif
