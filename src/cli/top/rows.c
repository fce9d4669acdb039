/* The rows of cloche top. Runs in: the CLI, as its user. */
#include "rows.h"

#include "cli/sandbox/sandbox-options.h"

#include <stdlib.h>
#include <string.h>

/* -- the table ------------------------------------------------------------------------------------------------ */

static void make_cpu(FILE *out, const json_t *row, int is_plain)
{
        const json_t *percent = json_object_get(row, "cpuPercent");

        (void)is_plain;
        if (percent)
                fprintf(out, "%.1f", json_number_value(percent));
}

const struct table_column top_columns[TOP_COLUMNS] = {
        {"SANDBOX", CELL_NAME, "sandbox", 16, NULL},       {"STATE", CELL_STATE, "state", 0, NULL},
        {"CPU%", CELL_COUNT, NULL, 0, make_cpu},           {"MEMORY", CELL_BYTES, "memoryBytes", 0, NULL},
        {"DISK", CELL_BYTES, "diskBytes", 0, NULL},        {"PROCESSES", CELL_COUNT, "pids", 0, NULL},
        {"SENT", CELL_BYTES, "networkSentBytes", 0, NULL}, {"RECEIVED", CELL_BYTES, "networkReceivedBytes", 0, NULL},
        {"AGE", CELL_TIME, "createdAt", 0, NULL},          {"USED", CELL_TIME, "lastUsedAt", 0, NULL},
};

static const struct top_order orders[] = {
        {'c', "cpu", "CPU%", "cpuPercent", NULL, 1},
        {'m', "memory", "MEMORY", "memoryBytes", NULL, 1},
        {'d', "disk", "DISK", "diskBytes", NULL, 1},
        {'p', "processes", "PROCESSES", "pids", NULL, 1},
        {'n', "network", "SENT", "networkSentBytes", "networkReceivedBytes", 1},
        {'a', "age", "AGE", "createdAt", NULL, 0},
        {'u', "used", "USED", "lastUsedAt", NULL, 1},
        {'s', "name", "SANDBOX", "sandbox", NULL, 0},
};
#define ORDERS (sizeof(orders) / sizeof(orders[0]))

const struct top_order *top_order_of_name(const char *name)
{
        for (size_t i = 0; i < ORDERS; i++)
                if (strcmp(orders[i].name, name) == 0)
                        return &orders[i];
        return NULL;
}

const struct top_order *top_order_of_key(int key)
{
        for (size_t i = 0; i < ORDERS; i++)
                if (orders[i].key == key)
                        return &orders[i];
        return NULL;
}

/* -- the rows ------------------------------------------------------------------------------------------------- */

static void copy(json_t *row, const json_t *from, const char *name)
{
        json_t *value = json_object_get(from, name);

        if (value)
                json_object_set(row, name, value);
}

static void add_state(json_t *row, const json_t *sandbox)
{
        char state[32];
        int has_files_only = strcmp(sandbox_text(sandbox, "pauseKind"), "files") == 0;

        snprintf(state, sizeof(state), has_files_only ? "%.20s (files)" : "%.20s", sandbox_text(sandbox, "state"));
        json_object_set_new(row, "state", json_string(state));
}

/* The sample of a sandbox that has ended tells of its files alone, that of a paused one also of its
 * memory. */
static void add_sample(json_t *row, const json_t *sandbox)
{
        const char *state = sandbox_text(sandbox, "state");
        const json_t *sample = json_object_get(sandbox, "sample");
        int is_running = strcmp(state, "running") == 0,
            has_memory = is_running || strcmp(sandbox_text(sandbox, "pauseKind"), "memory") == 0;

        copy(row, sample, "diskBytes");
        if (has_memory) {
                copy(row, sample, "memoryBytes");
                copy(row, sample, "pids");
                copy(row, sample, "networkSentBytes");
                copy(row, sample, "networkReceivedBytes");
        }
}

/* A restart begins again at 0. */
static void add_cpu(json_t *row, const json_t *sandbox, const json_t *last, uint64_t elapsed_ns)
{
        const json_t *now = json_object_get(json_object_get(sandbox, "usage"), "cpuMs");
        json_int_t used_ms = json_integer_value(now) - json_integer_value(last);

        if (now)
                json_object_set(row, "cpuMs", (json_t *)now);
        if (now && last && elapsed_ns && used_ms >= 0)
                json_object_set_new(row, "cpuPercent", json_real((double)used_ms * 1e8 / (double)elapsed_ns));
}

json_t *top_rows(const json_t *answer, json_t *before, uint64_t elapsed_ns)
{
        json_t *rows = json_array(), *now = json_object();
        const json_t *sandbox;
        size_t i;

        json_array_foreach (json_object_get(answer, "sandboxes"), i, sandbox) {
                const char *name = sandbox_text(sandbox, "sandbox");
                json_t *row = json_object();

                copy(row, sandbox, "sandbox");
                add_state(row, sandbox);
                add_cpu(row, sandbox, json_object_get(before, name), elapsed_ns);
                add_sample(row, sandbox);
                copy(row, sandbox, "processes");
                copy(row, sandbox, "contexts");
                copy(row, sandbox, "createdAt");
                copy(row, sandbox, "lastUsedAt");
                if (json_object_get(row, "cpuMs"))
                        json_object_set(now, name, json_object_get(row, "cpuMs"));
                json_array_append_new(rows, row);
        }
        json_object_clear(before);
        json_object_update(before, now);
        json_decref(now);
        return rows;
}

/* -- the order ------------------------------------------------------------------------------------------------ */

struct sorting {
        const struct top_order *order;
        int is_reversed;
};

/* A missing value is the least. */
static double number_of(const json_t *row, const struct top_order *order)
{
        const json_t *value = json_object_get(row, order->member);

        return value ? json_number_value(value) +
                               json_number_value(json_object_get(row, order->more ? order->more : ""))
                     : -1;
}

static int compare(const void *a, const void *b, void *data)
{
        const json_t *first = *(const json_t *const *)a, *second = *(const json_t *const *)b;
        const struct sorting *s = data;
        double one = number_of(first, s->order), two = number_of(second, s->order);
        int r = one < two ? -1 : one > two;

        if (r == 0)
                r = strcmp(sandbox_text(first, s->order->member), sandbox_text(second, s->order->member));
        if (r != 0)
                return s->order->falls != s->is_reversed ? -r : r;
        return strcmp(sandbox_text(first, "sandbox"), sandbox_text(second, "sandbox"));
}

void top_sort(json_t *rows, const struct top_order *order, int is_reversed)
{
        struct sorting sorting = {order, is_reversed};
        size_t count = json_array_size(rows);
        json_t **items = calloc(count + 1, sizeof(json_t *));

        if (!items)
                abort(); /* out of memory */
        for (size_t i = 0; i < count; i++)
                items[i] = json_incref(json_array_get(rows, i));
        qsort_r(items, count, sizeof(json_t *), compare, &sorting);
        json_array_clear(rows);
        for (size_t i = 0; i < count; i++)
                json_array_append_new(rows, items[i]);
        free(items);
}
