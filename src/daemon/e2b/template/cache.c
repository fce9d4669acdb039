/* Results of steps, for later builds: a snapshot of the sandbox behind each RUN and COPY, under a
 * name that follows from its key. Runs in: cloched-engine, on its loop, with the rights of the
 * daemon's user. */
#include "step.h"

#include "base/hex.h"
#include "wire/json.h"

#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "e2b-step-"
#define KEY_SIZE 65
#define STEPS_MOST 64
#define BYTES_MOST (INT64_C(4) << 30) /* of the archives of all steps */

/* -- keys -------------------------------------------------------------------------------------------------------- */

/* The key of a step: that before it, and all that it says but for the word not to use
 * this cache. parts: stolen. */
static int make_key(const char *before, json_t *parts, char ret[KEY_SIZE])
{
        char *text = json_dump_text(parts, JSON_COMPACT | JSON_SORT_KEYS);
        uint8_t digest[SHA256_DIGEST_SIZE];
        struct sha256_ctx hash;

        json_decref(parts);
        if (!text)
                return -1;
        sha256_init(&hash);
        sha256_update(&hash, strlen(before), (const uint8_t *)before);
        sha256_update(&hash, strlen(text), (const uint8_t *)text);
        sha256_digest(&hash, sizeof(digest), digest);
        hex_write(ret, digest, sizeof(digest));
        free(text);
        return 0;
}

/* NULL: no memory. */
static json_t *make_keys(const json_t *steps, json_t *about)
{
        json_t *keys = json_array();
        char key[KEY_SIZE];
        int r = make_key("", about, key);

        for (size_t i = 0; r == 0 && i < json_array_size(steps); i++) {
                const json_t *step = json_array_get(steps, i);

                r = make_key(key,
                             json_pack("{s:O, s:O*, s:O*}", "type", json_object_get(step, "type"), "args",
                                       json_object_get(step, "args"), "files", json_object_get(step, "filesHash")),
                             key);
                json_array_append_new(keys, json_string(key));
        }
        if (r == 0)
                return keys;
        json_decref(keys);
        return NULL;
}

static void write_name(const char *key, char ret[E2B_STEP_NAME_SIZE])
{
        snprintf(ret, E2B_STEP_NAME_SIZE, PREFIX "%.40s", key);
}

int e2b_cache_name(const struct e2b_build *b, char ret[E2B_STEP_NAME_SIZE])
{
        if (b->kept)
                write_name(b->kept, ret);
        return b->kept != NULL;
}

static const char *key_of(const json_t *snapshot)
{
        return e2b_text(json_object_get(snapshot, "labels"), E2B_LABEL_STEP);
}

/* -- the last result --------------------------------------------------------------------------------------------- */

/* The first step that the client wants to be carried out in any case. */
static size_t first_forced(const json_t *request)
{
        const json_t *steps = json_object_get(request, "steps");
        size_t i = 0;

        if (json_is_true(json_object_get(request, "force")))
                return 0;
        while (i < json_array_size(steps) && !json_is_true(json_object_get(json_array_get(steps, i), "force")))
                i++;
        return i;
}

/* The number of steps whose result is there. */
static size_t count_done(const struct e2b_build *b, const json_t *snapshots)
{
        json_t *there = json_object();
        size_t count = first_forced(b->request);

        for (size_t i = 0; i < json_array_size(snapshots); i++) {
                const char *key = key_of(json_array_get(snapshots, i));

                if (key)
                        json_object_set_new(there, key, json_true());
        }
        while (count > 0 && !json_object_get(there, json_string_value(json_array_get(b->keys, count - 1))))
                count--;
        json_decref(there);
        return count;
}

