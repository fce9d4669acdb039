/* Runs in: the agents in C, within a box, with the rights of the user's code. */
#include "resolve.h"

#include "base/array.h"
#include "base/err.h"

#include <stdlib.h>
#include <string.h>

struct walk {
        json_t **containers; /* by number; NULL while open; borrowed from the tree, which is never taken apart */
        size_t count, room;
        struct cloche_err *e;
};

static int resolve(struct walk *w, json_t *value, json_t **place);

static const char *tag_of(const json_t *value)
{
        return json_string_value(json_object_get(value, "$"));
}

/* Containers are numbered when they open, and can be referred to when they are closed. */
static int open_container(struct walk *w, size_t *ret_number)
{
        if (ARRAY_GROW(w->containers, w->count, w->room) < 0)
                return err_set(w->e, CLOCHE_E_RESOURCE, "no memory for the value's references");
        w->containers[w->count] = NULL;
        *ret_number = w->count++;
        return 0;
}

static int resolve_items(struct walk *w, json_t *array)
{
        for (size_t i = 0; i < json_array_size(array); i++) {
                json_t *replaced = NULL;
                int r = resolve(w, json_array_get(array, i), &replaced);

                if (r < 0)
                        return r;
                if (replaced)
                        json_array_set_new(array, i, replaced);
        }
        return 0;
}

static int resolve_members(struct walk *w, json_t *object)
{
        const char *key;
        json_t *member;

        json_object_foreach (object, key, member) {
                json_t *replaced = NULL;
                int r = resolve(w, member, &replaced);

                if (r < 0)
                        return r;
                /* The key exists already, so the iteration stays valid. */
                if (replaced)
                        json_object_set_new_nocheck(object, key, replaced);
        }
        return 0;
}

/* The pairs of a map are not containers. */
static int resolve_pairs(struct walk *w, json_t *pairs)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < json_array_size(pairs); i++)
                r = resolve_items(w, json_array_get(pairs, i));
        return r;
}

/* The fields of an error besides its texts: an object in either form, but not a container. */
static int resolve_fields(struct walk *w, json_t *fields)
{
        return tag_of(fields) ? resolve_pairs(w, json_object_get(fields, "v")) : resolve_members(w, fields);
}

static int resolve_inside(struct walk *w, json_t *value, const char *tag)
{
        json_t *v = json_object_get(value, "v"), *replaced = NULL;
        int r;

        if (!tag)
                return json_is_array(value) ? resolve_items(w, value) : resolve_members(w, value);
        if (strcmp(tag, "set") == 0)
                return resolve_items(w, v);
        if (strcmp(tag, "map") == 0 || strcmp(tag, "object") == 0)
                return resolve_pairs(w, v);
        if (strcmp(tag, "error") == 0)
                return resolve_fields(w, json_object_get(v, "fields"));
        r = resolve(w, v, &replaced); /* class */
        if (r == 0 && replaced)
                json_object_set_new_nocheck(value, "v", replaced);
        return r;
}

static int is_container(const json_t *value, const char *tag)
{
        static const char *const tags[] = {"set", "map", "object", "error", "class"};

        if (!tag)
                return json_is_array(value) || json_is_object(value);
        for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
                if (strcmp(tag, tags[i]) == 0)
                        return 1;
        return 0;
}

/* *place: the replacement, a new reference; untouched if the value stays. */
static int resolve(struct walk *w, json_t *value, json_t **place)
{
        const char *tag = tag_of(value);
        size_t number = 0;
        int r;

        if (tag && strcmp(tag, "ref") == 0) {
                json_t *meant = w->containers[json_integer_value(json_object_get(value, "n"))];

                if (!meant)
                        return err_set(w->e, CLOCHE_E_INVALID_JSON, "a value that holds itself cannot be held here");
                *place = json_incref(meant);
                return 0;
        }
        if (!is_container(value, tag))
                return 0;
        r = open_container(w, &number);
        if (r == 0)
                r = resolve_inside(w, value, tag);
        if (r == 0)
                w->containers[number] = value;
        return r;
}

int resolve_references(json_t *value, json_t **ret, struct cloche_err *e)
{
        struct walk w = {.e = e};
        json_t *replaced = NULL;
        int r = resolve(&w, value, &replaced);

        free(w.containers);
        if (r == 0)
                *ret = replaced ? replaced : json_incref(value);
        return r;
}
