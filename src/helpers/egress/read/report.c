/* Merge repeated decisions and limit their rate.
 * Runs in: cloche-egress, on bytes of the guest; pure. */
#include "report.h"

#include <string.h>

#define BUDGET_A_TICK 100
#define BUDGET_MAX 500
#define IDLE_TICKS 5
#define AT_ONCE_A_TICK 10 /* reports of equal decisions */

void report_init(struct report *report, void (*send)(void *data, json_t *decision), void *data)
{
        *report = (struct report){.send = send, .data = data, .budget = BUDGET_MAX};
}

static void set_text(json_t *object, const char *name, const char *value)
{
        if (value && value[0])
                json_object_set_new(object, name, json_string(value));
}

static json_t *describe(const struct decision *decision)
{
        json_t *json = json_pack("{s:i, s:s, s:s}", "port", (int)decision->port, "verdict",
                                 decision->allowed ? "allowed" : "denied", "kind", decision->kind);

        if (!json)
                return NULL;
        set_text(json, "host", decision->host);
        set_text(json, "address", decision->address);
        set_text(json, "rule", decision->rule);
        set_text(json, "why", decision->why);
        return json;
}

static uint64_t add_hash(uint64_t hash, const char *text)
{
        for (; text && *text; text++)
                hash = (hash ^ (unsigned char)*text) * 1099511628211u;
        return (hash ^ 0xff) * 1099511628211u;
}

static uint64_t hash_of(const struct decision *decision)
{
        uint64_t hash = add_hash(add_hash(14695981039346656037u ^ decision->port, decision->kind), decision->host);

        return add_hash(add_hash(add_hash(hash, decision->address), decision->rule), decision->why) +
               (uint64_t)decision->allowed;
}

static void send(struct report *report, struct report_row *row)
{
        json_t *copy = report->budget > 0 ? json_copy(row->json) : NULL;

        if (copy) {
                report->budget--;
                json_object_set_new(copy, "count", json_integer(row->count));
                report->send(report->data, copy);
        }
        row->count = 0;
        row->sent++;
        row->idle = 0;
}

static void clear_row(struct report_row *row)
{
        json_decref(row->json);
        *row = (struct report_row){.json = NULL};
}

/* Return the row for a decision. A different decision in that row is reported early and evicted.
 * Two decisions with one hash are reported as the first. */
static struct report_row *find_row(struct report *report, uint64_t hash)
{
        struct report_row *row = &report->rows[hash % REPORT_ROWS];

        if (row->json && row->hash != hash) {
                if (row->count > 0)
                        send(report, row);
                clear_row(row);
        }
        return row;
}

void report_decision(struct report *report, const struct decision *decision)
{
        uint64_t hash = hash_of(decision);
        struct report_row *row = find_row(report, hash);

        row->count++;
        if (!row->json) {
                row->hash = hash;
                row->json = describe(decision);
        }
        if (row->json && row->sent < AT_ONCE_A_TICK)
                send(report, row);
}

void report_tick(struct report *report)
{
        report->budget = report->budget + BUDGET_A_TICK < BUDGET_MAX ? report->budget + BUDGET_A_TICK : BUDGET_MAX;
        for (size_t i = 0; i < REPORT_ROWS; i++) {
                struct report_row *row = &report->rows[i];

                row->sent = 0;
                if (row->json && row->count > 0)
                        send(report, row);
                else if (row->json && ++row->idle > IDLE_TICKS)
                        clear_row(row);
        }
}

void report_done(struct report *report)
{
        for (size_t i = 0; i < REPORT_ROWS; i++)
                if (report->rows[i].json)
                        clear_row(&report->rows[i]);
}
