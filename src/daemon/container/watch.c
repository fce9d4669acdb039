/* Watches of files: streams of events, and versions to compare with later. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
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

static json_t *params_of(const struct container_request *q)
{
        json_t *params = json_pack("{s:O}", "path", container_field(q, "path"));

        door_put(params, "recursive", container_copy(q, "recursive"));
        door_put(params, "include", container_copy(q, "include"));
        return door_put(params, "exclude", container_copy(q, "exclude"));
}

/* True if the globs are permitted; else the request is refused. */
static int check_globs(struct container_request *q)
{
        if (!container_field(q, "include") || !container_field(q, "exclude"))
                return 1;
        container_refuse(q, CONTAINER_VALIDATION_FAILED, NULL, NULL, "'include' and 'exclude' do not go together");
        return 0;
}

/* -- watch ----------------------------------------------------------------------------------------------------- */

static int is_wanted(const struct container_request *q, const char *type)
{
        const json_t *events = container_field(q, "events");

        for (size_t i = 0; i < json_array_size(events); i++)
                if (strcmp(json_string_value(json_array_get(events, i)), type) == 0)
                        return 1;
        return json_array_size(events) == 0;
}

static void send_event(struct container_request *q, const char *type, const json_t *path, const json_t *about,
                       const struct buf *attachments)
{
        if (is_wanted(q, type))
                container_line(q, json_pack("{s:s, s:s, s:o, s:b}", "type", "event", "eventType", type, "path",
                                            door_string(path, attachments), "isDirectory",
                                            json_is_true(json_object_get(about, "isDirectory"))));
}

static void on_change(struct container_request *q, const json_t *about, const struct buf *attachments)
{
        const char *type = json_string_value(json_object_get(about, "type"));
        const json_t *path = json_object_get(about, "path"), *from = json_object_get(about, "from");

        if (!type)
                return;
        if (strcmp(type, "move") != 0) {
                send_event(q, type, path, about, attachments);
                return;
        }
        if (from)
                send_event(q, "move_from", from, about, attachments);
        send_event(q, "move_to", path, about, attachments);
}

static void send_end(struct container_request *q, const char *reason)
{
        container_line(q, json_pack("{s:s, s:o}", "type", "stopped", "reason", container_words(reason)));
        container_end(q);
}

static void on_event(struct container_request *q, const char *event, const json_t *about, const struct buf *attachments)
{
        if (strcmp(event, "change") == 0) {
                on_change(q, about, attachments);
        } else if (strcmp(event, "ready") == 0) {
                char id[17];

                container_random(id, sizeof(id) - 1);
                container_line(q, json_pack("{s:s, s:O, s:s}", "type", "watching", "path", container_field(q, "path"),
                                            "watchId", id));
        } else if (strcmp(event, "lost") == 0) {
                container_line(q, json_pack("{s:s, s:s}", "type", "error", "error",
                                            "changes came faster than they were read: some were lost"));
        }
}

static void watch_ended(struct container_request *q, const struct door_reply *reply)
{
        (void)reply;
        send_end(q, "the watched path was removed");
}

static void watch_failed(struct container_request *q, const struct door_reply *reply)
{
        container_line(q, json_pack("{s:s, s:o}", "type", "error", "error", container_words(reply->e->msg)));
        send_end(q, reply->e->msg);
}

static void watch(struct container_request *q, const struct door_reply *reply)
{
        (void)reply;
        container_begin(q);
        q->on_event = on_event;
        q->fail = watch_failed;
        container_call(q, "file.watch", params_of(q), NULL, watch_ended);
}

/* A missing path is an error, not a stream. */
void container_watch(struct container_request *q)
{
        if (check_globs(q))
                container_call(q, "file.stat", json_pack("{s:O}", "path", container_field(q, "path")), NULL, watch);
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
        struct sandbox_request *sandbox_request;
        int is_ready, is_flushing;
};

/* A check waits until its watcher is ready, or has reported all changes from before the check. */
struct waiting_check {
        struct container_watcher *watcher;
        int is_first;  /* it waits until the watch begins */
        int is_behind; /* a flush was running already: it waits for the next one */
};

static struct waiting_check *waiting_of(const struct container_request *q)
{
        return q->state_done == free && q->route->handle == container_watch_check ? q->state : NULL;
}

/* Return a check that waits for this watcher, or NULL. */
static struct container_request *waiting_for(const struct container_watcher *w, int may_be_behind)
{
        struct container_request *q;

        TAILQ_FOREACH (q, &w->container->requests, link) {
                const struct waiting_check *waiting = waiting_of(q);

                if (waiting && waiting->watcher == w && (may_be_behind || !waiting->is_behind))
                        return q;
        }
        return NULL;
}

static int wait_for(struct container_request *q, struct container_watcher *w, int is_first)
{
        struct waiting_check *waiting = malloc(sizeof(*waiting));

        if (!waiting) {
                container_refuse(q, CONTAINER_INTERNAL_ERROR, q->route->failed, NULL, "out of memory");
                return 0;
        }
        *waiting = (struct waiting_check){.watcher = w, .is_first = is_first, .is_behind = w->is_flushing};
        q->state = waiting;
        q->state_done = free;
        return 1;
}

static void watcher_free(struct container_watcher *w)
{
        if (w->sandbox_request)
                sandbox_request_cancel(w->sandbox_request);
        TAILQ_REMOVE(&w->container->watchers, w, link);
        free(w->sandbox);
        free(w->key);
        free(w);
}

