/* The guards, proven: cloche-probe tries them, once as the guest of a small box, and once forked from a template into such a
 * box beneath it. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "engine.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PROBE_PATH "/tmp/cloche-probe"
#define PROBE_PATIENCE_NS UINT64_C(30000000000)
#define PROBE_OUTPUT_MAX (64u << 10)

static const char *const namespaces[] = {"user", "pid", "mnt", "ipc", "uts", "cgroup", "net"};

/* -- waiting: nobody else is served meanwhile ----------------------------------------------------------------- */

struct outcome {
        cloche_engine *engine;
        struct box *box; /* of one that is made, or NULL */
        int is_there, r;
        struct cloche_err *e;
};

static void settle(struct outcome *outcome, const struct cloche_err *e)
{
        outcome->is_there = 1;
        if (e && outcome->e)
                *outcome->e = *e;
        outcome->r = e ? -(int)e->code : 0;
}

static void on_reply(void *data, struct keeper_reply *reply)
{
        struct outcome *outcome = data;

        settle(outcome, reply->error);
        if (outcome->r == 0 && outcome->box)
                outcome->r = box_adopt(outcome->box, outcome->engine->keeper, reply, &outcome->engine->loop, outcome->e);
}

static void on_init(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        (void)answer;
        fd_close(&fd);
        settle(data, e);
}

/* r: whether it was asked at all. */
static int await(struct outcome *outcome, int r)
{
        while (r >= 0 && !outcome->is_there)
                uv_run(&outcome->engine->loop, UV_RUN_ONCE);
        return r < 0 ? r : outcome->r;
}

static int drop(cloche_engine *engine, struct box *box, struct cloche_err *e)
{
        struct outcome outcome = {.engine = engine, .e = e};
        int r = box_drop(box, on_reply, &outcome);

        return r < 0 ? err_set(e, CLOCHE_E_KEEPER, "the keeper is gone") : await(&outcome, r);
}

/* -- boxes ---------------------------------------------------------------------------------------------------- */

static int make_box(cloche_engine *engine, uint32_t parent, int is_template, struct box *box, struct cloche_err *e)
{
        struct outcome outcome = {.engine = engine, .box = box, .e = e};
        struct keeper_box_spec *spec = calloc(1, sizeof(*spec));
        int r;

        if (!spec)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a box");
        spec->limits = (struct keeper_box_limits){
                .memory_bytes = 64u << 20, .pids = 64, .cpu_percent = 200, .cpu_ms = 20000,
                .disk_bytes = 16u << 20, .disk_inodes = 512, .file_bytes = UINT64_MAX, .open_files = 256,
        };
        spec->parent = parent;
        spec->shared_with = KEEPER_NO_BOX;
        spec->is_template = (uint32_t)is_template;
        spec->optional_guards = ~0u; /* they are what this is about */
        r = await(&outcome, keeper_box_make_later(engine->keeper, spec, on_reply, &outcome, e));
        free(spec);
        return r;
}

static int add_word(struct buf *strings, const char *word, uint32_t *argc)
{
        (*argc)++;
        return buf_append(strings, word, strlen(word) + 1);
}

/* cwd, then the command: our namespaces are the host's. */
static uint32_t command(struct buf *strings, int is_template)
{
        uint32_t argc = 0, none = 0;

        (void)add_word(strings, "/tmp", &none);
        (void)add_word(strings, PROBE_PATH, &argc);
        if (is_template)
                (void)add_word(strings, "--template", &argc);
        for (size_t i = 0; i < sizeof(namespaces) / sizeof(namespaces[0]); i++) {
                char path[32], link[64];
                ssize_t n;

                snprintf(path, sizeof(path), "/proc/self/ns/%s", namespaces[i]);
                n = readlink(path, link, sizeof(link) - 1);
                if (n <= 0)
                        continue;
                link[n] = '\0';
                (void)add_word(strings, link, &argc);
        }
        return argc;
}

static int put_probe(cloche_engine *engine, struct box *box, struct cloche_err *e)
{
        struct init_request request = {.op = INIT_PUT, .mode = 0755};
        struct outcome outcome = {.engine = engine, .e = e};

        if (engine->probe_fd < 0)
                return err_os(e, CLOCHE_E_KEEPER, ENOENT, "open %s/cloche-probe", engine->libexec_dir);
        return await(&outcome, control_ask_path(box->control, &request, PROBE_PATH, &engine->probe_fd, 1, on_init, &outcome, e));
}

static int spawn_probe(cloche_engine *engine, struct box *box, const int *fds, size_t fd_count, struct cloche_err *e)
{
        _cleanup_buf_ struct buf strings = BUF_INIT(4096);
        struct init_request request = {.op = INIT_SPAWN, .argc = command(&strings, fd_count > 3)};
        struct outcome outcome = {.engine = engine, .e = e};
        int r = put_probe(engine, box, e);

        if (r == 0)
                r = await(&outcome, control_spawn(box->control, &request, strings.data, strings.size, fds, fd_count, on_init, &outcome, e));
        return r;
}

static int read_probe(int fd, struct buf *ret, struct cloche_err *e)
{
        uint64_t deadline_ns = clock_now_ns() + PROBE_PATIENCE_NS;

        for (;;) {
                struct pollfd polled = {.fd = fd, .events = POLLIN};
                uint64_t now_ns = clock_now_ns();
                char *to = buf_reserve(ret, 1024);
                ssize_t n;

                if (!to)
                        return err_set(e, CLOCHE_E_TOO_LARGE, "the probe says more than %u bytes", PROBE_OUTPUT_MAX);
                if (now_ns >= deadline_ns || poll(&polled, 1, (int)((deadline_ns - now_ns) / 1000000) + 1) == 0)
                        return err_set(e, CLOCHE_E_STATE, "the probe did not come to its end");
                n = read(fd, to, 1024);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n == 0 ? buf_append(ret, "", 1) : err_os(e, CLOCHE_E_STATE, errno, "read the probe");
                ret->size += (size_t)n;
        }
}

