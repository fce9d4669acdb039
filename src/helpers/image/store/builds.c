/* Runs in: cloche-image, as its user, confined to the store and the source. */
#include "builds.h"
#include "record.h"

#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define BUILDS_FILE "builds.json"

static int load(const struct store *store, json_t **ret, struct cloche_err *e)
{
        int r = store_read_json(store->fd, BUILDS_FILE, ret, e);

        if (r == 0 && !*ret)
                *ret = json_object();
        if (r == 0 && *ret && !json_is_object(*ret))
                r = err_set(e, CLOCHE_E_STATE, "the image store: " BUILDS_FILE " is no object: remove it");
        return r == 0 && !*ret ? work_no_memory(e) : r;
}

int builds_key(int64_t principal, const char *given, char ret[HASH_TEXT_SIZE], struct cloche_err *e)
{
        char text[32 + HASH_TEXT_SIZE];
        int size;

        if (!hash_is_text(given, strlen(given)))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "key: expected 64 digits of a SHA-256");
        size = snprintf(text, sizeof(text), "%lld %s", (long long)principal, given);
        hash_bytes(text, (size_t)size, ret);
        return 0;
}

int builds_add(const struct store *store, const char *key, const char *id, struct cloche_err *e)
{
        json_t *builds = NULL;
        const char *now;
        int r = load(store, &builds, e);

        now = r == 0 ? json_string_value(json_object_get(builds, key)) : NULL;
        if (r == 0 && (!now || strcmp(now, id) != 0))
                r = json_object_set_new(builds, key, json_string(id)) < 0
                            ? work_no_memory(e)
                            : store_write_json(store->fd, BUILDS_FILE, builds, e);
        json_decref(builds);
        return r;
}

/* A tree that is being removed loses its name first. */
static bool has_tree(const struct store *store, const json_t *record)
{
        char name[STORE_TREE_NAME_SIZE];

        store_tree_name(name, record_tree(record), "");
        return faccessat(store->trees_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int builds_find(const struct store *store, const char *key, char ret_id[HASH_TEXT_SIZE], json_t **ret,
                struct cloche_err *e)
{
        json_t *builds = NULL;
        const char *id;
        int r = load(store, &builds, e);

        *ret = NULL;
        id = r == 0 ? json_string_value(json_object_get(builds, key)) : NULL;
        if (r == 0 && (!id || !hash_is_text(id, strlen(id))))
                r = err_set(e, CLOCHE_E_NOT_FOUND, "no build has made this step");
        if (r == 0) {
                memcpy(ret_id, id, HASH_TEXT_SIZE);
                r = record_load(store, ret_id, ret, e);
        }
        if (r == 0 && !has_tree(store, *ret))
                r = err_set(e, CLOCHE_E_NOT_FOUND, "the image of this step was removed");
        json_decref(builds);
        return r;
}

int builds_sweep(const struct store *store, const json_t *records, struct cloche_err *e)
{
        json_t *builds = NULL, *id;
        const char *key;
        void *next;
        size_t before;
        int r = load(store, &builds, e);

        if (r < 0)
                return r;
        before = json_object_size(builds);
        json_object_foreach_safe (builds, next, key, id)
                if (!json_object_get(records, json_string_value(id) ? json_string_value(id) : ""))
                        json_object_del(builds, key);
        if (json_object_size(builds) != before)
                r = store_write_json(store->fd, BUILDS_FILE, builds, e);
        json_decref(builds);
        return r;
}