static void answer_check(struct container_request *q, const struct container_watcher *w, const char *status,
                         const char *reason)
{
        json_t *answer = json_pack("{s:b, s:s, s:o}", "success", 1, "status", status, "version",
                                   json_sprintf("watch-%llu-%llu:%llu", (unsigned long long)w->number,
                                                (unsigned long long)w->begun_ms, (unsigned long long)w->changes));

        container_answer(q, door_put(answer, "reason", reason ? json_string(reason) : NULL));
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
static int check_since(struct container_request *q)
{
        const char *since = container_text(q, "since");
        struct version version;

        if (!since || read_version(since, &version))
                return 1;
        container_refuse(q, CONTAINER_VALIDATION_FAILED, NULL, NULL,
                         "since must be a version returned by checkChanges()");
        return 0;
}

/* is_first: the watch began with this check. The count of another watcher is lost: it was idle too
 * long, or its daemon ended. */
static void answer_since(struct container_request *q, const struct container_watcher *w, int is_first)
{
        const char *since = container_text(q, "since");
        struct version version;

        if (!since || !read_version(since, &version))
                answer_check(q, w, "unchanged", NULL);
        else if (version.number != w->number || version.begun_ms != w->begun_ms)
                answer_check(q, w, "resync",
                             is_first && version.begun_ms >= w->container->begun_ms ? "expired" : "restarted");
        else if (version.changes > w->changes)
                container_refuse(q, CONTAINER_VALIDATION_FAILED, NULL, NULL,
                                 "since refers to a newer version than the current watch state");
        else
                answer_check(q, w, version.changes == w->changes ? "unchanged" : "changed", NULL);
}

static void stop_waiting(struct container_request *q)
{
        free(q->state);
        q->state = NULL;
        q->state_done = NULL;
}

static void answer_waiting(struct container_request *q, const struct container_watcher *w)
{
        int is_first = waiting_of(q)->is_first;

        stop_waiting(q);
        answer_since(q, w, is_first);
}

static void flush(struct container_watcher *w)
{
        w->is_flushing = 1;
        sandbox_request_flush(w->sandbox_request);
}

static void on_flushed(struct container_watcher *w)
{
        struct container_request *q;

        w->is_flushing = 0;
        while ((q = waiting_for(w, 0)))
                answer_waiting(q, w);
        TAILQ_FOREACH (q, &w->container->requests, link) {
                struct waiting_check *waiting = waiting_of(q);

                if (waiting && waiting->watcher == w)
                        waiting->is_behind = 0;
        }
        if (waiting_for(w, 1))
                flush(w);
}

static void on_watcher_event(void *data, const char *event, const json_t *about, const struct buf *attachments)
{
        struct container_watcher *w = data;
        struct container_request *q;

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
        while ((q = waiting_for(w, 1)))
                answer_waiting(q, w);
}

/* The watch ended: the waiting checks fail with its error. */
static void watcher_close(struct container_watcher *w, const struct cloche_err *e)
{
        struct container_request *q;

        w->sandbox_request = NULL;
        while ((q = waiting_for(w, 1))) {
                stop_waiting(q);
                container_fail(q, &(struct door_reply){.e = e});
        }
        watcher_free(w);
}

static void on_watcher_result(void *data, const json_t *result, const struct buf *attachments)
{
        struct cloche_err e = {0};

        (void)result;
        (void)attachments;
        err_set(&e, CLOCHE_E_FILE_NOT_FOUND, "the watched path was removed");
        watcher_close(data, &e);
}

static void on_watcher_fail(void *data, const struct cloche_err *e, const json_t *about)
{
        (void)about;
        watcher_close(data, e);
}

static const struct sandbox_face watcher_face = {.event = on_watcher_event,
                                                 .result = on_watcher_result,
                                                 .fail = on_watcher_fail};

static struct container_watcher *watcher_find(struct container *c, const struct container_request *q, const char *key)
{
        struct container_watcher *w;

        TAILQ_FOREACH (w, &c->watchers, link)
                if (w->principal == q->door.principal && strcmp(w->sandbox, q->door.sandbox) == 0 &&
                    strcmp(w->key, key) == 0)
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

static struct container_watcher *watcher_new(struct container_request *q, const char *key)
{
        struct container *c = q->door.daemon->container;
        struct container_watcher *w = calloc(1, sizeof(*w));

        if (!w)
                return NULL;
        make_room(c);
        w->container = c;
        w->principal = q->door.principal;
        w->sandbox = strdup(q->door.sandbox);
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

static void begin_watcher(struct container_request *q, const char *key, json_t *params)
{
        static const struct buf none = {0};
        struct container_watcher *w = watcher_new(q, key);
        struct cloche_err e = {0};
        int r;

        if (!w) {
                container_refuse(q, CONTAINER_INTERNAL_ERROR, q->route->failed, NULL, "out of memory");
                return;
        }
        json_object_set_new(params, "sandbox", json_string(q->door.sandbox));
        r = sandboxes_request(q->door.daemon->sandboxes, q->door.principal, "file.watch", params, &none, &watcher_face,
                              w, &w->sandbox_request, &e);
        if (r < 0) {
                watcher_free(w);
                container_fail(q, &(struct door_reply){.e = &e});
                return;
        }
        (void)wait_for(q, w, 1);
}

void container_watch_check(struct container_request *q)
{
        struct container_watcher *w;
        json_t *params;
        char *key;

        if (!check_globs(q) || !check_since(q))
                return;
        params = params_of(q);
        key = json_dumps(params, JSON_COMPACT | JSON_SORT_KEYS);
        w = key ? watcher_find(q->door.daemon->container, q, key) : NULL;
        if (!w) {
                begin_watcher(q, key ? key : "", params);
        } else if (wait_for(q, w, 0) && w->is_ready && !w->is_flushing) {
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
