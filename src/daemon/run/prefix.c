/* Prefixes that callers hold. Runs in: cloched-engine, on its loop, with the rights of the
 * daemon's user. */
#include "prefix.h"
#include "daemon/core/log.h"
#include "request.h"

#include "base/clock.h"
#include "base/err.h"

#include <cloche/cloche.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IDLE_MS 600000
#define PREFIXES_MAX 10000

/* -- creation ------------------------------------------------------------------------------------------------- */

static void prefix_free(struct daemon *d, struct kept_prefix *p)
{
        TAILQ_REMOVE(&d->prefixes, p, link);
        if (p->starting)
                d->prefixes_starting--;
        client_pending_remove(&p->pending);
        cloche_prefix_free(p->starting);
        cloche_prefix_free(p->prefix);
        free(p->name);
        free(p->title);
        free(p->language);
        free(p);
}

static int is_visible(const struct client *client, const struct kept_prefix *p)
{
        return p->client ? p->client == client : p->principal == client->principal;
}

static int is_taken(const struct client *client, const char *name)
{
        const struct kept_prefix *p;

        TAILQ_FOREACH (p, &client->daemon->prefixes, link)
                if (is_visible(client, p) && ((p->name && strcmp(p->name, name) == 0) || strcmp(p->id, name) == 0))
                        return 1;
        return 0;
}

static int check_letters(const char *field, const char *text, struct cloche_err *e)
{
        if (!*text || strlen(text) > 64 ||
            strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != strlen(text))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "%s must be 1 to 64 letters, digits, '.', '_' and '-', not \"%.80s\"", field, text);
        return 0;
}

static int check_name(const struct client *client, const char *name, const char *title, struct cloche_err *e)
{
        if (name && title)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "name and title exclude each other: leave the title out");
        if (title)
                return check_letters("title", title, e);
        if (!name)
                return 0;
        if (check_letters("name", name, e) < 0)
                return -(int)e->code;
        return is_taken(client, name) ? err_set(e, CLOCHE_E_STATE,
                                                "there is a prefix \"%s\" already: use another name, or dispose of it "
                                                "(prefix.dispose)",
                                                name)
                                      : 0;
}

static void send_failed(struct kept_prefix *p, const struct cloche_err *e, const char *failure)
{
        json_t *data = failure ? json_loads(failure, 0, NULL) : NULL;

        p->pending.client->face->fail(p->pending.client, p->pending.id, e,
                                      data ? json_pack("{s:o}", "failure", data) : NULL);
}

static void on_cancel(struct client_pending *pending)
{
        struct kept_prefix *p = (struct kept_prefix *)pending;
        struct cloche_err e = {0};

        err_set(&e, CLOCHE_E_STATE, "the set-up was cancelled by the caller");
        send_failed(p, &e, NULL);
        prefix_free(pending->daemon, p);
}

/* A set-up without its client is cancelled, even if the prefix would stay: its id was never
 * sent. */
static void on_client_gone(struct client_pending *pending)
{
        prefix_free(pending->daemon, (struct kept_prefix *)pending);
}

static struct kept_prefix *prefix_new(const struct client_request *request, const char *name, const char *title)
{
        static const struct client_pending_kind kind = {.cancel = on_cancel, .on_client_closed = on_client_gone};
        struct client *client = request->client;
        const json_t *idle = json_object_get(request->params, "idleMs");
        struct kept_prefix *p = calloc(1, sizeof(*p));

        if (!p)
                return NULL;
        p->client = name || !client->face->has_bridge ? NULL : client;
        p->principal = client->principal;
        p->used_ns = clock_now_ns();
        p->idle_ms = idle ? (uint64_t)json_integer_value(idle) : IDLE_MS;
        p->name = name ? strdup(name) : NULL;
        p->title = title ? strdup(title) : NULL;
        p->language = strdup(json_string_value(json_object_get(request->params, "language")));
        client_pending_add(&p->pending, &kind, request);
        snprintf(p->id, sizeof(p->id), "p%llu", (unsigned long long)++client->daemon->next_prefix);
        TAILQ_INSERT_TAIL(&client->daemon->prefixes, p, link);
        return p;
}

int prefix_create(const struct client_request *request, json_t **ret, struct cloche_err *e)
{
        struct daemon *d = request->client->daemon;
        const char *name = json_string_value(json_object_get(request->params, "name")),
                   *title = json_string_value(json_object_get(request->params, "title"));
        cloche_prefix *prefix = NULL;
        struct kept_prefix *p;
        int r = check_name(request->client, name, title, e);

        (void)ret;
        if (r == 0)
                r = client_pending_check(request, e);
        if (r == 0 && !json_object_get(request->params, "language"))
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "prefix.create needs the field \"language\"");
        if (r == 0 && prefixes_count(d) >= PREFIXES_MAX)
                r = err_set(e, CLOCHE_E_QUEUE_FULL, "%u prefixes are kept already: dispose of one (prefix.dispose)",
                            PREFIXES_MAX);
        if (r == 0)
                r = request_prefix(d, request->client->principal, request->params, &prefix, e);
        if (r < 0)
                return r;
        p = prefix_new(request, name, title);
        if (!p) {
                cloche_prefix_free(prefix);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "keep a prefix");
        }
        p->starting = prefix;
        d->prefixes_starting++;
        return 1;
}

