/* The end of an import. Each step leaves the store whole: a tree without a record, or a
 * record without a name, is removed by prune. Runs in: cloche-image, as its user, confined to
 * the store and the source. */
#include "import.h"
#include "manage.h"
#include "settings.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "helpers/image/store/builds.h"
#include "helpers/image/store/record.h"
#include "helpers/image/tree/listing.h"
#include "helpers/image/tree/share.h"
#include "helpers/sync/crash.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int failed(struct cloche_err *e, const char *act)
{
        return err_os(e, CLOCHE_E_RESOURCE, errno, "%s", act);
}

/* -- the answer ----------------------------------------------------------------------------------------------- */

static int answer(const struct import *import, const char *id, const json_t *record, bool is_new, json_t **ret,
                  struct cloche_err *e)
{
        *ret = json_pack("{s:s, s:s+, s:O, s:O, s:O, s:O, s:O*, s:b}", "name", import->options->reference, "id",
                         "sha256:", id, "tree", json_object_get(record, "tree"), "size",
                         json_object_get(record, "size"), "entries", json_object_get(record, "entries"), "dropped",
                         json_object_get(record, "dropped"), "notes", json_object_get(record, "notes"), "isNew",
                         is_new);
        return *ret ? 0 : work_no_memory(e);
}

/* Called with the lock, before anything is changed. */
static int check_name(const struct import *import, const char *id, struct cloche_err *e)
{
        json_t *names = NULL;
        const char *now;
        int r = import->options->keeps_names && *import->options->reference ? names_load(import->store, &names, e) : 0;

        now = json_string_value(json_object_get(names, import->options->reference));
        if (r == 0 && now && strcmp(now, id) != 0)
                r = err_set(e, CLOCHE_E_FORBIDDEN,
                            "another image has the name '%s', and only the daemon's owner may replace it: choose "
                            "another name",
                            import->options->reference);
        json_decref(names);
        return r;
}

static int set_name(const struct import *import, const char *id, struct cloche_err *e)
{
        json_t *names = NULL;
        const char *now;
        int r = *import->options->reference ? names_load(import->store, &names, e) : 0;

        if (r < 0 || !*import->options->reference)
                return r;
        now = r == 0 ? json_string_value(json_object_get(names, import->options->reference)) : NULL;
        if (r == 0 && (!now || strcmp(now, id) != 0)) {
                if (json_object_set_new(names, import->options->reference, json_string(id)) < 0)
                        r = work_no_memory(e);
                else
                        r = names_save(import->store, names, e);
        }
        json_decref(names);
        return r;
}

/* -- again ---------------------------------------------------------------------------------------------------- */

