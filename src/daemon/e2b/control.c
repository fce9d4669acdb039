/* The control plane: sandboxes that are made, found, paused and ended. Runs in: cloched-engine,
 * on its loop, with the rights of the daemon's user. */
#include "daemon/e2b/template/build.h"

#include "base/clock.h"
#include "base/err.h"
#include "daemon/core/loop.h"
#include "daemon/images/names.h"
#include "daemon/images/program.h"
#include "wire/json.h"

#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MAX_S (365 * 24 * 3600)
#define LIST_MAX 100
#define READY_MS 60000

/* -- times ------------------------------------------------------------------------------------------------------- */

json_int_t e2b_timeout_of(struct e2b_request *q, json_int_t without)
{
        const json_t *value = json_object_get(q->body, "timeout");
        json_int_t timeout_s = json_is_integer(value) ? json_integer_value(value) : without;

        if (timeout_s >= 0 && timeout_s <= TIMEOUT_MAX_S && (!value || json_is_integer(value) || json_is_null(value)))
                return timeout_s;
        e2b_refuse(q, 400, "invalid_argument", "'timeout' must be a number of seconds, 0 to %d", TIMEOUT_MAX_S);
        return -1;
}

/* An end that is now is one millisecond away: 0 means none. */
json_t *e2b_lifetime(json_int_t timeout_s)
{
        return json_integer(timeout_s > 0 ? timeout_s * 1000 : 1);
}

/* -- create ------------------------------------------------------------------------------------------------------ */

