/* The list of changes from the caller: validated and stored as rows. Pure.
 *
 * The list is untrusted: it may come from a guest's tree or be written by hand. */
#ifndef CLOCHE_HELPERS_SYNC_LIST_H
#define CLOCHE_HELPERS_SYNC_LIST_H

#include "helpers/fs/rules/reserved.h"
#include "helpers/fs/tree/lower.h"

#include <cloche/error.h>
#include <jansson.h>
#include <stdbool.h>

#define LIST_ROWS_MAX 1000000
#define LIST_PATH_MAX 4095 /* bytes */
#define LIST_NAME_MAX 255
#define STAGE_NAME RESERVED_NAME /* in the root of the synced directory; no change may name it */

/* In their sort order at one path. */
enum change_type { CHANGE_DELETED, CHANGE_CREATED, CHANGE_RENAMED, CHANGE_MODIFIED, CHANGE_TYPE_COUNT };
enum change_kind { KIND_UNKNOWN, KIND_FILE, KIND_DIRECTORY, KIND_SYMLINK, KIND_OTHER };
enum origin_state { ORIGIN_UNKNOWN, ORIGIN_NOTHING, ORIGIN_KNOWN };

struct origin {
        enum origin_state state;
        struct lower_identity at;
};

struct sync_change {
        enum change_type type;
        enum change_kind kind;
        char *path, *from, *link, *target; /* NULL where a row has none */
        struct origin origin, over_origin;
        uint64_t contents; /* number of the contents file; 0: none */
        uint64_t size;
        int64_t mtime_ns;
        unsigned mode;
        bool over, is_virtual, has_size, has_mtime, has_mode;
};

struct sync_list {
        struct sync_change *rows;
        size_t count, room;
};

/* Add the rows of a JSON array. -CLOCHE_E_INVALID_ARGUMENT names the row and member. Call
 * list_done() after a failure too. */
int list_add(struct sync_list *list, const json_t *changes, struct cloche_err *e);
/* Sort in the order of helpers/fs/tree/change.h and refuse rows that contradict each other. */
int list_close(struct sync_list *list, struct cloche_err *e);
void list_done(struct sync_list *list);

/* The fault in a path, or NULL. Paths are relative; "" is invalid, as are empty, "." and ".." parts
 * and excess length. */
const char *list_path_fault(const char *path);

const char *change_type_name(enum change_type type);
enum change_kind change_kind_of(mode_t mode);

#endif
