/* Templates that were built, by name and tag: each tag is a snapshot of its own, and those of one
 * build share their files. Runs in: cloched-engine, on its loop, with the rights of the daemon's
 * user. */
#include "build.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- names ------------------------------------------------------------------------------------------------------- */

/* Names of snapshots are letters, digits and '-': other characters of a tag are written as -HH. */
int e2b_reference_read(const char *text, struct e2b_reference *ret)
{
        const char *colon = text ? strchr(text, ':') : NULL, *tag = colon ? colon + 1 : E2B_TAG;
        size_t size = colon ? (size_t)(colon - text) : text ? strlen(text) : 0, at;

        *ret = (struct e2b_reference){.has_tag = colon != NULL};
        if (size == 0 || size >= sizeof(ret->name) || !*tag || strlen(tag) >= sizeof(ret->tag) || strpbrk(tag, ":/"))
                return 0;
        memcpy(ret->name, text, size);
        strcpy(ret->tag, tag);
        if (strcmp(tag, E2B_TAG) == 0) {
                strcpy(ret->snapshot, ret->name);
                return 1;
        }
        at = (size_t)snprintf(ret->snapshot, sizeof(ret->snapshot), "%s--", ret->name);
        for (; *tag; tag++)
                at += (size_t)snprintf(ret->snapshot + at, sizeof(ret->snapshot) - at,
                                       isalnum((unsigned char)*tag) ? "%c" : "-%02x", (unsigned char)*tag);
        return 1;
}

int e2b_reference_check(struct e2b_request *q, const char *text, struct e2b_reference *ret)
{
        if (e2b_reference_read(text, ret) && strlen(ret->snapshot) <= E2B_NAME_SIZE)
                return 1;
        e2b_refuse(q, 400, "invalid_argument",
                   "'%.120s' is no template and tag: expected NAME or NAME:TAG, together at most %d letters, digits "
                   "and '-'; another character of a tag counts as three",
                   text ? text : "", E2B_NAME_SIZE);
        return 0;
}

int e2b_tag_check(struct e2b_request *q, const char *name, const json_t *tag, struct e2b_reference *ret)
{
        json_t *text = json_sprintf("%s:%s", name, json_is_string(tag) ? json_string_value(tag) : "");
        int is_good = e2b_reference_check(q, json_string_value(text), ret);

        json_decref(text);
        return is_good;
}

static const char *label_of(const json_t *snapshot, const char *label)
{
        return e2b_text(json_object_get(snapshot, "labels"), label);
}

static const char *name_of(const json_t *snapshot)
{
        const char *name = label_of(snapshot, E2B_LABEL_NAME);

        return name ? name : e2b_text(snapshot, "snapshot");
}

static const char *tag_of(const json_t *snapshot)
{
        const char *tag = label_of(snapshot, E2B_LABEL_TAG);

        return tag ? tag : E2B_TAG;
}

static int is_public(const json_t *snapshot)
{
        return label_of(snapshot, E2B_LABEL_PUBLIC) != NULL;
}

static int is_template(const json_t *snapshot)
{
        return label_of(snapshot, E2B_LABEL_BUILD) != NULL;
}

/* -- several requests of one ------------------------------------------------------------------------------------- */

struct calls {
        json_t *all; /* of [method, params] */
        size_t next;
        unsigned status; /* of the answer, when all have succeeded */
        json_t *answer;  /* NULL: 204 */
};

static void calls_done(void *state)
{
        struct calls *calls = state;

        json_decref(calls->all);
        json_decref(calls->answer);
        free(calls);
}

static void next_call(struct e2b_request *q, const struct door_reply *reply)
{
        struct calls *calls = q->state;
        const json_t *call = json_array_get(calls->all, calls->next++);

        (void)reply;
        if (call)
                e2b_call(q, json_string_value(json_array_get(call, 0)), json_incref(json_array_get(call, 1)), NULL,
                         next_call);
        else if (calls->answer)
                e2b_answer(q, calls->status, json_incref(calls->answer));
        else
                e2b_answer_empty(q);
}

/* all, answer: stolen. */
static void call_all(struct e2b_request *q, json_t *all, unsigned status, json_t *answer)
{
        struct calls *calls = calloc(1, sizeof(*calls));

        if (!calls || !all) {
                free(calls);
                json_decref(all);
                json_decref(answer);
                e2b_refuse(q, 500, "internal", "out of memory");
                return;
        }
        *calls = (struct calls){.all = all, .status = status, .answer = answer};
        q->state = calls;
        q->state_done = calls_done;
        next_call(q, NULL);
}

