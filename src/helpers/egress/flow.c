/* A bounded buffer between two sockets.
 * Runs in: cloche-egress, without capabilities and files, filtered. */
#include "flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static int make_room(struct flow *flow)
{
        if (!flow->data)
                flow->data = malloc(FLOW_ROOM);
        if (!flow->data)
                return -ENOMEM;
        if (flow->start > 0 && flow->start + flow->size >= FLOW_BYTES) {
                memmove(flow->data, flow->data + flow->start, flow->size);
                flow->start = 0;
        }
        return 0;
}

int flow_fill(struct flow *flow, int fd)
{
        while (flow_has_room(flow)) {
                ssize_t n = make_room(flow) < 0 ? -1
                                                : recv(fd, flow->data + flow->start + flow->size,
                                                       FLOW_BYTES - flow->start - flow->size, MSG_DONTWAIT);

                if (n > 0)
                        flow->size += (size_t)n;
                else if (n == 0)
                        flow->is_ended = 1;
                else if (!flow->data)
                        return -ENOMEM;
                else if (errno != EINTR)
                        return errno == EAGAIN ? 0 : -errno;
        }
        return 0;
}

static void release_empty(struct flow *flow)
{
        if (flow->size > 0)
                return;
        free(flow->data);
        flow->data = NULL;
        flow->start = 0;
}

int flow_drain(struct flow *flow, int fd)
{
        while (flow->passed > 0) {
                ssize_t n = send(fd, flow->data + flow->start, flow->passed, MSG_DONTWAIT | MSG_NOSIGNAL);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN ? 0 : -errno;
                flow->start += (size_t)n;
                flow->size -= (size_t)n;
                flow->passed -= (size_t)n;
                flow->total += (uint64_t)n;
        }
        release_empty(flow);
        if (flow->is_ended && flow->size == 0 && !flow->is_closed) {
                flow->is_closed = 1;
                if (shutdown(fd, SHUT_WR) < 0)
                        return -errno;
        }
        return 0;
}

int flow_replace(struct flow *flow, size_t size, const char *bytes, size_t bytes_size)
{
        const size_t after = flow_held_size(flow) - size;

        if (flow->size - size + bytes_size > FLOW_ROOM)
                return -1;
        if (flow->start > 0) {
                memmove(flow->data, flow->data + flow->start, flow->size);
                flow->start = 0;
        }
        memmove(flow->data + flow->passed + bytes_size, flow->data + flow->passed + size, after);
        memcpy(flow->data + flow->passed, bytes, bytes_size);
        flow->size += bytes_size - size;
        return 0;
}

void flow_done(struct flow *flow)
{
        free(flow->data);
        *flow = (struct flow){.data = NULL};
}
