/* Runs in: cloche-image, as its user, confined to the store. */
#include "manage.h"
#include "settings.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "helpers/image/store/record.h"
#include "helpers/image/tree/listing.h"
#include "helpers/image/tree/share.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* -- lists ---------------------------------------------------------------------------------------------------- */

static json_t *names_of(const json_t *names, const char *id)
{
        json_t *list = json_array(), *value;
        const char *name;

        json_object_foreach ((json_t *)names, name, value)
                if (json_is_string(value) && strcmp(json_string_value(value), id) == 0)
                        json_array_append_new(list, json_string(name));
        return list;
}

/* A record with its id, names and last use, which the keeper notes when it makes a box
 * (keeper/sources.c); takes nothing. */
static json_t *describe(const struct store *store, const json_t *record, const json_t *names, const char *id)
{
        const struct timespec used = store_tree_used(store, record_tree(record));
        char text[CLOCK_TEXT_SIZE];
        const char *last_used = used.tv_sec && clock_write_utc(text, used) == 0 ? text : NULL;
        json_t *all = json_pack("{s:s+, s:o, s:s?}", "id", "sha256:", id, "names", names_of(names, id), "lastUsedAt",
                                last_used);

        if (all)
                json_object_update_missing(all, (json_t *)record);
        return all;
}

static int load_all(const struct store *store, json_t **ret_names, json_t **ret_records, struct cloche_err *e)
{
        int r = names_load(store, ret_names, e);

        *ret_records = NULL;
        return r == 0 ? record_load_all(store, ret_records, e) : r;
}

int manage_add_settings(const struct store *store, json_t *record, struct cloche_err *e)
{
        _cleanup_fd_ int tree_fd = -EBADF;
        json_t *settings = NULL;
        int r = json_object_get(record, "env") ? 1 : store_lock_tree(store, record_tree(record), false, &tree_fd, e);

        if (r != 0)
                return r > 0 ? 0 : r;
        r = settings_make(tree_fd, store->keeps_ids, json_object_get(record, "config"), &settings, e);
        if (r == 0 && json_object_update(record, settings) < 0)
                r = work_no_memory(e);
        json_decref(settings);
        return r;
}

/* An image whose tree is being removed is listed without them. */
static int add_if_there(const struct store *store, json_t *record, struct cloche_err *e)
{
        int r = manage_add_settings(store, record, e);

        return r == -CLOCHE_E_NOT_FOUND || r == -CLOCHE_E_STATE ? 0 : r;
}

/* A tree of several images is freed with none of them. */
static int add_own_sizes(const struct store *store, json_t *records, struct cloche_err *e)
{
        struct tree_usage *rows = calloc(json_object_size(records) + 1, sizeof(*rows));
        size_t count = 0;
        json_t *record;
        const char *id;
        int r;

        if (!rows)
                return work_no_memory(e);
        json_object_foreach (records, id, record)
                if (!record_has_tree(records, record_tree(record), id))
                        memcpy(rows[count++].hex, record_tree(record), HASH_TEXT_SIZE);
        r = share_measure(store, rows, count, e);
        json_object_foreach (records, id, record) {
                uint64_t bytes = 0;

                for (size_t i = 0; i < count; i++)
                        if (strcmp(rows[i].hex, record_tree(record)) == 0)
                                bytes = rows[i].own_bytes;
                if (r == 0 && json_object_set_new(record, "ownSize", json_integer((json_int_t)bytes)) < 0)
                        r = work_no_memory(e);
        }
        free(rows);
        return r;
}

int manage_list(const struct store *store, bool with_own, json_t **ret, struct cloche_err *e)
{
        json_t *names = NULL, *records = NULL, *record, *list = json_array();
        const char *id;
        int r = list ? load_all(store, &names, &records, e) : work_no_memory(e);

        if (r == 0 && with_own)
                r = add_own_sizes(store, records, e);
        json_object_foreach (records, id, record) {
                if (r == 0)
                        r = add_if_there(store, record, e);
                if (r == 0 && json_array_append_new(list, describe(store, record, names, id)) < 0)
                        r = work_no_memory(e);
        }
        *ret = r == 0 ? json_pack("{s:O}", "images", list) : NULL;
        json_decref(list);
        json_decref(names);
        json_decref(records);
        return r == 0 && !*ret ? work_no_memory(e) : r;
}

