/* Removal of images and of leftovers. Runs in: cloche-image, as its user, confined to the store. */
#include "manage.h"

#include "base/err.h"
#include "base/fd.h"
#include "helpers/image/store/builds.h"
#include "helpers/image/store/record.h"
#include "helpers/image/tree/share.h"
#include "helpers/sync/crash.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define BOX_ENDS_MS 1000
#define BOX_POLL_MS 20

/* Trees leave their place under the lock of the store, and are removed without it. */
struct grave {
        struct incoming incoming;
        uint64_t trees;
};

static int grave_open(const struct store *store, struct grave *ret, struct cloche_err *e)
{
        ret->trees = 0;
        return incoming_begin(store, &ret->incoming, e);
}

/* The tree is locked, or there is none. */
static int bury(const struct store *store, struct grave *grave, const char *hex, struct cloche_err *e)
{
        char tree[STORE_TREE_NAME_SIZE], listing[STORE_TREE_NAME_SIZE];

        store_tree_name(tree, hex, "");
        store_tree_name(listing, hex, STORE_LISTING);
        if (renameat(store->trees_fd, tree, grave->incoming.fd, tree) == 0)
                grave->trees++;
        else if (errno != ENOENT)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "remove the tree %s", tree);
        crash_point();
        if (unlinkat(store->trees_fd, listing, 0) < 0 && errno != ENOENT)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "remove the listing %s", listing);
        return 0;
}

/* -- one image ------------------------------------------------------------------------------------------------ */

static size_t count_names(const json_t *names, const char *id)
{
        const char *name;
        json_t *value;
        size_t count = 0;

        json_object_foreach ((json_t *)names, name, value)
                count += json_is_string(value) && strcmp(json_string_value(value), id) == 0;
        return count;
}

static int drop_names(json_t *names, const char *id, const char *reference)
{
        const char *name;
        json_t *value;
        void *next;

        if (*reference)
                return json_object_del(names, reference);
        json_object_foreach_safe (names, next, name, value)
                if (json_is_string(value) && strcmp(json_string_value(value), id) == 0)
                        json_object_del(names, name);
        return 0;
}

struct removal {
        char id[HASH_TEXT_SIZE], reference[STORE_REFERENCE_SIZE];
        json_t *record, *names, *records;
        bool is_last, is_last_of_tree;
        int tree_fd;
};

/* A tree that others name is not locked: it stays. A tree that is missing already is no
 * obstacle. */
static int prepare(const struct store *store, const char *name, struct removal *ret, struct cloche_err *e)
{
        const char *tree;
        int r = record_find(store, name, ret->id, ret->reference, &ret->record, e);

        if (r == 0)
                r = names_load(store, &ret->names, e);
        if (r == 0)
                r = record_load_all(store, &ret->records, e);
        if (r < 0)
                return r;
        tree = record_tree(ret->record);
        ret->is_last = !*ret->reference || count_names(ret->names, ret->id) <= 1;
        ret->is_last_of_tree = ret->is_last && !record_has_tree(ret->records, tree, ret->id);
        if (!ret->is_last_of_tree)
                return 0;
        r = store_lock_tree(store, tree, true, &ret->tree_fd, e);
        return r == -CLOCHE_E_NOT_FOUND ? 0 : r;
}

/* The name goes first: an image without a name, or a tree without an image, is removed by prune. */
static int remove_prepared(const struct store *store, struct removal *removal, struct grave *grave,
                           struct cloche_err *e)
{
        int r = drop_names(removal->names, removal->id, removal->reference) < 0 ? work_no_memory(e) : 0;

        if (r == 0)
                r = names_save(store, removal->names, e);
        crash_point();
        if (r == 0 && removal->is_last)
                r = record_remove(store, removal->id, e);
        crash_point();
        if (r == 0 && removal->is_last_of_tree)
                r = bury(store, grave, record_tree(removal->record), e);
        if (r == 0 && (fsync(store->images_fd) < 0 || fsync(store->trees_fd) < 0))
                r = err_os(e, CLOCHE_E_RESOURCE, errno, "flush the image store");
        return r;
}

