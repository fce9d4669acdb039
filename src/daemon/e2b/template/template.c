/* Templates: snapshots that a build has made, by name, and the requests of a build. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "build.h"

#include "base/clock.h"

#include <nettle/memops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HASH_SIZE 64
#define STEPS_MAX 1000
#define BUILDS_MOST 8
/* The layers of all builds lie in the state directory until their build ends. */
#define LAYER_BYTES_MOST (UINT64_C(4) << 30)
#define LOG_PAGE 100

/* -- names ------------------------------------------------------------------------------------------------------- */

/* True, or the request is refused. "--" begins the tag in the name of a snapshot. */
static int check_name(struct e2b_request *q, const struct e2b_reference *of)
{
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-";
        const char *name = of->name;
        size_t size = strlen(name);

        if (size > 0 && name[strspn(name, letters)] == '\0' && name[0] != '-' && name[size - 1] != '-' &&
            !strstr(name, "--") && !e2b_is_own_image(name))
                return 1;
        e2b_refuse(q, 400, "invalid_argument",
                   "'name' must be letters, digits and single '-', and none of the templates there are always, not "
                   "'%.80s'",
                   name);
        return 0;
}

/* Snapshot names of the tags, in order: that of the name, then the others. NULL: the request was
 * refused. */
static json_t *tags_of(struct e2b_request *q, const struct e2b_reference *of)
{
        json_t *given = json_object_get(q->body, "tags"), *tags = json_array();
        struct e2b_reference at;

        if (of->has_tag || json_array_size(given) == 0)
                json_array_append_new(tags, json_string(of->tag));
        for (size_t i = 0; i < json_array_size(given); i++) {
                if (!e2b_tag_check(q, of->name, json_array_get(given, i), &at)) {
                        json_decref(tags);
                        return NULL;
                }
                json_array_append(tags, json_array_get(given, i));
        }
        if (json_array_size(tags) <= E2B_TAGS_MAX)
                return tags;
        json_decref(tags);
        e2b_refuse(q, 400, "invalid_argument", "'tags' must be at most %d texts", E2B_TAGS_MAX);
        return NULL;
}

/* Absent ones are the daemon's. False: the request was refused. */
static int read_limits(struct e2b_request *q, json_t **ret)
{
        static const struct {
                const char *name, *limit;
                json_int_t unit, least, most;
        } rows[] = {{"cpuCount", "cpuPercent", 100, 1, 1000}, {"memoryMB", "memoryBytes", 1 << 20, 8, 1 << 20}};

        *ret = NULL;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const json_t *value = json_object_get(q->body, rows[i].name);
                json_int_t number = json_integer_value(value);

                if (!value || json_is_null(value))
                        continue;
                if (!json_is_integer(value) || number < rows[i].least || number > rows[i].most) {
                        json_decref(*ret);
                        e2b_refuse(q, 400, "invalid_argument", "'%s' must be a whole number, %lld to %lld",
                                   rows[i].name, (long long)rows[i].least, (long long)rows[i].most);
                        return 0;
                }
                *ret = *ret ? *ret : json_object();
                json_object_set_new(*ret, rows[i].limit, json_integer(number * rows[i].unit));
        }
        return 1;
}

void e2b_on_template_create(struct e2b_request *q)
{
        struct e2b_reference of;
        struct e2b_build *b;
        json_t *tags, *limits;

        if (!e2b_reference_check(q, e2b_text(q->body, "name"), &of) || !check_name(q, &of) || !(tags = tags_of(q, &of)))
                return;
        if (!read_limits(q, &limits)) {
                json_decref(tags);
                return;
        }
        b = e2b_build_new(q->door.daemon, of.name, tags, limits);
        if (b)
                e2b_answer(q, 202,
                           json_pack("{s:s, s:s, s:b, s:[s], s:O, s:[s]}", "templateID", b->name, "buildID", b->id,
                                     "public", 0, "names", b->name, "tags", tags, "aliases", b->name));
        else
                e2b_refuse(q, 500, "internal", "out of memory");
        json_decref(tags);
        json_decref(limits);
}

/* -- layers ------------------------------------------------------------------------------------------------------ */

/* The token is of one build, so that the URL of an earlier build puts no files into a later one. */
static int layer_token(const struct e2b_build *b, const char *path, char ret[TOKEN_SECRET_SIZE])
{
        char *text = NULL;

        if (asprintf(&text, "%s %s", b->id, path) < 0)
                return -1;
        token_derive(b->door.daemon->options.token, "e2b layer", text, ret);
        free(text);
        return 0;
}

