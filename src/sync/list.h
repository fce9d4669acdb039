/* The list of changes a caller gives: checked, and as rows. Pure.
 *
 * What it says is not believed: it may come from a guest's tree, or be made by hand. */
#ifndef CLOCHE_SYNC_LIST_H
#define CLOCHE_SYNC_LIST_H

#include "fs/lower.h"
#include "fs/reserved.h"

#include <cloche/cloche.h>
#include <jansson.h>
#include <stdbool.h>

#define LIST_ROWS_MAX 1000000
#define LIST_PATH_MAX 4095 /* bytes */
#define LIST_NAME_MAX 255
#define STAGE_NAME RESERVED_NAME /* in the root of what is synced; no change may name one */

/* In the order in which they sort at one path. */
enum change_type { CHANGE_DELETED, CHANGE_CREATED, CHANGE_RENAMED, CHANGE_MODIFIED, CHANGE_TYPE_COUNT };
enum change_kind { KIND_UNKNOWN, KIND_FILE, KIND_DIRECTORY, KIND_SYMLINK, KIND_OTHER };
enum origin_state { ORIGIN_UNKNOWN, ORIGIN_NOTHING, ORIGIN_KNOWN };

struct origin {
        enum origin_state state;
        struct lower_identity at;
};

struct change {
        enum change_type type;
        enum change_kind kind;
        char *path, *from, *link, *target; /* NULL where a row has none */
        struct origin origin, over_origin;
        uint64_t contents; /* number of its file; 0: none */
        uint64_t size;
        int64_t mtime_ns;
        unsigned mode;
        bool over, is_virtual, has_size, has_mtime, has_mode;
};

struct list {
        struct change *rows;
        size_t count, room;
};

/* Add rows of a JSON array. -CLOCHE_E_INVALID_ARGUMENT says which row and member. list_done() also after a failure. */
int list_add(struct list *list, const json_t *changes, struct cloche_err *e);
/* Sort as fs/change.h says, and refuse rows that contradict each other. */
int list_close(struct list *list, struct cloche_err *e);
void list_done(struct list *list);

/* "" is none; relative, no empty, "." or ".." part, no part or whole too long. What is wrong with it, or NULL. */
const char *list_path_fault(const char *path);

const char *change_type_name(enum change_type type);
enum change_kind change_kind_of(mode_t mode);

#endif