/* Templates that are the daemon's own image: the clients' defaults. */
int e2b_is_own_image(const char *name)
{
        static const char *const names[] = {"base", "code-interpreter-v1"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (strcmp(names[i], name) == 0)
                        return 1;
        return 0;
}

json_t *e2b_user_env(void)
{
        return json_pack("{s:s, s:s, s:s}", "HOME", E2B_HOME, "USER", E2B_USER, "LOGNAME", E2B_USER);
}

static json_t *labels_of(const struct e2b_request *q, const char *template, const json_t *options)
{
        json_t *labels = json_object(), *value;
        char *text = json_dump_text(options, JSON_COMPACT);
        const char *name;

        json_object_foreach (json_object_get(q->body, "metadata"), name, value)
                if (json_is_string(value) && strncmp(name, E2B_LABEL, sizeof(E2B_LABEL) - 1) != 0)
                        json_object_set(labels, name, value);
        door_put(labels, E2B_LABEL_TEMPLATE, json_string(template));
        door_put(labels, E2B_LABEL_OPTIONS, text ? json_string(text) : NULL);
        free(text);
        return labels;
}

static json_t *env_of(const struct e2b_request *q)
{
        json_t *env = e2b_user_env();

        json_object_update(env, json_object_get(q->body, "envVars"));
        return env;
}

static json_t *options_of(const struct e2b_request *q, int has_internet)
{
        const json_t *resume = json_object_get(q->body, "autoResume");
        const json_t *network = json_object_get(q->body, "network");
        json_t *options =
                json_pack("{s:b, s:b, s:b}", "secure", !json_is_false(json_object_get(q->body, "secure")), "internet",
                          has_internet, "autoResume", json_is_true(json_object_get(resume, "enabled")));

        return door_put(options, "network", json_is_object(network) ? e2b_network_shown(network) : NULL);
}

static const char *end_action_of(const json_t *body)
{
        if (!json_is_true(json_object_get(body, "autoPause")))
                return "delete";
        return json_is_false(json_object_get(body, "autoPauseMemory")) ? "stop" : "pause"; /* stop keeps files alone */
}

/* The parameters of sandbox.create; NULL: the request was refused. */
static json_t *params_of(struct e2b_request *q, const char *template)
{
        int has_internet = !json_is_false(json_object_get(q->body, "allow_internet_access")), is_refused;
        json_int_t timeout_s = e2b_timeout_of(q, E2B_TIMEOUT_S);
        json_t *options, *params,
                *policy = timeout_s < 0
                                  ? NULL
                                  : e2b_policy_of(q, json_object_get(q->body, "network"), has_internet, &is_refused);

        if (timeout_s < 0 || is_refused)
                return NULL;
        options = options_of(q, has_internet);
        params = json_pack("{s:o, s:o, s:o, s:i, s:s}", "env", env_of(q), "labels", labels_of(q, template, options),
                           "lifetimeMs", e2b_lifetime(timeout_s), "idleMs", 0, "endAction", end_action_of(q->body));
        json_decref(options);
        if (json_array_size(json_object_get(q->body, "volumeMounts")) > 0)
                json_object_set(params, "volumes", json_object_get(q->body, "volumeMounts"));
        return door_put(params, "network", policy);
}

static void on_removed(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        e2b_fail(q, &(struct door_reply){.e = q->state});
}

/* A sandbox that is not as its template says goes: its client learns the reason, but no id. */
static void give_up(struct e2b_request *q, const struct cloche_err *e)
{
        struct cloche_err *kept = malloc(sizeof(*kept));

        if (!kept) {
                e2b_refuse(q, 500, "internal", "out of memory");
                return;
        }
        *kept = *e;
        q->state = kept;
        q->state_done = free;
        q->fail = on_removed;
        e2b_call(q, "sandbox.delete", json_object(), NULL, on_removed);
}

static void on_not_prepared(struct e2b_request *q, const struct door_reply *reply)
{
        give_up(q, reply->e);
}

/* A request to the sandbox that was just made. */
static void prepare(struct e2b_request *q, const char *method, json_t *params, e2b_then then)
{
        q->fail = on_not_prepared;
        e2b_call(q, method, params, NULL, then);
}

static void answer_created(struct e2b_request *q)
{
        e2b_answer(q, 201, e2b_describe_access(q, q->described));
}

static void on_home(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        answer_created(q);
}

static void on_created(struct e2b_request *q, const struct door_reply *reply)
{
        q->described = json_deep_copy(reply->result);
        prepare(q, "file.mkdir", json_pack("{s:s, s:b}", "path", E2B_HOME, "recursive", 1), on_home);
}

/* 404 would be a missing template. */
static void on_not_created(struct e2b_request *q, const struct door_reply *reply)
{
        if (reply->e->code == CLOCHE_E_PROCESS_ENDED)
                e2b_refuse(q, 409, "failed_precondition", "%s", reply->e->msg);
        else
                e2b_fail(q, reply);
}

static void create(struct e2b_request *q, json_t *params)
{
        char id[E2B_ID_SIZE];

        e2b_random_id(id, sizeof(id));
        q->door.sandbox = strdup(id);
        q->fail = on_not_created;
        e2b_call(q, "sandbox.create", params, NULL, on_created);
}

static void on_snapshot(struct e2b_request *q, const struct door_reply *reply)
{
        static const char *const kept[] = {E2B_LABEL_SETTINGS, E2B_LABEL_FILES};
        json_t *params = params_of(q, e2b_text(q->body, "templateID")), *settings = e2b_settings(reply->result), *env;

        if (params) {
                door_put(params, "startup", e2b_startup(settings, e2b_has_root(reply->result), READY_MS));
                env = json_deep_copy(json_object_get(settings, "env"));
                json_object_update_missing(json_object_get(params, "env"), env);
                json_object_set(params, "snapshot", json_object_get(reply->result, "snapshot"));
                for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
                        door_put(json_object_get(params, "labels"), kept[i],
                                 json_incref(json_object_get(json_object_get(reply->result, "labels"), kept[i])));
                json_decref(env);
                create(q, params);
        }
        json_decref(settings);
}

static void on_image(void *data, const json_t *result, const struct cloche_err *e)
{
        struct e2b_request *q = data;
        const char *name = e2b_text(q->body, "templateID");
        json_t *params;

        q->door.image = NULL;
        if (e && (e->code == CLOCHE_E_NOT_FOUND || e->code == CLOCHE_E_INVALID_ARGUMENT)) {
                e2b_refuse(q, 404, "not_found",
                           "template '%.120s' not found: it is neither base nor code-interpreter-v1, nor a snapshot, "
                           "nor an image of this daemon's store (cloche image ls)",
                           name);
                return;
        }
        if (e) {
                e2b_fail(q, &(struct door_reply){.e = e});
                return;
        }
        params = params_of(q, name);
        if (params && (json_object_set(params, "image", json_object_get(q->body, "templateID")) < 0 ||
                       image_name_put(params, result, 1) < 0)) {
                json_decref(params);
                e2b_refuse(q, 500, "internal", "the program of the image store sent an invalid message");
        } else if (params) {
                create(q, params);
        }
}

/* Refused by name: they would change nothing here, and the caller expects that they do. */
static const char *unsupported(const json_t *body)
{
        static const char *const names[] = {"iam"}; /* with mcp the client needs a template "mcp-gateway" */

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                const json_t *value = json_object_get(body, names[i]);

                if (value && !json_is_null(value) && !(json_is_array(value) && json_array_size(value) == 0))
                        return names[i];
        }
        return NULL;
}

