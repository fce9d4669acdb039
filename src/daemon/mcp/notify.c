/* Messages that answer no request: log messages, changes of lists and of watched files. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "internal.h"

#include "base/clock.h"
#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WATCHES_MAX 64              /* of a client, or of a stream */
#define TELL_NS UINT64_C(250000000) /* between two changes of a file */
#define SUBSCRIPTION_ID "io.modelcontextprotocol/subscriptionId"

/* -- log messages ------------------------------------------------------------------------------------------------ */

static const char *const levels[] = {"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"};

static enum mcp_level level_of(const char *name)
{
        for (size_t i = 0; name && i < sizeof(levels) / sizeof(levels[0]); i++)
                if (strcmp(levels[i], name) == 0)
                        return (enum mcp_level)i;
        return MCP_SILENCE;
}

static enum mcp_level level_for(const struct mcp_exchange *x)
{
        if (x->is_modern)
                return level_of(json_string_value(mcp_meta(x, "logLevel")));
        return x->client ? x->client->level : MCP_SILENCE;
}

void mcp_log(struct mcp_exchange *x, enum mcp_level level, const char *logger, json_t *text)
{
        if (text && level >= level_for(x) && !mcp_is_behind(x))
                x->carrier->notify(x, mcp_notification("notifications/message",
                                                       json_pack("{s:s, s:s, s:O}", "level", levels[level], "logger",
                                                                 logger, "data", text)));
        json_decref(text);
}

void mcp_on_set_level(struct mcp_exchange *x)
{
        enum mcp_level level = level_of(mcp_text(x->params, "level"));
        struct mcp_client *client;

        if (level == MCP_SILENCE) {
                mcp_refuse(x, MCP_BAD_PARAMS,
                           "params.level must be debug, info, notice, warning, error, critical, "
                           "alert or emergency");
                return;
        }
        client = mcp_client_of(x);
        if (client)
                client->level = level;
        if (client)
                mcp_answer(x, json_object());
        else
                mcp_refuse(x, MCP_BAD_PARAMS, "log messages need the session that initialize returns");
}

/* -- streams ----------------------------------------------------------------------------------------------------- */

/* A notification of a subscription of the later era; params: stolen. 0: it takes none. */
static int tell_subscriber(struct mcp_exchange *x, const char *method, json_t *params)
{
        json_object_set_new(params, "_meta", json_pack("{s:O}", SUBSCRIPTION_ID, x->id));
        return x->carrier->notify(x, mcp_notification(method, params));
}

int mcp_listen(struct mcp_exchange *x)
{
        struct mcp_client *client = mcp_client_of(x);
        struct mcp_exchange *before = client ? client->listener : NULL;

        if (!client)
                return 0;
        client->listener = x;
        if (before)
                before->carrier->answer(before, 202, NULL);
        return 1;
}

void mcp_list_changed(struct daemon *d, const char *list)
{
        struct mcp_exchange *x, *next;
        struct mcp_client *client;
        char method[64], wanted[64];

        snprintf(method, sizeof(method), "notifications/%s/list_changed", list);
        snprintf(wanted, sizeof(wanted), "%sListChanged", list);
        for (x = TAILQ_FIRST(&d->mcp->exchanges); x; x = next) {
                next = TAILQ_NEXT(x, link);
                if (json_is_true(json_object_get(x->filter, wanted)))
                        tell_subscriber(x, method, json_object());
        }
        TAILQ_FOREACH (client, &d->mcp->clients, link)
                if (client->listener)
                        client->listener->carrier->notify(client->listener, mcp_notification(method, NULL));
}

static struct mcp_exchange *find_listener(const struct mcp *mcp)
{
        struct mcp_exchange *x;

        TAILQ_FOREACH (x, &mcp->exchanges, link)
                if (x->filter || (x->client && x->client->listener == x))
                        return x;
        return NULL;
}

/* An empty result is the end of a subscription; other streams just end. The stop of the daemon may
 * proceed with each answer, and end other messages: begin anew after it. */
