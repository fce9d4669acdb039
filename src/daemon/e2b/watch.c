/* Watches of envd (filesystem.Filesystem), as a stream and polled. Runs in: cloched-engine, on
 * its loop, with the rights of the daemon's user. */
#include "sandbox.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define EVENTS_MOST 10000 /* that wait for their entries */

/* -- events with entries ----------------------------------------------------------------------------------------- */

struct event {
        STAILQ_ENTRY(event) link;
        json_t *message, *path; /* path: NULL: it has no entry */
};

/* Events are sent in their order, so that one without an entry waits for those before it. */
struct watch {
        struct door door; /* looks at files, while the request itself watches */
        struct e2b_request *q;
        STAILQ_HEAD(events, event) events;
        size_t count;
        int is_looking; /* look() runs */
};

static void event_free(struct watch *w)
{
        struct event *event = STAILQ_FIRST(&w->events);

        STAILQ_REMOVE_HEAD(&w->events, link);
        w->count--;
        json_decref(event->message);
        json_decref(event->path);
        free(event);
}

static void watch_done(void *state)
{
        struct watch *w = state;

        while (w->count > 0)
                event_free(w);
        door_done(&w->door);
        free(w);
}

/* A request that fails at once is answered within door_call(), and the loop goes on. */
static void look(struct watch *w)
{
        const struct event *event;

        if (w->is_looking)
                return;
        w->is_looking = 1;
        while (w->q->alive_every_ns /* 0: the stream has ended */ && !w->door.open &&
               (event = STAILQ_FIRST(&w->events))) {
                if (event->path) {
                        door_call(&w->door, "file.stat", json_pack("{s:O}", "path", event->path), NULL);
                        continue;
                }
                e2b_stream_send(w->q, json_incref(event->message));
                event_free(w);
        }
        w->is_looking = 0;
}

/* A file that has gone meanwhile has no entry. */
static void on_looked(struct door *door, const struct door_reply *reply)
{
        struct watch *w = (struct watch *)door;
        struct event *event = STAILQ_FIRST(&w->events);

        if (!reply->e)
                json_object_set_new(json_object_get(event->message, "filesystem"), "entry",
                                    e2b_entry_of(reply->result, reply->attachments, NULL));
        json_decref(event->path);
        event->path = NULL;
        look(w);
}

static void on_nothing(struct door *door, const char *event, const json_t *about, const struct buf *attachments)
{
        (void)door;
        (void)event;
        (void)about;
        (void)attachments;
}

/* message: stolen. path: of its file; NULL: it gets no entry. */
static void queue(struct e2b_request *q, json_t *message, json_t *path)
{
        struct watch *w = q->state;
        struct event *event;

        if (w->count == 0 && !path) {
                e2b_stream_send(q, message);
                return;
        }
        event = w->count < EVENTS_MOST ? calloc(1, sizeof(*event)) : NULL;
        if (!event) {
                json_decref(message);
                q->is_broken = 1; /* rather than to leave events out */
                return;
        }
        event->message = message;
        event->path = path ? json_incref(path) : NULL;
        STAILQ_INSERT_TAIL(&w->events, event, link);
        if (w->count++ == 0)
                look(w);
}

/* -- changes ----------------------------------------------------------------------------------------------------- */

static const struct {
        const char *from, *to;
        int has_entry;
} changes[] = {
        {"create", "EVENT_TYPE_CREATE", 1},
        {"modify", "EVENT_TYPE_WRITE", 1},
        {"delete", "EVENT_TYPE_REMOVE", 0},
        {"attrib", "EVENT_TYPE_CHMOD", 1},
};

typedef void (*change_taken)(void *data, const char *type, const char *name, json_t *path);

