/* Sandboxes as the API describes them, and the way to one that runs. Runs in: cloched-engine, on
 * its loop, with the rights of the daemon's user. */
#include "daemon/e2b/template/build.h"

#include "wire/json.h"

#include <string.h>

#define MIB (1 << 20)

/* -- descriptions ------------------------------------------------------------------------------------------------ */

/* An object as text. */
static json_t *label_of(const json_t *described, const char *label)
{
        const char *text = e2b_text(json_object_get(described, "labels"), label);
        json_t *object = NULL;
        struct cloche_err e = {0};

        if (text && json_load_text(text, strlen(text), &object, &e) == 0 && json_is_object(object))
                return object;
        json_decref(object);
        return json_object();
}

json_t *e2b_options(const json_t *described)
{
        return label_of(described, E2B_LABEL_OPTIONS);
}

json_t *e2b_settings(const json_t *described)
{
        return label_of(described, E2B_LABEL_SETTINGS);
}

json_t *e2b_metadata(const json_t *described)
{
        return label_of(described, E2B_LABEL_FILES);
}

int e2b_is_running(const json_t *described)
{
        const char *state = e2b_text(described, "state");

        return state && strcmp(state, "running") == 0;
}

int e2b_has_root(const json_t *described)
{
        return json_is_true(json_object_get(described, "root"));
}

static json_t *metadata_of(const json_t *described)
{
        json_t *metadata = json_object(), *value;
        const char *name;

        json_object_foreach (json_object_get(described, "labels"), name, value)
                if (strncmp(name, E2B_LABEL, sizeof(E2B_LABEL) - 1) != 0)
                        json_object_set(metadata, name, value);
        return metadata;
}

static json_int_t limit(const json_t *described, const char *name, json_int_t unit, json_int_t without)
{
        json_int_t value = json_integer_value(json_object_get(json_object_get(described, "limits"), name));

        return value > 0 ? (value + unit - 1) / unit : without;
}

static const char *template_of(const json_t *described)
{
        const char *name = e2b_text(json_object_get(described, "labels"), E2B_LABEL_TEMPLATE);

        return name ? name : "base";
}

/* Names below localhost resolve in browsers and in curl, so a port of a sandbox has a host name
 * there. */
static json_t *domain_of(const struct e2b_request *q)
{
        const char *host = http_request_header(q->request, "Host"), *port = host ? strrchr(host, ':') : NULL;

        return json_sprintf("localhost%s", port && !strchr(port, ']') ? port : "");
}

json_t *e2b_describe_access(const struct e2b_request *q, const json_t *described)
{
        const char *id = e2b_text(described, "sandbox");
        json_t *options = e2b_options(described),
               *answer = json_pack("{s:s, s:s, s:s, s:s}", "sandboxID", id, "templateID", template_of(described),
                                   "clientID", "cloche", "envdVersion", E2B_ENVD_VERSION);
        char token[TOKEN_SECRET_SIZE];

        if (!json_is_false(json_object_get(options, "secure"))) {
                e2b_access_token(q->door.daemon, id, token);
                door_put(answer, "envdAccessToken", json_string(token));
        }
        if (json_is_false(json_object_get(json_object_get(options, "network"), "allowPublicTraffic"))) {
                e2b_traffic_token(q->door.daemon, id, token);
                door_put(answer, "trafficAccessToken", json_string(token));
        }
        json_decref(options);
        return door_put(answer, "domain", domain_of(q));
}

static json_t *volumes_of(const json_t *described)
{
        const json_t *volumes = json_object_get(described, "volumes");
        json_t *all = json_array();

        for (size_t i = 0; i < json_array_size(volumes); i++) {
                const json_t *one = json_array_get(volumes, i);

                json_array_append_new(all, json_pack("{s:O, s:O}", "name", json_object_get(one, "name"), "path",
                                                     json_object_get(one, "path")));
        }
        return all;
}