void mcp_leave(struct daemon *d)
{
        struct mcp_exchange *x;

        while (d->mcp && (x = find_listener(d->mcp))) {
                if (x->filter) {
                        mcp_watches_free(&x->watches); /* nothing follows the answer */
                        json_decref(x->filter);
                        x->filter = NULL;
                        mcp_answer(x, json_pack("{s:{s:O}}", "_meta", SUBSCRIPTION_ID, x->id));
                } else {
                        x->client->listener = NULL;
                        x->carrier->answer(x, 202, NULL);
                }
        }
}

/* -- watched files ----------------------------------------------------------------------------------------------- */

/* The directory of the file is watched: a file that is replaced is still the same resource. */
struct mcp_watch {
        struct door door; /* first: the hooks cast it */
        TAILQ_ENTRY(mcp_watch) link;
        struct mcp_watches *list;
        json_t *uri;
        char *path;
        struct mcp_exchange *asker;      /* that is answered when the watch has begun; NULL: it was */
        struct mcp_exchange *subscriber; /* of the later era, or */
        struct mcp_client *client;
        int is_begun, is_over;
        uint64_t told_ns; /* when a change was told last */
        int is_due;       /* another one is to be told when its time has come */
};

static void watch_free(struct mcp_watch *watch)
{
        TAILQ_REMOVE(watch->list, watch, link);
        watch->door.daemon->mcp->due_count -= watch->is_due;
        if (watch->asker && watch->client)
                watch->asker->state_done = NULL; /* it would write to the watch */
        door_done(&watch->door);
        json_decref(watch->uri);
        free(watch->path);
        free(watch);
}

void mcp_watches_free(struct mcp_watches *watches)
{
        while (!TAILQ_EMPTY(watches))
                watch_free(TAILQ_FIRST(watches));
}

static void settle(struct mcp_watch *watch, const struct cloche_err *e);

/* The client ends a watch, perhaps before it is told that it has begun. */
static void end_watch(struct mcp_watch *watch)
{
        struct cloche_err e = {0};

        err_set(&e, CLOCHE_E_CANCELLED, "the subscription was ended before it began");
        if (watch->asker)
                settle(watch, &e);
        else
                watch_free(watch);
}

void mcp_watches_end(struct mcp_client *client)
{
        while (!TAILQ_EMPTY(&client->watches))
                end_watch(TAILQ_FIRST(&client->watches));
}

static int are_begun(const struct mcp_watches *watches)
{
        const struct mcp_watch *watch;

        TAILQ_FOREACH (watch, watches, link)
                if (!watch->is_begun && !watch->is_over)
                        return 0;
        return 1;
}

/* The URIs that are watched. */
static json_t *watched(const struct mcp_watches *watches)
{
        const struct mcp_watch *watch;
        json_t *uris = json_array();

        TAILQ_FOREACH (watch, watches, link)
                if (watch->is_begun)
                        json_array_append(uris, watch->uri);
        return uris;
}

static void acknowledge(struct mcp_exchange *x)
{
        if (json_object_get(x->filter, "resourceSubscriptions"))
                json_object_set_new(x->filter, "resourceSubscriptions", watched(&x->watches));
        if (tell_subscriber(x, "notifications/subscriptions/acknowledged",
                            json_pack("{s:O}", "notifications", x->filter)))
                return;
        json_decref(x->filter);
        x->filter = NULL;
        mcp_refuse(x, MCP_BAD_PARAMS, "a subscription needs a stream (Accept: text/event-stream)");
}

/* The watch has begun, or cannot. */
static void settle(struct mcp_watch *watch, const struct cloche_err *e)
{
        struct mcp_exchange *asker = watch->asker;

        watch->asker = NULL;
        if (!asker)
                return;
        if (watch->subscriber) {
                if (are_begun(watch->list))
                        acknowledge(asker);
                return;
        }
        asker->state = NULL;
        asker->state_done = NULL;
        if (e)
                mcp_refuse(asker, MCP_BAD_PARAMS, "%s", e->msg);
        else
                mcp_answer(asker, json_object());
        if (e)
                watch_free(watch);
}

static void set_due(struct mcp_watch *watch, int is_due)
{
        struct mcp *mcp = watch->door.daemon->mcp;

        mcp->due_count += (unsigned)is_due - (unsigned)watch->is_due;
        watch->is_due = is_due;
        if (is_due)
                mcp_watch_clock(mcp);
}

