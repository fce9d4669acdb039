/* cloched: the supervisor, or the engine's process that it starts. The steps are in
 * the order that their privileges require. Runs in: both, with the rights of their
 * starter until privilege_drop. */
#include "auth.h"
#include "connection.h"
#include "daemon/start/confine.h"
#include "daemon/start/listen.h"
#include "daemon/start/on-demand.h"
#include "daemon/start/own-user.h"
#include "daemon/start/privilege.h"
#include "daemon/start/supervised.h"
#include "daemon/start/supervisor.h"
#include "log.h"
#include "loop.h"
#include "state.h"

#include "base/err.h"
#include "base/fd.h"
#include "user/notice.h"

#include <cloche/cloche.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static int fail(const struct cloche_err *e)
{
        log_event(LEVEL_ERROR, "cannot-start", "{s:s, s:s}", "error", cloche_code_name(e->code), "message", e->msg);
        return cloche_code_fault(e->code) == CLOCHE_FAULT_CALLER ? 2 : 1;
}

/* The engine's messages begin with its members. */
static int name_option(struct cloche_err *e)
{
        static const struct {
                const char *member, *option;
        } rows[] = {{"image: ", "--image: "}, {"mount_roots: ", "--mount-root: "}};
        const struct cloche_err found = *e;

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if (strncmp(found.msg, rows[i].member, strlen(rows[i].member)) == 0)
                        snprintf(e->msg, sizeof(e->msg), "%s%.200s", rows[i].option,
                                 found.msg + strlen(rows[i].member));
        return -(int)e->code;
}

/* All steps that need the privileges of the starter. */
static int prepare(struct daemon *d, struct cloche_err *e)
{
        int r = listen_open(d, e);

        if (r == 0 && (d->options.token_file || listen_needs_token(d)))
                r = auth_load_token(&d->options, e);
        if (r == 0)
                r = auth_load_tls(&d->options, e);
        if (r == 0)
                r = state_open(d, e);
        if (r == 0)
                r = own_user_settle(d, e);
        if (r == 0)
                r = languages_load(&d->options.engine, &d->languages, e);
        if (r == 0 && cloche_engine_new(&d->options.engine, &d->engine, e) < 0)
                r = name_option(e);
        fd_raise_limit(); /* as many connections as the system permits; boxes have their own limit */
        if (r == 0)
                r = privilege_drop(d->uid, e);
        if (r == 0)
                r = supervised_bind(&d->options, e);
        if (r == 0)
                r = state_check(d, e);
        if (r < 0)
                return r;
        if (d->options.engine.profile != CLOCHE_PROFILE_NONE)
                d->notice_fd = notice_open(notice_missing(d->engine));
        return confine(d, e);
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

static int serve(struct daemon *d)
{
        struct cloche_err e = {0};
        int code, has_loop = 0, r;

        confine_refuse_rings();
        r = loop_new(d, &e);
        if (r == 0) {
                has_loop = 1;
                r = prepare(d, &e);
        }
        if (r == 0)
                r = start(d, &e);
        code = r < 0 ? fail(&e) : loop_run(d);
        if (has_loop)
                loop_free(d);
        if (r < 0) /* last, when all resources are released */
                supervised_send(&d->options, MESSAGE_FAILED, &e);
        return code;
}

int main(int argc, char **argv)
{
        static struct daemon d;
        int is_supervised, code;

        fd_open_standard();
        if (options_read(argc, argv, &d.options, &code))
                return code;
        is_supervised = supervised_enter(&d.options, &d.stats.restarts, &d.options.has_state);
        if (!is_supervised && d.options.is_on_demand && on_demand_enter(&d.options, &code))
                return code;
        log_set_level(d.options.level);
        signal(SIGPIPE, SIG_IGN);
        if (!is_supervised && d.options.connect_fd < 0)
                return supervisor_run(&d.options, argv);
        /* A private daemon leaves its caller's session, so Ctrl-C there does not reach it. It ends
         * with the connection. */
        if (!is_supervised)
                (void)setsid();
        return serve(&d);
}
