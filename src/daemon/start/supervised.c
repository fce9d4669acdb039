#include "supervised.h"
#include "daemon/core/daemon.h"
#include "daemon/core/loop.h"

#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define LINK_FD LISTEN_FDS_START

static int is_named(const char *names, const char *name)
{
        return strncmp(names, name, strlen(name)) == 0;
}

int supervised_enter(struct daemon_options *o, uint32_t *ret_restarts, int *ret_had_state)
{
        const char *names = getenv("LISTEN_FDNAMES"), *pid = getenv("LISTEN_PID");
        struct supervisor_message message;

        if (!names || !pid || atol(pid) != (long)getpid() || !is_named(names, HANDED_LINK) ||
            recv(LINK_FD, &message, sizeof(message), 0) != sizeof(message))
                return 0;
        *ret_restarts = message.number;
        *ret_had_state = message.has_state != 0;
        o->link_fd = LINK_FD;
        fcntl(LINK_FD, F_SETFD, FD_CLOEXEC);
        if (is_named(names, HANDED_LINK ":" HANDED_LOCK)) {
                o->on_demand.lock_fd = LINK_FD + 1;
                fcntl(LINK_FD + 1, F_SETFD, FD_CLOEXEC);
        }
        prctl(PR_SET_NAME, "cloched-engine");
        return 1;
}

int supervised_bind(const struct daemon_options *o, struct cloche_err *e)
{
        struct pollfd polled = {.fd = o->link_fd, .events = POLLIN};

        if (o->link_fd < 0)
                return 0;
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "bind this process to its supervisor");
        /* The supervisor may have ended before the prctl. */
        return poll(&polled, 1, 0) == 1 && polled.revents & POLLHUP
                       ? err_set(e, CLOCHE_E_STOPPING, "the supervisor has ended")
                       : 0;
}

void supervised_tell(const struct daemon_options *o, enum supervisor_message_kind kind, const struct cloche_err *e)
{
        struct supervisor_message message = {.kind = kind, .number = kind == MESSAGE_READY && o->has_state};

        if (o->link_fd < 0)
                return;
        if (e)
                message.error = *e;
        (void)send(o->link_fd, &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void on_message(uv_poll_t *poll, int status, int events)
{
        struct daemon *d = poll->data;
        struct supervisor_message message;

        (void)status;
        (void)events;
        if (recv(d->options.link_fd, &message, sizeof(message), MSG_DONTWAIT) == sizeof(message) &&
            message.kind == MESSAGE_SIGNAL)
                loop_signal(d, (int)message.number);
}

int supervised_start(struct daemon *d, struct cloche_err *e)
{
        int r;

        if (d->options.link_fd < 0)
                return 0;
        r = uv_poll_init(&d->loop, &d->link_poll, d->options.link_fd);
        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "watch the supervisor");
        d->link_poll.data = d;
        uv_poll_start(&d->link_poll, UV_READABLE, on_message);
        return 0;
}