/* A client that does not read is told later. */
static void tell_now(struct mcp_watch *watch, uint64_t now_ns)
{
        static const char method[] = "notifications/resources/updated";
        struct mcp_exchange *to = watch->subscriber ? watch->subscriber : watch->client->listener;
        int is_due = to && mcp_is_behind(to);

        watch->told_ns = now_ns;
        set_due(watch, is_due);
        if (!to || is_due)
                return;
        if (watch->subscriber)
                tell_subscriber(to, method, json_pack("{s:O}", "uri", watch->uri));
        else
                to->carrier->notify(to, mcp_notification(method, json_pack("{s:O}", "uri", watch->uri)));
}

/* A guest may change its file as often as it likes. */
static void tell_change(struct mcp_watch *watch)
{
        uint64_t now_ns = clock_now_ns();

        if (watch->is_due)
                return;
        if (now_ns >= watch->told_ns + TELL_NS)
                tell_now(watch, now_ns);
        else
                set_due(watch, 1);
}

static void tell_due(const struct mcp_watches *watches, uint64_t now_ns)
{
        struct mcp_watch *watch;

        TAILQ_FOREACH (watch, watches, link)
                if (watch->is_due && now_ns >= watch->told_ns + TELL_NS)
                        tell_now(watch, now_ns);
}

void mcp_tell_due(struct mcp *mcp, uint64_t now_ns)
{
        struct mcp_exchange *x;
        struct mcp_client *client;

        if (mcp->due_count == 0)
                return;
        TAILQ_FOREACH (x, &mcp->exchanges, link)
                tell_due(&x->watches, now_ns);
        TAILQ_FOREACH (client, &mcp->clients, link)
                tell_due(&client->watches, now_ns);
}

static void on_event(struct door *door, const char *event, const json_t *about, const struct buf *attachments)
{
        struct mcp_watch *watch = (struct mcp_watch *)door;
        json_t *path = door_string(json_object_get(about, "path"), attachments);
        const char *text = json_string_value(path);

        if (strcmp(event, "ready") == 0) {
                watch->is_begun = 1;
                settle(watch, NULL);
        } else if (strcmp(event, "lost") == 0 || (text && strcmp(text, watch->path) == 0)) {
                tell_change(watch);
        }
        json_decref(path);
}

/* A watch ends with its sandbox; its file is gone then. */
static void on_reply(struct door *door, const struct door_reply *reply)
{
        struct mcp_watch *watch = (struct mcp_watch *)door;

        watch->is_over = 1;
        if (watch->asker)
                settle(watch, reply->e);
        else
                tell_change(watch);
}

static size_t count_of(const struct mcp_watches *watches)
{
        const struct mcp_watch *watch;
        size_t count = 0;

        TAILQ_FOREACH (watch, watches, link)
                count++;
        return count;
}

static struct mcp_watch *find_watch(const struct mcp_watches *watches, const json_t *uri)
{
        struct mcp_watch *watch;

        TAILQ_FOREACH (watch, watches, link)
                if (json_equal(watch->uri, uri))
                        return watch;
        return NULL;
}

/* NULL: no memory, or too many. */
static struct mcp_watch *watch_new(struct mcp_exchange *x, struct mcp_watches *watches, json_t *uri)
{
        static const struct door_hooks hooks = {.reply = on_reply, .event = on_event};
        struct mcp_watch *watch = count_of(watches) < WATCHES_MAX ? calloc(1, sizeof(*watch)) : NULL;

        if (!watch)
                return NULL;
        watch->door = (struct door){.hooks = &hooks, .daemon = x->door.daemon, .principal = x->door.principal};
        watch->list = watches;
        watch->uri = json_incref(uri);
        watch->asker = x;
        TAILQ_INSERT_TAIL(watches, watch, link);
        return watch;
}

