/* The log of a sandbox: starts and ends of the processes that the core keeps. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "sandbox.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LIMIT_MAX 1000

struct row {
        uint64_t at_ms;
        json_t *entry; /* {timestamp, message, level, fields} */
};

uint64_t e2b_time_ms(const char *time)
{
        struct tm tm = {0};
        const char *rest = time ? strptime(time, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;

        return rest ? (uint64_t)timegm(&tm) * 1000 + (*rest == '.' ? strtoul(rest + 1, NULL, 10) : 0) : 0;
}

static struct row row_of(const json_t *process, const char *at, const char *level, json_t *message)
{
        const char *time = e2b_text(process, at);
        json_t *pid = json_sprintf("%lld", (long long)json_integer_value(json_object_get(process, "pid")));

        return (struct row){e2b_time_ms(time),
                            json_pack("{s:s, s:o, s:s, s:{s:s, s:o, s:O?}}", "timestamp", time ? time : "", "message",
                                      message, "level", level, "fields", "logger", "process", "pid", pid, "command",
                                      json_object_get(process, "command"))};
}

static struct row end_of(const json_t *process)
{
        const char *signal = e2b_text(process, "signal");
        json_int_t code = json_integer_value(json_object_get(process, "exitCode"));

        return row_of(process, "endedAt", signal || code ? "warn" : "info",
                      signal ? json_sprintf("the process was killed by %s", signal)
                             : json_sprintf("the process ended with exit code %lld", (long long)code));
}

static int compare(const void *one, const void *other)
{
        uint64_t a = ((const struct row *)one)->at_ms, b = ((const struct row *)other)->at_ms;

        return (a > b) - (a < b);
}

struct log_query {
        char *start, *limit, *direction, *level, *search;
};

static void query_done(void *state)
{
        struct log_query *l = state;

        free(l->start);
        free(l->limit);
        free(l->direction);
        free(l->level);
        free(l->search);
        free(l);
}

static int is_back(const struct log_query *l)
{
        return l->direction && strcmp(l->direction, "backward") == 0;
}

/* The levels as they rise; any other is the first one. */
static size_t rank_of(const char *level)
{
        static const char *const levels[] = {"debug", "info", "warn", "error"};
        size_t rank = sizeof(levels) / sizeof(levels[0]);

        while (--rank > 0 && strcmp(levels[rank], level) != 0)
                ;
        return rank;
}

/* Backwards the start is the newest time, as at the service. */
static int is_wanted(const struct log_query *l, const struct row *row)
{
        uint64_t start_ms = l->start ? strtoull(l->start, NULL, 10) : 0;

        return (!l->start || (is_back(l) ? row->at_ms <= start_ms : row->at_ms >= start_ms)) &&
               (!l->level || rank_of(e2b_text(row->entry, "level")) >= rank_of(l->level)) &&
               (!l->search || strstr(e2b_text(row->entry, "message"), l->search));
}

/* The older form has all of an entry as text. */
static json_t *line_of(json_t *entry)
{
        json_t *all = json_deep_copy(json_object_get(entry, "fields")), *line;
        char *text;

        json_object_set(all, "message", json_object_get(entry, "message"));
        json_object_set(all, "level", json_object_get(entry, "level"));
        text = json_dumps(all, JSON_COMPACT);
        line = json_pack("{s:O, s:s}", "timestamp", json_object_get(entry, "timestamp"), "line", text ? text : "{}");
        free(text);
        json_decref(all);
        return line;
}

static void answer(struct e2b_request *q, const struct row *rows, size_t count)
{
        const struct log_query *l = q->state;
        size_t limit = l->limit ? strtoul(l->limit, NULL, 10) : LIMIT_MAX;
        int is_old = strncmp(q->route->path, "/v2/", 4) != 0;
        json_t *entries = json_array(), *lines = json_array();

        for (size_t n = 0; n < count && json_array_size(entries) < limit; n++) {
                const struct row *row = &rows[is_back(l) ? count - 1 - n : n];

                if (!is_wanted(l, row))
                        continue;
                json_array_append(entries, row->entry);
                json_array_append_new(lines, line_of(row->entry));
        }
        e2b_answer(q, 200,
                   is_old ? json_pack("{s:O, s:O}", "logs", lines, "logEntries", entries)
                          : json_pack("{s:O}", "logs", entries));
        json_decref(entries);
        json_decref(lines);
}

static void on_processes(struct e2b_request *q, const struct door_reply *reply)
{
        const json_t *processes = json_object_get(reply->result, "processes");
        struct row *rows = calloc(2 * json_array_size(processes) + 1, sizeof(*rows));
        size_t count = 0;

        for (size_t i = 0; rows && i < json_array_size(processes); i++) {
                const json_t *one = json_array_get(processes, i);

                rows[count++] = row_of(one, "startedAt", "info", json_string("the process started"));
                if (json_object_get(one, "endedAt"))
                        rows[count++] = end_of(one);
        }
        if (rows) {
                qsort(rows, count, sizeof(*rows), compare);
                answer(q, rows, count);
        } else {
                e2b_refuse(q, 500, "internal", "out of memory");
        }
        for (size_t i = 0; i < count; i++)
                json_decref(rows[i].entry);
        free(rows);
}

static void logs_found(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        e2b_call(q, "process.list", json_object(), NULL, on_processes);
}

void e2b_on_logs(struct e2b_request *q)
{
        struct log_query *l = calloc(1, sizeof(*l));

        if (!l) {
                e2b_refuse(q, 500, "internal", "out of memory");
                return;
        }
        q->state = l;
        q->state_done = query_done;
        l->start = e2b_query(q, strncmp(q->route->path, "/v2/", 4) == 0 ? "cursor" : "start");
        l->limit = e2b_query(q, "limit");
        l->direction = e2b_query(q, "direction");
        l->level = e2b_query(q, "level");
        l->search = e2b_query(q, "search");
        e2b_find(q, logs_found);
}
