/* The tree of names and nodes, the denial log, and the list of changes: the parts that need no kernel. */
#include "helpers/fs/tree/change.h"
#include "helpers/fs/tree/denial-log.h"
#include "helpers/fs/tree/node.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t seed[2] = {1, 2};
static unsigned dropped;

static void drop_content(void *argument, uint64_t content)
{
        (void)argument;
        (void)content;
        dropped++;
}

static void begin(struct tree *tree)
{
        struct tree_limits limits = {.nodes = 100000, .changed = 1000, .xattr_bytes = 1000};

        CHECK(tree_init(tree, &limits, seed) == 0, "a tree");
        tree->drop_content = drop_content;
}

static struct node *lower(struct tree *tree, struct node *parent, const char *text, mode_t mode)
{
        struct stat st = {.st_mode = mode, .st_ino = 7, .st_nlink = 1};
        struct node *node = tree_new_lower_node(tree, parent, text, &st);

        tree_put(tree, tree_make_name(tree, parent, text), node);
        return node;
}

static struct node *made(struct tree *tree, struct node *parent, const char *text, mode_t mode)
{
        struct node *node = tree_new_node(tree, mode);

        tree_own(tree, node);
        tree_put(tree, tree_make_name(tree, parent, text), node);
        return node;
}

static void move(struct tree *tree, struct node *from, const char *text, struct node *to, const char *new_text)
{
        struct name *name = tree_find(tree, from, text);
        struct node *node = name->node;

        node->pins++;
        tree_take(tree, name);
        tree_put(tree, tree_make_name(tree, to, new_text), node);
        tree_settle_name(tree, name);
        node->pins--;
}

static void test_what_nobody_holds_goes(void)
{
        struct tree tree;
        struct node *d, *f;

        begin(&tree);
        d = lower(&tree, tree.root, "d", S_IFDIR);
        f = lower(&tree, d, "f", S_IFREG);
        f->lookups = 1;
        tree_settle(&tree, f);
        CHECK(tree.node_count == 3 && tree.name_count == 2, "what the kernel knows stays, and its parents");
        f->lookups = 0;
        tree_settle(&tree, f);
        CHECK(tree.node_count == 1 && tree.name_count == 0, "the parents go with it");
        d = lower(&tree, tree.root, "d", S_IFDIR);
        f = made(&tree, d, "f", S_IFREG);
        f->content = 5;
        tree_settle(&tree, f);
        CHECK(tree.node_count == 3 && tree.changed_count == 1, "what the guest made stays");
        dropped = 0;
        tree_done(&tree);
        CHECK(dropped == 1, "until the end");
}

static void test_paths(void)
{
        static char text[NODE_PATH_MAX];
        struct tree tree;
        struct node *d, *f;

        begin(&tree);
        d = lower(&tree, tree.root, "d", S_IFDIR);
        f = lower(&tree, d, "f", S_IFREG);
        CHECK(strcmp(node_path(f, text), "d/f") == 0 && strcmp(node_path(tree.root, text), "") == 0, "of names");
        CHECK(strcmp(node_child_path(tree.root, "x", text), "x") == 0 &&
                      strcmp(node_child_path(d, "x", text), "d/x") == 0,
              "of what may come");
        move(&tree, tree.root, "d", tree.root, "e");
        CHECK(strcmp(node_path(f, text), "e/f") == 0 && strcmp(node_lower_path(f, text), "d/f") == 0,
              "the guest's and the host's");
        CHECK(!node_is_at_home(d) && node_is_at_home(f) && tree.moved, "what was moved, and what went along");
        move(&tree, tree.root, "e", tree.root, "d");
        CHECK(node_is_at_home(d) && !node_is_changed(d) && tree.changed_count == 0 && tree.name_count == 2,
              "and back: as if nothing was");
        for (int i = 0; i < 300; i++) {
                char name[NODE_NAME_MAX + 1];

                memset(name, 'x', NODE_NAME_MAX);
                name[NODE_NAME_MAX] = '\0';
                d = made(&tree, d, name, S_IFDIR);
        }
        CHECK(node_path(d, text) == NULL, "one that is too long is none");
        tree_done(&tree);
}

