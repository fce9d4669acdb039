/* Forks and snapshots of sandboxes, and their usage over time. Runs in: cloched-engine, on its
 * loop, with the rights of the daemon's user. */
#include "daemon/e2b/template/build.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define FORKS_MAX 100
#define LIST_MAX 100

/* -- forks ------------------------------------------------------------------------------------------------------- */

struct forks {
        json_t *sandboxes, *answer;
        size_t next;
        json_int_t count;
        json_int_t timeout_s;
        char *from; /* the sandbox that was forked */
};

static void forks_done(void *state)
{
        struct forks *forks = state;

        json_decref(forks->sandboxes);
        json_decref(forks->answer);
        free(forks->from);
        free(forks);
}

static void give_end(struct e2b_request *q);

static void on_end_given(struct e2b_request *q, const struct door_reply *reply)
{
        struct forks *forks = q->state;

        json_array_append_new(forks->answer,
                              reply->e ? json_pack("{s:{s:i, s:s}}", "error", "code", 500, "message", reply->e->msg)
                                       : json_pack("{s:o}", "sandbox", e2b_describe_access(q, reply->result)));
        give_end(q);
}

/* Each fork ends at a time of its own. */
static void give_end(struct e2b_request *q)
{
        struct forks *forks = q->state;
        const json_t *fork = json_array_get(forks->sandboxes, forks->next++);

        free(q->door.sandbox);
        q->door.sandbox = strdup(fork ? e2b_text(fork, "sandbox") : forks->from);
        if (!fork || !q->door.sandbox) {
                e2b_answer(q, 201, json_incref(forks->answer));
                return;
        }
        q->fail = on_end_given;
        e2b_call(q, "sandbox.update", json_pack("{s:o}", "lifetimeMs", e2b_lifetime(forks->timeout_s)), NULL,
                 on_end_given);
}

static void on_forked(struct e2b_request *q, const struct door_reply *reply)
{
        struct forks *forks = q->state;

        forks->sandboxes = json_deep_copy(json_object_get(reply->result, "sandboxes"));
        give_end(q);
}

/* The service answers so for a single fork too: with an entry that says why there is none. */
static void on_not_forked(struct e2b_request *q, const struct door_reply *reply)
{
        const struct forks *forks = q->state;
        json_t *answer = json_array();

        for (json_int_t i = 0; i < forks->count; i++)
                json_array_append_new(answer,
                                      json_pack("{s:{s:i, s:s}}", "error", "code", 409, "message", reply->e->msg));
        e2b_answer(q, 201, answer);
}

static json_t *new_names(json_int_t count)
{
        json_t *names = json_array();
        char id[E2B_ID_SIZE];

        for (json_int_t i = 0; i < count; i++) {
                e2b_random_id(id, sizeof(id));
                json_array_append_new(names, json_string(id));
        }
        return names;
}

static void fork_found(struct e2b_request *q, const struct door_reply *reply)
{
        json_t *given = json_object_get(q->body, "count");
        json_int_t count = given && !json_is_null(given) ? json_integer_value(given) : 1,
                   timeout_s = e2b_timeout_of(q, E2B_TIMEOUT_S);
        struct forks *forks;

        (void)reply;
        if (timeout_s < 0)
                return;
        if (count < 1 || count > FORKS_MAX) {
                e2b_refuse(q, 400, "invalid_argument", "'count' must be 1 to %d", FORKS_MAX);
                return;
        }
        forks = calloc(1, sizeof(*forks));
        if (!forks) {
                e2b_refuse(q, 500, "internal", "out of memory");
                return;
        }
        forks->answer = json_array();
        forks->count = count;
        forks->timeout_s = timeout_s;
        forks->from = strdup(q->door.sandbox);
        q->state = forks;
        q->state_done = forks_done;
        q->fail = on_not_forked;
        e2b_call(q, "sandbox.fork", json_pack("{s:o}", "names", new_names(count)), NULL, on_forked);
}

void e2b_on_fork(struct e2b_request *q)
{
        e2b_find(q, fork_found);
}

/* -- snapshots --------------------------------------------------------------------------------------------------- */

static json_t *snapshot_of(const json_t *snapshot)
{
        json_t *name = json_object_get(snapshot, "snapshot");

        return json_pack("{s:O, s:[O]}", "snapshotID", name, "names", name);
}

static void on_taken(struct e2b_request *q, const struct door_reply *reply)
{
        e2b_answer(q, 201, snapshot_of(reply->result));
}

