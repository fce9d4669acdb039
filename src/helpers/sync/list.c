/* Parse and check the list of changes.
 * Runs in: cloche-sync, as the directory's owner, Landlocked to it. */
#include "list.h"

#include "base/array.h"
#include "base/err.h"
#include "helpers/fs/tree/denial-log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const type_names[CHANGE_TYPE_COUNT] = {"deleted", "created", "renamed", "modified"};
static const char *const kind_names[] = {"", "file", "directory", "symlink"};
static const char *const other_kinds[] = {"pipe", "socket", "device"};

const char *change_type_name(enum change_type type)
{
        return type_names[type];
}

enum change_kind change_kind_of(mode_t mode)
{
        return S_ISREG(mode) ? KIND_FILE : S_ISDIR(mode) ? KIND_DIRECTORY : S_ISLNK(mode) ? KIND_SYMLINK : KIND_OTHER;
}

/* -- paths ---------------------------------------------------------------------------------------------------- */

static const char *part_fault(const char *part, size_t size)
{
        if (size == 0)
                return "has an empty part";
        if ((size == 1 && part[0] == '.') || (size == 2 && part[0] == '.' && part[1] == '.'))
                return "has a part '.' or '..'";
        return size > LIST_NAME_MAX ? "has a part of more than 255 bytes" : NULL;
}

const char *list_path_fault(const char *path)
{
        const char *at = path, *fault = NULL;

        if (strlen(path) > LIST_PATH_MAX)
                return "has more than 4095 bytes";
        if (path[0] == '/')
                return "is not relative";
        for (bool more = true; more && !fault;) {
                size_t size = strcspn(at, "/");

                fault = part_fault(at, size);
                if (!fault && reserved_is(at, size))
                        fault = "is in " STAGE_NAME ", which is the journal's";
                more = at[size] == '/';
                at += size + 1;
        }
        return fault;
}

static int read_path(const json_t *row, size_t index, const char *key, bool is_required, char **ret,
                     struct cloche_err *e)
{
        const json_t *value = json_object_get(row, key);
        const char *fault;

        if (!is_required && value)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "changes[%zu].%s: not in a change of this type and kind",
                               index, key);
        if (!is_required)
                return 0;
        *ret = path_from_json(value);
        if (!*ret)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "changes[%zu].%s: expected a string without NUL, or bytes",
                               index, key);
        fault = list_path_fault(*ret);
        return fault ? err_set(e, CLOCHE_E_INVALID_ARGUMENT, "changes[%zu].%s: '%.60s' %s", index, key, *ret, fault)
                     : 0;
}

static int read_target(const json_t *row, size_t index, bool is_required, char **ret, struct cloche_err *e)
{
        const json_t *value = json_object_get(row, "target");

        if (!value && !is_required)
                return 0;
        *ret = path_from_json(value);
        if (!*ret || !**ret || strlen(*ret) > LIST_PATH_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "changes[%zu].target: expected a string or bytes, of 1 to 4095", index);
        return 0;
}

/* -- members -------------------------------------------------------------------------------------------------- */

static int check_members(const json_t *row, size_t index, struct cloche_err *e)
{
        static const char *const known[] = {"type",    "path",     "kind",    "mode",   "size",
                                            "mtimeNs", "from",     "link",    "over",   "target",
                                            "content", "contents", "virtual", "origin", "overOrigin"};
        const char *name;
        json_t *value;

        if (!json_is_object(row))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "changes[%zu]: expected an object", index);
        json_object_foreach ((json_t *)row, name, value) {
                size_t i = 0;

                while (i < sizeof(known) / sizeof(known[0]) && strcmp(known[i], name) != 0)
                        i++;
                if (i == sizeof(known) / sizeof(known[0]))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "changes[%zu]: unknown member '%.40s'", index,
                                       name);
        }
        return 0;
}

static int find_name(const char *const *names, size_t count, const char *name)
{
        for (size_t i = 0; name && *name && i < count; i++)
                if (strcmp(names[i], name) == 0)
                        return (int)i;
        return -1;
}

static int read_type(const json_t *row, size_t index, struct sync_change *ret, struct cloche_err *e)
{
        int type = find_name(type_names, CHANGE_TYPE_COUNT, json_string_value(json_object_get(row, "type")));
        const json_t *given = json_object_get(row, "kind");
        int kind = given ? find_name(kind_names, 4, json_string_value(given)) : KIND_UNKNOWN;

        if (type < 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "changes[%zu].type: expected created, modified, deleted or renamed", index);
        if (kind < 0 && find_name(other_kinds, 3, json_string_value(given)) >= 0)
                kind = KIND_OTHER;
        if (kind < 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "changes[%zu].kind: expected file, directory, symlink, pipe, socket or device", index);
        ret->type = (enum change_type)type;
        ret->kind = (enum change_kind)kind;
        if (!given && (type == CHANGE_CREATED || type == CHANGE_MODIFIED))
                ret->kind = KIND_FILE;
        return 0;
}