/* name: relative to the watched directory. path: of a file that may have an entry, or NULL. */
static void take(const char *type, int has_entry, const json_t *path, const struct buf *attachments, const char *dir,
                 change_taken taken, void *data)
{
        json_t *text = door_string(path, attachments), *base = e2b_path(dir);
        const char *name = json_string_value(text), *below = json_string_value(base);
        size_t size = below ? strlen(below) : 0;

        while (size > 1 && below[size - 1] == '/')
                size--;
        if (name && below && strncmp(name, below, size) == 0)
                for (name += size; *name == '/'; name++)
                        ;
        taken(data, type, name ? name : "", has_entry ? text : NULL);
        json_decref(text);
        json_decref(base);
}

/* One change of the core is one or two events. */
static void take_change(const json_t *about, const struct buf *attachments, const char *dir, change_taken taken,
                        void *data)
{
        const char *type = e2b_text(about, "type");
        const json_t *path = json_object_get(about, "path"), *from = json_object_get(about, "from");

        if (!type)
                return;
        for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
                if (strcmp(changes[i].from, type) == 0)
                        take(changes[i].to, changes[i].has_entry, path, attachments, dir, taken, data);
        /* The core reports a file that was made and written as made. */
        if (strcmp(type, "create") == 0 && !json_is_true(json_object_get(about, "isDirectory")))
                take("EVENT_TYPE_WRITE", 1, path, attachments, dir, taken, data);
        if (strcmp(type, "move") == 0 && from)
                take("EVENT_TYPE_RENAME", 0, from, attachments, dir, taken, data);
        if (strcmp(type, "move") == 0)
                take("EVENT_TYPE_CREATE", 1, path, attachments, dir, taken, data);
}

static void send_change(void *data, const char *type, const char *name, json_t *path)
{
        struct e2b_request *q = data;

        queue(q, json_pack("{s:{s:s, s:s}}", "filesystem", "name", name, "type", type),
              json_is_true(json_object_get(q->body, "includeEntry")) ? path : NULL);
}

static void on_change(struct e2b_request *q, const char *event, const json_t *about, const struct buf *attachments)
{
        if (strcmp(event, "ready") == 0)
                e2b_stream_send(q, json_pack("{s:{}}", "start"));
        else if (strcmp(event, "change") == 0)
                take_change(about, attachments, e2b_text(q->body, "path"), send_change, q);
        else if (strcmp(event, "lost") == 0)
                q->is_broken = 1; /* rather than to leave events out */
}

/* -- the stream -------------------------------------------------------------------------------------------------- */

static void on_watch_end(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        e2b_stream_end(q, NULL, NULL);
}

static void send_alive(struct e2b_request *q)
{
        e2b_stream_send(q, json_pack("{s:{}}", "keepalive"));
}

static struct watch *watch_new(struct e2b_request *q)
{
        static const struct door_hooks hooks = {.reply = on_looked, .event = on_nothing};
        struct watch *w = calloc(1, sizeof(*w));

        if (!w)
                return NULL;
        w->q = q;
        w->door = (struct door){.hooks = &hooks,
                                .daemon = q->door.daemon,
                                .principal = q->door.principal,
                                .sandbox = strdup(q->door.sandbox),
                                .had_sandbox = 1};
        STAILQ_INIT(&w->events);
        q->state = w;
        q->state_done = watch_done;
        return w->door.sandbox ? w : NULL;
}

static json_t *params_of(const struct e2b_request *q)
{
        return json_pack("{s:o, s:b, s:[]}", "path", e2b_path(e2b_text(q->body, "path")), "recursive",
                         json_is_true(json_object_get(q->body, "recursive")), "exclude");
}

/* True, or the request is refused. */
static int check_directory(struct e2b_request *q, const struct door_reply *reply)
{
        if (strcmp(e2b_text(reply->result, "type"), "directory") == 0)
                return 1;
        e2b_refuse(q, 400, "invalid_argument", "the path is not a directory: %.500s", e2b_text(q->body, "path"));
        return 0;
}

static void on_watched(struct e2b_request *q, const struct door_reply *reply)
{
        if (!check_directory(q, reply))
                return;
        if (!watch_new(q)) {
                e2b_refuse(q, 500, "internal", "out of memory");
                return;
        }
        e2b_stream_begin_alive(q, send_alive, 1);
        q->on_event = on_change;
        e2b_call(q, "file.watch", params_of(q), NULL, on_watch_end);
}