/* The newest build of the template that the path of a layer names, or NULL. */
static const struct e2b_build *build_of_layer(const struct daemon *d, const char *path)
{
        struct door_part parts[DOOR_PARTS];
        const struct e2b_build *b;
        char *name;

        if (!door_matches(E2B_LAYER_PATH, path, parts))
                return NULL;
        name = strndup(parts[0].at, parts[0].size);
        b = name ? e2b_build_find(d->e2b, name, NULL) : NULL;
        free(name);
        return b;
}

/* The URL of an upload has a token of its own: the clients send no key there. */
int e2b_is_layer_upload(const struct daemon *d, const struct http_request *request)
{
        static const char name[] = "token=";
        const char *query = http_request_query(request), *path = http_request_path(request);
        const struct e2b_build *b = build_of_layer(d, path);
        char token[TOKEN_SECRET_SIZE];

        return b && strcmp(http_request_verb(request), "PUT") == 0 && layer_token(b, path, token) == 0 &&
               strncmp(query, name, sizeof(name) - 1) == 0 && strlen(query) == sizeof(name) - 1 + strlen(token) &&
               memeql_sec(query + sizeof(name) - 1, token, strlen(token));
}

/* The newest build of the template, which has not begun; NULL: the request was refused. */
static struct e2b_build *waiting_build(struct e2b_request *q, const char *id)
{
        struct e2b_build *b = e2b_build_find(q->door.daemon->e2b, q->parts[0], id);

        if (!b)
                e2b_refuse(q, 404, "not_found", "there is no build '%.80s' of the template '%.80s'", id ? id : "",
                           q->parts[0]);
        else if (b->state != BUILD_WAITING)
                e2b_refuse(q, 409, "failed_precondition", "the build has begun already");
        else
                return b;
        return NULL;
}

void e2b_on_layer_get(struct e2b_request *q)
{
        const struct e2b_build *b = waiting_build(q, NULL);
        const struct e2b_layer *layer = b ? e2b_layer_find(b, q->parts[1]) : NULL;
        const char *host = http_request_header(q->request, "Host");
        char token[TOKEN_SECRET_SIZE];

        if (!b)
                return;
        if (strlen(q->parts[1]) > HASH_SIZE) {
                e2b_refuse(q, 400, "invalid_argument", "the hash of files has at most %d characters", HASH_SIZE);
                return;
        }
        if (layer_token(b, http_request_path(q->request), token) < 0) {
                e2b_refuse(q, 500, "internal", "out of memory");
                return;
        }
        e2b_answer(q, 201,
                   json_pack("{s:b, s:o}", "present", layer != NULL, "url",
                             json_sprintf("http://%s%s?token=%s", host ? host : "", http_request_path(q->request),
                                          token)));
}

/* The same files may be sent twice at a time, so it is found by its upload. NULL: the build was
 * forgotten. */
static struct e2b_layer *layer_of(const struct e2b_request *q)
{
        struct e2b_build *b;
        struct e2b_layer *layer;

        TAILQ_FOREACH (b, &q->door.daemon->e2b->builds, link)
                TAILQ_FOREACH (layer, &b->layers, link)
                        if (layer->upload == q)
                                return layer;
        return NULL;
}

static void upload_done(void *state)
{
        struct e2b_layer *layer = layer_of(state);

        if (layer) /* it broke off, or came too late */
                e2b_layer_free(layer);
}

static void on_layer_bytes(struct e2b_request *q, const void *bytes, size_t size)
{
        struct e2b_layer *layer = layer_of(q);
        struct e2b *e2b = q->door.daemon->e2b;

        if (!layer)
                return;
        e2b->layer_bytes += size;
        layer->counted_bytes += size;
        if (e2b->layer_bytes > LAYER_BYTES_MOST || spool_append(&layer->bytes, bytes, size) < 0) {
                e2b_layer_free(layer);
                e2b_refuse(q, 507, "resource_exhausted",
                           "there is no room for the files of builds, which have at most %u MiB together, compressed",
                           (unsigned)(LAYER_BYTES_MOST >> 20));
                return;
        }
        layer->build->touched_ns = clock_now_ns();
}