static void test_many_names(void)
{
        struct tree tree;
        size_t wrong = 0;
        char name[32];

        begin(&tree);
        for (int i = 0; i < 50000; i++) {
                snprintf(name, sizeof(name), "n%d", i);
                lower(&tree, tree.root, name, S_IFREG);
        }
        for (int i = 0; i < 50000; i++) {
                snprintf(name, sizeof(name), "n%d", i);
                wrong += tree_find(&tree, tree.root, name) == NULL;
        }
        CHECK(wrong == 0 && tree.root->entry_count == 50000 && tree.table_size >= 32768, "all are found");
        while (tree.root->entries)
                tree_settle(&tree, tree.root->entries->node);
        CHECK(tree.node_count == 1 && tree.name_count == 0, "and go");
        tree_done(&tree);
}

static void test_limits(void)
{
        struct tree_limits limits = {.nodes = 3, .changed = 1};
        struct tree tree;
        struct node *a, *b;

        CHECK(tree_init(&tree, &limits, seed) == 0, "a small tree");
        tree.drop_content = drop_content;
        a = lower(&tree, tree.root, "a", S_IFREG);
        b = lower(&tree, tree.root, "b", S_IFREG);
        CHECK(tree_new_node(&tree, S_IFREG) == NULL, "no more nodes than that");
        CHECK(tree_own(&tree, a) == 0 && tree_own(&tree, a) == 0 && tree_own(&tree, b) < 0, "nor changes");
        tree_done(&tree);
}

static int has(const struct changes *changes, size_t at, enum change_type type, const char *path, const char *from)
{
        const struct change *row = &changes->rows[at];

        return at < changes->count && row->type == type && strcmp(row->path, path) == 0 &&
               (from ? row->from && strcmp(row->from, from) == 0 : !row->from);
}

static void test_changes(void)
{
        static struct fs_mount mount;
        struct changes changes;
        struct node *d, *x, *e;
        struct name *name;

        begin(&mount.tree);
        CHECK(denial_log_init(&mount.denial_log, 10, 10) == 0, "a denial log");
        d = lower(&mount.tree, mount.tree.root, "d", S_IFDIR);
        x = lower(&mount.tree, d, "x", S_IFREG);
        e = made(&mount.tree, mount.tree.root, "e", S_IFDIR);
        made(&mount.tree, e, "new", S_IFREG);
        move(&mount.tree, d, "x", e, "x");
        x->written = true;
        name = tree_find(&mount.tree, mount.tree.root, "d");
        tree_take(&mount.tree, name);
        made(&mount.tree, mount.tree.root, "pipe", S_IFIFO);
        CHECK(changes_collect(&mount, &changes, NULL) == 0 && changes.count == 5, "five rows");
        CHECK(has(&changes, 0, CHANGE_DELETED, "d", NULL), "what is deleted first");
        CHECK(has(&changes, 1, CHANGE_CREATED, "e", NULL) && has(&changes, 2, CHANGE_CREATED, "e/new", NULL),
              "parents before children");
        CHECK(has(&changes, 3, CHANGE_RENAMED, "e/x", "d/x") && has(&changes, 4, CHANGE_MODIFIED, "e/x", NULL),
              "a rename, then what is in it");
        CHECK(mount.denial_log.warning_count == 1, "a pipe is a warning");
        changes_done(&changes);
        tree_find(&mount.tree, mount.tree.root, "e")->made_virtual = true;
        CHECK(changes_collect(&mount, &changes, NULL) == 0 && changes.rows[2].is_virtual &&
                      changes.rows[3].is_virtual && !changes.rows[0].is_virtual,
              "what is in a virtual directory is virtual");
        changes_done(&changes);
        denial_log_done(&mount.denial_log);
        tree_done(&mount.tree);
}