static json_t *deletion_of(const char *snapshot)
{
        return json_pack("[s, {s:s}]", "snapshot.delete", "snapshot", snapshot);
}

json_t *e2b_tag_params(const char *snapshot, const struct e2b_reference *to, json_t *labels)
{
        json_object_set_new(labels, E2B_LABEL_NAME, json_string(to->name));
        json_object_set_new(labels, E2B_LABEL_TAG, json_string(to->tag));
        return json_pack("{s:s, s:s, s:b, s:o}", "snapshot", snapshot, "to", to->snapshot, "replace", 1, "labels",
                         labels);
}

/* -- list -------------------------------------------------------------------------------------------------------- */

/* The template states them; else its sandboxes have the daemon's. */
static json_int_t limit_of(const json_t *snapshot, const char *limit, json_int_t unit, json_int_t without)
{
        json_t *settings = e2b_settings(snapshot);
        json_int_t value = json_integer_value(json_object_get(json_object_get(settings, "limits"), limit));

        json_decref(settings);
        return value > 0 ? value / unit : without;
}

static json_int_t cpus_of(const json_t *snapshot)
{
        return limit_of(snapshot, "cpuPercent", 100, 1);
}

static json_int_t memory_of(const json_t *snapshot)
{
        return limit_of(snapshot, "memoryBytes", 1 << 20, 0);
}

/* As the clients know them. */
static json_t *template_of(const json_t *snapshot)
{
        const char *name = name_of(snapshot);
        json_t *at = json_object_get(snapshot, "createdAt");

        return json_pack("{s:s, s:s, s:I, s:I, s:i, s:b, s:[s], s:[s], s:O, s:O, s:n, s:n, s:i, s:i, s:s, s:s}",
                         "templateID", name, "buildID", label_of(snapshot, E2B_LABEL_BUILD), "cpuCount",
                         cpus_of(snapshot), "memoryMB", memory_of(snapshot), "diskSizeMB", 0, "public",
                         is_public(snapshot), "aliases", name, "names", name, "createdAt", at, "updatedAt", at,
                         "createdBy", "lastSpawnedAt", "spawnCount", 0, "buildCount", 1, "envdVersion",
                         E2B_ENVD_VERSION, "buildStatus", "ready");
}

/* One row for each name: that of its default tag, if it has one. */
static void on_all(struct e2b_request *q, const struct door_reply *reply)
{
        const json_t *snapshots = json_object_get(reply->result, "snapshots");
        json_t *by_name = json_object(), *all = json_array(), *one;
        const char *name;

        for (size_t i = 0; i < json_array_size(snapshots); i++) {
                const json_t *snapshot = json_array_get(snapshots, i);

                name = name_of(snapshot);
                if (is_template(snapshot) &&
                    (!json_object_get(by_name, name) || strcmp(tag_of(snapshot), E2B_TAG) == 0))
                        json_object_set_new(by_name, name, template_of(snapshot));
        }
        json_object_foreach (by_name, name, one)
                json_array_append(all, one);
        json_decref(by_name);
        e2b_answer(q, 200, all);
}

void e2b_on_template_list(struct e2b_request *q)
{
        e2b_call(q, "snapshot.list", json_object(), NULL, on_all);
}

/* -- one --------------------------------------------------------------------------------------------------------- */

static void on_alias(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        e2b_answer(q, 200, json_pack("{s:s, s:b}", "templateID", q->parts[0], "public", 0));
}

static void on_none(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        e2b_refuse(q, 404, "not_found", "template '%.120s' not found", q->parts[0]);
}

static void get_snapshot(struct e2b_request *q, const char *text, e2b_then then)
{
        struct e2b_reference of;

        if (!e2b_reference_read(text, &of)) {
                on_none(q, NULL);
                return;
        }
        q->fail = on_none;
        e2b_call(q, "snapshot.get", json_pack("{s:s}", "snapshot", of.snapshot), NULL, then);
}

void e2b_on_template_alias(struct e2b_request *q)
{
        if (e2b_is_own_image(q->parts[0]))
                on_alias(q, NULL);
        else
                get_snapshot(q, q->parts[0], on_alias);
}