static int read_whole(const json_t *object, const char *key, json_int_t min, json_int_t max, json_int_t *ret,
                      bool *ret_given)
{
        const json_t *value = json_object_get(object, key);

        if (!value)
                return 0;
        *ret_given = true;
        *ret = json_integer_value(value);
        return json_is_integer(value) && *ret >= min && *ret <= max ? 0 : -1;
}

static int read_numbers(const json_t *row, size_t index, struct sync_change *ret, struct cloche_err *e)
{
        json_int_t mode = 0, size = 0, mtime = 0;

        if (read_whole(row, "mode", 0, 0777, &mode, &ret->has_mode) < 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "changes[%zu].mode: expected a whole number from 0 to 511 (0777)", index);
        if (read_whole(row, "size", 0, INT64_MAX, &size, &ret->has_size) < 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "changes[%zu].size: expected a whole number, not negative",
                               index);
        if (read_whole(row, "mtimeNs", INT64_MIN, INT64_MAX, &mtime, &ret->has_mtime) < 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "changes[%zu].mtimeNs: expected a whole number", index);
        ret->mode = (unsigned)mode;
        ret->size = (uint64_t)size;
        ret->mtime_ns = mtime;
        return 0;
}

static int read_flags(const json_t *row, size_t index, struct sync_change *ret, struct cloche_err *e)
{
        bool content = false;
        const struct {
                const char *key;
                bool *ret;
        } flags[] = {{"over", &ret->over}, {"virtual", &ret->is_virtual}, {"content", &content}};

        for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
                const json_t *value = json_object_get(row, flags[i].key);

                if (value && !json_is_boolean(value))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "changes[%zu].%s: expected true or false", index,
                                       flags[i].key);
                *flags[i].ret = json_is_true(value);
        }
        if (content && !json_object_get(row, "contents") && !json_object_get(row, "link") && !ret->is_virtual)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "changes[%zu].contents: missing, though content is true",
                               index);
        return 0;
}

static int read_contents(const json_t *row, size_t index, struct sync_change *ret, struct cloche_err *e)
{
        const json_t *value = json_object_get(row, "contents");
        const char *text = json_string_value(value);
        size_t size = text ? json_string_length(value) : 0;

        if (!value)
                return 0;
        if (size == 0 || size > 16 || strspn(text, "0123456789abcdef") != size || text[0] == '0')
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "changes[%zu].contents: expected the number of a file, in hexadecimal", index);
        if (ret->kind != KIND_FILE || ret->type == CHANGE_DELETED || ret->type == CHANGE_RENAMED)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "changes[%zu].contents: only of a file that is created or modified", index);
        if (!ret->link) /* a hard link has those of its target */
                ret->contents = strtoull(text, NULL, 16);
        return 0;
}

static int read_origin(const json_t *row, size_t index, const char *key, struct origin *ret, struct cloche_err *e)
{
        const json_t *value = json_object_get(row, key);
        json_int_t dev, ino, size, mtime, ctime;

        if (!value || json_is_null(value)) {
                ret->state = value ? ORIGIN_NOTHING : ORIGIN_UNKNOWN;
                return 0;
        }
        if (json_unpack((json_t *)value, "{s:I, s:I, s:I, s:I, s:I !}", "dev", &dev, "ino", &ino, "size", &size,
                        "mtimeNs", &mtime, "ctimeNs", &ctime) < 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "changes[%zu].%s: expected null or {dev, ino, size, mtimeNs, ctimeNs}, all whole "
                               "numbers",
                               index, key);
        ret->state = ORIGIN_KNOWN;
        ret->at = (struct lower_identity){(uint64_t)dev, (uint64_t)ino, (uint64_t)size, mtime, ctime};
        return 0;
}

/* -- rows ----------------------------------------------------------------------------------------------------- */

