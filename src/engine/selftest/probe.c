/* Boxes for cloche-probe, and its reports. Runs in: the engine, which waits for each answer. */
#include "probe.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBE_PATH "/tmp/cloche-probe"
#define PROBE_PATIENCE_NS UINT64_C(30000000000)
#define PROBE_OUTPUT_MAX (64u << 10)

static const char *const namespaces[] = {"user", "pid", "mnt", "ipc", "uts", "cgroup", "net"};

int probe_streams_open(struct probe_streams *ret, struct cloche_err *e)
{
        int pair[2];

        ret->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (ret->null_fd < 0 || pipe2(pair, O_CLOEXEC) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a pipe");
        ret->read_fd = pair[0];
        ret->write_fd = pair[1];
        return 0;
}

void probe_streams_close(struct probe_streams *streams)
{
        fd_close(&streams->null_fd);
        fd_close(&streams->read_fd);
        fd_close(&streams->write_fd);
}

/* -- waiting: the loop serves nothing else meanwhile ------------------------------------------------------------ */

struct outcome {
        cloche_engine *engine;
        struct box *box; /* the box to fill, or NULL */
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
                outcome->r =
                        box_adopt(outcome->box, outcome->engine->keeper, reply, &outcome->engine->loop, outcome->e);
}

static void on_init(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        (void)answer;
        fd_close(&fd);
        settle(data, e);
}

/* r: the result of sending the request. */
static int await(struct outcome *outcome, int r)
{
        while (r >= 0 && !outcome->is_there)
                uv_run(&outcome->engine->loop, UV_RUN_ONCE);
        return r < 0 ? r : outcome->r;
}

int probe_drop(cloche_engine *engine, struct box *box, struct cloche_err *e)
{
        struct outcome outcome = {.engine = engine, .e = e};

        return box_drop(box, on_reply, &outcome) ? await(&outcome, 0)
                                                 : err_set(e, CLOCHE_E_KEEPER, "the keeper has ended");
}

/* -- boxes ------------------------------------------------------------------------------------------------------ */

int probe_make_box(cloche_engine *engine, uint32_t parent, int is_template, struct box *ret, struct cloche_err *e)
{
        struct outcome outcome = {.engine = engine, .box = ret, .e = e};
        struct keeper_box_spec *spec = calloc(1, sizeof(*spec));
        int r;

        if (!spec)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a box");
        spec->limits = (struct keeper_box_limits){
                .memory_bytes = 64u << 20,
                .pids = 64,
                .cpu_percent = 200,
                .cpu_ms = 20000,
                .disk_bytes = 16u << 20,
                .disk_inodes = 512,
                .file_bytes = UINT64_MAX,
                .open_files = 256,
        };
        spec->parent = parent;
        spec->shared_with = KEEPER_NO_BOX;
        if (parent == KEEPER_NO_BOX)
                spec->user = jail_user_default();
        spec->is_template = (uint32_t)is_template;
        spec->optional_guards = ~0u; /* the selftest tries them */
        r = await(&outcome, keeper_box_make_async(engine->keeper, spec, on_reply, &outcome, e));
        free(spec);
        return r;
}

static int add_word(struct buf *strings, const char *word, uint32_t *argc)
{
        (*argc)++;
        return buf_append(strings, word, strlen(word) + 1);
}

static void add_process(struct buf *strings, pid_t pid, uint32_t *argc)
{
        char number[16];

        snprintf(number, sizeof(number), "%d", (int)pid);
        (void)add_word(strings, number, argc);
}

/* Append cwd, then the command. Its arguments name this process's namespaces, which are the
 * host's. */
static uint32_t command(cloche_engine *engine, struct buf *strings, int is_template)
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
        add_process(strings, getpid(), &argc);
        add_process(strings, keeper_pid(engine->keeper), &argc);
        return argc;
}

static int put_probe(cloche_engine *engine, struct box *box, struct cloche_err *e)
{
        struct init_request request = {.op = INIT_PUT, .mode = 0755};
        struct outcome outcome = {.engine = engine, .e = e};

        if (engine->probe_fd < 0)
                return err_os(e, CLOCHE_E_KEEPER, ENOENT, "open %s/cloche-probe", engine->libexec_dir);
        return await(&outcome, control_request_path(box->control, &request, PROBE_PATH, &engine->probe_fd, 1, on_init,
                                                    &outcome, e));
}

int probe_spawn(cloche_engine *engine, struct box *box, const int *fds, size_t fd_count, struct cloche_err *e)
{
        _cleanup_buf_ struct buf strings = BUF_INIT(4096);
        struct init_request request = {.op = INIT_SPAWN, .argc = command(engine, &strings, fd_count > 3)};
        struct outcome outcome = {.engine = engine, .e = e};
        int r = put_probe(engine, box, e);

        if (r == 0)
                r = await(&outcome, control_spawn(box->control, &request, strings.data, strings.size, fds, fd_count,
                                                  on_init, &outcome, e));
        return r;
}

int probe_fork(cloche_engine *engine, const struct box *box, const int *fds, size_t fd_count, struct cloche_err *e)
{
        struct outcome outcome = {.engine = engine, .e = e};
        uint32_t fork;

        return await(&outcome,
                     keeper_box_fork_async(engine->keeper, box->id, fds, fd_count, on_reply, &outcome, &fork, e));
}

static int read_output(int fd, struct buf *ret, struct cloche_err *e)
{
        uint64_t deadline_ns = clock_now_ns() + PROBE_PATIENCE_NS;

        for (;;) {
                struct pollfd polled = {.fd = fd, .events = POLLIN};
                uint64_t now_ns = clock_now_ns();
                char *to = buf_reserve(ret, 1024);
                ssize_t n;
                int ready;

                if (!to)
                        return err_set(e, CLOCHE_E_TOO_LARGE, "cloche-probe printed more than %u bytes",
                                       PROBE_OUTPUT_MAX);
                ready = now_ns >= deadline_ns ? 0 : poll(&polled, 1, (int)((deadline_ns - now_ns) / 1000000) + 1);
                if (ready < 0 && errno == EINTR)
                        continue;
                if (ready <= 0)
                        return err_set(e, CLOCHE_E_STATE, "cloche-probe ended before its last line");
                n = read(fd, to, 1024);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n == 0 ? buf_append(ret, "", 1) : err_os(e, CLOCHE_E_STATE, errno, "read the probe");
                ret->size += (size_t)n;
        }
}

int probe_read(int fd, void (*on_line)(void *data, char *line), void *data, struct cloche_err *e)
{
        _cleanup_buf_ struct buf output = BUF_INIT(PROBE_OUTPUT_MAX);
        char *rest, *line;
        int r = read_output(fd, &output, e);

        rest = output.data;
        while (r == 0 && (line = strsep(&rest, "\n")))
                on_line(data, line);
        return r;
}
