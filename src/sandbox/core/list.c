/* sandbox.list: filters, order, pages. A page ends with the place of its last sandbox, by which
 * the next page begins behind it, whatever was made or deleted meanwhile. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "sandbox/life/metrics.h"
#include "sandbox/life/state.h"
#include "sandboxes.h"

#include "base/err.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CURSOR_SIZE (SANDBOX_NAME_MAX + 64)

static uint64_t created(const struct sandbox *s)
{
        return s->created_ms;
}

static uint64_t used(const struct sandbox *s)
{
        return s->used_ms;
}

static uint64_t nothing(const struct sandbox *s)
{
        (void)s;
        return 0;
}

/* Sandboxes with one key are sorted by name. */
static const struct order {
        const char *name;
        uint64_t (*key)(const struct sandbox *s);
} orders[] = {
        {"created", created},
        {"used", used},
        {"name", nothing},
};

struct listing {
        const struct order *order;
        const char *state, *image, *prefix, *after, *before;
        const json_t *labels;
        int is_reverse, has_samples;
        uint64_t limit;
        uint64_t key; /* of the place behind which the page begins */
        char name[SANDBOX_NAME_MAX];
};

static int find_order(const char *name, const struct order **ret, struct cloche_err *e)
{
        for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
                if (strcmp(orders[i].name, name) == 0) {
                        *ret = &orders[i];
                        return 0;
                }
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "order \"%.40s\": expected created, used or name", name);
}

/* ORDER:KEY:NAME, as write_cursor writes it. */
static int read_cursor(struct listing *l, const char *text, struct cloche_err *e)
{
        char order[16], name[SANDBOX_NAME_MAX], again[CURSOR_SIZE];

        if (sscanf(text, "%15[a-z]:%" SCNu64 ":%63[A-Za-z0-9-]", order, &l->key, name) == 3) {
                snprintf(again, sizeof(again), "%s:%" PRIu64 ":%s", order, l->key, name);
                if (strcmp(again, text) == 0 && strcmp(order, l->order->name) == 0) {
                        strcpy(l->name, name);
                        return 0;
                }
        }
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "after \"%.90s\": expected the next of a page in the order \"%s\"",
                       text, l->order->name);
}

static json_t *write_cursor(const struct listing *l, const struct sandbox *last)
{
        char text[CURSOR_SIZE];

        snprintf(text, sizeof(text), "%s:%" PRIu64 ":%s", l->order->name, l->order->key(last), last->name);
        return json_string(text);
}

static int check_state(const char *state, struct cloche_err *e)
{
        static const char *const states[] = {"running", "paused", "stopped"};

        for (size_t i = 0; state && i < sizeof(states) / sizeof(states[0]); i++)
                if (strcmp(states[i], state) == 0)
                        return 0;
        return !state ? 0
                      : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "state \"%.40s\": expected running, paused or stopped",
                                state);
}

static int read_listing(const struct sandbox_request *request, struct listing *ret, struct cloche_err *e)
{
        const char *order = sandbox_request_text(request, "order"), *after = sandbox_request_text(request, "after");
        int r;

        *ret = (struct listing){
                .state = sandbox_request_text(request, "state"),
                .image = sandbox_request_text(request, "image"),
                .prefix = sandbox_request_text(request, "prefix"),
                .labels = json_object_get(request->params, "labels"),
                .is_reverse = sandbox_request_flag(request, "reverse", 0),
                .has_samples = sandbox_request_flag(request, "sample", 0),
                .limit = sandbox_request_count(request, "limit", UINT64_MAX),
        };
        r = find_order(order ? order : orders[0].name, &ret->order, e);
        if (r == 0)
                r = check_state(ret->state, e);
        if (r == 0)
                r = sandbox_request_time(request, "createdAfter", &ret->after, e);
        if (r == 0)
                r = sandbox_request_time(request, "createdBefore", &ret->before, e);
        if (r == 0 && ret->limit == 0)
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "limit must be at least 1");
        return r == 0 && after ? read_cursor(ret, after, e) : r;
}

/* -- filters ---------------------------------------------------------------------------------------------------- */

static int has_labels(const struct sandbox *s, const json_t *labels)
{
        const json_t *label;
        size_t i;

        json_array_foreach (labels, i, label) { /* NAME=VALUE, or NAME alone */
                const char *text = json_string_value(label), *equals = strchr(text, '=');
                const json_t *value =
                        json_object_getn(s->labels, text, equals ? (size_t)(equals - text) : strlen(text));

                if (!value || (equals && strcmp(json_string_value(value), equals + 1) != 0))
                        return 0;
        }
        return 1;
}

