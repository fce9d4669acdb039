/* Input of a process: pieces in order; the callback of each is called when the kernel has it. Runs
 * in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "process.h"

#include "base/err.h"
#include "base/fd.h"
#include "engine/loop/watch.h"

#include <stdlib.h>
#include <string.h>

struct input_piece {
        STAILQ_ENTRY(input_piece) link;
        void (*done)(void *data, int code);
        void *done_data;
        size_t size, at;
        int is_end;
        char data[];
};

static void finish(struct process *p, int code)
{
        struct input_piece *piece = STAILQ_FIRST(&p->input);

        STAILQ_REMOVE_HEAD(&p->input, link);
        p->input_bytes -= piece->size;
        if (piece->done)
                piece->done(piece->done_data, code);
        free(piece);
}

static void fail_all(struct process *p, int code)
{
        while (!STAILQ_EMPTY(&p->input))
                finish(p, code);
}

void process_input_close(struct process *p)
{
        watch_close(p->input_watch);
        p->input_watch = NULL;
        fd_close(&p->input_fd);
        fail_all(p, -EPIPE);
}

static int write_piece(struct process *p, struct input_piece *piece)
{
        while (piece->at < piece->size) {
                ssize_t n = fd_write_quietly(p->input_fd, piece->data + piece->at, piece->size - piece->at);

                if (n == -EINTR)
                        continue;
                if (n < 0)
                        return (int)n;
                piece->at += (size_t)n;
        }
        return 0;
}

static void on_writable(void *data, int status, int events)
{
        struct process *p = data;
        const struct watch *watch = p->input_watch;
        struct input_piece *piece;

        (void)events;
        while ((piece = STAILQ_FIRST(&p->input)) && p->input_watch == watch) {
                int is_end = piece->is_end, r = status < 0 ? -EPIPE : write_piece(p, piece);

                if (r == -EAGAIN)
                        return;
                if (r < 0) {
                        process_input_close(p); /* its readers are gone */
                        return;
                }
                finish(p, 0);
                if (is_end && !p->is_terminal) {
                        process_input_close(p);
                        return;
                }
        }
        if (p->input_watch == watch)
                watch_set(p->input_watch, 0);
}

static int watch_input(struct process *p, struct cloche_err *e)
{
        int r;

        if (p->input_watch)
                return 0;
        r = watch_new(&p->sandbox->all->engine->loop, p->input_fd, &p->input_watch);
        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "watch the input of a command");
        watch_on_event(p->input_watch, on_writable, p);
        return 0;
}

int process_write(struct process *p, const void *data, size_t size, int is_end, void (*done)(void *data, int code),
                  void *done_data, struct cloche_err *e)
{
        struct input_piece *piece;
        int r;

        if (p->input_fd < 0)
                return err_set(e, CLOCHE_E_STATE, "the process %s takes no input: %s", p->id,
                               p->keeps_input ? "it is closed"
                                              : "it was started without stdin (process.start with stdin)");
        if (p->input_bytes + size > PROCESS_INPUT_BYTES_MAX)
                return err_set(e, CLOCHE_E_QUEUE_FULL,
                               "%zu bytes wait for the process %s already: try again when it has read some",
                               p->input_bytes, p->id);
        r = watch_input(p, e);
        if (r < 0)
                return r;
        piece = malloc(sizeof(*piece) + size);
        if (!piece)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "hold input for a command");
        *piece = (struct input_piece){.done = done, .done_data = done_data, .size = size, .is_end = is_end};
        if (size > 0)
                memcpy(piece->data, data, size);
        STAILQ_INSERT_TAIL(&p->input, piece, link);
        p->input_bytes += size;
        watch_set(p->input_watch, UV_WRITABLE);
        return 0;
}

void process_unwrite(struct process *p, const void *done_data)
{
        struct input_piece *piece;

        STAILQ_FOREACH (piece, &p->input, link)
                if (piece->done_data == done_data)
                        piece->done = NULL;
}
