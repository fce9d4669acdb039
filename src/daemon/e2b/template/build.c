/* Builds of templates: their base, their log and their end. Runs in: cloched-engine, on its loop,
 * with the rights of the daemon's user. */
#include "step.h"

#include "base/clock.h"
#include "daemon/images/names.h"
#include "daemon/images/program.h"
#include "engine/box/image.h"
#include "wire/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_MOST 32 /* builds that ended, for their logs */
#define LIFE_MS 3600000
#define UNSTARTED_NS UINT64_C(600000000000) /* a client uploads its layers, then begins the build at once */
#define LOG_BYTES (8u << 20)
#define ENTRY_BYTES 700 /* of an entry beside its message, in memory */
#define LINE_BYTES (64u << 10)
#define SETTINGS_BYTES_MAX (256u << 10) /* a label of the snapshot and of its sandboxes */

/* -- life -------------------------------------------------------------------------------------------------------- */

static const struct door_hooks hooks;

void e2b_layer_free(struct e2b_layer *layer)
{
        TAILQ_REMOVE(&layer->build->layers, layer, link);
        layer->build->door.daemon->e2b->layer_bytes -= layer->counted_bytes;
        spool_done(&layer->bytes);
        free(layer->hash);
        free(layer);
}

static void drop_layers(struct e2b_build *b)
{
        while (!TAILQ_EMPTY(&b->layers))
                e2b_layer_free(TAILQ_FIRST(&b->layers));
}

static void build_free(struct e2b_build *b)
{
        TAILQ_REMOVE(&b->door.daemon->e2b->builds, b, link);
        drop_layers(b);
        door_done(&b->door);
        json_decref(b->request);
        json_decref(b->env);
        json_decref(b->log);
        json_decref(b->reason);
        json_decref(b->tags);
        json_decref(b->limits);
        json_decref(b->keys);
        json_decref(b->params);
        buf_done(&b->line);
        free(b->name);
        free(b->cwd);
        free(b->user);
        free(b);
}

void e2b_builds_done(struct e2b *e2b)
{
        while (!TAILQ_EMPTY(&e2b->builds))
                build_free(TAILQ_FIRST(&e2b->builds));
}

void e2b_builds_sweep(struct e2b *e2b, uint64_t now_ns)
{
        struct e2b_build *next;

        for (struct e2b_build *b = TAILQ_FIRST(&e2b->builds); b; b = next) {
                next = TAILQ_NEXT(b, link);
                if (b->state == BUILD_WAITING && now_ns - b->touched_ns > UNSTARTED_NS)
                        build_free(b);
        }
}

int e2b_builds_wait(const struct e2b *e2b)
{
        const struct e2b_build *b;

        TAILQ_FOREACH (b, &e2b->builds, link)
                if (b->state == BUILD_WAITING)
                        return 1;
        return 0;
}

static void forget_old(struct e2b *e2b)
{
        struct e2b_build *b, *oldest = NULL;
        unsigned count = 0;

        TAILQ_FOREACH (b, &e2b->builds, link)
                if (b->state != BUILD_RUNNING && !b->door.open) {
                        oldest = oldest ? oldest : b;
                        count++;
                }
        if (count >= KEPT_MOST)
                build_free(oldest);
}

struct e2b_build *e2b_build_new(struct daemon *d, const char *name, json_t *tags, json_t *limits)
{
        struct e2b_build *b = calloc(1, sizeof(*b));

        if (!b)
                return NULL;
        forget_old(d->e2b);
        b->door = (struct door){.hooks = &hooks, .daemon = d, .principal = PRINCIPAL_TOKEN};
        e2b_random_id(b->id, sizeof(b->id));
        b->touched_ns = clock_now_ns();
        TAILQ_INIT(&b->layers);
        b->line = (struct buf)BUF_INIT(LINE_BYTES);
        b->log = json_array();
        b->env = json_object();
        b->name = strdup(name);
        b->tags = json_incref(tags);
        b->limits = json_incref(limits);
        b->cwd = strdup(E2B_HOME);
        TAILQ_INSERT_TAIL(&d->e2b->builds, b, link);
        if (b->log && b->env && b->name && b->cwd)
                return b;
        build_free(b);
        return NULL;
}

struct e2b_build *e2b_build_find(const struct e2b *e2b, const char *name, const char *id)
{
        struct e2b_build *b;

        TAILQ_FOREACH_REVERSE (b, &e2b->builds, e2b_builds, link)
                if (strcmp(b->name, name) == 0 && (!id || strcmp(b->id, id) == 0))
                        return b;
        return NULL;
}

