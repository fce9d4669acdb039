#include "daemon.h"
#include "daemon/run/prefix.h"

#include "base/clock.h"
#include "sandbox/core/sandbox.h"

#include <cloche/cloche.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double bucket_seconds[STATS_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                     0.25,  0.5,    1,     2.5,  5,     10,   30};

void stats_begin(struct stats *stats)
{
        stats->started_ns = clock_now_ns();
        stats->statm_fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
}

void stats_run(struct stats *stats, enum cloche_status status, uint64_t duration_ns)
{
        double seconds = (double)duration_ns / 1e9;
        int i = 0;

        while (i < STATS_BUCKETS && seconds > bucket_seconds[i])
                i++;
        stats->run_buckets[i]++;
        stats->run_seconds += seconds;
        stats->runs_by_status[status]++;
        stats->runs_total++;
}

/* See proc_pid_statm(5): the second number, in pages. */
static uint64_t resident_bytes(const struct stats *stats)
{
        unsigned long resident;
        char text[128];
        ssize_t n = pread(stats->statm_fd, text, sizeof(text) - 1, 0);

        text[n < 0 ? 0 : n] = '\0';
        return sscanf(text, "%*u %lu", &resident) == 1 ? (uint64_t)resident * 4096 : 0;
}

json_t *stats_object(const struct daemon *d)
{
        const struct stats *s = &d->stats;
        const struct sandboxes_count boxes = sandboxes_count(d->sandboxes);
        json_t *by_status = json_object();

        for (int i = 0; i < CLOCHE_STATUS_COUNT; i++)
                json_object_set_new(by_status, cloche_status_name((enum cloche_status)i),
                                    json_integer((json_int_t)s->runs_by_status[i]));
        return json_pack("{s:s, s:f, s:i, s:I, s:{s:i, s:i, s:I, s:I, s:o}, s:{s:i, s:i, s:i, s:i, s:i}, s:i, s:I, "
                         "s:I, s:I, s:I, s:I, s:I, s:{s:i, s:b}}",
                         "version", CLOCHE_VERSION, "uptimeSeconds", (double)(clock_now_ns() - s->started_ns) / 1e9,
                         "connections", (int)d->connection_count, "connectionsTotal", (json_int_t)s->connections_total,
                         "runs", "now", (int)s->runs_now, "waiting", (int)cloche_engine_waiting(d->engine), "total",
                         (json_int_t)s->runs_total, "refused", (json_int_t)s->runs_refused, "byStatus", by_status,
                         "sandboxes", "known", (int)boxes.sandboxes, "running", (int)boxes.running, "sessions",
                         (int)boxes.sessions, "processes", (int)boxes.processes, "asks", (int)boxes.asks, "prefixes",
                         (int)prefixes_count(d), "requests", (json_int_t)s->requests_total, "bridgeCalls",
                         (json_int_t)s->bridge_calls_total, "bytesRead", (json_int_t)s->bytes_read, "bytesWritten",
                         (json_int_t)s->bytes_written, "memoryBytes", (json_int_t)resident_bytes(s), "restarts",
                         (json_int_t)s->restarts, "confinement", "landlock", d->confinement.landlock_abi, "seccomp",
                         d->confinement.is_filtered);
}

/* -- Prometheus ----------------------------------------------------------------------------------------------- */