static void find_image(struct e2b_request *q, const struct door_reply *reply)
{
        struct cloche_err e = {0};

        (void)reply; /* it is no snapshot */
        if (images_read(q->door.daemon, "resolve", json_pack("{s:O}", "name", json_object_get(q->body, "templateID")),
                        on_image, q, &q->door.image, &e) < 0)
                on_image(q, NULL, &e);
}

void e2b_on_create(struct e2b_request *q)
{
        const char *template = e2b_text(q->body, "templateID"), *absent = unsupported(q->body);
        struct e2b_reference of;
        json_t *params;

        if (!template)
                e2b_refuse(q, 400, "invalid_argument", "'templateID' is missing, expected the name of a template");
        else if (absent)
                e2b_refuse(q, 400, "invalid_argument", "'%s' is not supported here (docs/e2b.md): leave it out",
                           absent);
        else if (!e2b_is_own_image(template)) {
                q->fail = find_image;
                e2b_call(q, "snapshot.get",
                         json_pack("{s:s}", "snapshot", e2b_reference_read(template, &of) ? of.snapshot : template),
                         NULL, on_snapshot);
        } else if ((params = params_of(q, template))) {
                create(q, params);
        }
}

/* -- get and list ------------------------------------------------------------------------------------------------ */

static void missing(struct e2b_request *q, const struct door_reply *reply)
{
        if (reply->e->code == CLOCHE_E_NOT_FOUND)
                e2b_refuse(q, 404, "not_found", "sandbox \"%.80s\" doesn't exist or you don't have access to it",
                           q->door.sandbox);
        else
                e2b_fail(q, reply);
}

void e2b_find(struct e2b_request *q, e2b_then then)
{
        q->fail = missing;
        e2b_call(q, "sandbox.get", json_object(), NULL, then);
}

static void got(struct e2b_request *q, const struct door_reply *reply)
{
        e2b_answer(q, 200, e2b_describe_in_detail(q, reply->result));
}

void e2b_on_get(struct e2b_request *q)
{
        e2b_find(q, got);
}

struct filter {
        json_t *metadata; /* texts by name; NULL: any */
        char *state, *after, *template, *next;
        int is_rising;
        size_t limit;
};

static void filter_done(void *state)
{
        struct filter *f = state;

        json_decref(f->metadata);
        free(f->state);
        free(f->after);
        free(f->template);
        free(f->next);
        free(f);
}

/* Names with commas. */
static int is_among(const char *names, const char *name)
{
        size_t size = strlen(name);

        for (const char *at = names; at && *at;) {
                size_t one = strcspn(at, ",");

                if (one == size && strncmp(at, name, size) == 0)
                        return 1;
                at += one + (at[one] == ',');
        }
        return 0;
}

static int has_metadata(const json_t *metadata, const json_t *wanted)
{
        const char *name;
        json_t *value;

        json_object_foreach ((json_t *)wanted, name, value)
                if (!json_equal(json_object_get(metadata, name), value))
                        return 0;
        return 1;
}

/* Times are RFC 3339 in one form, so that their texts are in their order. */
static int is_wanted(const struct filter *f, const json_t *listed)
{
        return (!f->state || is_among(f->state, e2b_text(listed, "state"))) &&
               (!f->template || strcmp(f->template, e2b_text(listed, "templateID")) == 0) &&
               (!f->after || strcmp(e2b_text(listed, "startedAt"), f->after) > 0) &&
               has_metadata(json_object_get(listed, "metadata"), f->metadata);
}

/* The place of a sandbox in the order, also as the token of the next page. */
static char *place_of(const json_t *listed)
{
        json_t *place = json_sprintf("%s/%s", e2b_text(listed, "startedAt"), e2b_text(listed, "sandboxID"));
        char *text = place ? strdup(json_string_value(place)) : NULL;

        json_decref(place);
        return text;
}

struct row {
        char *place;
        json_t *listed;
};

static int compare_rows(const void *one, const void *other)
{
        return strcmp(((const struct row *)one)->place, ((const struct row *)other)->place);
}

static void answer_rows(struct e2b_request *q, const struct filter *f, struct row *rows, size_t count)
{
        json_t *page = json_array();
        const char *last = NULL;

        for (size_t n = 0; n < count; n++) {
                const struct row *row = &rows[f->is_rising ? n : count - 1 - n];
                int order = f->next ? strcmp(row->place, f->next) : 0;

                if (f->next && (f->is_rising ? order <= 0 : order >= 0))
                        continue;
                if (json_array_size(page) == f->limit) {
                        http_add_header(q->request, "x-next-token", last);
                        break;
                }
                json_array_append(page, row->listed);
                last = row->place;
        }
        e2b_answer(q, 200, page);
}