static bool has(const struct store *store, const char *hex, const char *ending, mode_t kind)
{
        char name[STORE_TREE_NAME_SIZE];
        struct stat status;

        store_tree_name(name, hex, ending);
        return fstatat(store->trees_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && (status.st_mode & S_IFMT) == kind;
}

static bool has_tree(const struct store *store, const char *hex)
{
        return has(store, hex, "", S_IFDIR);
}

static bool has_listing(const struct store *store, const char *hex)
{
        return has(store, hex, STORE_LISTING, S_IFREG);
}

int import_find_again(struct import *import, char ret_id[HASH_TEXT_SIZE], struct cloche_err *e)
{
        json_t *records = NULL, *record;
        const char *id;
        int r = record_load_all(import->store, &records, e);

        ret_id[0] = '\0';
        json_object_foreach (records, id, record) {
                const json_t *source = json_object_get(record, "source");
                const char *digest = json_string_value(json_object_get(source, "digest")),
                           *kind = json_string_value(json_object_get(source, "kind"));

                if (r == 0 && digest && kind && strcmp(kind, import->kind) == 0 &&
                    strcmp(digest + strcspn(digest, ":") + (*digest != '\0'), import->source) == 0 &&
                    has_tree(import->store, record_tree(record)) && has_listing(import->store, record_tree(record)))
                        memcpy(ret_id, id, HASH_TEXT_SIZE);
        }
        json_decref(records);
        return r;
}

int import_name(struct import *import, const char *id, json_t **ret, struct cloche_err *e)
{
        _cleanup_fd_ int lock_fd = -EBADF;
        json_t *record = NULL;
        int r = store_lock(import->store, &lock_fd, e);

        if (r == 0)
                r = record_load(import->store, id, &record, e);
        if (r == 0 && !has_tree(import->store, record_tree(record)))
                r = err_set(e, CLOCHE_E_NOT_FOUND, "the tree of the image sha256:%s was removed", id);
        if (r == 0)
                r = manage_add_settings(import->store, record, e);
        if (r == 0)
                r = check_name(import, id, e);
        if (r == 0)
                r = set_name(import, id, e);
        if (r == 0)
                r = answer(import, id, record, false, ret, e);
        json_decref(record);
        return r;
}

/* -- commit --------------------------------------------------------------------------------------------------- */

/* The listing, and the settings of the image, which are looked up in the tree. */
static int describe_tree(struct import *import, struct listing *ret, json_t **ret_settings, struct cloche_err *e)
{
        _cleanup_fd_ int tree_fd = openat(import->incoming.fd, "tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                         out_fd = openat(import->incoming.fd, "listing",
                                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        int r;

        if (tree_fd < 0 || out_fd < 0)
                return failed(e, "list the tree");
        r = settings_prepare(tree_fd, import->config, e);
        if (r == 0)
                r = settings_make(tree_fd, import->store->keeps_ids, import->config, ret_settings, e);
        return r == 0 ? listing_make(tree_fd, import->store->keeps_ids, out_fd, import->bytes, import->base,
                                     import->work, ret, e)
                      : r;
}

static json_t *digest_text(const char *hex)
{
        return hex && *hex ? json_sprintf("sha256:%s", hex) : json_null();
}

static json_t *make_record(const struct import *import, const struct listing *listing)
{
        char now[CLOCK_TEXT_SIZE];

        return json_pack("{s:s+, s:O, s:s?, s:s?, s:s?, s:s?, s:I, s:I, s:I, s:{s:s, s:o}, s:s, s:O}", "tree",
                         "sha256:", listing->hex, "config", import->config, "architecture", import->architecture, "os",
                         import->os, "created", import->created, "createdBy", import->created_by, "layers",
                         (json_int_t)import->layers, "entries", (json_int_t)listing->entries, "size",
                         (json_int_t)listing->bytes, "source", "kind", import->kind, "digest",
                         digest_text(import->source), "importedAt", clock_text_now(now), "dropped", import->drops);
}

/* The listing comes first: a tree without one cannot be verified. */
static int place_tree(struct import *import, const char *hex, struct cloche_err *e)
{
        const struct store *store = import->store;
        char tree[STORE_TREE_NAME_SIZE], listing[STORE_TREE_NAME_SIZE];

        if (has_tree(store, hex) && has_listing(store, hex))
                return 0;
        store_tree_name(tree, hex, "");
        store_tree_name(listing, hex, STORE_LISTING);
        if (renameat(import->incoming.fd, "listing", store->trees_fd, listing) < 0)
                return failed(e, "place the tree's listing");
        crash_point();
        if (!has_tree(store, hex) && renameat(import->incoming.fd, "tree", store->trees_fd, tree) < 0)
                return failed(e, "place the tree");
        crash_point();
        return fsync(store->trees_fd) < 0 ? failed(e, "flush the trees") : 0;
}

static int place(struct import *import, const char *id, const char *tree, const json_t *record, bool *ret_new,
                 struct cloche_err *e)
{
        _cleanup_fd_ int lock_fd = -EBADF;
        json_t *found = NULL;
        int r = store_lock(import->store, &lock_fd, e);

        if (r == 0)
                r = check_name(import, id, e);
        if (r == 0)
                r = place_tree(import, tree, e);
        if (r == 0)
                r = record_load(import->store, id, &found, e);
        *ret_new = r == -CLOCHE_E_NOT_FOUND;
        if (*ret_new)
                r = record_save(import->store, id, record, e);
        json_decref(found);
        if (r == 0 && *import->key)
                r = builds_add(import->store, import->key, id, e);
        return r == 0 ? set_name(import, id, e) : r;
}

/* Make the record of a tree that is listed, and give both their names. */
static int finish(struct import *import, const struct listing *listing, json_t *settings, json_t **ret,
                  struct cloche_err *e)
{
        char id[HASH_TEXT_SIZE];
        json_t *record = make_record(import, listing);
        bool is_new = false;
        int r = record && json_object_update(record, settings) == 0 ? record_identify(record, id, e)
                                                                    : work_no_memory(e);

        if (r == 0)
                r = place(import, id, listing->hex, record, &is_new, e);
        if (r == 0)
                r = answer(import, id, record, is_new, ret, e);
        json_decref(record);
        return r;
}

int import_commit(struct import *import, json_t **ret, struct cloche_err *e)
{
        struct listing listing;
        json_t *settings = NULL;
        int r = describe_tree(import, &listing, &settings, e);

        crash_point();
        /* Before the flush: copies that links replace are never written to the disk. A
         * commit begins with links to the tree below, and its few other files are
         * seldom those of a third tree. */
        if (r == 0 && !import->base && !has_tree(import->store, listing.hex))
                r = share_files(import->store, &import->incoming, listing.hex, import->work, e);
        /* All contents reach the disk before the names that make them an image. */
        if (r == 0 && syncfs(import->store->fd) < 0)
                r = failed(e, "flush the tree");
        crash_point();
        if (r == 0)
                r = finish(import, &listing, settings, ret, e);
        json_decref(settings);
        return r;
}

int import_commit_again(struct import *import, int tree_fd, const json_t *below, json_t **ret, struct cloche_err *e)
{
        struct listing listing = {.entries = (uint64_t)json_integer_value(json_object_get(below, "entries")),
                                  .bytes = (uint64_t)json_integer_value(json_object_get(below, "size"))};
        json_t *settings = NULL;
        int r = settings_check(import->config, e);

        memcpy(listing.hex, record_tree(below), HASH_TEXT_SIZE);
        if (r == 0)
                r = settings_make(tree_fd, import->store->keeps_ids, import->config, &settings, e);
        if (r == 0)
                r = finish(import, &listing, settings, ret, e);
        json_decref(settings);
        return r;
}
