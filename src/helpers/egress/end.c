/* One socket of a connection, polled as needed.
 * Runs in: cloche-egress, without capabilities and files, filtered. */
#include "end.h"

#include "base/fd.h"

#include <stdlib.h>
#include <sys/socket.h>

static void free_poll(uv_handle_t *handle)
{
        free(handle);
}

int end_open(struct end *end, uv_loop_t *loop, int fd, uv_poll_cb on_ready, void *data)
{
        int r;

        *end = (struct end){.fd = fd, .on_ready = on_ready, .poll = malloc(sizeof(*end->poll))};
        r = end->poll ? uv_poll_init(loop, end->poll, fd) : -ENOMEM;
        if (r < 0) {
                free(end->poll);
                end->poll = NULL;
                fd_close(&end->fd);
                return r;
        }
        end->poll->data = data;
        return 0;
}

void end_watch(struct end *end, int events)
{
        if (!end->poll || end->events == events)
                return;
        end->events = events;
        if (events)
                uv_poll_start(end->poll, events, end->on_ready);
        else
                uv_poll_stop(end->poll);
}

void end_close(struct end *end, int is_cut)
{
        const struct linger at_once = {.l_onoff = 1};

        if (end->poll)
                uv_close((uv_handle_t *)end->poll, free_poll);
        if (is_cut && end->fd >= 0)
                setsockopt(end->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        end->poll = NULL;
        fd_close(&end->fd);
}
