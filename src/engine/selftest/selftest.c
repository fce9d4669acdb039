/* The proof of the guards: cloche-probe tries them, once as the guest of a small box, and once
 * forked from a template into such a box on it. */
#include "probe.h"

#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* Handle a line "guard\tenforced|absent\tdetail". Only an enforced guard can become absent; a
 * degraded one stays degraded. */
static void note(void *data, char *line)
{
        struct cloche_guard_report *reports = data;
        const char *name = strsep(&line, "\t"), *state = strsep(&line, "\t");

        for (int g = 0; line && g < CLOCHE_GUARD_COUNT; g++) {
                struct cloche_guard_report *report = &reports[g];

                if (strcmp(name, cloche_guard_name((enum cloche_guard)g)) != 0 ||
                    report->state != CLOCHE_GUARD_ENFORCED)
                        continue;
                report->proven = strcmp(state, "enforced") == 0;
                report->state = report->proven ? CLOCHE_GUARD_ENFORCED : CLOCHE_GUARD_ABSENT;
                snprintf(report->reason, sizeof(report->reason), "%s", line);
        }
}

static int probe_cold(cloche_engine *engine, struct cloche_guard_report *reports, struct cloche_err *e)
{
        _cleanup_probe_streams_ struct probe_streams streams = PROBE_STREAMS_INIT;
        struct box box;
        int r = probe_streams_open(&streams, e), dropped;

        if (r == 0)
                r = probe_make_box(engine, KEEPER_NO_BOX, 0, &box, e);
        if (r < 0)
                return r;
        r = probe_spawn(engine, &box, (int[]){streams.null_fd, streams.write_fd, streams.null_fd}, 3, e);
        fd_close(&streams.write_fd);
        if (r == 0)
                r = probe_read(streams.read_fd, note, reports, e);
        dropped = probe_drop(engine, &box, r < 0 ? NULL : e);
        return r < 0 ? r : dropped;
}

/* Fork the live template, whose box is trunk. */
static int probe_child(cloche_engine *engine, const struct box *trunk, int channel_fd,
                       struct cloche_guard_report *reports, struct cloche_err *e)
{
        _cleanup_probe_streams_ struct probe_streams streams = PROBE_STREAMS_INIT;
        struct box box;
        int r = probe_streams_open(&streams, e), dropped;

        if (r == 0)
                r = probe_make_box(engine, trunk->id, 0, &box, e);
        if (r < 0)
                return r;
        r = probe_fork(engine, &box, (int[]){streams.null_fd, streams.write_fd, streams.null_fd, channel_fd}, 4, e);
        fd_close(&streams.write_fd);
        if (r == 0)
                r = probe_read(streams.read_fd, note, reports, e);
        dropped = probe_drop(engine, &box, r < 0 ? NULL : e);
        return r < 0 ? r : dropped;
}

static int probe_forked(cloche_engine *engine, struct cloche_guard_report *reports, struct cloche_err *e)
{
        _cleanup_fd_ int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC), engine_fd = -EBADF, channel_fd = -EBADF;
        int pair[2], r, dropped;
        struct box trunk;

        if (null_fd < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a channel");
        engine_fd = pair[0]; /* messages of the template are not read: the end of the pipe suffices */
        channel_fd = pair[1];
        r = probe_make_box(engine, KEEPER_NO_BOX, 1, &trunk, e);
        if (r < 0)
                return r;
        r = probe_spawn(engine, &trunk, (int[]){null_fd, null_fd, null_fd, channel_fd, trunk.fork_fd}, 5, e);
        fd_close(&trunk.fork_fd);
        if (r == 0)
                r = probe_child(engine, &trunk, channel_fd, reports, e);
        dropped = probe_drop(engine, &trunk, r < 0 ? NULL : e);
        return r < 0 ? r : dropped;
}

/* A guard that held against the first guest counts as absent if the second did not try it. */
static void compare(const struct cloche_guard_report *cold, struct cloche_guard_report *forked)
{
        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++) {
                if (cold[g].state != CLOCHE_GUARD_ENFORCED) {
                        forked[g] = cold[g];
                } else if (cold[g].proven && !forked[g].proven && forked[g].state == CLOCHE_GUARD_ENFORCED) {
                        forked[g].state = CLOCHE_GUARD_ABSENT;
                        snprintf(forked[g].reason, sizeof(forked[g].reason),
                                 "a run forked from a template could not try it");
                }
        }
}

int cloche_engine_selftest(cloche_engine *engine, struct cloche_guard_report *ret, struct cloche_err *e)
{
        struct cloche_guard_report cold[CLOCHE_GUARD_COUNT];
        int r;

        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++) {
                const char *reason;

                ret[g] = (struct cloche_guard_report){
                        .state = cloche_engine_guard(engine, (enum cloche_guard)g, &reason)};
                snprintf(ret[g].reason, sizeof(ret[g].reason), "%s", reason);
                cold[g] = ret[g];
        }
        r = probe_cold(engine, cold, e);
        if (r == 0)
                r = probe_forked(engine, ret, e);
        if (r == 0)
                compare(cold, ret);
        return r;
}