static void listed(struct e2b_request *q, const struct door_reply *reply)
{
        const json_t *all = json_object_get(reply->result, "sandboxes");
        struct row *rows = calloc(json_array_size(all) + 1, sizeof(*rows));
        const struct filter *f = q->state;
        size_t count = 0;

        for (size_t i = 0; rows && i < json_array_size(all); i++) {
                const json_t *one = json_array_get(all, i);
                int is_builder = json_object_get(json_object_get(one, "labels"), E2B_LABEL_BUILD) != NULL;
                json_t *listed = e2b_describe(q, one);
                char *place = !is_builder && is_wanted(f, listed) ? place_of(listed) : NULL;

                if (place)
                        rows[count++] = (struct row){place, json_incref(listed)};
                json_decref(listed);
        }
        if (rows) {
                qsort(rows, count, sizeof(*rows), compare_rows);
                answer_rows(q, f, rows, count);
        } else {
                e2b_refuse(q, 500, "internal", "out of memory");
        }
        for (size_t i = 0; i < count; i++) {
                free(rows[i].place);
                json_decref(rows[i].listed);
        }
        free(rows);
}

/* Decode the names and values of a query once more. */
static int decode_again(const json_t *pairs, json_t **ret, struct cloche_err *e)
{
        const char *name;
        json_t *value;
        int r = 0;

        *ret = json_object();
        json_object_foreach ((json_t *)pairs, name, value) {
                json_t *text, *pair = NULL;

                if (!json_is_string(value))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "\"%.40s\" is given twice", name);
                text = json_sprintf("%s=%s", name, json_string_value(value));
                r = query_parse(json_string_value(text), &pair, e);
                json_object_update(*ret, pair);
                json_decref(pair);
                json_decref(text);
                if (r < 0)
                        break;
        }
        return r;
}

/* The value is a query of its own, k=v&k2=v2, whose parts the clients encode twice. False:
 * the request was refused. */
static int read_metadata(struct e2b_request *q, struct filter *f)
{
        char *text = e2b_query(q, "metadata");
        struct cloche_err e = {0};
        json_t *pairs = NULL;
        int r = text ? query_parse(text, &pairs, &e) : 0;

        if (r == 0)
                r = decode_again(pairs, &f->metadata, &e);
        json_decref(pairs);
        free(text);
        if (r < 0)
                e2b_refuse(q, 400, "invalid_argument", "'metadata': %s", e.msg);
        return r == 0;
}

void e2b_on_list(struct e2b_request *q)
{
        struct filter *f = calloc(1, sizeof(*f));
        char *limit, *order;

        if (!f) {
                e2b_refuse(q, 500, "internal", "out of memory");
                return;
        }
        q->state = f;
        q->state_done = filter_done;
        limit = e2b_query(q, "limit");
        order = e2b_query(q, "order");
        f->limit = limit ? strtoul(limit, NULL, 10) : LIST_MAX;
        f->is_rising = order && strcmp(order, "asc") == 0;
        f->state = e2b_query(q, "state");
        f->after = e2b_query(q, "startedAfter");
        f->template = e2b_query(q, "template");
        f->next = e2b_query(q, "nextToken");
        free(limit);
        free(order);
        if (f->limit == 0 || f->limit > LIST_MAX)
                e2b_refuse(q, 400, "invalid_argument", "'limit' must be 1 to %d", LIST_MAX);
        else if (read_metadata(q, f))
                e2b_call(q, "sandbox.list", json_object(), NULL, listed);
}

/* -- ends -------------------------------------------------------------------------------------------------------- */

/* A stream that breaks off makes the client ask for the sandbox's health, which says that it is
 * gone. A stream that ended as usual would look like a process that was killed. It breaks off
 * outside of the core's callbacks, in which no request may be cancelled. */
static void cut_streams(struct e2b *e2b, const char *sandbox)
{
        struct e2b_request *q;

        TAILQ_FOREACH (q, &e2b->requests, link)
                if (q->is_streaming && q->door.sandbox && strcmp(q->door.sandbox, sandbox) == 0)
                        q->is_broken = 1;
}

static void emptied(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        e2b_answer_empty(q);
}

static void kill_found(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        cut_streams(q->door.daemon->e2b, q->door.sandbox);
        e2b_call(q, "sandbox.delete", json_object(), NULL, emptied);
}

void e2b_on_kill(struct e2b_request *q)
{
        e2b_find(q, kill_found);
}

static void set_lifetime(struct e2b_request *q, json_t *lifetime_ms, e2b_then then)
{
        q->fail = missing;
        e2b_call(q, "sandbox.update", json_pack("{s:o}", "lifetimeMs", lifetime_ms), NULL, then);
}