int manage_inspect(const struct store *store, const char *name, json_t **ret, struct cloche_err *e)
{
        char id[HASH_TEXT_SIZE], reference[STORE_REFERENCE_SIZE];
        json_t *record = NULL, *names = NULL;
        int r = record_find(store, name, id, reference, &record, e);

        if (r == 0)
                r = manage_add_settings(store, record, e);
        if (r == 0)
                r = names_load(store, &names, e);
        *ret = r == 0 ? describe(store, record, names, id) : NULL;
        json_decref(record);
        json_decref(names);
        return r == 0 && !*ret ? work_no_memory(e) : r;
}

int manage_resolve(const struct store *store, const char *name, json_t **ret, struct cloche_err *e)
{
        char id[HASH_TEXT_SIZE], reference[STORE_REFERENCE_SIZE];
        json_t *record = NULL;
        int r = record_find(store, name, id, reference, &record, e);

        if (r == 0)
                r = manage_add_settings(store, record, e);
        if (r == 0)
                *ret = json_pack("{s:s, s:s+, s:O, s:O, s:O*, s:O*, s:O*, s:O*}", "name", reference, "id",
                                 "sha256:", id, "tree", json_object_get(record, "tree"), "env",
                                 json_object_get(record, "env"), "workingDirectory",
                                 json_object_get(record, "workingDirectory"), "user", json_object_get(record, "user"),
                                 "runsAs", json_object_get(record, "runsAs"), "startup",
                                 json_object_get(record, "startup"));
        json_decref(record);
        return r == 0 && !*ret ? work_no_memory(e) : r;
}

/* -- verify --------------------------------------------------------------------------------------------------- */

static int compare_tree(const struct store *store, const json_t *record, int tree_fd, const char *hex,
                        struct work *work, json_t **ret, struct cloche_err *e)
{
        char file_name[STORE_TREE_NAME_SIZE];
        _cleanup_fd_ int was_fd = -EBADF, is_fd = memfd_create("listing", MFD_CLOEXEC);
        struct listing listing;
        json_t *changes = NULL;
        uint64_t count = 0;
        int r;

        store_tree_name(file_name, hex, STORE_LISTING);
        was_fd = openat(store->trees_fd, file_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (was_fd < 0 && errno == ENOENT)
                return err_set(e, CLOCHE_E_STATE,
                               "the image store has lost the listing of the tree sha256:%s, by which it is compared: "
                               "import the image again",
                               hex);
        if (is_fd < 0 || was_fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "open the tree's listing");
        r = listing_make(tree_fd, store->keeps_ids, is_fd,
                         (uint64_t)json_integer_value(json_object_get(record, "size")), NULL, work, &listing, e);
        if (r == 0 && strcmp(listing.hex, hex) != 0)
                r = listing_compare(was_fd, is_fd, &changes, &count, e);
        if (r == 0 && !changes)
                changes = json_array();
        if (r == 0)
                *ret = json_pack("{s:b, s:s+, s:I, s:O}", "isWhole", strcmp(listing.hex, hex) == 0, "found",
                                 "sha256:", listing.hex, "changeCount", (json_int_t)count, "changes", changes);
        json_decref(changes);
        return r == 0 && !*ret ? work_no_memory(e) : r;
}

int manage_verify(const struct store *store, const char *name, struct work *work, json_t **ret, struct cloche_err *e)
{
        char id[HASH_TEXT_SIZE], reference[STORE_REFERENCE_SIZE];
        _cleanup_fd_ int tree_fd = -EBADF;
        json_t *record = NULL;
        int r = record_find(store, name, id, reference, &record, e);

        *ret = NULL;
        if (r == 0)
                r = store_lock_tree(store, record_tree(record), false, &tree_fd, e);
        if (r == 0)
                r = compare_tree(store, record, tree_fd, record_tree(record), work, ret, e);
        if (r == 0)
                json_object_set(*ret, "tree", json_object_get(record, "tree"));
        json_decref(record);
        return r;
}