struct e2b_layer *e2b_layer_find(const struct e2b_build *b, const char *hash)
{
        struct e2b_layer *layer;

        TAILQ_FOREACH (layer, &b->layers, link)
                if (layer->is_whole && strcmp(layer->hash, hash) == 0)
                        return layer;
        return NULL;
}

/* -- the log ----------------------------------------------------------------------------------------------------- */

void e2b_build_log(struct e2b_build *b, const char *level, const char *bytes, size_t size)
{
        char now[CLOCK_TEXT_SIZE];

        if (b->log_bytes > LOG_BYTES)
                return;
        b->log_bytes += size + ENTRY_BYTES;
        if (b->log_bytes > LOG_BYTES) {
                bytes = "the rest of the output is left out";
                size = strlen(bytes);
        }
        json_array_append_new(b->log, json_pack("{s:s, s:s, s:o}", "timestamp", clock_text_now(now), "level", level,
                                                "message", json_valid_text(bytes, size)));
}

void e2b_build_end_line(struct e2b_build *b)
{
        if (b->line.size > 0)
                e2b_build_log(b, "info", b->line.data, b->line.size);
        b->line.size = 0;
}

static void on_event(struct door *door, const char *event, const json_t *about, const struct buf *attachments)
{
        struct e2b_build *b = (struct e2b_build *)door;
        const char *bytes;
        size_t size;

        if (strcmp(event, "output") != 0 || !door_bytes(json_object_get(about, "data"), attachments, &bytes, &size))
                return;
        while (size > 0) {
                const char *end = memchr(bytes, '\n', size);
                size_t part = end ? (size_t)(end - bytes) : size, room = LINE_BYTES - b->line.size;
                int is_cut = part > room;

                if (is_cut)
                        part = room;
                if (buf_append(&b->line, bytes, part) < 0 || is_cut || end)
                        e2b_build_end_line(b);
                bytes += part + (end && !is_cut);
                size -= part + (end && !is_cut);
        }
}

static void on_reply(struct door *door, const struct door_reply *reply)
{
        struct e2b_build *b = (struct e2b_build *)door;
        void (*then)(struct e2b_build * b, const struct door_reply *reply) = b->then;

        b->then = NULL;
        if (then)
                then(b, reply);
}

static const struct door_hooks hooks = {.reply = on_reply, .event = on_event};

void e2b_build_call(struct e2b_build *b, const char *method, json_t *params, const struct buf *attachments,
                    void (*then)(struct e2b_build *b, const struct door_reply *reply))
{
        b->then = then;
        door_call(&b->door, method, params, attachments);
}

/* -- the end ----------------------------------------------------------------------------------------------------- */

static void on_trimmed(struct e2b_build *b)
{
        if (b->door.sandbox)
                e2b_build_call(b, "sandbox.delete", json_object(), NULL, NULL);
}

static void end(struct e2b_build *b)
{
        drop_layers(b);
        json_decref(b->request); /* it may be large, and the build is kept for its log */
        b->request = NULL;
        e2b_cache_trim(b, on_trimmed);
}

/* step: 1 is the first one; "base" and "finalize" are around them. */
void e2b_build_fail(struct e2b_build *b, const char *step, const char *message)
{
        json_t *last = json_array_get(b->log, json_array_size(b->log) - 1);
        char number[24];

        snprintf(number, sizeof(number), "%zu", b->step + 1);
        if (last && strcmp(e2b_text(last, "message"), message) == 0) /* the script said so itself */
                json_object_set_new(last, "level", json_string("error"));
        else
                e2b_build_log(b, "error", message, strlen(message));
        b->reason = json_pack("{s:o, s:s}", "message", json_valid_text(message, strlen(message)), "step",
                              step ? step : number);
        b->state = BUILD_FAILED;
        end(b);
}

/* True if the step goes on. */
int e2b_build_went_well(struct e2b_build *b, const struct door_reply *reply, const char *step)
{
        if (reply->e)
                e2b_build_fail(b, step, reply->e->msg);
        return !reply->e;
}

static char *settings_of(const struct e2b_build *b)
{
        json_t *settings = json_pack("{s:O, s:O*, s:s, s:s*, s:O*, s:O*}", "env", b->env, "limits", b->limits, "cwd",
                                     b->cwd, "user", b->user, "start", json_object_get(b->request, "startCmd"), "ready",
                                     json_object_get(b->request, "readyCmd"));
        char *text = json_dump_text(settings, JSON_COMPACT);

        json_decref(settings);
        return text;
}