/* The watch may be freed by the time this returns. */
static void begin(struct mcp_watch *watch)
{
        struct sandboxes *sandboxes = watch->door.daemon->sandboxes;
        char *slash;
        struct cloche_err e = {0};

        if (mcp_fixture_has(watch->asker, json_string_value(watch->uri))) {
                watch->is_begun = 1;
                settle(watch, NULL);
        } else if (!mcp_file_of(json_string_value(watch->uri), &watch->door.sandbox, &watch->path) ||
                   !sandboxes_has(sandboxes, watch->door.principal, watch->door.sandbox)) {
                watch->is_over = 1;
                err_set(&e, CLOCHE_E_NOT_FOUND, "only files of sandboxes that exist can be watched");
                settle(watch, &e);
        } else {
                slash = strrchr(watch->path, '/');
                door_call(&watch->door, "file.watch",
                          json_pack("{s:o, s:b, s:[]}", "path",
                                    slash == watch->path ? json_string("/")
                                                         : json_stringn(watch->path, (size_t)(slash - watch->path)),
                                    "recursive", 0, "exclude"),
                          NULL);
        }
}

static void forget_asker(void *state)
{
        struct mcp_watch *watch = state;

        watch->asker = NULL;
}

void mcp_on_subscribe(struct mcp_exchange *x)
{
        json_t *uri = json_object_get(x->params, "uri");
        struct mcp_client *client = mcp_client_of(x);
        struct mcp_watch *watch;

        if (!mcp_text(x->params, "uri") || !client) {
                mcp_refuse(x, MCP_BAD_PARAMS,
                           !client ? "subscriptions need the session that initialize returns"
                                   : "params.uri is missing, expected the URI of a resource");
                return;
        }
        watch = find_watch(&client->watches, uri);
        if (watch && !watch->is_over) {
                mcp_answer(x, json_object());
                return;
        }
        if (watch)
                watch_free(watch); /* its sandbox may be there again */
        watch = watch_new(x, &client->watches, uri);
        if (!watch) {
                mcp_refuse(x, MCP_BAD_PARAMS, "a client watches at most %d resources", WATCHES_MAX);
                return;
        }
        watch->client = client;
        x->state = watch;
        x->state_done = forget_asker;
        begin(watch);
}

void mcp_on_unsubscribe(struct mcp_exchange *x)
{
        struct mcp_client *client = x->client;
        struct mcp_watch *watch = client ? find_watch(&client->watches, json_object_get(x->params, "uri")) : NULL;

        if (watch)
                end_watch(watch);
        mcp_answer(x, json_object());
}

/* The part of the filter that is known here. */
static json_t *filter_of(const json_t *given)
{
        static const char *const lists[] = {"toolsListChanged", "promptsListChanged", "resourcesListChanged"};
        json_t *filter = json_object(), *uris = json_object_get(given, "resourceSubscriptions");

        for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
                if (json_is_true(json_object_get(given, lists[i])))
                        json_object_set_new(filter, lists[i], json_true());
        if (json_is_array(uris))
                json_object_set(filter, "resourceSubscriptions", uris);
        return filter;
}

void mcp_on_listen(struct mcp_exchange *x)
{
        const json_t *given = json_object_get(x->params, "notifications");
        json_t *uris = json_object_get(given, "resourceSubscriptions");
        struct mcp_watch *watch, *next;

        for (size_t i = 0; i < json_array_size(uris); i++)
                if (!json_is_string(json_array_get(uris, i)) || json_array_size(uris) > WATCHES_MAX)
                        given = NULL;
        if (!json_is_object(given)) {
                mcp_refuse(x, MCP_BAD_PARAMS,
                           "params.notifications must be an object, with at most %d texts in resourceSubscriptions",
                           WATCHES_MAX);
                return;
        }
        x->filter = filter_of(given);
        for (size_t i = 0; i < json_array_size(uris); i++)
                if (!find_watch(&x->watches, json_array_get(uris, i)) &&
                    (watch = watch_new(x, &x->watches, json_array_get(uris, i))))
                        watch->subscriber = x;
        if (TAILQ_EMPTY(&x->watches))
                acknowledge(x);
        for (watch = TAILQ_FIRST(&x->watches); watch; watch = next) {
                next = TAILQ_NEXT(watch, link);
                begin(watch);
        }
}
