/* The guards, proven: cloche-probe runs as a guest of a small box and tries them. */
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

#define PROBE_PATH "/tmp/cloche-probe"
#define PROBE_PATIENCE_NS UINT64_C(30000000000)
#define PROBE_OUTPUT_MAX (64u << 10)

static const char *const namespaces[] = {"user", "pid", "mnt", "ipc", "uts", "cgroup", "net"};

static int make_box(cloche_engine *engine, struct box *box, struct cloche_err *e)
{
        struct keeper_box_spec *spec = calloc(1, sizeof(*spec));
        int r;

        if (!spec)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a box");
        spec->limits = (struct keeper_box_limits){
                .memory_bytes = 64u << 20, .pids = 64, .cpu_percent = 200, .cpu_ms = 20000,
                .disk_bytes = 16u << 20, .disk_inodes = 512, .file_bytes = UINT64_MAX, .open_files = 256,
        };
        spec->parent = KEEPER_NO_BOX;
        spec->optional_guards = ~0u; /* they are what this is about */
        r = box_make(box, engine->keeper, spec, e);
        free(spec);
        return r;
}

static int spawn_probe(struct box *box, int *ret_fd, struct cloche_err *e)
{
        _cleanup_buf_ struct buf strings = BUF_INIT(4096);
        _cleanup_fd_ int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC), read_fd = -EBADF, write_fd = -EBADF;
        uint32_t argc = 1;
        int pair[2], r;

        if (null_fd < 0 || pipe2(pair, O_CLOEXEC) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a pipe");
        read_fd = pair[0];
        write_fd = pair[1];
        (void)buf_append(&strings, "/tmp\0" PROBE_PATH, sizeof("/tmp\0" PROBE_PATH));
        for (size_t i = 0; i < sizeof(namespaces) / sizeof(namespaces[0]); i++) {
                char path[32], link[64];
                ssize_t n;

                snprintf(path, sizeof(path), "/proc/self/ns/%s", namespaces[i]);
                n = readlink(path, link, sizeof(link) - 1);
                if (n <= 0)
                        continue;
                link[n] = '\0';
                (void)buf_append(&strings, link, (size_t)n + 1);
                argc++;
        }
        r = box_spawn(box, strings.data, strings.size, argc, 0, (int[]){null_fd, write_fd, null_fd}, 3, e);
        if (r == 0)
                *ret_fd = TAKE_FD(read_fd);
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

static int probe(cloche_engine *engine, struct box *box, struct buf *ret, struct cloche_err *e)
{
        _cleanup_fd_ int fd = -EBADF;
        int r = engine->probe_fd < 0 ? err_os(e, CLOCHE_E_KEEPER, ENOENT, "open %s/cloche-probe", engine->libexec_dir)
                                     : box_put(box, PROBE_PATH, engine->probe_fd, 0755, e);

        if (r == 0)
                r = spawn_probe(box, &fd, e);
        return r < 0 ? r : read_probe(fd, ret, e);
}

int cloche_engine_selftest(cloche_engine *engine, struct cloche_guard_report *ret, struct cloche_err *e)
{
        _cleanup_buf_ struct buf output = BUF_INIT(PROBE_OUTPUT_MAX);
        struct box box;
        char *rest, *line;
        int r = make_box(engine, &box, e), dropped;

        if (r < 0)
                return r;
        r = probe(engine, &box, &output, e);
        dropped = box_drop(&box, NULL, r < 0 ? NULL : e);
        if (r < 0 || dropped < 0)
                return r < 0 ? r : dropped;
        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++) {
                const char *reason;

                ret[g] = (struct cloche_guard_report){.state = cloche_engine_guard(engine, (enum cloche_guard)g, &reason)};
                snprintf(ret[g].reason, sizeof(ret[g].reason), "%s", reason);
        }
        rest = output.data;
        while ((line = strsep(&rest, "\n")))
                note_line(line, ret);
        return 0;
}