/* By the name or the digest that it was made with. */
static int has_image(const struct sandbox *s, const char *image)
{
        static const char digest[] = "sha256:";
        const char *name = json_string_value(s->image_name);
        size_t size = strlen(image);

        if (name && strncmp(name, image, size) == 0 && (!name[size] || strcmp(name + size, ":latest") == 0))
                return 1;
        if (strncmp(image, digest, sizeof(digest) - 1) == 0) /* the other form of sha256-DIGITS */
                return strncmp(s->image.name, "sha256-", sizeof(digest) - 1) == 0 &&
                       strcmp(s->image.name + sizeof(digest) - 1, image + sizeof(digest) - 1) == 0;
        return strcmp(s->image.name, image) == 0;
}

static int was_created(const struct sandbox *s, const char *after, const char *before)
{
        json_t *time = after || before ? sandbox_time_json(s->created_ms) : NULL;
        const char *text = json_string_value(time);
        int ret = (!after || (text && strcmp(text, after) > 0)) && (!before || (text && strcmp(text, before) < 0));

        json_decref(time);
        return ret;
}

static int has_state(const struct sandbox *s, const char *state)
{
        json_t *told = state ? sandbox_state_json(s) : NULL;
        const char *text = json_string_value(json_object_get(told, "state"));
        int ret = !state || (text && strcmp(text, state) == 0);

        json_decref(told);
        return ret;
}

static int is_listed(const struct listing *l, const struct sandbox *s)
{
        return (!l->prefix || strncmp(s->name, l->prefix, strlen(l->prefix)) == 0) &&
               (!l->image || has_image(s, l->image)) && has_labels(s, l->labels) && has_state(s, l->state) &&
               was_created(s, l->after, l->before);
}

/* -- order ------------------------------------------------------------------------------------------------------ */

static int compare(const struct listing *l, uint64_t key, const char *name, const struct sandbox *s)
{
        uint64_t other = l->order->key(s);
        int ret = key == other ? strcmp(name, s->name) : key < other ? -1 : 1;

        return l->is_reverse ? -ret : ret;
}

static int compare_rows(const void *a, const void *b, void *data)
{
        const struct sandbox *const *first = a, *const *second = b;
        const struct listing *l = data;

        return compare(l, l->order->key(*first), (*first)->name, *second);
}

/* The sandboxes of the page and all behind them, sorted; *ret is freed by the caller. */
static int collect(const struct sandbox_request *request, struct listing *l, struct sandbox ***ret, size_t *ret_count,
                   struct cloche_err *e)
{
        struct sandbox **rows, *s;
        size_t count = 0;

        TAILQ_FOREACH (s, &request->all->list, link)
                count++;
        rows = calloc(count + 1, sizeof(struct sandbox *)); /* none is an array too */
        if (!rows)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "list the sandboxes");
        count = 0;
        TAILQ_FOREACH (s, &request->all->list, link)
                if (s->principal == request->principal && !s->is_deleted && is_listed(l, s) &&
                    (!l->name[0] || compare(l, l->key, l->name, s) < 0))
                        rows[count++] = s;
        qsort_r(rows, count, sizeof(struct sandbox *), compare_rows, l);
        *ret = rows;
        *ret_count = count;
        return 0;
}

int handle_LIST(struct sandbox_request *request, struct cloche_err *e)
{
        json_t *list, *answer;
        struct sandbox **rows;
        struct listing l;
        size_t count;
        int r = read_listing(request, &l, e);

        if (r == 0)
                r = collect(request, &l, &rows, &count, e);
        if (r < 0)
                return r;
        list = json_array();
        for (size_t i = 0; i < count && i < l.limit; i++) {
                json_t *row = sandbox_json(rows[i]), *sample = l.has_samples ? sandbox_metrics_newest(rows[i]) : NULL;

                if (row && sample)
                        json_object_set(row, "sample", sample);
                json_decref(sample);
                json_array_append_new(list, row);
        }
        answer = json_pack("{s:o}", "sandboxes", list);
        if (answer && count > l.limit)
                json_object_set_new(answer, "next", write_cursor(&l, rows[l.limit - 1]));
        free(rows);
        sandbox_request_result(request, answer, NULL);
        return 0;
}