static void watch(struct e2b_request *q)
{
        e2b_call(q, "file.stat", json_pack("{s:o}", "path", e2b_path(e2b_text(q->body, "path"))), NULL, on_watched);
}

void e2b_on_watch(struct e2b_request *q)
{
        e2b_with_sandbox(q, watch);
}

/* -- watches that are polled ------------------------------------------------------------------------------------- */

#define WATCHERS_MOST 256
#define KEPT_BYTES_MOST (64u << 20)       /* of the events of all watchers */
#define EVENT_BYTES 600                   /* of an event beside its name, in memory */
#define UNASKED_NS UINT64_C(600000000000) /* a watcher that nobody asks is forgotten after so long */

struct e2b_watcher {
        struct door door;
        TAILQ_ENTRY(e2b_watcher) link;
        char id[E2B_ID_SIZE];
        char *dir;
        json_t *events;
        size_t bytes;          /* of the events */
        struct e2b_request *q; /* that made it, and waits until it watches */
        uint64_t asked_ns;
        int is_over; /* it is freed by the sweep: no request may be cancelled in a callback of the core */
};

/* The events, which the caller owns. */
static json_t *take_events(struct e2b_watcher *w)
{
        json_t *events = w->events;

        w->door.daemon->e2b->watcher_bytes -= w->bytes;
        w->bytes = 0;
        w->events = json_array();
        return events;
}

static void watcher_free(struct e2b *e2b, struct e2b_watcher *w)
{
        TAILQ_REMOVE(&e2b->watchers, w, link);
        e2b->watcher_count--;
        e2b->watcher_bytes -= w->bytes;
        door_done(&w->door);
        json_decref(w->events);
        free(w->dir);
        free(w);
}

void e2b_watchers_sweep(struct e2b *e2b, uint64_t now_ns)
{
        struct e2b_watcher *w, *next;

        for (w = TAILQ_FIRST(&e2b->watchers); w; w = next) {
                next = TAILQ_NEXT(w, link);
                if (w->is_over || now_ns - w->asked_ns > UNASKED_NS)
                        watcher_free(e2b, w);
        }
}

void e2b_watchers_done(struct e2b *e2b)
{
        while (!TAILQ_EMPTY(&e2b->watchers))
                watcher_free(e2b, TAILQ_FIRST(&e2b->watchers));
}

/* Rather than to leave events out. */
static void stop_watching(struct e2b_watcher *w)
{
        w->is_over = 1;
        json_decref(take_events(w));
}

/* Its sandbox makes room, not another one. */
static struct e2b_watcher *heaviest(const struct e2b *e2b)
{
        struct e2b_watcher *w, *most = TAILQ_FIRST(&e2b->watchers);

        TAILQ_FOREACH (w, &e2b->watchers, link)
                if (w->bytes > most->bytes)
                        most = w;
        return most;
}

static void keep_change(void *data, const char *type, const char *name, json_t *path)
{
        struct e2b_watcher *w = data;
        struct e2b *e2b = w->door.daemon->e2b;
        size_t size = strlen(name) + EVENT_BYTES;

        (void)path;
        if (json_array_size(w->events) >= EVENTS_MOST)
                stop_watching(w);
        if (e2b->watcher_bytes + size > KEPT_BYTES_MOST)
                stop_watching(heaviest(e2b));
        if (w->is_over)
                return;
        json_array_append_new(w->events, json_pack("{s:s, s:s}", "name", name, "type", type));
        w->bytes += size;
        e2b->watcher_bytes += size;
}