/* The snapshot of one of its tags. */
static void reference_of(const struct e2b_build *b, size_t tag, struct e2b_reference *ret)
{
        json_t *text = json_sprintf("%s:%s", b->name, json_string_value(json_array_get(b->tags, tag)));

        (void)e2b_reference_read(json_string_value(text), ret); /* they were checked */
        json_decref(text);
}

static void on_kept(struct e2b_build *b, const struct door_reply *reply)
{
        struct e2b_reference first, to;

        if (reply->e && b->kept && b->door.sandbox && b->tagged == 0) { /* another build removed it meanwhile */
                b->kept = NULL;
                e2b_build_finish(b);
                return;
        }
        if (!e2b_build_went_well(b, reply, "finalize"))
                return;
        if (++b->tagged < json_array_size(b->tags)) {
                reference_of(b, 0, &first);
                reference_of(b, b->tagged, &to);
                e2b_build_call(b, "snapshot.copy",
                               e2b_tag_params(first.snapshot, &to,
                                              json_deep_copy(json_object_get(reply->result, "labels"))),
                               NULL, on_kept);
                return;
        }
        b->state = BUILD_READY;
        end(b);
}

/* The result of the last step is a snapshot already, if it is all that the sandbox has: the
 * template shares its files then. An earlier template of the name stays until this one is whole. */
void e2b_build_finish(struct e2b_build *b)
{
        char *text = settings_of(b), message[120], step[E2B_STEP_NAME_SIZE];
        struct e2b_reference first;
        int is_copy = e2b_cache_name(b, step);
        json_t *params;

        reference_of(b, 0, &first);
        snprintf(message, sizeof(message), "the variables and commands of a template have at most %u bytes as JSON",
                 SETTINGS_BYTES_MAX);
        if (text && strlen(text) <= SETTINGS_BYTES_MAX) {
                params = json_pack("{s:s, s:b, s:{s:s, s:s, s:s, s:s}}", is_copy ? "to" : "snapshot", first.snapshot,
                                   "replace", 1, "labels", E2B_LABEL_BUILD, b->id, E2B_LABEL_SETTINGS, text,
                                   E2B_LABEL_NAME, first.name, E2B_LABEL_TAG, first.tag);
                if (is_copy)
                        json_object_set_new(params, "snapshot", json_string(step));
                e2b_build_call(b, is_copy ? "snapshot.copy" : "sandbox.snapshot", params, NULL, on_kept);
        } else {
                e2b_build_fail(b, "finalize", text ? message : "out of memory");
        }
        free(text);
}

/* -- the beginning ----------------------------------------------------------------------------------------------- */

/* The base of a client that states none, and its own images, are the daemon's. */
static const char *base_of(const json_t *request)
{
        static const char own[] = "e2bdev/";
        const char *image = e2b_text(request, "fromImage"), *template = e2b_text(request, "fromTemplate");

        if (image && strncmp(image, own, sizeof(own) - 1) != 0)
                return image;
        return !image && template ? template : "base";
}

static int wants_root(const json_t *request)
{
        const json_t *steps = json_object_get(request, "steps");

        for (size_t i = 0; i < json_array_size(steps); i++) {
                const json_t *step = json_array_get(steps, i), *args = json_object_get(step, "args");
                const char *type = e2b_text(step, "type"), *one = json_string_value(json_array_get(args, 0)),
                           *two = json_string_value(json_array_get(args, 1));

                if (type && ((strcmp(type, "USER") == 0 && one && strcmp(one, "root") == 0) ||
                             (strcmp(type, "RUN") == 0 && two && strcmp(two, "root") == 0)))
                        return 1;
        }
        return 0;
}

static void on_home(struct e2b_build *b, const struct door_reply *reply)
{
        if (e2b_build_went_well(b, reply, "base"))
                e2b_build_go_on(b);
}

static void on_created(struct e2b_build *b, const struct door_reply *reply)
{
        if (!e2b_build_went_well(b, reply, "base"))
                return;
        b->has_root = e2b_has_root(reply->result);
        if (wants_root(b->request) && !b->has_root)
                e2b_build_fail(b, "base",
                               "a step runs as root, which this base does not have: begin with an image of the "
                               "daemon's store "
                               "(fromImage)");
        else
                e2b_build_call(b, "file.mkdir", json_pack("{s:s, s:b}", "path", E2B_HOME, "recursive", 1), NULL,
                               on_home);
}