/* The same name again is a new snapshot in the place of the earlier one. */
static void snapshot_found(struct e2b_request *q, const struct door_reply *reply)
{
        const char *name = e2b_text(q->body, "name");
        json_t *params = name ? json_pack("{s:s, s:b}", "snapshot", name, "replace", 1) : json_object(),
               *labels = json_object_get(reply->result, "labels");

        /* A sandbox that begins with it has labels of its own, but these. */
        json_object_set_new(params, "labels",
                            json_pack("{s:O*, s:O*}", E2B_LABEL_SETTINGS, json_object_get(labels, E2B_LABEL_SETTINGS),
                                      E2B_LABEL_FILES, json_object_get(labels, E2B_LABEL_FILES)));
        e2b_call(q, "sandbox.snapshot", params, NULL, on_taken);
}

void e2b_on_snapshot(struct e2b_request *q)
{
        e2b_find(q, snapshot_found);
}

static void on_snapshots(struct e2b_request *q, const struct door_reply *reply)
{
        const json_t *all = json_object_get(reply->result, "snapshots");
        char *sandbox = e2b_query(q, "sandboxID"), *name = e2b_query(q, "name"), *limit = e2b_query(q, "limit"),
             *after = e2b_query(q, "nextToken");
        size_t most = limit ? strtoul(limit, NULL, 10) : LIST_MAX, from = after ? strtoul(after, NULL, 10) : 0, n = 0;
        json_t *page = json_array();
        char next[24];

        for (size_t i = 0; i < json_array_size(all); i++) {
                const json_t *one = json_array_get(all, i);

                if (json_object_get(json_object_get(one, "labels"), E2B_LABEL_BUILD) ||
                    json_object_get(json_object_get(one, "labels"), E2B_LABEL_STEP) ||
                    (sandbox && strcmp(sandbox, e2b_text(one, "sandbox")) != 0) ||
                    (name && strcmp(name, e2b_text(one, "snapshot")) != 0) || n++ < from)
                        continue;
                if (json_array_size(page) == most) {
                        snprintf(next, sizeof(next), "%zu", from + most);
                        http_add_header(q->request, "x-next-token", next);
                        break;
                }
                json_array_append_new(page, snapshot_of(one));
        }
        free(sandbox);
        free(name);
        free(limit);
        free(after);
        e2b_answer(q, 200, page);
}

void e2b_on_snapshots(struct e2b_request *q)
{
        e2b_call(q, "snapshot.list", json_object(), NULL, on_snapshots);
}

/* -- metrics ----------------------------------------------------------------------------------------------------- */

static json_int_t limit_of(const json_t *described, const char *name)
{
        return json_integer_value(json_object_get(json_object_get(described, "limits"), name));
}

static json_t *value_of(const json_t *sample, const char *name)
{
        json_t *value = json_object_get(sample, name);

        return value ? json_incref(value) : json_integer(0);
}

/* Percent of one processor, between two samples. */
static double percent(const json_t *sample, const json_t *before, double interval_ms)
{
        const json_t *now = json_object_get(sample, "cpuMs"), *then = json_object_get(before, "cpuMs");
        double used_ms = (double)(json_integer_value(now) - json_integer_value(then));

        return before && used_ms > 0 ? (double)(int64_t)(used_ms / interval_ms * 10000) / 100 : 0;
}

/* The samples as points of the API, a new reference. */
static json_t *points_of(const struct e2b_request *q, const json_t *metrics, uint64_t from, uint64_t to)
{
        const json_t *samples = json_object_get(metrics, "samples");
        double interval_ms = (double)json_integer_value(json_object_get(metrics, "intervalMs"));
        json_int_t cpus = limit_of(q->described, "cpuPercent");
        json_t *points = json_array();

        for (size_t i = 0; i < json_array_size(samples); i++) {
                const json_t *sample = json_array_get(samples, i), *before = i ? json_array_get(samples, i - 1) : NULL;
                uint64_t at = e2b_time_ms(e2b_text(sample, "time")) / 1000;

                if (at < from || at > to)
                        continue;
                json_array_append_new(points, json_pack("{s:O, s:I, s:I, s:f, s:o, s:I, s:i, s:o, s:I}", "timestamp",
                                                        json_object_get(sample, "time"), "timestampUnix",
                                                        (json_int_t)at, "cpuCount", cpus > 100 ? (cpus + 99) / 100 : 1,
                                                        "cpuUsedPct", percent(sample, before, interval_ms), "memUsed",
                                                        value_of(sample, "memoryBytes"), "memTotal",
                                                        limit_of(q->described, "memoryBytes"), "memCache", 0,
                                                        "diskUsed", value_of(sample, "diskBytes"), "diskTotal",
                                                        limit_of(q->described, "diskBytes")));
        }
        return points;
}