/* A sandbox without an end is shown with one that is far: the clients expect a time. */
json_t *e2b_describe(const struct e2b_request *q, const json_t *described)
{
        json_t *answer = e2b_describe_access(q, described), *ends = json_object_get(described, "endsAt");

        json_object_del(answer, "envdAccessToken");
        json_object_del(answer, "trafficAccessToken");
        door_put(answer, "startedAt", json_incref(json_object_get(described, "createdAt")));
        door_put(answer, "endAt", ends ? json_incref(ends) : json_string("9999-12-31T23:59:59Z"));
        door_put(answer, "cpuCount", json_integer(limit(described, "cpuPercent", 100, 1)));
        door_put(answer, "memoryMB", json_integer(limit(described, "memoryBytes", MIB, 0)));
        door_put(answer, "diskSizeMB", json_integer(limit(described, "diskBytes", MIB, 0)));
        door_put(answer, "metadata", metadata_of(described));
        door_put(answer, "state", json_string(e2b_is_running(described) ? "running" : "paused"));
        return door_put(answer, "volumeMounts", volumes_of(described));
}

json_t *e2b_describe_in_detail(const struct e2b_request *q, const json_t *described)
{
        json_t *answer = e2b_describe(q, described), *access = e2b_describe_access(q, described),
               *options = e2b_options(described);
        const char *action = e2b_text(described, "endAction");

        door_put(answer, "envdAccessToken", json_incref(json_object_get(access, "envdAccessToken")));
        door_put(answer, "lifecycle",
                 json_pack("{s:b, s:s}", "autoResume", json_is_true(json_object_get(options, "autoResume")),
                           "onTimeout", action && strcmp(action, "delete") != 0 ? "pause" : "kill"));
        door_put(answer, "allowInternetAccess", json_boolean(!json_is_false(json_object_get(options, "internet"))));
        door_put(answer, "network", json_incref(json_object_get(options, "network")));
        json_decref(access);
        json_decref(options);
        return answer;
}

/* -- the way to a sandbox that runs ------------------------------------------------------------------------------ */

/* A secure sandbox asks for its token. A signature is for the bytes of a file only. */
static int may_enter(const struct e2b_request *q)
{
        const char *token = http_request_header(q->request, E2B_ACCESS_HEADER);
        json_t *options = e2b_options(q->described);
        int is_open = q->route->plane == E2B_CONTEXTS || json_is_false(json_object_get(options, "secure"));

        json_decref(options);
        if (is_open || (token && e2b_is_access_token(q->door.daemon, q->door.sandbox, token)))
                return 1;
        if (token || q->route->plane != E2B_FILES)
                return 0;
        return strcmp(q->route->path, "/health") == 0 ||
               (strcmp(q->route->path, "/files") == 0 &&
                e2b_is_signed(q, strcmp(q->route->verb, "GET") == 0 ? "read" : "write"));
}

static int is_woken(const json_t *described)
{
        json_t *options = e2b_options(described);
        int is_woken = json_is_true(json_object_get(options, "autoResume"));

        json_decref(options);
        return is_woken;
}

/* The request wakes it, which would do without a home. */
static void on_home(struct e2b_request *q, const struct door_reply *reply)
{
        void (*then)(struct e2b_request * q) = q->go_on;

        (void)reply;
        then(q);
}

static void on_found(struct e2b_request *q, const struct door_reply *reply)
{
        void (*then)(struct e2b_request * q) = q->go_on;

        q->described = json_deep_copy(reply->result);
        if (!e2b_is_running(reply->result) && (strcmp(q->route->path, "/health") == 0 || !is_woken(reply->result)))
                e2b_gone(q);
        else if (!may_enter(q))
                e2b_refuse(q, 401, "unauthenticated", "the access token of the sandbox is missing or wrong");
        else if (!e2b_is_running(reply->result)) {
                q->fail = on_home;
                e2b_call(q, "file.mkdir", json_pack("{s:s, s:b}", "path", E2B_HOME, "recursive", 1), NULL, on_home);
        } else
                then(q);
}

static void on_missing(struct e2b_request *q, const struct door_reply *reply)
{
        if (reply->e->code == CLOCHE_E_NOT_FOUND)
                e2b_gone(q);
        else
                e2b_fail(q, reply);
}

/* The operations of the core make a sandbox that does not exist. So each request looks first. */
void e2b_with_sandbox(struct e2b_request *q, void (*then)(struct e2b_request *q))
{
        q->go_on = then;
        q->fail = on_missing;
        if (q->door.sandbox)
                e2b_call(q, "sandbox.get", json_object(), NULL, on_found);
        else
                e2b_gone(q);
}