void e2b_build_create(struct e2b_build *b, json_t *params)
{
        char id[E2B_ID_SIZE];

        e2b_random_id(id, sizeof(id));
        b->door.sandbox = strdup(id);
        door_put(params, "env", e2b_user_env());
        door_put(params, "labels", json_pack("{s:s}", E2B_LABEL_BUILD, b->id));
        door_put(params, "lifetimeMs", json_integer(LIFE_MS));
        door_put(params, "endAction", json_string("delete"));
        door_put(params, "network", e2b_network(b->door.daemon));
        door_put(params, "startup", json_object()); /* of the base: they are none of the template's */
        door_put(params, "limits", json_incref(b->limits));
        e2b_build_call(b, "sandbox.create", params, NULL, on_created);
}

/* With a base. about: its contents, and params: of sandbox.create with it; both stolen. All else
 * that the results of steps depend on is the same for the whole build. */
static void begin(struct e2b_build *b, json_t *about, json_t *params)
{
        json_t *network = e2b_network(b->door.daemon);

        e2b_cache_begin(b,
                        json_pack("{s:o*, s:o*, s:I, s:b, s:O*, s:O, s:s, s:s*}", "base", about, "network", network,
                                  "principal", (json_int_t)b->door.principal, "root", wants_root(b->request), "limits",
                                  b->limits, "env", b->env, "cwd", b->cwd, "user", b->user),
                        params);
}

static void on_image(void *data, const json_t *result, const struct cloche_err *e)
{
        struct e2b_build *b = data;
        const char *name = base_of(b->request);
        json_t *params, *settings;
        char message[400];

        b->door.image = NULL;
        if (e) {
                snprintf(message, sizeof(message), "this machine's store: %.370s", e->msg);
                e2b_build_fail(b, "base", message);
                return;
        }
        settings = image_settings_pick(result);
        if (wants_root(b->request)) /* the user is that of the template */
                (void)json_object_del(settings, "runsAs");
        params = json_pack("{s:s, s:b, s:o}", "image", name, wants_root(b->request) ? "root" : "writableRoot", 1,
                           "imageSettings", settings);
        if (image_name_put(params, result, 1) == 0) {
                begin(b, json_pack("{s:O}", "image", json_object_get(result, "id")), params);
                return;
        }
        json_decref(params);
        e2b_build_fail(b, "base", "the program of the image store sent an invalid message");
}

/* A template that begins with another one has its variables and directory. */
static void take_settings(struct e2b_build *b, const json_t *snapshot)
{
        json_t *settings = e2b_settings(snapshot);
        const char *cwd = e2b_text(settings, "cwd"), *user = e2b_text(settings, "user");
        char *copy = cwd ? strdup(cwd) : NULL;

        json_object_update(b->env, json_object_get(settings, "env"));
        if (copy) {
                free(b->cwd);
                b->cwd = copy;
        }
        b->user = user ? strdup(user) : NULL;
        if (!b->limits)
                b->limits = json_incref(json_object_get(settings, "limits"));
        json_decref(settings);
}

static void on_snapshot(struct e2b_build *b, const struct door_reply *reply)
{
        const char *name = base_of(b->request);
        struct cloche_err e = {0};

        if (!reply->e) {
                take_settings(b, reply->result);
                begin(b,
                      json_pack("{s:O, s:O*, s:O*}", "labels", json_object_get(reply->result, "labels"), "digest",
                                json_object_get(reply->result, "digest"), "tree",
                                json_object_get(reply->result, "image")),
                      json_pack("{s:O}", "snapshot", json_object_get(reply->result, "snapshot")));
        } else if (images_read(b->door.daemon, "resolve", json_pack("{s:s}", "name", name), on_image, b, &b->door.image,
                               &e) < 0) {
                on_image(b, NULL, &e);
        }
}

void e2b_build_begin(struct e2b_build *b, json_t *request)
{
        const char *name = base_of(request);
        struct e2b_reference of;

        b->request = json_incref(request);
        b->state = BUILD_RUNNING;
        if (e2b_is_own_image(name))
                begin(b, json_pack("{s:s*}", "own", b->door.daemon->options.engine.image), json_object());
        else
                e2b_build_call(b, "snapshot.get",
                               json_pack("{s:s}", "snapshot", e2b_reference_read(name, &of) ? of.snapshot : name), NULL,
                               on_snapshot);
}
