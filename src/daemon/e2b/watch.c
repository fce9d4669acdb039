/* Watches of envd (filesystem.Filesystem/WatchDir). Runs in: cloched-engine, on its loop, with the
 * rights of the daemon's user. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#define EVENTS_MOST 10000 /* that wait for their entries */
#define ALIVE_S 90        /* of a client that states no interval */

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

static void look(struct watch *w)
{
        const struct event *event;

        if (!w->q->alive_every_ns) /* the stream has ended */
                return;
        while ((event = STAILQ_FIRST(&w->events)) && !event->path) {
                e2b_stream_send(w->q, json_incref(event->message));
                event_free(w);
        }
        if (event)
                door_call(&w->door, "file.stat", json_pack("{s:O}", "path", event->path), NULL);
}

/* A file that has gone meanwhile has no entry. */
static void on_looked(struct door *door, const struct door_reply *reply)
{
        struct watch *w = (struct watch *)door;
        struct event *event = STAILQ_FIRST(&w->events);

        if (!reply->e)
                json_object_set_new(json_object_get(event->message, "filesystem"), "entry",
                                    e2b_entry_of(reply->result, reply->attachments));
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

/* name: relative to the watched directory. */
static void send_change(struct e2b_request *q, const char *type, int has_entry, const json_t *path,
                        const struct buf *attachments)
{
        json_t *text = door_string(path, attachments), *base = e2b_path(e2b_text(q->body, "path"));
        const char *name = json_string_value(text), *below = json_string_value(base);
        size_t size = below ? strlen(below) : 0;

        while (size > 1 && below[size - 1] == '/')
                size--;
        if (name && below && strncmp(name, below, size) == 0)
                for (name += size; *name == '/'; name++)
                        ;
        queue(q, json_pack("{s:{s:s, s:s}}", "filesystem", "name", name ? name : "", "type", type),
              has_entry && json_is_true(json_object_get(q->body, "includeEntry")) ? text : NULL);
        json_decref(text);
        json_decref(base);
}

static void on_change(struct e2b_request *q, const char *event, const json_t *about, const struct buf *attachments)
{
        const char *type = e2b_text(about, "type");

        if (strcmp(event, "ready") == 0)
                e2b_stream_send(q, json_pack("{s:{}}", "start"));
        if (strcmp(event, "change") != 0 || !type)
                return;
        for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
                if (strcmp(changes[i].from, type) == 0)
                        send_change(q, changes[i].to, changes[i].has_entry, json_object_get(about, "path"),
                                    attachments);
        /* The core reports a file that was made and written as made. */
        if (strcmp(type, "create") == 0 && !json_is_true(json_object_get(about, "isDirectory")))
                send_change(q, "EVENT_TYPE_WRITE", 1, json_object_get(about, "path"), attachments);
        if (strcmp(type, "move") == 0) {
                if (json_object_get(about, "from"))
                        send_change(q, "EVENT_TYPE_RENAME", 0, json_object_get(about, "from"), attachments);
                send_change(q, "EVENT_TYPE_CREATE", 1, json_object_get(about, "path"), attachments);
        }
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

static void on_watch_deadline(struct e2b_request *q)
{
        e2b_stream_end(q, "deadline_exceeded", "the timeout of the watch is over");
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
                                .sandbox = strdup(q->door.sandbox)};
        STAILQ_INIT(&w->events);
        q->state = w;
        q->state_done = watch_done;
        return w->door.sandbox ? w : NULL;
}

static void on_watched(struct e2b_request *q, const struct door_reply *reply)
{
        const char *timeout = http_request_header(q->request, "Connect-Timeout-Ms"),
                   *interval = http_request_header(q->request, "Keepalive-Ping-Interval");
        unsigned long long timeout_ms = timeout ? strtoull(timeout, NULL, 10) : 0,
                           interval_s = interval ? strtoull(interval, NULL, 10) : 0;

        if (strcmp(e2b_text(reply->result, "type"), "directory") != 0) {
                e2b_refuse(q, 400, "invalid_argument", "the path is not a directory: %.500s",
                           e2b_text(q->body, "path"));
                return;
        }
        if (!watch_new(q)) {
                e2b_refuse(q, 500, "internal", "out of memory");
                return;
        }
        e2b_stream_begin(q);
        q->alive_every_ns = (interval_s > 0 && interval_s <= 3600 ? interval_s : ALIVE_S) * UINT64_C(1000000000);
        q->on_alive = send_alive;
        if (timeout_ms > 0) {
                q->deadline_ns = q->alive_ns + timeout_ms * 1000000;
                q->on_deadline = on_watch_deadline;
        }
        q->on_event = on_change;
        e2b_call(q, "file.watch",
                 json_pack("{s:o, s:b, s:[]}", "path", e2b_path(e2b_text(q->body, "path")), "recursive",
                           json_is_true(json_object_get(q->body, "recursive")), "exclude"),
                 NULL, on_watch_end);
}

static void watch(struct e2b_request *q)
{
        e2b_call(q, "file.stat", json_pack("{s:o}", "path", e2b_path(e2b_text(q->body, "path"))), NULL, on_watched);
}

void e2b_on_watch(struct e2b_request *q)
{
        e2b_with_sandbox(q, watch);
}