static int read_row(const json_t *row, size_t index, struct sync_change *ret, struct cloche_err *e)
{
        bool has_link = json_object_get(row, "link");
        int r = check_members(row, index, e);

        if (r == 0)
                r = read_type(row, index, ret, e);
        if (r == 0)
                r = read_path(row, index, "path", true, &ret->path, e);
        if (r == 0)
                r = read_path(row, index, "from", ret->type == CHANGE_RENAMED, &ret->from, e);
        if (r == 0)
                r = read_path(row, index, "link",
                              has_link && (ret->type == CHANGE_CREATED || ret->type == CHANGE_MODIFIED), &ret->link, e);
        if (r == 0)
                r = read_target(row, index, ret->kind == KIND_SYMLINK && ret->type == CHANGE_CREATED && !ret->link,
                                &ret->target, e);
        if (r == 0)
                r = read_numbers(row, index, ret, e);
        if (r == 0)
                r = read_flags(row, index, ret, e);
        if (r == 0)
                r = read_contents(row, index, ret, e);
        if (r == 0)
                r = read_origin(row, index, "origin", &ret->origin, e);
        if (r == 0)
                r = read_origin(row, index, "overOrigin", &ret->over_origin, e);
        if (r == 0 && ret->type == CHANGE_RENAMED && strcmp(ret->path, ret->from) == 0)
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "changes[%zu].from: the same as path", index);
        if (r == 0 && ret->link && (ret->kind == KIND_DIRECTORY || strcmp(ret->path, ret->link) == 0))
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "changes[%zu].link: expected another path of a file", index);
        if (r == 0 && ret->type == CHANGE_CREATED && ret->kind == KIND_FILE && ret->size && !ret->contents &&
            !ret->link && !ret->is_virtual)
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "changes[%zu].contents: missing, though size is not 0",
                            index);
        return r;
}

static struct sync_change *add_row(struct sync_list *list)
{
        if (ARRAY_GROW(list->rows, list->count, list->room) < 0)
                return NULL;
        list->rows[list->count] = (struct sync_change){0};
        return &list->rows[list->count++];
}

int list_add(struct sync_list *list, const json_t *changes, struct cloche_err *e)
{
        json_t *value;
        size_t i;

        if (!json_is_array(changes))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "changes: expected an array");
        if (json_array_size(changes) > LIST_ROWS_MAX - list->count)
                return err_set(e, CLOCHE_E_TOO_LARGE, "changes: more than %d", LIST_ROWS_MAX);
        json_array_foreach ((json_t *)changes, i, value) {
                size_t index = list->count;
                struct sync_change *row = add_row(list);
                int r = row ? read_row(value, index, row, e) : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the changes");

                if (r < 0)
                        return r;
        }
        return 0;
}

static int in_order(const void *a, const void *b)
{
        const struct sync_change *left = a, *right = b;
        int deleted = (left->type != CHANGE_DELETED) - (right->type != CHANGE_DELETED), by_path;

        if (deleted)
                return deleted;
        by_path = strcmp(left->path, right->path);
        if (left->type == CHANGE_DELETED)
                return -by_path;
        return by_path ? by_path : (int)left->type - (int)right->type;
}

static int by_text(const void *a, const void *b)
{
        return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Two rows may share a path only if the first frees it or creates the entry that the second
 * changes. */
static int check_pairs(const struct sync_list *list, struct cloche_err *e)
{
        for (size_t i = 1; i < list->count; i++) {
                const struct sync_change *a = &list->rows[i - 1], *b = &list->rows[i];

                if (strcmp(a->path, b->path) == 0 && (a->type == CHANGE_DELETED) == (b->type == CHANGE_DELETED) &&
                    !(a->type == CHANGE_RENAMED && b->type == CHANGE_MODIFIED && !b->link))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "changes: '%.100s' is both %s and %s", a->path,
                                       type_names[a->type], type_names[b->type]);
        }
        return 0;
}

/* An entry leaves its place only once. */
static int check_leaving(const struct sync_list *list, struct cloche_err *e)
{
        const char **paths = calloc(list->count + 1, sizeof(*paths));
        size_t count = 0;
        int r = 0;

        if (!paths)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the changes");
        for (size_t i = 0; i < list->count; i++)
                if (list->rows[i].type == CHANGE_DELETED || list->rows[i].from)
                        paths[count++] = list->rows[i].from ? list->rows[i].from : list->rows[i].path;
        qsort(paths, count, sizeof(*paths), by_text);
        for (size_t i = 1; r == 0 && i < count; i++)
                if (strcmp(paths[i - 1], paths[i]) == 0)
                        r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "changes: '%.100s' is deleted or renamed twice",
                                    paths[i]);
        free(paths);
        return r;
}

int list_close(struct sync_list *list, struct cloche_err *e)
{
        int r;

        if (list->count)
                qsort(list->rows, list->count, sizeof(*list->rows), in_order);
        r = check_pairs(list, e);
        return r < 0 ? r : check_leaving(list, e);
}

void list_done(struct sync_list *list)
{
        for (size_t i = 0; i < list->count; i++) {
                free(list->rows[i].path);
                free(list->rows[i].from);
                free(list->rows[i].link);
                free(list->rows[i].target);
        }
        free(list->rows);
        *list = (struct sync_list){0};
}