static int add(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int add(struct buf *b, const char *format, ...)
{
        char line[300];
        va_list ap;
        int n;

        va_start(ap, format);
        n = vsnprintf(line, sizeof(line), format, ap);
        va_end(ap);
        return buf_append(b, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
}

static int add_one(struct buf *b, const char *name, const char *type, const char *help, double value)
{
        return add(b, "# HELP cloche_%s %s\n# TYPE cloche_%s %s\ncloche_%s %.17g\n", name, help, name, type, name,
                   value);
}

static int add_statuses(struct buf *b, const struct stats *s)
{
        int r = add(b, "# HELP cloche_runs_total Runs that ended, by status.\n# TYPE cloche_runs_total counter\n");

        for (int i = 0; r == 0 && i < CLOCHE_STATUS_COUNT; i++)
                r = add(b, "cloche_runs_total{status=\"%s\"} %llu\n", cloche_status_name((enum cloche_status)i),
                        (unsigned long long)s->runs_by_status[i]);
        return r;
}

static int add_histogram(struct buf *b, const struct stats *s)
{
        uint64_t sum = 0;
        int r = add(b, "# HELP cloche_run_duration_seconds From request to result.\n# TYPE cloche_run_duration_seconds "
                       "histogram\n");

        for (int i = 0; r == 0 && i < STATS_BUCKETS; i++) {
                sum += s->run_buckets[i];
                r = add(b, "cloche_run_duration_seconds_bucket{le=\"%g\"} %llu\n", bucket_seconds[i],
                        (unsigned long long)sum);
        }
        sum += s->run_buckets[STATS_BUCKETS];
        if (r == 0)
                r = add(b,
                        "cloche_run_duration_seconds_bucket{le=\"+Inf\"} %llu\ncloche_run_duration_seconds_sum %.9g\n"
                        "cloche_run_duration_seconds_count %llu\n",
                        (unsigned long long)sum, s->run_seconds, (unsigned long long)sum);
        return r;
}

int stats_text(const struct daemon *d, struct buf *ret)
{
        const struct stats *s = &d->stats;
        const struct sandboxes_count boxes = sandboxes_count(d->sandboxes);
        const struct {
                const char *name, *type, *help;
                double value;
        } rows[] = {
                {"connections", "gauge", "Connections that are open.", d->connection_count},
                {"connections_total", "counter", "Connections that were taken.", (double)s->connections_total},
                {"connections_refused_total", "counter", "Connections that were not.", (double)s->connections_refused},
                {"requests_total", "counter", "Requests, on all carriers.", (double)s->requests_total},
                {"request_errors_total", "counter", "Requests that were answered with an error.",
                 (double)s->errors_total},
                {"runs", "gauge", "Runs that are under way or wait.", s->runs_now},
                {"runs_waiting", "gauge", "Of these, those that wait for their turn.",
                 cloche_engine_waiting(d->engine)},
                {"runs_refused_total", "counter", "Runs that could not be started.", (double)s->runs_refused},
                {"bridge_calls_total", "counter", "Calls of host functions.", (double)s->bridge_calls_total},
                {"sandboxes", "gauge", "Sandboxes there are.", boxes.sandboxes},
                {"sandboxes_running", "gauge", "Of these, those that run.", boxes.running},
                {"sandbox_sessions", "gauge", "Sessions of sandboxes.", boxes.sessions},
                {"sandbox_processes", "gauge", "Processes that run in sandboxes.", boxes.processes},
                {"sandbox_asks", "gauge", "Requests of sandboxes that are under way.", boxes.asks},
                {"prefixes", "gauge", "Prefixes that are kept.", prefixes_count(d)},
                {"read_bytes_total", "counter", "Bytes read from callers.", (double)s->bytes_read},
                {"written_bytes_total", "counter", "Bytes written to callers.", (double)s->bytes_written},
                {"memory_bytes", "gauge", "Resident memory of the daemon itself.", (double)resident_bytes(s)},
                {"engine_restarts_total", "counter", "Starts of an engine after the first.", s->restarts},
                {"uptime_seconds", "gauge", "Since the start.", (double)(clock_now_ns() - s->started_ns) / 1e9},
        };
        int r = 0;

        *ret = BUF_INIT(1u << 20);
        for (size_t i = 0; r == 0 && i < sizeof(rows) / sizeof(rows[0]); i++)
                r = add_one(ret, rows[i].name, rows[i].type, rows[i].help, rows[i].value);
        if (r == 0)
                r = add_statuses(ret, s);
        return r < 0 ? r : add_histogram(ret, s);
}