static void on_listed(struct e2b_build *b, const struct door_reply *reply)
{
        size_t count = reply->e ? 0 : count_done(b, json_object_get(reply->result, "snapshots"));
        json_t *params = b->params;
        char name[E2B_STEP_NAME_SIZE];

        b->params = NULL;
        if (count == 0) {
                e2b_build_create(b, params);
                return;
        }
        json_decref(params);
        b->kept = json_string_value(json_array_get(b->keys, count - 1));
        for (; b->step < count; b->step++) {
                e2b_step_log(b, "CACHED ");
                e2b_step_repeat(b);
        }
        if (!e2b_step_is_over(b)) {
                write_name(b->kept, name);
                e2b_build_create(b, json_pack("{s:s}", "snapshot", name));
                return;
        }
        for (; b->step < json_array_size(b->keys); b->step++)
                e2b_step_repeat(b);
        e2b_build_finish(b);
}

void e2b_cache_begin(struct e2b_build *b, json_t *about, json_t *params)
{
        b->keys = make_keys(json_object_get(b->request, "steps"), about);
        b->params = params;
        if (b->keys)
                e2b_build_call(b, "snapshot.list", json_object(), NULL, on_listed);
        else
                e2b_build_fail(b, "base", "out of memory");
}

/* -- keeping ----------------------------------------------------------------------------------------------------- */

static void on_kept(struct e2b_build *b, const struct door_reply *reply)
{
        if (reply->e)
                e2b_build_log(b, "warn", reply->e->msg, strlen(reply->e->msg));
        else
                b->kept = json_string_value(json_array_get(b->keys, b->step));
        b->step++;
        e2b_build_go_on(b);
}

void e2b_cache_keep(struct e2b_build *b)
{
        const char *key = json_string_value(json_array_get(b->keys, b->step));
        char name[E2B_STEP_NAME_SIZE];

        write_name(key, name);
        e2b_build_call(b, "sandbox.snapshot",
                       json_pack("{s:s, s:b, s:{s:s}}", "snapshot", name, "replace", 1, "labels", E2B_LABEL_STEP, key),
                       NULL, on_kept);
}

/* -- bounds ------------------------------------------------------------------------------------------------------ */

static void remove_next(struct e2b_build *b, const struct door_reply *reply)
{
        json_t *name = json_array_get(b->params, 0);

        (void)reply;
        if (!name) {
                json_decref(b->params);
                b->params = NULL;
                b->trimmed(b);
                return;
        }
        json_incref(name);
        (void)json_array_remove(b->params, 0);
        e2b_build_call(b, "snapshot.delete", json_pack("{s:o}", "snapshot", name), NULL, remove_next);
}

static int compare(const void *one, const void *other)
{
        const json_t *const *a = one, *const *b = other;

        return strcmp(e2b_text(*b, "createdAt"), e2b_text(*a, "createdAt")); /* the newest first */
}

/* Names of those beyond the bounds. */
static json_t *surplus(const json_t *snapshots)
{
        const size_t size = json_array_size(snapshots);
        const json_t **steps = calloc(size + 1, sizeof(*steps));
        json_t *names = json_array();
        int64_t bytes = 0;
        size_t count = 0;

        for (size_t i = 0; steps && i < size; i++)
                if (key_of(json_array_get(snapshots, i)))
                        steps[count++] = json_array_get(snapshots, i);
        if (steps)
                qsort(steps, count, sizeof(*steps), compare);
        for (size_t i = 0; i < count; i++) {
                bytes += json_integer_value(json_object_get(steps[i], "bytes"));
                if (i >= STEPS_MOST || bytes > BYTES_MOST)
                        json_array_append(names, json_object_get(steps[i], "snapshot"));
        }
        free(steps);
        return names;
}

static void on_all(struct e2b_build *b, const struct door_reply *reply)
{
        json_decref(b->params);
        b->params = surplus(json_object_get(reply->result, "snapshots"));
        remove_next(b, reply);
}

void e2b_cache_trim(struct e2b_build *b, void (*done)(struct e2b_build *b))
{
        b->trimmed = done;
        e2b_build_call(b, "snapshot.list", json_object(), NULL, on_all);
}