static int remove_locked(const struct store *store, const char *name, struct removal *removal, struct grave *grave,
                         struct cloche_err *e)
{
        _cleanup_fd_ int lock_fd = -EBADF;
        int r = store_lock(store, &lock_fd, e);

        if (r == 0)
                r = prepare(store, name, removal, e);
        return r == 0 ? remove_prepared(store, removal, grave, e) : r;
}

static void removal_done(struct removal *removal)
{
        fd_close(&removal->tree_fd);
        json_decref(removal->record);
        json_decref(removal->names);
        json_decref(removal->records);
        *removal = (struct removal){.tree_fd = -EBADF};
}

/* A box that was deleted a moment ago may still have the tree. The store is not locked while this
 * waits. */
static int remove_unused(const struct store *store, const char *name, struct removal *removal, struct grave *grave,
                         struct cloche_err *e)
{
        int r = remove_locked(store, name, removal, grave, e);

        for (int waited_ms = 0; r == -CLOCHE_E_STATE && waited_ms < BOX_ENDS_MS; waited_ms += BOX_POLL_MS) {
                removal_done(removal);
                (void)poll(NULL, 0, BOX_POLL_MS);
                r = remove_locked(store, name, removal, grave, e);
        }
        return r;
}

int manage_remove(const struct store *store, const char *name, json_t **ret, struct cloche_err *e)
{
        struct removal removal = {.tree_fd = -EBADF};
        struct grave grave;
        int r = grave_open(store, &grave, e);

        if (r == 0)
                r = remove_unused(store, name, &removal, &grave, e);
        *ret = r == 0 ? json_pack("{s:s, s:s+, s:b, s:b}", "name", removal.reference, "id", "sha256:", removal.id,
                                  "imageRemoved", removal.is_last, "treeRemoved", removal.is_last_of_tree)
                      : NULL;
        incoming_end(store, &grave.incoming);
        removal_done(&removal);
        return r == 0 && !*ret ? work_no_memory(e) : r;
}

/* -- everything that nothing names ---------------------------------------------------------------------------- */

struct pruning {
        const struct store *store;
        struct grave grave;
        uint64_t images, in_use, kept_bytes;
        const json_t *pinned; /* an object with the names of trees; NULL: none */
        json_t *names, *records;
};

/* -CLOCHE_E_STATE: the tree is used, by a box or by one that may start later. */
static int lock_unused(const struct pruning *p, const char *hex, int *ret_fd, struct cloche_err *e)
{
        char tree[STORE_TREE_NAME_SIZE];

        store_tree_name(tree, hex, "");
        return json_object_get(p->pinned, tree) ? err_set(e, CLOCHE_E_STATE, "the tree %s is in use", tree)
                                                : store_lock_tree(p->store, hex, true, ret_fd, e);
}

/* Remove a tree with the listing; one that a box uses stays. */
static int prune_tree(struct pruning *p, const char *hex, bool *ret_kept, struct cloche_err *e)
{
        _cleanup_fd_ int tree_fd = -EBADF;
        int r = lock_unused(p, hex, &tree_fd, e);

        *ret_kept = r == -CLOCHE_E_STATE;
        if (*ret_kept)
                return 0;
        return r < 0 && r != -CLOCHE_E_NOT_FOUND ? r : bury(p->store, &p->grave, hex, e);
}

static int prune_image(struct pruning *p, const char *id, const json_t *record, struct cloche_err *e)
{
        const char *tree = record_tree(record);
        bool is_kept = false;
        int r = record_has_tree(p->records, tree, id) ? 0 : prune_tree(p, tree, &is_kept, e);

        if (r < 0 || is_kept) {
                p->in_use += is_kept;
                return r;
        }
        p->images++;
        return record_remove(p->store, id, e);
}

static int prune_images(struct pruning *p, struct cloche_err *e)
{
        json_t *record;
        const char *id;
        void *next;
        int r = 0;

        json_object_foreach_safe (p->records, next, id, record) {
                uint64_t in_use = p->in_use;
                char own_id[HASH_TEXT_SIZE];

                if (r < 0 || count_names(p->names, id) > 0)
                        continue;
                snprintf(own_id, sizeof(own_id), "%s", id);
                r = prune_image(p, own_id, record, e);
                if (r == 0 && p->in_use == in_use)
                        json_object_del(p->records, own_id);
        }
        return r;
}