static void on_metrics(struct e2b_request *q, const struct door_reply *reply)
{
        char *start = e2b_query(q, "start"), *end = e2b_query(q, "end");

        e2b_answer(q, 200,
                   points_of(q, reply->result, start ? strtoull(start, NULL, 10) : 0,
                             end ? strtoull(end, NULL, 10) : UINT64_MAX));
        free(start);
        free(end);
}

static void metrics_found(struct e2b_request *q, const struct door_reply *reply)
{
        q->described = json_deep_copy(reply->result);
        e2b_call(q, "sandbox.metrics", json_object(), NULL, on_metrics);
}

void e2b_on_metrics(struct e2b_request *q)
{
        e2b_find(q, metrics_found);
}

static void on_newest(struct e2b_request *q, const struct door_reply *reply)
{
        json_t *points = points_of(q, reply->result, 0, UINT64_MAX);
        const json_t *point = json_array_get(points, json_array_size(points) - 1);

        if (point)
                e2b_answer(q, 200,
                           json_pack("{s:O, s:O, s:O, s:O, s:O, s:O, s:O, s:O}", "ts",
                                     json_object_get(point, "timestampUnix"), "cpu_count",
                                     json_object_get(point, "cpuCount"), "cpu_used_pct",
                                     json_object_get(point, "cpuUsedPct"), "mem_total",
                                     json_object_get(point, "memTotal"), "mem_used", json_object_get(point, "memUsed"),
                                     "mem_cache", json_object_get(point, "memCache"), "disk_used",
                                     json_object_get(point, "diskUsed"), "disk_total",
                                     json_object_get(point, "diskTotal")));
        else
                e2b_refuse(q, 503, "unavailable", "the sandbox has no sample yet: try again in a second");
        json_decref(points);
}

static void ask_newest(struct e2b_request *q)
{
        e2b_call(q, "sandbox.metrics", json_object(), NULL, on_newest);
}

/* The newest sample alone, under the names of envd. */
void e2b_on_metrics_of_envd(struct e2b_request *q)
{
        e2b_with_sandbox(q, ask_newest);
}

/* -- metrics of several ------------------------------------------------------------------------------------------ */

struct several {
        char *names; /* with commas */
        const char *next;
        json_t *points; /* the newest of each, by name */
};

static void several_done(void *state)
{
        struct several *all = state;

        json_decref(all->points);
        free(all->names);
        free(all);
}

static void next_of_several(struct e2b_request *q);

static void on_point(struct e2b_request *q, const struct door_reply *reply)
{
        const struct several *all = q->state;
        json_t *points = reply->e ? NULL : points_of(q, reply->result, 0, UINT64_MAX);
        size_t count = json_array_size(points);

        if (count > 0)
                json_object_set(all->points, q->door.sandbox, json_array_get(points, count - 1));
        json_decref(points);
        next_of_several(q);
}

/* One that does not exist is left out. */
static void on_one(struct e2b_request *q, const struct door_reply *reply)
{
        json_decref(q->described);
        q->described = reply->e ? NULL : json_deep_copy(reply->result);
        if (reply->e) {
                next_of_several(q);
                return;
        }
        q->fail = on_point;
        e2b_call(q, "sandbox.metrics", json_object(), NULL, on_point);
}

static void next_of_several(struct e2b_request *q)
{
        struct several *all = q->state;
        size_t size = strcspn(all->next, ",");

        free(q->door.sandbox);
        q->door.sandbox = size > 0 ? strndup(all->next, size) : NULL;
        all->next += size + (all->next[size] == ',');
        if (!q->door.sandbox) {
                e2b_answer(q, 200, json_pack("{s:O}", "sandboxes", all->points));
                return;
        }
        q->fail = on_one;
        e2b_call(q, "sandbox.get", json_object(), NULL, on_one);
}

void e2b_on_metrics_of_several(struct e2b_request *q)
{
        struct several *all = calloc(1, sizeof(*all));
        size_t count = 1;

        if (!all) {
                e2b_refuse(q, 500, "internal", "out of memory");
                return;
        }
        q->state = all;
        q->state_done = several_done;
        all->names = e2b_query(q, "sandbox_ids");
        all->next = all->names;
        all->points = json_object();
        for (const char *at = all->names; at && *at; at++)
                count += *at == ',';
        if (!all->names || count > LIST_MAX)
                e2b_refuse(q, 400, "invalid_argument", "'sandbox_ids' must be 1 to %d ids with commas", LIST_MAX);
        else
                next_of_several(q);
}