static void on_layer_whole(struct e2b_request *q)
{
        struct e2b_layer *layer = layer_of(q), *earlier;

        if (layer && layer->build->state == BUILD_WAITING) {
                earlier = e2b_layer_find(layer->build, layer->hash);
                if (earlier)
                        e2b_layer_free(earlier);
                layer->is_whole = 1;
                layer->upload = NULL;
                http_answer(q->request, 200, NULL, "", 0);
        } else {
                e2b_refuse(q, 409, "failed_precondition", "the build has begun already");
        }
}

void e2b_on_layer_put(struct e2b_request *q)
{
        struct e2b_build *b;
        struct e2b_layer *layer;

        if (!e2b_is_layer_upload(q->door.daemon, q->request)) {
                e2b_refuse(q, 401, "unauthenticated", "the token of the URL is missing or wrong");
                return;
        }
        b = waiting_build(q, NULL);
        if (!b)
                return;
        layer = calloc(1, sizeof(*layer));
        if (layer) {
                layer->build = b;
                layer->upload = q;
                spool_init(&layer->bytes, SPOOL_FIRST, LAYER_BYTES_MOST, sandboxes_state_fd(q->door.daemon->sandboxes));
                layer->hash = strdup(q->parts[1]);
                TAILQ_INSERT_TAIL(&b->layers, layer, link);
        }
        if (!layer || !layer->hash) {
                if (layer)
                        e2b_layer_free(layer);
                e2b_refuse(q, 500, "internal", "out of memory");
                return;
        }
        q->state = q;
        q->state_done = upload_done;
        q->on_body = on_layer_bytes;
        q->on_whole = on_layer_whole;
}

/* -- builds ------------------------------------------------------------------------------------------------------ */

static int are_steps(const json_t *steps)
{
        for (size_t i = 0; i < json_array_size(steps); i++) {
                const json_t *step = json_array_get(steps, i), *args = json_object_get(step, "args");

                if (!e2b_text(step, "type"))
                        return 0;
                for (size_t n = 0; n < json_array_size(args); n++) {
                        const json_t *one = json_array_get(args, n);

                        if (!json_is_string(one) || strlen(json_string_value(one)) != json_string_length(one))
                                return 0;
                }
        }
        return json_is_array(steps) && json_array_size(steps) <= STEPS_MAX;
}

static unsigned running(const struct e2b *e2b)
{
        const struct e2b_build *b;
        unsigned count = 0;

        TAILQ_FOREACH (b, &e2b->builds, link)
                count += b->state == BUILD_RUNNING;
        return count;
}

void e2b_on_build_start(struct e2b_request *q)
{
        const json_t *registry = json_object_get(q->body, "fromImageRegistry");
        struct e2b_build *b = waiting_build(q, q->parts[1]);

        if (!b)
                return;
        if (!json_object_get(q->body, "steps"))
                json_object_set_new(q->body, "steps", json_array());
        if (registry && !json_is_null(registry))
                e2b_refuse(q, 400, "invalid_argument",
                           "'fromImageRegistry' is not supported: images come from this machine's store (cloche image "
                           "import)");
        else if (!are_steps(json_object_get(q->body, "steps")))
                e2b_refuse(q, 400, "invalid_argument",
                           "'steps' must be a list of at most %d steps, {type, args: [text, …]}", STEPS_MAX);
        else if (running(q->door.daemon->e2b) >= BUILDS_MOST)
                e2b_refuse(q, 429, "resource_exhausted", "%d builds are running already: try again later", BUILDS_MOST);
        else {
                e2b_build_begin(b, q->body);
                http_answer(q->request, 202, NULL, "", 0);
        }
}

void e2b_on_build_status(struct e2b_request *q)
{
        static const char *const states[] = {"waiting", "building", "ready", "error"};
        const struct e2b_build *b = e2b_build_find(q->door.daemon->e2b, q->parts[0], q->parts[1]);
        char *offset = e2b_query(q, "logsOffset");
        size_t from = offset ? strtoul(offset, NULL, 10) : 0;
        json_t *page = json_array();

        free(offset);
        if (!b) {
                json_decref(page);
                e2b_refuse(q, 404, "not_found", "there is no build '%.80s' of the template '%.80s'", q->parts[1],
                           q->parts[0]);
                return;
        }
        for (size_t i = from; i < json_array_size(b->log) && json_array_size(page) < LOG_PAGE; i++)
                json_array_append(page, json_array_get(b->log, i));
        e2b_answer(q, 200,
                   json_pack("{s:s, s:s, s:s, s:[], s:o, s:O*}", "templateID", b->name, "buildID", b->id, "status",
                             states[b->state], "logs", "logEntries", page, "reason", b->reason));
}