/* A tree without an image, a listing without a tree. */
static int prune_entry(struct pruning *p, const char *name, struct cloche_err *e)
{
        const char *hex = name + strlen(STORE_TREE_PREFIX);
        char text[HASH_TEXT_SIZE] = "";
        bool is_kept;
        int r;

        if (strncmp(name, STORE_TREE_PREFIX, strlen(STORE_TREE_PREFIX)) != 0 || !hash_is_text(hex, strcspn(hex, ".")))
                return 0;
        memcpy(text, hex, HASH_TEXT_SIZE - 1);
        if (record_has_tree(p->records, text, NULL))
                return 0;
        r = prune_tree(p, text, &is_kept, e);
        p->in_use += r == 0 && is_kept && hex[HASH_TEXT_SIZE - 1] == '\0'; /* its listing does not count again */
        return r;
}

static int prune_trees(struct pruning *p, struct cloche_err *e)
{
        DIR *dir = store_list(p->store->trees_fd);
        int r = 0;

        if (!dir)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "list the trees");
        for (struct dirent *entry; r == 0 && (entry = readdir(dir));)
                r = prune_entry(p, entry->d_name, e);
        closedir(dir);
        return r;
}

/* Files of a killed writer (store_write). */
static void prune_beside(int dir_fd)
{
        DIR *dir = store_list(dir_fd);

        for (struct dirent *entry; dir && (entry = readdir(dir));) {
                const char *ending = strrchr(entry->d_name, '.');

                if (ending && strcmp(ending, ".new") == 0)
                        unlinkat(dir_fd, entry->d_name, 0);
        }
        if (dir)
                closedir(dir);
}

/* -- images that were not used for longest ---------------------------------------------------------------------- */

struct candidate {
        char hex[HASH_TEXT_SIZE];
        struct timespec used;
};

static int by_use(const void *a, const void *b)
{
        const struct candidate *one = a, *other = b;

        if (one->used.tv_sec != other->used.tv_sec)
                return one->used.tv_sec < other->used.tv_sec ? -1 : 1;
        if (one->used.tv_nsec != other->used.tv_nsec)
                return one->used.tv_nsec < other->used.tv_nsec ? -1 : 1;
        return strcmp(one->hex, other->hex);
}

/* List the trees of all images, each once. Return their number. */
static size_t list_trees(const struct pruning *p, struct candidate *rows)
{
        json_t *record;
        const char *id;
        size_t count = 0;

        json_object_foreach (p->records, id, record) {
                struct candidate *row = &rows[count];
                size_t i = 0;

                snprintf(row->hex, sizeof(row->hex), "%s", record_tree(record));
                row->used = store_tree_used(p->store, row->hex);
                while (strcmp(rows[i].hex, row->hex) != 0)
                        i++;
                count += i == count;
        }
        return count;
}

/* As in remove_prepared(): the names go first, then the images, then the tree, which is locked. */
static int evict_locked(struct pruning *p, const char *hex, struct cloche_err *e)
{
        json_t *record;
        const char *id;
        void *next;
        int r = 0;

        json_object_foreach (p->records, id, record)
                if (strcmp(record_tree(record), hex) == 0 && drop_names(p->names, id, "") < 0)
                        return work_no_memory(e);
        r = names_save(p->store, p->names, e);
        crash_point();
        json_object_foreach_safe (p->records, next, id, record) {
                if (r < 0 || strcmp(record_tree(record), hex) != 0)
                        continue;
                r = record_remove(p->store, id, e);
                p->images += r == 0;
                json_object_del(p->records, id);
        }
        crash_point();
        return r == 0 ? bury(p->store, &p->grave, hex, e) : r;
}

static bool is_named(const struct pruning *p, const char *hex)
{
        json_t *record;
        const char *id;

        json_object_foreach (p->records, id, record)
                if (strcmp(record_tree(record), hex) == 0 && count_names(p->names, id) > 0)
                        return true;
        return false;
}

