/* cloched: starts in the order that the rights it has permit. */
#include "auth.h"
#include "broom.h"
#include "connection.h"
#include "listen.h"
#include "loop.h"
#include "log.h"
#include "notify.h"
#include "on-demand.h"
#include "privilege.h"
#include "state.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/privilege.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static int fail(const struct cloche_err *e)
{
        log_event(LEVEL_ERROR, "cannot-start", "{s:s, s:s}", "error", cloche_code_name(e->code), "message", e->msg);
        return cloche_code_fault(e->code) == CLOCHE_FAULT_CALLER ? 2 : 1;
}

/* As many connections as the system permits; boxes have a limit of their own. */
static void raise_descriptors(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
                limit.rlim_cur = limit.rlim_max;
                (void)setrlimit(RLIMIT_NOFILE, &limit);
        }
}

/* All that needs the rights we were started with. */
static int prepare(struct daemon *d, int *broom_fd, struct cloche_err *e)
{
        int r = d->options.listen || d->options.token_file || getenv("LISTEN_FDS") ? auth_load_token(&d->options, e) : 0;

        if (r == 0)
                r = auth_load_tls(&d->options, e);
        if (r == 0)
                r = listen_open(d, e);
        if (r == 0)
                r = state_open(d, e);
        if (r == 0 && d->options.socket_path)
                r = broom_start(d->options.socket_path, broom_fd, e);
        if (r == 0 && privilege_is_root())
                d->options.engine.becomes_uid = DAEMON_UID;
        if (r == 0)
                r = languages_load(&d->options.engine, &d->languages, e);
        if (r == 0)
                r = cloche_engine_new(&d->options.engine, &d->engine, e);
        raise_descriptors();
        if (r == 0)
                r = privilege_drop(e);
        if (r == 0)
                r = state_check(d, e);
        return r;
}

static int start(struct daemon *d, struct cloche_err *e)
{
        int r = loop_start(d, e);

        if (r == 0)
                r = listen_start(d, e);
        if (r == 0 && d->options.connect_fd >= 0)
                r = connection_private(d, d->options.connect_fd, e);
        return r;
}

int main(int argc, char **argv)
{
        static struct daemon d;
        _cleanup_fd_ int broom_fd = -EBADF;
        struct cloche_err e = {0};
        int code, r;

        if (options_read(argc, argv, &d.options, &code))
                return code;
        if (d.options.is_on_demand && on_demand_enter(&d.options, &code))
                return code;
        log_set_level(d.options.level);
        signal(SIGPIPE, SIG_IGN);
        /* Of its caller's: a key pressed there is his affair, and his end ends us. */
        if (d.options.connect_fd >= 0)
                (void)setsid();
        notify_prepare();
        if (loop_new(&d, &e) < 0) {
                on_demand_fail(&d.options, &e);
                return fail(&e);
        }
        r = prepare(&d, &broom_fd, &e);
        if (r == 0)
                r = start(&d, &e);
        if (r < 0)
                code = fail(&e);
        else
                code = loop_run(&d);
        loop_free(&d);
        if (r < 0) /* last, when nothing listens any more */
                on_demand_fail(&d.options, &e);
        return code;
}
