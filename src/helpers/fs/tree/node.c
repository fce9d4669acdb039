/* Nodes and names in tables, with reference counts.
 * Runs in: cloche-fs, as the mounted directory's owner or the caller, confined. */
#include "node.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_START 1024
#define OWN_INO_FIRST (1ull << 51) /* above those of most file systems, within a double's precision */

/* -- the table of names --------------------------------------------------------------------------------------- */

static uint64_t rotate(uint64_t x, int by)
{
        return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
        v[0] += v[1];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[0] = rotate(v[0], 32);
        v[2] += v[3];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[2] = rotate(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word)
{
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
}

/* SipHash-1-3 of the parent and the name: the guest chooses the names and must not choose the
 * chains. */
static uint64_t hash_of(const struct tree *tree, const struct node *parent, const char *name, size_t size)
{
        uint64_t v[4] = {tree->seed[0] ^ 0x736f6d6570736575u, tree->seed[1] ^ 0x646f72616e646f6du,
                         tree->seed[0] ^ 0x6c7967656e657261u, tree->seed[1] ^ 0x7465646279746573u};
        uint64_t word;

        sip_word(v, (uint64_t)(uintptr_t)parent);
        for (; size >= sizeof(word); name += sizeof(word), size -= sizeof(word)) {
                memcpy(&word, name, sizeof(word));
                sip_word(v, word);
        }
        word = (uint64_t)size << 56;
        memcpy(&word, name, size);
        sip_word(v, word);
        v[2] ^= 0xff;
        for (int i = 0; i < 3; i++)
                sip_round(v);
        return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static void grow_table(struct tree *tree)
{
        size_t size = tree->table_size * 2;
        struct name **table = calloc(size, sizeof(struct name *));

        if (!table)
                return; /* keep the longer chains */
        for (size_t i = 0; i < tree->table_size; i++)
                for (struct name *name = tree->table[i], *next; name; name = next) {
                        next = name->hash_next;
                        name->hash_next = table[name->hash & (size - 1)];
                        table[name->hash & (size - 1)] = name;
                }
        free(tree->table);
        tree->table = table;
        tree->table_size = size;
}

struct name *tree_find(const struct tree *tree, const struct node *parent, const char *text)
{
        size_t size = strlen(text);
        uint64_t hash;

        if (!parent->entries)
                return NULL;
        hash = hash_of(tree, parent, text, size);
        for (struct name *name = tree->table[hash & (tree->table_size - 1)]; name; name = name->hash_next)
                if (name->hash == hash && name->parent == parent && name->size == size &&
                    memcmp(name->bytes, text, size) == 0)
                        return name;
        return NULL;
}

struct name *tree_make_name(struct tree *tree, struct node *parent, const char *text)
{
        size_t size = strlen(text);
        struct name *name = tree_find(tree, parent, text), **bucket;

        if (name)
                return name;
        name = calloc(1, sizeof(*name) + size + 1);
        if (!name)
                return NULL;
        if (++tree->name_count > tree->table_size)
                grow_table(tree);
        name->parent = parent;
        name->size = (uint16_t)size;
        memcpy(name->bytes, text, size);
        name->hash = hash_of(tree, parent, text, size);
        bucket = &tree->table[name->hash & (tree->table_size - 1)];
        name->hash_next = *bucket;
        *bucket = name;
        name->entry_next = parent->entries;
        if (parent->entries)
                parent->entries->entry_prev = name;
        parent->entries = name;
        parent->entry_count++;
        parent->members++;
        return name;
}

static void free_name(struct tree *tree, struct name *name)
{
        struct name **at = &tree->table[name->hash & (tree->table_size - 1)];
        struct node *parent = name->parent;

        while (*at != name)
                at = &(*at)->hash_next;
        *at = name->hash_next;
        if (name->entry_prev)
                name->entry_prev->entry_next = name->entry_next;
        else
                parent->entries = name->entry_next;
        if (name->entry_next)
                name->entry_next->entry_prev = name->entry_prev;
        parent->entry_count--;
        parent->members--;
        tree->name_count--;
        free(name->covered);
        free(name);
}

/* -- nodes ---------------------------------------------------------------------------------------------------- */

uint64_t tree_new_ino(struct tree *tree)
{
        return OWN_INO_FIRST + ++tree->last_ino;
}

bool tree_has_room(const struct tree *tree)
{
        return tree->changed_count < tree->limits.changed;
}

int tree_own(struct tree *tree, struct node *node)
{
        if (!node->own && !tree_has_room(tree))
                return -1;
        tree->changed_count += !node->own;
        node->own = true;
        return 0;
}

struct node *tree_new_node(struct tree *tree, mode_t kind)
{
        struct node *node = tree->node_count < tree->limits.nodes ? calloc(1, sizeof(*node)) : NULL;

        if (!node)
                return NULL;
        tree->node_count++;
        node->magic = NODE_MAGIC;
        node->kind = kind & S_IFMT;
        node->ino = tree_new_ino(tree);
        return node;
}

struct node *tree_new_lower_node(struct tree *tree, struct node *parent, const char *name, const struct stat *st)
{
        struct node *node = tree_new_node(tree, st->st_mode);

        if (!node)
                return NULL;
        node->lower_name = strdup(name);
        if (!node->lower_name) {
                tree_settle(tree, node);
                return NULL;
        }
        node->has_lower = true;
        node->lower_parent = parent;
        if (parent)
                parent->members++;
        node->st = *st;
        node->ino = st->st_ino;
        return node;
}

bool name_is_home(const struct name *name, const struct node *node)
{
        return node->has_lower && node->lower_parent == name->parent && strcmp(node->lower_name, name->bytes) == 0;
}

bool node_is_at_home(const struct node *node)
{
        if (!node->has_lower || !node->lower_parent)
                return node->has_lower;
        for (const struct name *name = node->names; name; name = name->same_next)
                if (name_is_home(name, node))
                        return true;
        return false;
}

bool node_is_replaced(const struct node *node, const struct stat *st)
{
        return node->backing && (node->backing->dev != st->st_dev || node->backing->ino != st->st_ino);
}

bool node_is_changed(const struct node *node)
{
        return node->own || node->written || node->set || node->xattrs || !node->has_lower || node->name_count > 1 ||
               !node_is_at_home(node);
}

bool name_is_in_virtual(const struct name *name)
{
        for (; name; name = name->parent->names)
                if (name->made_virtual)
                        return true;
        return false;
}

struct node *node_parent(const struct node *node)
{
        return node->names ? node->names->parent : NULL;
}

static void free_xattrs(struct tree *tree, struct node *node)
{
        for (struct xattr *x = node->xattrs, *next; x; x = next) {
                next = x->next;
                tree->xattr_bytes -= x->name_size + x->size;
                free(x);
        }
        node->xattrs = NULL;
}

static void free_node(struct tree *tree, struct node *node)
{
        if (node->content)
                tree->drop_content(tree->argument, node->content);
        if (node->own)
                tree->changed_count--;
        free_xattrs(tree, node);
        free(node->lower_name);
        free(node->target);
        node->magic = 0;
        tree->node_count--;
        free(node);
}

/* The hidden entry is back in its place, so nothing needs to be recorded. */
static void drop_removed(struct tree *tree, struct name *name)
{
        name->removed->pins--;
        name->removed = NULL;
        name->removed_virtually = false;
        tree->changed_count--;
}

void tree_put(struct tree *tree, struct name *name, struct node *node)
{
        assert(!name->node && node->magic == NODE_MAGIC);
        name->node = node;
        name->same_next = node->names;
        node->names = name;
        node->name_count++;
        node->rights_epoch = 0;
        if (name->removed == node)
                drop_removed(tree, name);
}

static void unlink_name(struct name *name)
{
        struct name **at = &name->node->names;

        while (*at != name)
                at = &(*at)->same_next;
        *at = name->same_next;
        name->same_next = NULL;
        name->node->name_count--;
        name->node->rights_epoch = 0;
        name->node = NULL;
        name->made_virtual = false;
}

void tree_take(struct tree *tree, struct name *name)
{
        struct node *node = name->node;

        if (name_is_home(name, node) && !name->removed) {
                if (!node->own)
                        lower_identify(&node->st, &node->copied);
                name->removed = node;
                node->pins++;
                tree->changed_count++;
                tree->moved = true;
        }
        unlink_name(name);
}

void tree_drop(struct name *name)
{
        unlink_name(name);
}

void tree_settle_name(struct tree *tree, struct name *name)
{
        if (!name->node && !name->removed && !name->left_out && !name->is_seed)
                free_name(tree, name);
}

static bool is_held(const struct node *node)
{
        return node->lookups || node->handles || node->members || node->pins || node->loaded ||
               (node->names && node_is_changed(node));
}

/* Iterate upwards instead of recursing: a tree may be deeper than the stack. */
void tree_settle(struct tree *tree, struct node *node)
{
        while (node && node != tree->root && !is_held(node)) {
                struct node *above = node_parent(node), *lower_parent = node->lower_parent;

                while (node->names) {
                        struct name *name = node->names;

                        unlink_name(name);
                        tree_settle_name(tree, name);
                }
                if (lower_parent)
                        lower_parent->members--;
                free_node(tree, node);
                /* A node with two parents was moved, and a moved node is held while it has a
                 * name. */
                node = above ? above : lower_parent;
        }
}

/* -- the tree ------------------------------------------------------------------------------------------------- */

int tree_init(struct tree *tree, const struct tree_limits *limits, const uint64_t seed[2])
{
        struct stat st = {.st_mode = S_IFDIR | 0755};

        *tree = (struct tree){.limits = *limits, .seed = {seed[0], seed[1]}, .epoch = 1, .table_size = TABLE_START};
        tree->table = calloc(tree->table_size, sizeof(struct name *));
        tree->root = tree->table ? tree_new_lower_node(tree, NULL, "", &st) : NULL;
        if (tree->root)
                return 0;
        free(tree->table);
        return -1;
}

void tree_done(struct tree *tree)
{
        /* Nodes are found by their present or former names; a nameless one is held by an open
         * file only. */
        for (size_t i = 0; tree->table && i < tree->table_size; i++)
                for (struct name *name = tree->table[i]; name; name = name->hash_next) {
                        if (name->removed)
                                name->removed->pins--;
                        if (name->removed && name->removed->name_count == 0 && name->removed->pins == 0)
                                free_node(tree, name->removed);
                        if (name->node && name->node->name_count-- == 1 && name->node->pins == 0)
                                free_node(tree, name->node);
                }
        for (size_t i = 0; tree->table && i < tree->table_size; i++)
                for (struct name *name = tree->table[i], *next; name; name = next) {
                        next = name->hash_next;
                        free(name->covered);
                        free(name);
                }
        if (tree->root)
                free_node(tree, tree->root);
        free(tree->table);
        *tree = (struct tree){0};
}

/* -- paths ---------------------------------------------------------------------------------------------------- */

struct path {
        char *start, *at; /* filled from the end */
};

static struct path path_start(char *buffer)
{
        buffer[NODE_PATH_MAX - 1] = '\0';
        return (struct path){buffer, buffer + NODE_PATH_MAX - 1};
}

static bool path_add(struct path *path, const char *text, size_t size)
{
        bool slash = *path->at != '\0';

        if ((size_t)(path->at - path->start) < size + slash)
                return false;
        if (slash)
                *--path->at = '/';
        path->at -= size;
        memcpy(path->at, text, size);
        return true;
}

static bool add_names(struct path *path, const struct name *name)
{
        for (; name; name = name->parent->names)
                if (!path_add(path, name->bytes, name->size))
                        return false;
        return true;
}

static bool add_lower(struct path *path, const struct node *node)
{
        for (; node->lower_parent; node = node->lower_parent)
                if (!path_add(path, node->lower_name, strlen(node->lower_name)))
                        return false;
        return true;
}

const char *name_path(const struct name *name, char *ret)
{
        struct path path = path_start(ret);

        return add_names(&path, name) ? path.at : NULL;
}

const char *node_path(const struct node *node, char *ret)
{
        return name_path(node->names, ret);
}

const char *node_lower_path(const struct node *node, char *ret)
{
        struct path path = path_start(ret);

        return add_lower(&path, node) ? path.at : NULL;
}

const char *node_child_path(const struct node *parent, const char *name, char *ret)
{
        struct path path = path_start(ret);

        return path_add(&path, name, strlen(name)) && add_names(&path, parent->names) ? path.at : NULL;
}

const char *node_child_lower_path(const struct node *parent, const char *name, char *ret)
{
        struct path path = path_start(ret);

        return path_add(&path, name, strlen(name)) && add_lower(&path, parent) ? path.at : NULL;
}