/* 1: a box uses it. */
static int evict(struct pruning *p, const struct tree_usage *row, uint64_t *total, struct cloche_err *e)
{
        _cleanup_fd_ int tree_fd = -EBADF;
        int r = lock_unused(p, row->hex, &tree_fd, e);

        if (r == -CLOCHE_E_STATE) {
                p->in_use += is_named(p, row->hex); /* prune_image() has counted the others */
                return 1;
        }
        if (r < 0 && r != -CLOCHE_E_NOT_FOUND)
                return r;
        *total -= row->last_bytes;
        return evict_locked(p, row->hex, e);
}

/* In the order of their removal, with the bytes that each frees after those before it. */
static int measure_trees(const struct pruning *p, struct tree_usage **ret, size_t *ret_count, struct cloche_err *e)
{
        struct candidate *rows = calloc(json_object_size(p->records) + 1, sizeof(*rows));
        size_t count = rows ? list_trees(p, rows) : 0;

        *ret = calloc(count + 1, sizeof(**ret));
        *ret_count = count;
        if (rows)
                qsort(rows, count, sizeof(*rows), by_use);
        for (size_t i = 0; *ret && i < count; i++)
                memcpy((*ret)[i].hex, rows[i].hex, HASH_TEXT_SIZE);
        free(rows);
        return rows && *ret ? share_measure(p->store, *ret, count, e) : work_no_memory(e);
}

/* A tree that is in use keeps the files that it shares with others: it goes to the end, and
 * the rest is measured anew. */
static int put_last(const struct pruning *p, struct tree_usage *rows, size_t count, struct cloche_err *e)
{
        struct tree_usage used = rows[0];

        memmove(rows, rows + 1, (count - 1) * sizeof(*rows));
        rows[count - 1] = used;
        return share_measure(p->store, rows, count, e);
}

static int prune_to_size(struct pruning *p, uint64_t keep_bytes, struct cloche_err *e)
{
        struct tree_usage *rows;
        size_t count, end;
        uint64_t total = 0;
        int r = measure_trees(p, &rows, &count, e);

        for (size_t i = 0; r == 0 && i < count; i++)
                total += rows[i].last_bytes;
        end = count;
        for (size_t i = 0; r == 0 && i < end && total > keep_bytes;) {
                r = evict(p, &rows[i], &total, e);
                if (r == 0) {
                        i++;
                } else if (r > 0) {
                        end--;
                        r = put_last(p, rows + i, count - i, e);
                }
        }
        p->kept_bytes = total;
        free(rows);
        return r;
}

/* -- whole ------------------------------------------------------------------------------------------------------ */

static int prune_locked(struct pruning *p, uint64_t keep_bytes, struct cloche_err *e)
{
        _cleanup_fd_ int lock_fd = -EBADF;
        int r = store_lock(p->store, &lock_fd, e);

        if (r == 0)
                r = names_load(p->store, &p->names, e);
        if (r == 0)
                r = record_load_all(p->store, &p->records, e);
        if (r == 0) {
                prune_beside(p->store->fd);
                prune_beside(p->store->images_fd);
                r = prune_images(p, e);
        }
        if (r == 0)
                r = prune_to_size(p, keep_bytes, e);
        if (r == 0)
                r = builds_sweep(p->store, p->records, e);
        return r == 0 ? prune_trees(p, e) : r;
}

int manage_prune(const struct store *store, uint64_t keep_bytes, const json_t *pinned, json_t **ret,
                 struct cloche_err *e)
{
        struct pruning p = {.store = store, .pinned = pinned};
        uint64_t leftovers = 0;
        int r = grave_open(store, &p.grave, e);

        if (r == 0)
                r = prune_locked(&p, keep_bytes, e);
        incoming_end(store, &p.grave.incoming);
        if (r == 0)
                r = incoming_sweep(store, &leftovers, e);
        *ret = r == 0 ? json_pack("{s:I, s:I, s:I, s:I, s:I}", "images", (json_int_t)p.images, "trees",
                                  (json_int_t)p.grave.trees, "leftovers", (json_int_t)leftovers, "inUse",
                                  (json_int_t)p.in_use, "keptBytes", (json_int_t)p.kept_bytes)
                      : NULL;
        json_decref(p.names);
        json_decref(p.records);
        return r == 0 && !*ret ? work_no_memory(e) : r;
}
