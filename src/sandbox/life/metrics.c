/* sandbox.metrics: a ring of samples, taken every five seconds while the sandbox runs. A paused
 * or stopped one uses nothing, and has no samples of that time. Runs in: cloched-engine, on its
 * loop, with the rights of the daemon's user. */
#include "metrics.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"

#include <stdlib.h>
#include <string.h>

#define INTERVAL_NS UINT64_C(5000000000)
#define SAMPLES_MAX 120 /* ten minutes */
#define BUSY_NS 1000000 /* one that used less processor time since the sample before has not written much either */

struct sample {
        uint64_t time_ms, cpu_ns, memory_bytes, pids, disk_bytes, sent_bytes, received_bytes;
        int cpu_known, memory_known, pids_known, disk_known;
};

struct metrics {
        struct sandbox *sandbox;
        uint64_t taken_ns; /* monotonic: the newest */
        size_t count, next;
        int is_measuring; /* its first process was asked for the disk */
        struct sample rows[SAMPLES_MAX];
};

static struct sample *newest(struct metrics *m)
{
        return m->count ? &m->rows[(m->next + SAMPLES_MAX - 1) % SAMPLES_MAX] : NULL;
}

static void on_disk(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        struct metrics *m = data;
        struct sample *sample = newest(m);

        fd_close(&fd);
        m->is_measuring = 0;
        if (e || !sample)
                return;
        sample->disk_bytes = answer->disk_bytes_used;
        sample->disk_known = 1;
}

static void measure_disk(struct metrics *m, const struct sample *before, struct sample *sample)
{
        struct init_request request = {.op = INIT_DISK};
        int is_idle = before && before->disk_known && before->cpu_known && sample->cpu_known &&
                      sample->cpu_ns >= before->cpu_ns && sample->cpu_ns - before->cpu_ns < BUSY_NS;

        if (is_idle) {
                sample->disk_bytes = before->disk_bytes;
                sample->disk_known = 1;
        } else if (!m->is_measuring) {
                m->is_measuring = control_request(&m->sandbox->control, &request, NULL, 0, on_disk, m, NULL) == 0;
        }
}

static void take(struct metrics *m)
{
        struct sandbox *s = m->sandbox;
        const struct sample *before = newest(m);
        struct sample sample = {.time_ms = clock_real_ms(),
                                .sent_bytes = s->sent_bytes,
                                .received_bytes = s->received_bytes};
        struct keeper_usage usage;
        struct cgroup_present now;

        sample.cpu_known = s->all->boxes->read_usage(s->all, s->box, &usage) && usage.cpu_known;
        sample.cpu_ns = usage.cpu_ns;
        s->all->boxes->read_present(s->all, s->box, &now);
        sample.memory_known = now.memory_known;
        sample.memory_bytes = now.memory_bytes;
        sample.pids_known = now.pids_known;
        sample.pids = now.pids;
        measure_disk(m, before, &sample);
        m->rows[m->next] = sample;
        m->next = (m->next + 1) % SAMPLES_MAX;
        m->count += m->count < SAMPLES_MAX;
}

void sandbox_metrics_tidy(struct sandbox *s, uint64_t now_ns)
{
        struct metrics *m = s->metrics;

        if (s->state != SANDBOX_RUNNING || (m && now_ns - m->taken_ns < INTERVAL_NS))
                return;
        if (!m)
                m = s->metrics = calloc(1, sizeof(*m));
        if (!m)
                return; /* a history with a gap is no error */
        m->sandbox = s;
        m->taken_ns = now_ns;
        take(m);
}

void sandbox_metrics_on_box_closed(struct sandbox *s)
{
        s->sent_bytes = s->received_bytes = 0;
        if (!s->metrics)
                return;
        control_detach(&s->control, s->metrics);
        s->metrics->is_measuring = 0;
}

void sandbox_metrics_free(struct sandbox *s)
{
        free(s->metrics);
        s->metrics = NULL;
}

static void put(json_t *object, const char *name, int is_known, uint64_t value)
{
        if (is_known)
                json_object_set_new(object, name, json_integer((json_int_t)value));
}

static json_t *sample_json(const struct sample *sample)
{
        json_t *object = json_pack("{s:o}", "time", sandbox_time_json(sample->time_ms));

        if (!object)
                return NULL;
        put(object, "cpuMs", sample->cpu_known, sample->cpu_ns / 1000000);
        put(object, "memoryBytes", sample->memory_known, sample->memory_bytes);
        put(object, "pids", sample->pids_known, sample->pids);
        put(object, "diskBytes", sample->disk_known, sample->disk_bytes);
        put(object, "networkSentBytes", 1, sample->sent_bytes);
        put(object, "networkReceivedBytes", 1, sample->received_bytes);
        return object;
}

json_t *sandbox_metrics_newest(struct sandbox *s)
{
        const struct sample *sample;

        if (!s->metrics) /* it has begun to run in this second */
                sandbox_metrics_tidy(s, clock_now_ns());
        sample = s->metrics ? newest(s->metrics) : NULL;
        return sample ? sample_json(sample) : NULL;
}

int handle_METRICS(struct sandbox_request *request, struct cloche_err *e)
{
        struct sandbox *s = request->sandbox;
        const struct metrics *m;
        const char *from, *to;
        json_t *list;
        int r = sandbox_request_time(request, "from", &from, e);

        if (r == 0)
                r = sandbox_request_time(request, "to", &to, e);
        if (r < 0)
                return r;
        if (!s->metrics) /* it has begun to run in this second */
                sandbox_metrics_tidy(s, clock_now_ns());
        m = s->metrics;
        list = json_array();
        for (size_t i = 0; m && i < m->count; i++) {
                json_t *sample = sample_json(&m->rows[(m->next + SAMPLES_MAX - m->count + i) % SAMPLES_MAX]);
                const char *time = json_string_value(json_object_get(sample, "time"));

                if (time && (!from || strcmp(time, from) >= 0) && (!to || strncmp(time, to, strlen(to)) <= 0))
                        json_array_append(list, sample);
                json_decref(sample);
        }
        sandbox_request_result(request,
                               json_pack("{s:i, s:o}", "intervalMs", (int)(INTERVAL_NS / 1000000), "samples", list),
                               NULL);
        return 0;
}