static void send_ready(struct kept_prefix *p)
{
        json_t *result = json_pack("{s:s}", "prefix", p->id);

        p->pending.client->face->result(p->pending.client, operation_at(OPERATION_PREFIX_CREATE), p->pending.id,
                                        result);
        json_decref(result);
}

static void look_at(struct daemon *d, struct kept_prefix *p)
{
        struct cloche_err e = {0};
        char *failure;
        int r = cloche_prefix_state(p->starting, &failure, &e);

        if (r > 0)
                return;
        if (r == 0) {
                p->prefix = p->starting;
                p->starting = NULL;
                d->prefixes_starting--;
                p->used_ns = clock_now_ns();
                if (p->pending.client)
                        send_ready(p);
                client_pending_remove(&p->pending);
        } else {
                /* The guest is at fault whichever way its template failed. */
                if (e.code == CLOCHE_E_TEMPLATE && failure)
                        e.code = CLOCHE_E_PREFIX;
                if (p->pending.client)
                        send_failed(p, &e, failure);
                prefix_free(d, p);
        }
        free(failure);
}

void prefix_reap(struct daemon *d)
{
        struct kept_prefix *p, *next;

        for (p = d->prefixes_starting ? TAILQ_FIRST(&d->prefixes) : NULL; p; p = next) {
                next = TAILQ_NEXT(p, link);
                if (p->starting)
                        look_at(d, p);
        }
}

/* -- use ------------------------------------------------------------------------------------------------------ */

int prefix_find(const struct client *client, const char *id, struct kept_prefix **ret, struct cloche_err *e)
{
        struct kept_prefix *p;

        TAILQ_FOREACH (p, &client->daemon->prefixes, link)
                if (p->prefix && is_visible(client, p) &&
                    (strcmp(p->id, id) == 0 || (p->name && strcmp(p->name, id) == 0))) {
                        *ret = p;
                        return 0;
                }
        return err_set(e, CLOCHE_E_NOT_FOUND, "there is no prefix \"%.60s\": make it (prefix.create)", id);
}

int prefix_list(const struct client_request *request, json_t **ret, struct cloche_err *e)
{
        json_t *list = json_array();
        const struct kept_prefix *p;

        TAILQ_FOREACH (p, &request->client->daemon->prefixes, link)
                if (p->prefix && is_visible(request->client, p))
                        json_array_append_new(list,
                                              json_pack("{s:s, s:s, s:s*, s:I}", "prefix", p->id, "language",
                                                        p->language, "name", p->name, "runs", (json_int_t)p->runs));
        *ret = json_pack("{s:o}", "prefixes", list);
        return *ret ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "list the prefixes");
}

int prefix_dispose(const struct client_request *request, json_t **ret, struct cloche_err *e)
{
        struct kept_prefix *p;
        int r = prefix_find(request->client, json_string_value(json_object_get(request->params, "prefix")), &p, e);

        if (r < 0)
                return r;
        prefix_free(request->client->daemon, p);
        *ret = json_object();
        return 0;
}

/* -- ends ----------------------------------------------------------------------------------------------------- */

void prefix_tidy(struct daemon *d, uint64_t now_ns)
{
        struct kept_prefix *p, *next;

        for (p = TAILQ_FIRST(&d->prefixes); p; p = next) {
                next = TAILQ_NEXT(p, link);
                if (!p->client && p->prefix && p->idle_ms && now_ns - p->used_ns > p->idle_ms * 1000000) {
                        log_event(LEVEL_INFO, "prefix-idle", "{s:s}", "prefix", p->id);
                        prefix_free(d, p);
                }
        }
}

void prefix_on_client_closed(struct client *client)
{
        struct kept_prefix *p, *next;

        for (p = TAILQ_FIRST(&client->daemon->prefixes); p; p = next) {
                next = TAILQ_NEXT(p, link);
                if (p->client == client)
                        prefix_free(client->daemon, p);
        }
}

void prefix_drop_all(struct daemon *d)
{
        struct kept_prefix *p;

        while ((p = TAILQ_FIRST(&d->prefixes)))
                prefix_free(d, p);
}

unsigned prefixes_count(const struct daemon *d)
{
        const struct kept_prefix *p;
        unsigned count = 0;

        TAILQ_FOREACH (p, &d->prefixes, link)
                count++;
        return count;
}
