#include "internal.h"

#include "base/clock.h"
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WATCHERS_MAX 64 /* kept between two checks */
#define WATCHER_IDLE_NS UINT64_C(600000000000)

/* -- parameters of a watch ------------------------------------------------------------------------------------- */

static json_t *params_of(const struct container_ask *a)
{
        json_t *params = json_pack("{s:O}", "path", container_field(a, "path"));

        container_put(params, "recursive", container_copy(a, "recursive"));
        container_put(params, "include", container_copy(a, "include"));
        return container_put(params, "exclude", container_copy(a, "exclude"));
}

/* True if the globs are permitted; else the request is refused. */
static int check_globs(struct container_ask *a)
{
        if (!container_field(a, "include") || !container_field(a, "exclude"))
                return 1;
        container_refuse(a, CONTAINER_VALIDATION_FAILED, NULL, NULL, "'include' and 'exclude' do not go together");
        return 0;
}

/* -- watch ----------------------------------------------------------------------------------------------------- */

static int is_wanted(const struct container_ask *a, const char *type)
{
        const json_t *events = container_field(a, "events");

        for (size_t i = 0; i < json_array_size(events); i++)
                if (strcmp(json_string_value(json_array_get(events, i)), type) == 0)
                        return 1;
        return json_array_size(events) == 0;
}

static void tell(struct container_ask *a, const char *type, const json_t *path, const json_t *about,
                 const struct buf *attachments)
{
        if (is_wanted(a, type))
                container_line(a, json_pack("{s:s, s:s, s:o, s:b}", "type", "event", "eventType", type, "path",
                                            container_string(path, attachments), "isDirectory",
                                            json_is_true(json_object_get(about, "isDirectory"))));
}

static void on_change(struct container_ask *a, const json_t *about, const struct buf *attachments)
{
        const char *type = json_string_value(json_object_get(about, "type"));
        const json_t *path = json_object_get(about, "path"), *from = json_object_get(about, "from");

        if (!type)
                return;
        if (strcmp(type, "move") != 0) {
                tell(a, type, path, about, attachments);
                return;
        }
        if (from)
                tell(a, "move_from", from, about, attachments);
        tell(a, "move_to", path, about, attachments);
}

static void over(struct container_ask *a, const char *reason)
{
        container_line(a, json_pack("{s:s, s:o}", "type", "stopped", "reason", container_words(reason)));
        container_end(a);
}

static void on_event(struct container_ask *a, const char *event, const json_t *about, const struct buf *attachments)
{
        if (strcmp(event, "change") == 0) {
                on_change(a, about, attachments);
        } else if (strcmp(event, "ready") == 0) {
                char id[17];

                container_random(id, sizeof(id) - 1);
                container_line(a, json_pack("{s:s, s:O, s:s}", "type", "watching", "path", container_field(a, "path"),
                                            "watchId", id));
        } else if (strcmp(event, "lost") == 0) {
                container_line(a, json_pack("{s:s, s:s}", "type", "error", "error",
                                            "changes came faster than they were taken: some were not told"));
        }
}

static void watch_ended(struct container_ask *a, const struct container_reply *reply)
{
        (void)reply;
        over(a, "what was watched is gone");
}

static void watch_failed(struct container_ask *a, const struct container_reply *reply)
{
        container_line(a, json_pack("{s:s, s:o}", "type", "error", "error", container_words(reply->e->msg)));
        over(a, reply->e->msg);
}

static void watch(struct container_ask *a, const struct container_reply *reply)
{
        (void)reply;
        container_begin(a);
        a->on_event = on_event;
        a->fail = watch_failed;
        container_call(a, "file.watch", params_of(a), NULL, watch_ended);
}

/* A missing path is an error, not a stream. */
void container_watch(struct container_ask *a)
{
        if (check_globs(a))
                container_call(a, "file.stat", json_pack("{s:O}", "path", container_field(a, "path")), NULL, watch);
}

/* -- watch/check: state between two checks --------------------------------------------------------------------- */

/* Counts changes of a path between two checks. A version is watch-NUMBER-MS:CHANGES, as with the
 * original image; MS: the time when the watcher began. */
struct container_watcher {
        TAILQ_ENTRY(container_watcher) link;
        struct container *container;
        int64_t principal;
        char *sandbox, *key; /* key: the parameters of the watch */
        uint64_t number, begun_ms, changes, used_ns;
        struct sandbox_ask *ask;
        int is_ready, is_flushing;
};

/* A check waits until its watcher is ready, or has reported all changes from before the check. */
struct waiting_check {
        struct container_watcher *watcher;
        int is_first;  /* it waits until the watch begins */
        int is_behind; /* a flush was running already: it waits for the next one */
};