void e2b_on_timeout(struct e2b_request *q)
{
        json_int_t timeout_s;

        if (!json_object_get(q->body, "timeout"))
                e2b_refuse(q, 400, "invalid_argument", "'timeout' is missing, expected a number of seconds");
        else if ((timeout_s = e2b_timeout_of(q, 0)) >= 0)
                set_lifetime(q, e2b_lifetime(timeout_s), emptied);
}

void e2b_on_refresh(struct e2b_request *q)
{
        json_t *duration = json_object_get(q->body, "duration");
        json_int_t timeout_s;

        if (duration)
                json_object_set(q->body, "timeout", duration);
        timeout_s = e2b_timeout_of(q, 60);
        if (timeout_s >= 0)
                set_lifetime(q, e2b_lifetime(timeout_s), emptied);
}

/* -- pause, connect, resume -------------------------------------------------------------------------------------- */

/* A paused sandbox has no end: it is kept until somebody needs it. */
static void paused(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        set_lifetime(q, json_integer(0), emptied);
}

static void pause_found(struct e2b_request *q, const struct door_reply *reply)
{
        if (!e2b_is_running(reply->result)) {
                e2b_refuse(q, 409, "failed_precondition", "sandbox '%.80s' is paused already", q->door.sandbox);
                return;
        }
        cut_streams(q->door.daemon->e2b, q->door.sandbox);
        e2b_call(q, json_is_false(json_object_get(q->body, "memory")) ? "sandbox.stop" : "sandbox.pause", json_object(),
                 NULL, paused);
}

void e2b_on_pause(struct e2b_request *q)
{
        e2b_find(q, pause_found);
}

static void connected(struct e2b_request *q, const struct door_reply *reply)
{
        e2b_answer(q, e2b_is_running(q->described) ? 200 : 201, e2b_describe_access(q, reply->result));
}

static void at_home(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply; /* a home that is no directory is its programs' affair */
        set_lifetime(q, e2b_lifetime(e2b_timeout_of(q, E2B_TIMEOUT_S)), connected);
}

/* One that was never saved has lost its home with the daemon. */
static void resumed(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        q->fail = at_home;
        e2b_call(q, "file.mkdir", json_pack("{s:s, s:b}", "path", E2B_HOME, "recursive", 1), NULL, at_home);
}

static void stopped(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        e2b_call(q, "sandbox.resume", json_object(), NULL, resumed);
}

/* The end of one that runs is only moved away. */
static int is_later(const json_t *described, json_int_t timeout_s)
{
        const char *ends = e2b_text(described, "endsAt");
        char text[CLOCK_TEXT_SIZE];

        const struct timespec end = {.tv_sec = (time_t)(clock_real_ms() / 1000) + timeout_s};

        return ends && clock_write_utc(text, end) == 0 && strcmp(text, ends) > 0;
}

static void connect_found(struct e2b_request *q, const struct door_reply *reply)
{
        json_int_t timeout_s = e2b_timeout_of(q, E2B_TIMEOUT_S);

        if (timeout_s < 0)
                return;
        q->described = json_deep_copy(reply->result);
        if (e2b_is_running(reply->result) && json_object_get(q->body, "timeout") && is_later(reply->result, timeout_s))
                set_lifetime(q, e2b_lifetime(timeout_s), connected);
        else if (e2b_is_running(reply->result))
                connected(q, reply);
        else if (json_is_false(json_object_get(q->body, "memory")) &&
                 strcmp(e2b_text(reply->result, "state"), "paused") == 0)
                e2b_call(q, "sandbox.stop", json_object(), NULL, stopped);
        else
                stopped(q, reply);
}

void e2b_on_connect(struct e2b_request *q)
{
        e2b_find(q, connect_found);
}

static void resume_found(struct e2b_request *q, const struct door_reply *reply)
{
        if (e2b_is_running(reply->result))
                e2b_refuse(q, 409, "failed_precondition", "sandbox '%.80s' is running already", q->door.sandbox);
        else
                connect_found(q, reply);
}

void e2b_on_resume(struct e2b_request *q)
{
        e2b_find(q, resume_found);
}

/* -- the API itself ---------------------------------------------------------------------------------------------- */

void e2b_on_healthy(struct e2b_request *q)
{
        e2b_answer_empty(q);
}

void e2b_on_teams(struct e2b_request *q)
{
        e2b_answer(q, 200,
                   json_pack("[{s:s, s:s, s:b, s:s}]", "teamID", "cloche", "name", "cloche", "isDefault", 1, "apiKey",
                             http_request_header(q->request, "X-API-KEY")));
}
