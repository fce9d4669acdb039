/* List the guest's changes from the tree.
 * Runs in: cloche-fs, as the mounted directory's owner or the caller, confined. */
#include "change.h"

#include "access.h"
#include "base/array.h"
#include "base/err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES_MAX (64u << 20)
#define PAGE_BYTES (8u << 20) /* of paths and attributes; escaping may enlarge them six times */
#define ROW_BYTES 512         /* of a row without its paths */

static const char *const type_names[] = {"deleted", "created", "renamed", "modified"};

/* -- collecting ----------------------------------------------------------------------------------------------- */

static int64_t time_ns(struct timespec t)
{
        return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void done_row(struct change *row)
{
        free(row->path);
        free(row->from);
        free(row->link);
        free(row->target);
}

/* *ret: valid until the next add; NULL when there is no room. */
static struct change *add(struct changes *changes, enum change_type type, const char *path, const struct node *node,
                          bool is_virtual)
{
        struct change *row;

        if (!path)
                return NULL;
        if (ARRAY_GROW(changes->rows, changes->count, changes->room) < 0)
                return NULL;
        changes->path_bytes += strlen(path) + (node->target ? strlen(node->target) : 0);
        row = &changes->rows[changes->count];
        *row = (struct change){
                .type = type,
                .kind = node->kind,
                .permissions = node->own ? node->attributes.permissions : node->st.st_mode & 0777,
                .size = node->kind != S_IFREG ? 0
                        : node->own           ? node->attributes.size
                                              : (uint64_t)node->st.st_size,
                .content = type == CHANGE_CREATED || type == CHANGE_MODIFIED ? node->content : 0,
                .mtime_ns = time_ns(node->own ? node->attributes.mtime : node->st.st_mtim),
                .path = strdup(path),
                .target = node->target ? strdup(node->target) : NULL,
                .is_virtual = is_virtual,
        };
        if (!row->path || (node->target && !row->target) || changes->path_bytes > PATH_BYTES_MAX) {
                done_row(row);
                return NULL;
        }
        changes->count++;
        return row;
}

static int set_path(struct changes *changes, char **ret, const char *path)
{
        *ret = strdup(path ? path : "");
        changes->path_bytes += *ret ? strlen(*ret) : 0;
        return *ret ? 0 : -1;
}

static void set_origin(struct change *row, const struct lower_identity *origin)
{
        row->has_origin = origin;
        if (origin)
                row->origin = *origin;
}

static bool is_syncable(const struct node *node)
{
        return node->kind == S_IFREG || node->kind == S_IFDIR || node->kind == S_IFLNK;
}

/* True if it left the tree for good; a moved node still has a name. */
static bool is_deleted(const struct node *removed)
{
        return removed && removed->name_count == 0;
}

/* True if the present node replaces the host's: one change, not two. */
static bool takes_its_place(const struct name *name)
{
        return is_deleted(name->removed) && name->node && name->node->kind == name->removed->kind &&
               (!name->made_virtual || name->removed_virtually);
}

/* The host's former entry here, unless another row reports it. */
static const struct lower_identity *host_had(const struct name *name)
{
        if (is_deleted(name->removed) && (takes_its_place(name) || !is_syncable(name->removed)))
                return &name->removed->copied;
        return name->covered;
}

/* True if it is a seed and unchanged since. */
static bool is_unchanged_seed(const struct name *name)
{
        const struct node *node = name->node;

        return node->seeded_at == name && !node->written && !node->set && node->name_count == 1;
}

/* True if the name stays in the guest because a seeded directory above it may not be created on the
 * host. Otherwise those directories are marked for the sync: they follow with their first synced
 * entry. */
static bool is_in_place_of_its_own(struct fs_mount *mount, const struct name *name, uint64_t number)
{
        const struct name *above;

        for (above = name->parent->names; above; above = above->parent->names)
                if (above->is_seed &&
                    !access_check_path(mount, name_path(above, mount->other_path), RULES_CREATE, NULL))
                        return true;
        for (above = name->parent->names; above; above = above->parent->names)
                if (above->is_seed)
                        above->node->listed = number;
        return false;
}

static int add_removed(struct fs_mount *mount, struct changes *changes, const struct name *name)
{
        const struct node *removed = name->removed;
        struct change *row;

        if (!is_deleted(removed) || !is_syncable(removed) || takes_its_place(name))
                return 0;
        row = add(changes, CHANGE_DELETED, node_lower_path(removed, mount->path), removed, name->removed_virtually);
        if (!row)
                return -1;
        set_origin(row, &removed->copied);
        return 0;
}

static int add_link(struct fs_mount *mount, struct changes *changes, const struct name *name, bool replaces,
                    bool is_virtual)
{
        enum change_type type = replaces ? CHANGE_MODIFIED : CHANGE_CREATED;
        struct change *row = add(changes, type, name_path(name, mount->path), name->node, is_virtual);

        if (!row || set_path(changes, &row->link, name_path(name->same_next, mount->other_path)) < 0)
                return -1;
        set_origin(row, host_had(name));
        return 0;
}

static int add_rename(struct fs_mount *mount, struct changes *changes, const struct name *name, bool replaces,
                      bool is_virtual)
{
        struct change *row = add(changes, CHANGE_RENAMED, name_path(name, mount->path), name->node, is_virtual);
        const struct lower_identity *over = host_had(name);

        if (!row || set_path(changes, &row->from, node_lower_path(name->node, mount->other_path)) < 0)
                return -1;
        set_origin(row, &name->node->copied);
        row->over = replaces;
        row->has_over_origin = over;
        if (over)
                row->over_origin = *over;
        return 0;
}

static int add_here(struct fs_mount *mount, struct changes *changes, const struct name *name, uint64_t number)
{
        const struct node *node = name->node;
        bool replaces = name->left_out || takes_its_place(name);
        bool is_virtual = name_is_in_virtual(name) || node->seeded_at;
        bool made = !node->has_lower, home = name_is_home(name, node);
        struct change *row;

        if (!is_virtual && mount->has_seeds)
                is_virtual = is_in_place_of_its_own(mount, name, number);
        /* For several names, the name given first has the contents; the others are links to it. */
        if (!home && name->same_next)
                return add_link(mount, changes, name, replaces, is_virtual);
        if (!made && !home && add_rename(mount, changes, name, replaces, is_virtual) < 0)
                return -1;
        if (!made && !node->written && !node->set)
                return 0;
        row = add(changes, made && !replaces ? CHANGE_CREATED : CHANGE_MODIFIED, name_path(name, mount->path), node,
                  is_virtual || node->is_virtual);
        if (!row)
                return -1;
        set_origin(row, made ? host_had(name) : &node->copied);
        return 0;
}

static int add_name(struct fs_mount *mount, struct changes *changes, const struct name *name, uint64_t number)
{
        if (add_removed(mount, changes, name) < 0)
                return -1;
        if (!name->node || !node_is_changed(name->node) || is_unchanged_seed(name))
                return 0;
        if (!is_syncable(name->node)) {
                const char *path = name_path(name, mount->path);

                denial_log_warn(&mount->denial_log, path ? path : "", "a pipe or socket is for the guest alone");
                return 0;
        }
        return add_here(mount, changes, name, number);
}

/* Add rows for seeds: a directory with synced contents, and entries that the guest removed. */
static int add_seed(struct fs_mount *mount, struct changes *changes, const struct name *name, uint64_t number)
{
        static const struct node nothing = {.kind = S_IFREG};

        if (name->node && name->node->seeded_at == name && name->node->listed == number)
                return add(changes, CHANGE_CREATED, name_path(name, mount->path), name->node, false) ? 0 : -1;
        if (name->node || (name->parent != mount->tree.root && !name->parent->names))
                return 0;
        return add(changes, CHANGE_DELETED, name_path(name, mount->path), &nothing, true) ? 0 : -1;
}

/* Visit every name, in no order: the table also has those in removed directories. */
static int collect(struct fs_mount *mount, struct changes *changes, uint64_t number)
{
        for (size_t i = 0; i < mount->tree.table_size; i++)
                for (const struct name *name = mount->tree.table[i]; name; name = name->hash_next)
                        if (add_name(mount, changes, name, number) < 0)
                                return -1;
        for (size_t i = 0; mount->has_seeds && i < mount->tree.table_size; i++)
                for (const struct name *name = mount->tree.table[i]; name; name = name->hash_next)
                        if (name->is_seed && add_seed(mount, changes, name, number) < 0)
                                return -1;
        return 0;
}

static int in_order(const void *a, const void *b)
{
        const struct change *left = a, *right = b;
        int deleted = (left->type != CHANGE_DELETED) - (right->type != CHANGE_DELETED), by_path;

        if (deleted)
                return deleted;
        by_path = strcmp(left->path, right->path);
        if (left->type == CHANGE_DELETED)
                return -by_path; /* a directory's contents have longer paths and so come first */
        return by_path ? by_path : (int)left->type - (int)right->type;
}

int changes_collect(struct fs_mount *mount, struct changes *ret, struct cloche_err *e)
{
        *ret = (struct changes){0};
        if (collect(mount, ret, ++mount->lists) < 0) {
                changes_done(ret);
                return err_set(e, CLOCHE_E_TOO_LARGE,
                               "the paths of the changes have more than %u bytes: exclude directories that need no "
                               "changes",
                               PATH_BYTES_MAX);
        }
        if (ret->count)
                qsort(ret->rows, ret->count, sizeof(*ret->rows), in_order);
        return 0;
}

void changes_done(struct changes *changes)
{
        for (size_t i = 0; i < changes->count; i++)
                done_row(&changes->rows[i]);
        free(changes->rows);
        *changes = (struct changes){0};
}

/* -- as JSON -------------------------------------------------------------------------------------------------- */

static const char *kind_name(mode_t kind)
{
        return kind == S_IFDIR ? "directory" : kind == S_IFLNK ? "symlink" : "file";
}

static void set_content(json_t *row, const struct change *change)
{
        char name[UPPER_NAME_SIZE];

        if (change->kind != S_IFREG)
                return;
        /* False: only mode or times changed. */
        if (change->type == CHANGE_MODIFIED)
                json_object_set_new(row, "content", json_boolean(change->content != 0));
        if (!change->content)
                return;
        upper_name(change->content, name);
        json_object_set_new(row, "contents", json_string(name));
}

static json_t *identity_to_json(const struct lower_identity *identity)
{
        if (!identity)
                return json_null();
        return json_pack("{s:I, s:I, s:I, s:I, s:I}", "dev", (json_int_t)identity->dev, "ino",
                         (json_int_t)identity->ino, "size", (json_int_t)identity->size, "mtimeNs",
                         (json_int_t)identity->mtime_ns, "ctimeNs", (json_int_t)identity->ctime_ns);
}

static json_t *change_to_json(const struct change *change)
{
        const struct {
                const char *key, *path;
        } paths[] = {{"from", change->from}, {"link", change->link}, {"target", change->target}};
        json_t *row =
                json_pack("{s:s, s:o, s:s, s:i, s:I, s:I, s:o}", "type", type_names[change->type], "path",
                          path_to_json(change->path), "kind", kind_name(change->kind), "mode", (int)change->permissions,
                          "size", (json_int_t)change->size, "mtimeNs", (json_int_t)change->mtime_ns, "origin",
                          identity_to_json(change->has_origin ? &change->origin : NULL));

        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
                if (paths[i].path)
                        json_object_set_new(row, paths[i].key, path_to_json(paths[i].path));
        if (change->over) {
                json_object_set_new(row, "over", json_true());
                json_object_set_new(row, "overOrigin",
                                    identity_to_json(change->has_over_origin ? &change->over_origin : NULL));
        }
        if (change->is_virtual)
                json_object_set_new(row, "virtual", json_true());
        set_content(row, change);
        return row;
}

static size_t row_bytes(const struct change *change)
{
        return ROW_BYTES + strlen(change->path) + (change->from ? strlen(change->from) : 0) +
               (change->link ? strlen(change->link) : 0) + (change->target ? strlen(change->target) : 0);
}

json_t *changes_to_json(const struct changes *changes, size_t from, size_t limit, size_t *ret_end)
{
        json_t *list = json_array();
        size_t bytes = 0, i;

        for (i = from; i < changes->count && i - from < limit && bytes < PAGE_BYTES; i++) {
                bytes += row_bytes(&changes->rows[i]);
                json_array_append_new(list, change_to_json(&changes->rows[i]));
        }
        *ret_end = i;
        return list;
}