static struct waiting_check *waiting_of(const struct container_ask *a)
{
        return a->state_done == free && a->route->handle == container_watch_check ? a->state : NULL;
}

/* Return a check that waits for this watcher, or NULL. */
static struct container_ask *waiting_for(const struct container_watcher *w, int may_be_behind)
{
        struct container_ask *a;

        TAILQ_FOREACH (a, &w->container->asks, link) {
                const struct waiting_check *waiting = waiting_of(a);

                if (waiting && waiting->watcher == w && (may_be_behind || !waiting->is_behind))
                        return a;
        }
        return NULL;
}

static int wait_for(struct container_ask *a, struct container_watcher *w, int is_first)
{
        struct waiting_check *waiting = malloc(sizeof(*waiting));

        if (!waiting) {
                container_refuse(a, CONTAINER_INTERNAL_ERROR, a->route->failed, NULL, "out of memory");
                return 0;
        }
        *waiting = (struct waiting_check){.watcher = w, .is_first = is_first, .is_behind = w->is_flushing};
        a->state = waiting;
        a->state_done = free;
        return 1;
}

static void watcher_free(struct container_watcher *w)
{
        if (w->ask)
                sandbox_ask_cancel(w->ask);
        TAILQ_REMOVE(&w->container->watchers, w, link);
        free(w->sandbox);
        free(w->key);
        free(w);
}

static void answer_check(struct container_ask *a, const struct container_watcher *w, const char *status,
                         const char *reason)
{
        json_t *answer = json_pack("{s:b, s:s, s:o}", "success", 1, "status", status, "version",
                                   json_sprintf("watch-%llu-%llu:%llu", (unsigned long long)w->number,
                                                (unsigned long long)w->begun_ms, (unsigned long long)w->changes));

        container_answer(a, container_put(answer, "reason", reason ? json_string(reason) : NULL));
}

struct version {
        uint64_t number, begun_ms, changes;
};

static int read_number(const char **at, char behind, uint64_t *ret)
{
        char *end;

        if (**at < '0' || **at > '9')
                return 0;
        errno = 0;
        *ret = strtoull(*at, &end, 10);
        *at = end + 1;
        return errno == 0 && *end == behind;
}

static int read_version(const char *text, struct version *ret)
{
        const char *at = text + 6;

        return strncmp(text, "watch-", 6) == 0 && read_number(&at, '-', &ret->number) &&
               read_number(&at, ':', &ret->begun_ms) && read_number(&at, '\0', &ret->changes);
}

/* True if "since" is absent or a version; else the request is refused. */
static int check_since(struct container_ask *a)
{
        const char *since = container_text(a, "since");
        struct version version;

        if (!since || read_version(since, &version))
                return 1;
        container_refuse(a, CONTAINER_VALIDATION_FAILED, NULL, NULL,
                         "since must be a version returned by checkChanges()");
        return 0;
}

/* is_first: the watch began with this check. The count of another watcher is lost: it was idle too
 * long, or its daemon ended. */
static void answer_since(struct container_ask *a, const struct container_watcher *w, int is_first)
{
        const char *since = container_text(a, "since");
        struct version version;

        if (!since || !read_version(since, &version))
                answer_check(a, w, "unchanged", NULL);
        else if (version.number != w->number || version.begun_ms != w->begun_ms)
                answer_check(a, w, "resync",
                             is_first && version.begun_ms >= w->container->begun_ms ? "expired" : "restarted");
        else if (version.changes > w->changes)
                container_refuse(a, CONTAINER_VALIDATION_FAILED, NULL, NULL,
                                 "since refers to a newer version than the current watch state");
        else
                answer_check(a, w, version.changes == w->changes ? "unchanged" : "changed", NULL);
}

static void stop_waiting(struct container_ask *a)
{
        free(a->state);
        a->state = NULL;
        a->state_done = NULL;
}

static void answer_waiting(struct container_ask *a, const struct container_watcher *w)
{
        int is_first = waiting_of(a)->is_first;

        stop_waiting(a);
        answer_since(a, w, is_first);
}

static void flush(struct container_watcher *w)
{
        w->is_flushing = 1;
        sandbox_ask_flush(w->ask);
}

static void on_flushed(struct container_watcher *w)
{
        struct container_ask *a;

        w->is_flushing = 0;
        while ((a = waiting_for(w, 0)))
                answer_waiting(a, w);
        TAILQ_FOREACH (a, &w->container->asks, link) {
                struct waiting_check *waiting = waiting_of(a);

                if (waiting && waiting->watcher == w)
                        waiting->is_behind = 0;
        }
        if (waiting_for(w, 1))
                flush(w);
}