/* The snapshots of the template that the path names; an empty array: none. */
static json_t *those_of(const struct e2b_request *q, const json_t *reply, int (*is_one)(const json_t *snapshot))
{
        const json_t *snapshots = json_object_get(reply, "snapshots");
        json_t *found = json_array();

        for (size_t i = 0; i < json_array_size(snapshots); i++) {
                json_t *snapshot = json_array_get(snapshots, i);

                if (is_one(snapshot) && strcmp(name_of(snapshot), q->parts[0]) == 0)
                        json_array_append(found, snapshot);
        }
        return found;
}

static void on_template(struct e2b_request *q, const struct door_reply *reply)
{
        json_t *found = those_of(q, reply->result, is_template), *builds = json_array(), *template;

        for (size_t i = 0; i < json_array_size(found); i++) {
                const json_t *one = json_array_get(found, i);
                json_t *at = json_object_get(one, "createdAt");

                json_array_append_new(builds, json_pack("{s:s, s:s, s:O, s:O, s:I, s:I, s:[s]}", "buildID",
                                                        label_of(one, E2B_LABEL_BUILD), "status", "ready", "createdAt",
                                                        at, "updatedAt", at, "cpuCount", cpus_of(one), "memoryMB",
                                                        memory_of(one), "tags", tag_of(one)));
        }
        if (json_array_size(found) > 0) {
                template = template_of(json_array_get(found, 0));
                json_object_set(template, "builds", builds);
                e2b_answer(q, 200, template);
        } else {
                on_none(q, reply);
        }
        json_decref(builds);
        json_decref(found);
}

void e2b_on_template_get(struct e2b_request *q)
{
        e2b_call(q, "snapshot.list", json_object(), NULL, on_template);
}

/* -- removal and publication ------------------------------------------------------------------------------------- */

/* all: one for each snapshot that was found; it and answer: stolen. */
static void call_found(struct e2b_request *q, json_t *all, unsigned status, json_t *answer)
{
        if (!all || json_array_size(all) > 0) {
                call_all(q, all, status, answer);
                return;
        }
        json_decref(all);
        json_decref(answer);
        on_none(q, NULL);
}

static int is_any(const json_t *snapshot)
{
        (void)snapshot;
        return 1;
}

static void on_deletable(struct e2b_request *q, const struct door_reply *reply)
{
        json_t *found = those_of(q, reply->result, is_any), *calls = json_array();

        for (size_t i = 0; i < json_array_size(found); i++)
                json_array_append_new(calls, deletion_of(e2b_text(json_array_get(found, i), "snapshot")));
        json_decref(found);
        call_found(q, calls, 204, NULL);
}

/* A template goes with all its tags. A snapshot of a user's is named the same way. */
void e2b_on_template_delete(struct e2b_request *q)
{
        struct e2b_reference of;

        if (!e2b_reference_read(q->parts[0], &of))
                on_none(q, NULL);
        else if (of.has_tag)
                call_all(q, json_pack("[o]", deletion_of(of.snapshot)), 204, NULL);
        else
                e2b_call(q, "snapshot.list", json_object(), NULL, on_deletable);
}

static void on_publishable(struct e2b_request *q, const struct door_reply *reply)
{
        json_t *found = those_of(q, reply->result, is_template), *calls = json_array();
        int wanted = json_is_true(json_object_get(q->body, "public"));

        for (size_t i = 0; i < json_array_size(found); i++) {
                const json_t *one = json_array_get(found, i);
                json_t *labels = json_deep_copy(json_object_get(one, "labels"));
                struct e2b_reference at = {0};

                snprintf(at.snapshot, sizeof(at.snapshot), "%s", e2b_text(one, "snapshot"));
                snprintf(at.name, sizeof(at.name), "%s", name_of(one));
                snprintf(at.tag, sizeof(at.tag), "%s", tag_of(one));
                (void)json_object_del(labels, E2B_LABEL_PUBLIC);
                if (wanted)
                        json_object_set_new(labels, E2B_LABEL_PUBLIC, json_string("true"));
                json_array_append_new(calls, json_pack("[s, o]", "snapshot.copy",
                                                       e2b_tag_params(e2b_text(one, "snapshot"), &at, labels)));
        }
        json_decref(found);
        call_found(q, calls, 200, json_pack("{s:[s]}", "names", q->parts[0]));
}