/* "guard\tenforced|absent\twhat was seen": only an enforced wall can be found absent, what is degraded stays so. */
static void note_line(char *line, struct cloche_guard_report *reports)
{
        const char *name = strsep(&line, "\t"), *state = strsep(&line, "\t");

        for (int g = 0; line && g < CLOCHE_GUARD_COUNT; g++) {
                struct cloche_guard_report *report = &reports[g];

                if (strcmp(name, cloche_guard_name((enum cloche_guard)g)) != 0 || report->state != CLOCHE_GUARD_ENFORCED)
                        continue;
                report->proven = strcmp(state, "enforced") == 0;
                report->state = report->proven ? CLOCHE_GUARD_ENFORCED : CLOCHE_GUARD_ABSENT;
                snprintf(report->reason, sizeof(report->reason), "%s", line);
        }
}

static int note(int fd, struct cloche_guard_report *reports, struct cloche_err *e)
{
        _cleanup_buf_ struct buf output = BUF_INIT(PROBE_OUTPUT_MAX);
        char *rest, *line;
        int r = read_probe(fd, &output, e);

        rest = output.data;
        while (r == 0 && (line = strsep(&rest, "\n")))
                note_line(line, reports);
        return r;
}

static int open_streams(int *ret_null_fd, int *ret_read_fd, int *ret_write_fd, struct cloche_err *e)
{
        int pair[2];

        *ret_null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (*ret_null_fd < 0 || pipe2(pair, O_CLOEXEC) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a pipe");
        *ret_read_fd = pair[0];
        *ret_write_fd = pair[1];
        return 0;
}

static int probe_cold(cloche_engine *engine, struct cloche_guard_report *reports, struct cloche_err *e)
{
        _cleanup_fd_ int null_fd = -EBADF, read_fd = -EBADF, write_fd = -EBADF;
        struct box box;
        int r = open_streams(&null_fd, &read_fd, &write_fd, e), dropped;

        if (r == 0)
                r = make_box(engine, KEEPER_NO_BOX, 0, &box, e);
        if (r < 0)
                return r;
        r = spawn_probe(engine, &box, (int[]){null_fd, write_fd, null_fd}, 3, e);
        fd_close(&write_fd);
        if (r == 0)
                r = note(read_fd, reports, e);
        dropped = drop(engine, &box, r < 0 ? NULL : e);
        return r < 0 ? r : dropped;
}

static int fork_into(cloche_engine *engine, const struct box *box, const int *fds, struct cloche_err *e)
{
        struct outcome outcome = {.engine = engine, .e = e};
        uint32_t fork;

        return await(&outcome, keeper_box_fork_later(engine->keeper, box->id, fds, 4, on_reply, &outcome, &fork, e));
}

/* The template is alive, its box is trunk's. */
static int probe_child(cloche_engine *engine, const struct box *trunk, int channel_fd, struct cloche_guard_report *reports,
                       struct cloche_err *e)
{
        _cleanup_fd_ int null_fd = -EBADF, read_fd = -EBADF, write_fd = -EBADF;
        struct box box;
        int r = open_streams(&null_fd, &read_fd, &write_fd, e), dropped;

        if (r == 0)
                r = make_box(engine, trunk->id, 0, &box, e);
        if (r < 0)
                return r;
        r = fork_into(engine, &box, (int[]){null_fd, write_fd, null_fd, channel_fd}, e);
        fd_close(&write_fd);
        if (r == 0)
                r = note(read_fd, reports, e);
        dropped = drop(engine, &box, r < 0 ? NULL : e);
        return r < 0 ? r : dropped;
}

static int probe_forked(cloche_engine *engine, struct cloche_guard_report *reports, struct cloche_err *e)
{
        _cleanup_fd_ int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC), engine_fd = -EBADF, channel_fd = -EBADF;
        int pair[2], r, dropped;
        struct box trunk;

        if (null_fd < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a channel");
        engine_fd = pair[0]; /* what the template says of its children is not read: the pipe's end tells as much */
        channel_fd = pair[1];
        r = make_box(engine, KEEPER_NO_BOX, 1, &trunk, e);
        if (r < 0)
                return r;
        r = spawn_probe(engine, &trunk, (int[]){null_fd, null_fd, null_fd, channel_fd, trunk.fork_fd}, 5, e);
        fd_close(&trunk.fork_fd);
        if (r == 0)
                r = probe_child(engine, &trunk, channel_fd, reports, e);
        dropped = drop(engine, &trunk, r < 0 ? NULL : e);
        return r < 0 ? r : dropped;
}

/* What held the first guest and was not tried by the second has not been shown. */
static void compare(const struct cloche_guard_report *cold, struct cloche_guard_report *forked)
{
        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++) {
                if (cold[g].state != CLOCHE_GUARD_ENFORCED) {
                        forked[g] = cold[g];
                } else if (cold[g].proven && !forked[g].proven && forked[g].state == CLOCHE_GUARD_ENFORCED) {
                        forked[g].state = CLOCHE_GUARD_ABSENT;
                        snprintf(forked[g].reason, sizeof(forked[g].reason), "a run forked from a template could not try it");
                }
        }
}

int cloche_engine_selftest(cloche_engine *engine, struct cloche_guard_report *ret, struct cloche_err *e)
{
        struct cloche_guard_report cold[CLOCHE_GUARD_COUNT];
        int r;

        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++) {
                const char *reason;

                ret[g] = (struct cloche_guard_report){.state = cloche_engine_guard(engine, (enum cloche_guard)g, &reason)};
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