static void on_watcher_event(void *data, const char *event, const json_t *about, const struct buf *attachments)
{
        struct container_watcher *w = data;
        struct container_ask *a;

        (void)about;
        (void)attachments;
        if (strcmp(event, "flushed") == 0) {
                on_flushed(w);
                return;
        }
        w->changes += strcmp(event, "ready") != 0;
        if (w->is_ready || strcmp(event, "ready") != 0)
                return;
        w->is_ready = 1;
        while ((a = waiting_for(w, 1)))
                answer_waiting(a, w);
}

/* The watch ended: the waiting checks fail with its error. */
static void watcher_over(struct container_watcher *w, const struct cloche_err *e)
{
        struct container_ask *a;

        w->ask = NULL;
        while ((a = waiting_for(w, 1))) {
                stop_waiting(a);
                container_fail(a, &(struct container_reply){.e = e});
        }
        watcher_free(w);
}

static void on_watcher_result(void *data, const json_t *result, const struct buf *attachments)
{
        struct cloche_err e = {0};

        (void)result;
        (void)attachments;
        err_set(&e, CLOCHE_E_FILE_NOT_FOUND, "what is watched is gone");
        watcher_over(data, &e);
}

static void on_watcher_fail(void *data, const struct cloche_err *e, const json_t *about)
{
        (void)about;
        watcher_over(data, e);
}

static const struct sandbox_face watcher_face = {.event = on_watcher_event,
                                                 .result = on_watcher_result,
                                                 .fail = on_watcher_fail};

static struct container_watcher *watcher_find(struct container *c, const struct container_ask *a, const char *key)
{
        struct container_watcher *w;

        TAILQ_FOREACH (w, &c->watchers, link)
                if (w->principal == a->principal && strcmp(w->sandbox, a->sandbox) == 0 && strcmp(w->key, key) == 0)
                        return w;
        return NULL;
}

static void make_room(struct container *c)
{
        struct container_watcher *w, *oldest = NULL;
        unsigned count = 0;

        TAILQ_FOREACH (w, &c->watchers, link) {
                count++;
                if (w->is_ready && !w->is_flushing && (!oldest || w->used_ns < oldest->used_ns))
                        oldest = w;
        }
        if (count >= WATCHERS_MAX && oldest)
                watcher_free(oldest);
}

static struct container_watcher *watcher_new(struct container_ask *a, const char *key)
{
        struct container *c = a->daemon->container;
        struct container_watcher *w = calloc(1, sizeof(*w));

        if (!w)
                return NULL;
        make_room(c);
        w->container = c;
        w->principal = a->principal;
        w->sandbox = strdup(a->sandbox);
        w->key = strdup(key);
        w->number = ++c->next_watcher;
        w->begun_ms = clock_real_ms();
        w->used_ns = clock_now_ns();
        TAILQ_INSERT_TAIL(&c->watchers, w, link);
        if (w->sandbox && w->key)
                return w;
        watcher_free(w);
        return NULL;
}

static void begin_watcher(struct container_ask *a, const char *key, json_t *params)
{
        static const struct buf none = {0};
        struct container_watcher *w = watcher_new(a, key);
        struct cloche_err e = {0};
        int r;

        if (!w) {
                container_refuse(a, CONTAINER_INTERNAL_ERROR, a->route->failed, NULL, "out of memory");
                return;
        }
        json_object_set_new(params, "sandbox", json_string(a->sandbox));
        r = sandboxes_ask(a->daemon->sandboxes, a->principal, "file.watch", params, &none, &watcher_face, w, &w->ask,
                          &e);
        if (r < 0) {
                watcher_free(w);
                container_fail(a, &(struct container_reply){.e = &e});
                return;
        }
        (void)wait_for(a, w, 1);
}

void container_watch_check(struct container_ask *a)
{
        struct container_watcher *w;
        json_t *params;
        char *key;

        if (!check_globs(a) || !check_since(a))
                return;
        params = params_of(a);
        key = json_dumps(params, JSON_COMPACT | JSON_SORT_KEYS);
        w = key ? watcher_find(a->daemon->container, a, key) : NULL;
        if (!w) {
                begin_watcher(a, key ? key : "", params);
        } else if (wait_for(a, w, 0) && w->is_ready && !w->is_flushing) {
                w->used_ns = clock_now_ns();
                flush(w);
        }
        json_decref(params);
        free(key);
}

void container_watchers_sweep(struct container *c, uint64_t now_ns)
{
        struct container_watcher *w, *following;

        for (w = TAILQ_FIRST(&c->watchers); w; w = following) {
                following = TAILQ_NEXT(w, link);
                if (w->is_ready && !w->is_flushing && now_ns > w->used_ns + WATCHER_IDLE_NS)
                        watcher_free(w);
        }
}

void container_watchers_done(struct container *c)
{
        while (!TAILQ_EMPTY(&c->watchers))
                watcher_free(TAILQ_FIRST(&c->watchers));
}