static void on_watcher_event(struct door *door, const char *event, const json_t *about, const struct buf *attachments)
{
        struct e2b_watcher *w = (struct e2b_watcher *)door;
        struct e2b_request *q = w->q;

        if (strcmp(event, "ready") == 0 && q) {
                w->q = NULL;
                q->state_done = NULL;
                e2b_answer(q, 200, json_pack("{s:s}", "watcherId", w->id));
        } else if (strcmp(event, "change") == 0 && !w->is_over) {
                take_change(about, attachments, w->dir, keep_change, w);
        } else if (strcmp(event, "lost") == 0) {
                stop_watching(w);
        }
}

static void on_watcher_end(struct door *door, const struct door_reply *reply)
{
        struct e2b_watcher *w = (struct e2b_watcher *)door;
        struct e2b_request *q = w->q;

        w->is_over = 1;
        w->q = NULL;
        if (!q)
                return;
        q->state_done = NULL;
        if (reply->e)
                e2b_fail(q, reply);
        else
                e2b_refuse(q, 500, "internal", "the watch ended");
}

static void maker_done(void *state)
{
        struct e2b_watcher *w = state;

        w->q = NULL;
        w->is_over = 1;
}

static void make_watcher(struct e2b_request *q, const struct door_reply *reply)
{
        static const struct door_hooks hooks = {.reply = on_watcher_end, .event = on_watcher_event};
        struct e2b *e2b = q->door.daemon->e2b;
        const char *dir = e2b_text(q->body, "path");
        struct e2b_watcher *w;

        if (!check_directory(q, reply))
                return;
        if (e2b->watcher_count >= WATCHERS_MOST) {
                e2b_refuse(q, 429, "resource_exhausted", "there are %d watchers already: remove some", WATCHERS_MOST);
                return;
        }
        w = calloc(1, sizeof(*w));
        if (!w) {
                e2b_refuse(q, 500, "internal", "out of memory");
                return;
        }
        w->door = (struct door){.hooks = &hooks,
                                .daemon = q->door.daemon,
                                .principal = q->door.principal,
                                .sandbox = strdup(q->door.sandbox),
                                .had_sandbox = 1};
        e2b_random_id(w->id, sizeof(w->id));
        w->dir = strdup(dir ? dir : "");
        w->events = json_array();
        w->asked_ns = clock_now_ns();
        w->q = q;
        q->state = w;
        q->state_done = maker_done;
        TAILQ_INSERT_TAIL(&e2b->watchers, w, link);
        e2b->watcher_count++;
        door_call(&w->door, "file.watch", params_of(q), NULL);
}

static void stat_for_watcher(struct e2b_request *q)
{
        e2b_call(q, "file.stat", json_pack("{s:o}", "path", e2b_path(e2b_text(q->body, "path"))), NULL, make_watcher);
}

void e2b_on_watcher_create(struct e2b_request *q)
{
        e2b_with_sandbox(q, stat_for_watcher);
}

/* NULL: the request was refused. */
static struct e2b_watcher *watcher_of(struct e2b_request *q)
{
        const char *id = e2b_text(q->body, "watcherId");
        struct e2b_watcher *w;

        TAILQ_FOREACH (w, &q->door.daemon->e2b->watchers, link)
                if (id && !w->is_over && strcmp(w->id, id) == 0 && strcmp(w->door.sandbox, q->door.sandbox) == 0)
                        return w;
        e2b_refuse(q, 404, "not_found", "there is no watcher '%.40s'", id ? id : "");
        return NULL;
}

static void watcher_events(struct e2b_request *q)
{
        struct e2b_watcher *w = watcher_of(q);

        if (!w)
                return;
        w->asked_ns = clock_now_ns();
        e2b_answer(q, 200, json_pack("{s:o}", "events", take_events(w)));
}

void e2b_on_watcher_events(struct e2b_request *q)
{
        e2b_with_sandbox(q, watcher_events);
}

static void watcher_remove(struct e2b_request *q)
{
        struct e2b_watcher *w = watcher_of(q);

        if (!w)
                return;
        w->is_over = 1;
        e2b_answer(q, 200, json_object());
}

void e2b_on_watcher_remove(struct e2b_request *q)
{
        e2b_with_sandbox(q, watcher_remove);
}
