/* Metadata of files: a label of their sandbox, by path, so that forks, snapshots and restarts
 * keep them. tmpfs has attributes of users from Linux 6.6 on alone. Runs in: cloched-engine, on
 * its loop, with the rights of the daemon's user. */
#include "sandbox.h"

#include "wire/json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define METADATA_BYTES_MAX (128u << 10) /* of all files of a sandbox, as JSON */

/* -- labels ------------------------------------------------------------------------------------------------------ */

static void begin(struct e2b_request *q);

static int is_of(const struct e2b_request *q, const struct e2b_request *other)
{
        return q != other && q->door.sandbox && other->door.sandbox &&
               strcmp(q->door.sandbox, other->door.sandbox) == 0 && q->door.principal == other->door.principal;
}

void e2b_labels_release(struct e2b_request *q)
{
        struct e2b_request *next;

        q->change = NULL;
        if (!q->is_labeling)
                return;
        q->is_labeling = 0;
        TAILQ_FOREACH (next, &q->door.daemon->e2b->requests, link)
                if (next->change && is_of(q, next)) {
                        begin(next);
                        return;
                }
}

static void on_updated(struct e2b_request *q, const struct door_reply *reply)
{
        e2b_then then = q->changed;

        json_decref(q->described);
        q->described = json_deep_copy(reply->result);
        e2b_labels_release(q);
        then(q, reply);
}

static void on_got(struct e2b_request *q, const struct door_reply *reply)
{
        json_t *params = q->change(q, reply->result);

        if (params)
                e2b_call(q, "sandbox.update", params, NULL, on_updated);
        else
                e2b_labels_release(q); /* it was refused */
}

static void begin(struct e2b_request *q)
{
        q->is_labeling = 1;
        e2b_call(q, "sandbox.get", json_object(), NULL, on_got);
}

/* They are read and written as a whole: of two requests at a time one would lose its change. */
void e2b_labels_change(struct e2b_request *q, e2b_change change, e2b_then then)
{
        const struct e2b_request *other;

        q->change = change;
        q->changed = then;
        TAILQ_FOREACH (other, &q->door.daemon->e2b->requests, link)
                if (other->is_labeling && is_of(q, other))
                        return; /* it begins this one */
        begin(q);
}

/* -- those of a sandbox ------------------------------------------------------------------------------------------ */

json_t *e2b_metadata_put(struct e2b_request *q, const json_t *described, json_t *all)
{
        char *text = json_dump_text(all, JSON_COMPACT);
        json_t *labels = json_deep_copy(json_object_get(described, "labels"));
        size_t size = text ? strlen(text) : 0;

        if (size > METADATA_BYTES_MAX) {
                e2b_refuse(q, 507, "resource_exhausted", "the metadata of the files of a sandbox have at most %u KiB",
                           METADATA_BYTES_MAX >> 10);
                json_decref(labels);
                labels = NULL;
        } else if (json_object_size(all) > 0) {
                door_put(labels, E2B_LABEL_FILES, text ? json_string(text) : NULL);
        } else {
                (void)json_object_del(labels, E2B_LABEL_FILES);
        }
        free(text);
        json_decref(all);
        return labels ? json_pack("{s:o}", "labels", labels) : NULL;
}

/* The path itself, or one below it. Returns the rest of the path, or NULL. All are below "/". */
static const char *below(const char *path, const char *dir)
{
        size_t size = strlen(dir);

        while (size > 0 && dir[size - 1] == '/')
                size--;
        return strncmp(path, dir, size) == 0 && (path[size] == '/' || path[size] == '\0') ? path + size : NULL;
}

int e2b_has_metadata(const json_t *described, const char *dir)
{
        json_t *all = e2b_metadata(described), *one;
        const char *path;
        int is_there = 0;

        json_object_foreach (all, path, one)
                is_there |= below(path, dir) != NULL;
        json_decref(all);
        return is_there;
}

json_t *e2b_metadata_move(const json_t *described, const char *from, const char *to)
{
        json_t *all = e2b_metadata(described), *moved = json_object(), *one;
        const char *path, *rest;
        size_t size = to ? strlen(to) : 0;

        while (size > 1 && to[size - 1] == '/')
                size--;
        json_object_foreach (all, path, one)
                if (!below(path, from) && !(to && below(path, to)))
                        json_object_set(moved, path, one);
        json_object_foreach (all, path, one)
                if (to && (rest = below(path, from))) {
                        json_t *name = json_sprintf("%.*s%s", (int)size, to, rest);

                        json_object_set(moved, json_string_value(name), one);
                        json_decref(name);
                }
        json_decref(all);
        return moved;
}

/* -- those of an upload ------------------------------------------------------------------------------------------ */

static int add_header(void *data, const char *name, const char *value)
{
        static const char prefix[] = "X-Metadata-";
        json_t **metadata = data;
        char key[128];
        size_t size;

        if (strncasecmp(name, prefix, sizeof(prefix) - 1) != 0)
                return 0;
        name += sizeof(prefix) - 1;
        size = strlen(name);
        for (size_t i = 0; i < size && i + 1 < sizeof(key); i++)
                key[i] = (char)tolower((unsigned char)name[i]);
        if (size == 0 || size >= sizeof(key)) {
                json_decref(*metadata);
                *metadata = NULL;
                return 1;
        }
        key[size] = '\0';
        for (const char *at = value; *at; at++)
                if ((unsigned char)*at < 0x20 || (unsigned char)*at > 0x7e) {
                        json_decref(*metadata);
                        *metadata = NULL;
                        return 1;
                }
        json_object_set_new(*metadata, key, json_string(value));
        return 0;
}

json_t *e2b_metadata_of_headers(struct e2b_request *q)
{
        json_t *metadata = json_object();

        http_request_headers(q->request, add_header, &metadata);
        if (!metadata)
                e2b_refuse(q, 400, "invalid_argument",
                           "metadata of files must have keys of 1 to 127 characters and values of printable ASCII");
        return metadata;
}