/* All callers with a key see all templates: the word is kept for them, and changes nothing. */
void e2b_on_template_update(struct e2b_request *q)
{
        if (json_is_boolean(json_object_get(q->body, "public")))
                e2b_call(q, "snapshot.list", json_object(), NULL, on_publishable);
        else
                e2b_refuse(q, 400, "invalid_argument", "'public' is missing, expected true or false");
}

/* -- tags -------------------------------------------------------------------------------------------------------- */

static void on_tags(struct e2b_request *q, const struct door_reply *reply)
{
        json_t *found = those_of(q, reply->result, is_template), *tags = json_array();

        for (size_t i = 0; i < json_array_size(found); i++) {
                const json_t *one = json_array_get(found, i);

                json_array_append_new(tags, json_pack("{s:s, s:s, s:O}", "tag", tag_of(one), "buildID",
                                                      label_of(one, E2B_LABEL_BUILD), "createdAt",
                                                      json_object_get(one, "createdAt")));
        }
        if (json_array_size(tags) > 0)
                e2b_answer(q, 200, json_incref(tags));
        else
                on_none(q, reply);
        json_decref(tags);
        json_decref(found);
}

void e2b_on_tags(struct e2b_request *q)
{
        e2b_call(q, "snapshot.list", json_object(), NULL, on_tags);
}

/* True, or the request is refused. */
static int check_tags(struct e2b_request *q)
{
        size_t count = json_array_size(json_object_get(q->body, "tags"));

        if (count > 0 && count <= E2B_TAGS_MAX)
                return 1;
        e2b_refuse(q, 400, "invalid_argument", "'tags' must be 1 to %d texts", E2B_TAGS_MAX);
        return 0;
}

static void on_target(struct e2b_request *q, const struct door_reply *reply)
{
        json_t *tags = json_object_get(q->body, "tags"), *calls = json_array();
        const char *build = label_of(reply->result, E2B_LABEL_BUILD), *name = name_of(reply->result);
        struct e2b_reference to;

        for (size_t i = 0; i < json_array_size(tags) && build; i++) {
                if (!e2b_tag_check(q, name, json_array_get(tags, i), &to)) {
                        json_decref(calls);
                        return;
                }
                if (strcmp(to.snapshot, e2b_text(reply->result, "snapshot")) != 0)
                        json_array_append_new(calls,
                                              json_pack("[s, o]", "snapshot.copy",
                                                        e2b_tag_params(e2b_text(reply->result, "snapshot"), &to,
                                                                       json_deep_copy(json_object_get(reply->result,
                                                                                                      "labels")))));
        }
        if (build) {
                call_all(q, calls, 201, json_pack("{s:s, s:O}", "buildID", build, "tags", tags));
        } else {
                json_decref(calls);
                e2b_refuse(q, 404, "not_found", "'%.120s' is a snapshot, not a template: it has no tags", name);
        }
}

static void on_no_target(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        e2b_refuse(q, 404, "not_found", "template '%.120s' not found", e2b_text(q->body, "target"));
}

void e2b_on_tags_assign(struct e2b_request *q)
{
        struct e2b_reference from;

        if (!check_tags(q) || !e2b_reference_check(q, e2b_text(q->body, "target"), &from))
                return;
        q->fail = on_no_target;
        e2b_call(q, "snapshot.get", json_pack("{s:s}", "snapshot", from.snapshot), NULL, on_target);
}

static void on_no_tag(struct e2b_request *q, const struct door_reply *reply)
{
        if (reply->e->code == CLOCHE_E_NOT_FOUND)
                e2b_refuse(q, 404, "not_found", "the template '%.120s' does not have all of these tags",
                           e2b_text(q->body, "name"));
        else
                e2b_fail(q, reply);
}

void e2b_on_tags_remove(struct e2b_request *q)
{
        const char *name = e2b_text(q->body, "name");
        json_t *tags = json_object_get(q->body, "tags"), *calls;
        struct e2b_reference at;

        if (!check_tags(q))
                return;
        calls = json_array();
        for (size_t i = 0; i < json_array_size(tags); i++) {
                if (!e2b_tag_check(q, name ? name : "", json_array_get(tags, i), &at)) {
                        json_decref(calls);
                        return;
                }
                json_array_append_new(calls, deletion_of(at.snapshot));
        }
        q->fail = on_no_tag;
        call_all(q, calls, 204, NULL);
}