static void test_origins_and_pages(void)
{
        static struct fs_mount mount;
        struct changes changes;
        struct node *a, *b;
        struct name *name;
        json_t *page;
        size_t end;

        begin(&mount.tree);
        CHECK(denial_log_init(&mount.denial_log, 10, 10) == 0, "a denial log");
        a = lower(&mount.tree, mount.tree.root, "a", S_IFREG);
        b = lower(&mount.tree, mount.tree.root, "b", S_IFREG);
        a->st.st_size = 11;
        b->st.st_size = 22;
        name = tree_find(&mount.tree, mount.tree.root, "b");
        tree_take(&mount.tree, name);
        move(&mount.tree, mount.tree.root, "a", mount.tree.root, "b");
        a->st.st_size = 99;
        made(&mount.tree, mount.tree.root, "c", S_IFREG)->content = 0x1f;
        CHECK(changes_collect(&mount, &changes, NULL) == 0 && changes.count == 2, "two rows");
        CHECK(changes.rows[0].has_origin && changes.rows[0].origin.size == 11 && changes.rows[0].over &&
                      changes.rows[0].over_origin.size == 22,
              "what both were when they were changed");
        CHECK(!changes.rows[1].has_origin && changes.rows[1].content == 0x1f, "what is new was nothing");
        page = changes_to_json(&changes, 0, 1, &end);
        CHECK(end == 1 && json_array_size(page) == 1, "a page");
        json_decref(page);
        page = changes_to_json(&changes, 1, 10, &end);
        CHECK(end == 2 && strcmp(json_string_value(json_object_get(json_array_get(page, 0), "contents")), "1f") == 0 &&
                      json_is_null(json_object_get(json_array_get(page, 0), "origin")),
              "the last");
        json_decref(page);
        changes_done(&changes);
        denial_log_done(&mount.denial_log);
        tree_done(&mount.tree);
}

static unsigned told;

static void tell(void *argument, const struct denial *denial)
{
        (void)argument;
        (void)denial;
        told++;
}

static void test_denial_log(void)
{
        struct denial_log denial_log;
        char path[32];
        json_t *list;

        CHECK(denial_log_init(&denial_log, 100, 2) == 0, "a denial log");
        denial_log.on_denial = tell;
        for (int i = 0; i < 1000; i++)
                denial_log_deny(&denial_log, "a", RULES_MODIFY, "");
        CHECK(denial_log.denial_count == 1 && denial_log.denials[0].count == 1000 && told == 10,
              "equal ones are counted, and told ever more rarely");
        denial_log_deny(&denial_log, "a", RULES_DELETE, "");
        CHECK(denial_log.denial_count == 2, "another operation is another");
        for (int i = 0; i < 1000; i++) {
                snprintf(path, sizeof(path), "p%d", i);
                denial_log_deny(&denial_log, path, RULES_READ, "");
        }
        CHECK(denial_log.denial_count == 100 && denial_log.denials_dropped == 902 && told < 80,
              "as many as there is room for, told %u times", told);
        denial_log_warn(&denial_log, "\xff", "odd");
        denial_log_warn(&denial_log, "\xff", "odd");
        list = denial_log_warnings_json(&denial_log);
        CHECK(json_array_size(list) == 1 &&
                      strcmp(json_string_value(json_object_get(json_object_get(json_array_get(list, 0), "path"),
                                                               "b64")),
                             "/w==") == 0,
              "a path that is no text");
        json_decref(list);
        denial_log_done(&denial_log);
}

int main(void)
{
        test_what_nobody_holds_goes();
        test_paths();
        test_many_names();
        test_limits();
        test_changes();
        test_origins_and_pages();
        test_denial_log();
        return tap_done();
}
