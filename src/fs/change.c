#include "change.h"

#include "base/err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES_MAX (64u << 20)

static const char *const type_names[] = {"deleted", "created", "renamed", "modified"};

/* -- collecting ----------------------------------------------------------------------------------------------- */

/* *ret: valid until the next is added; NULL with no room. */
static struct change *add(struct changes *changes, enum change_type type, const char *path, const struct node *node, bool is_virtual)
{
        struct change *row;

        if (!path)
                return NULL;
        if (changes->count == changes->room) {
                size_t room = changes->room ? changes->room * 2 : 64;
                struct change *rows = reallocarray(changes->rows, room, sizeof(*rows));

                if (!rows)
                        return NULL;
                changes->rows = rows;
                changes->room = room;
        }
        changes->path_bytes += strlen(path);
        row = &changes->rows[changes->count];
        *row = (struct change){.type = type, .path = strdup(path), .node = node, .is_virtual = is_virtual};
        if (!row->path || changes->path_bytes > PATH_BYTES_MAX) {
                free(row->path);
                return NULL;
        }
        changes->count++;
        return row;
}

static bool is_syncable(const struct node *node)
{
        return node->kind == S_IFREG || node->kind == S_IFDIR || node->kind == S_IFLNK;
}

/* Did it leave the tree for good? What was moved still has a name. */
static bool is_deleted(const struct node *gone)
{
        return gone && gone->name_count == 0;
}

/* What is here now stands for what the host had here: one change, not two. */
static bool takes_its_place(const struct name *name)
{
        return is_deleted(name->gone) && name->node && name->node->kind == name->gone->kind && (!name->made_virtual || name->gone_virtual);
}

static int add_gone(struct mount *mount, struct changes *changes, const struct name *name)
{
        const struct node *gone = name->gone;

        if (!is_deleted(gone) || !is_syncable(gone) || takes_its_place(name))
                return 0;
        return add(changes, CHANGE_DELETED, node_lower_path(gone, mount->path), gone, name->gone_virtual) ? 0 : -1;
}

static int add_here(struct mount *mount, struct changes *changes, const struct name *name)
{
        const struct node *node = name->node;
        bool replaces = name->left_out || takes_its_place(name);
        bool is_virtual = name_is_in_virtual(name);
        bool made = !node->has_lower, home = name_is_home(name, node);
        const char *path = name_path(name, mount->path);
        struct change *row;

        /* Of several names the last in the list is the first that was given; the others are links to it. */
        if (!home && name->same_next) {
                row = add(changes, replaces ? CHANGE_MODIFIED : CHANGE_CREATED, path, node, is_virtual);
                if (row) {
                        const char *other = name_path(name->same_next, mount->other_path);

                        row->link = strdup(other ? other : "");
                }
                return row ? 0 : -1;
        }
        if (made)
                return add(changes, replaces ? CHANGE_MODIFIED : CHANGE_CREATED, path, node, is_virtual || node->is_virtual) ? 0 : -1;
        if (!home) {
                row = add(changes, CHANGE_RENAMED, path, node, is_virtual);
                if (!row)
                        return -1;
                row->from = strdup(node_lower_path(node, mount->other_path));
                row->over = replaces;
        }
        if (node->written || node->set)
                return add(changes, CHANGE_MODIFIED, path, node, is_virtual || node->is_virtual) ? 0 : -1;
        return 0;
}

static int add_name(struct mount *mount, struct changes *changes, const struct name *name)
{
        if (add_gone(mount, changes, name) < 0)
                return -1;
        if (!name->node || !node_is_changed(name->node))
                return 0;
        if (!is_syncable(name->node)) {
                const char *path = name_path(name, mount->path);

                ledger_warn(&mount->ledger, path ? path : "", "a pipe or socket is for the guest alone");
                return 0;
        }
        return add_here(mount, changes, name);
}

/* Every name there is, in no order: the table has them all, also those in directories that are gone. */
static int collect(struct mount *mount, struct changes *changes)
{
        for (size_t i = 0; i < mount->tree.table_size; i++)
                for (const struct name *name = mount->tree.table[i]; name; name = name->hash_next)
                        if (add_name(mount, changes, name) < 0)
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
                return -by_path; /* what is in a directory has the longer path, and sorts behind it */
        return by_path ? by_path : (int)left->type - (int)right->type;
}

int changes_collect(struct mount *mount, struct changes *ret, struct cloche_err *e)
{
        *ret = (struct changes){0};
        if (collect(mount, ret) < 0) {
                changes_done(ret);
                return err_set(e, CLOCHE_E_TOO_LARGE, "the paths of the changes have more than %u bytes", PATH_BYTES_MAX);
        }
        if (ret->count)
                qsort(ret->rows, ret->count, sizeof(*ret->rows), in_order);
        return 0;
}

void changes_done(struct changes *changes)
{
        for (size_t i = 0; i < changes->count; i++) {
                free(changes->rows[i].path);
                free(changes->rows[i].from);
                free(changes->rows[i].link);
        }
        free(changes->rows);
        *changes = (struct changes){0};
}

/* -- as JSON -------------------------------------------------------------------------------------------------- */

static int64_t time_ns(struct timespec t)
{
        return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static const char *kind_name(const struct node *node)
{
        return node->kind == S_IFDIR ? "directory" : node->kind == S_IFLNK ? "symlink" : "file";
}

static json_t *change_to_json(const struct change *change)
{
        const struct node *node = change->node;
        json_int_t size = (json_int_t)(node->own ? node->attributes.size : (uint64_t)node->st.st_size);
        int mode = (int)(node->own ? node->attributes.permissions : node->st.st_mode & 0777);
        json_t *row = json_pack("{s:s, s:o, s:s, s:i, s:I, s:I}", "type", type_names[change->type], "path", path_to_json(change->path),
                                "kind", kind_name(node), "mode", mode, "size", node->kind == S_IFREG ? size : 0, "mtimeNs",
                                (json_int_t)time_ns(node->own ? node->attributes.mtime : node->st.st_mtim));

        if (change->from)
                json_object_set_new(row, "from", path_to_json(change->from));
        if (change->link)
                json_object_set_new(row, "link", path_to_json(change->link));
        if (change->over)
                json_object_set_new(row, "over", json_true());
        if (change->is_virtual)
                json_object_set_new(row, "virtual", json_true());
        if (node->target)
                json_object_set_new(row, "target", path_to_json(node->target));
        /* False: the mode or the times alone. */
        if (change->type == CHANGE_MODIFIED && node->kind == S_IFREG)
                json_object_set_new(row, "content", json_boolean(node->content != 0));
        return row;
}

json_t *changes_to_json(const struct changes *changes)
{
        json_t *list = json_array();

        for (size_t i = 0; i < changes->count; i++)
                json_array_append_new(list, change_to_json(&changes->rows[i]));
        return list;
}

json_t *change_identity_json(const struct lower_identity *identity)
{
        return json_pack("{s:I, s:I, s:I, s:I, s:I}", "dev", (json_int_t)identity->dev, "ino", (json_int_t)identity->ino, "size",
                         (json_int_t)identity->size, "mtimeNs", (json_int_t)identity->mtime_ns, "ctimeNs",
                         (json_int_t)identity->ctime_ns);
}
