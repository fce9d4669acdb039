/* Runs in: cloche-files, within a box, with its user's rights. */
#include "operations.h"

#include <string.h>

static const struct files_operation operations[] = {
        {"file.write", file_write, SHORT},
        {"file.read", file_read, SHORT},
        {"file.stat", file_stat, SHORT},
        {"file.exists", file_exists, SHORT},
        {"file.list", file_list, LONG_IF_RECURSIVE},
        {"file.mkdir", file_mkdir, SHORT},
        {"file.move", file_move, LONG},
        {"file.copy", file_copy, LONG},
        {"file.remove", file_remove, LONG_IF_RECURSIVE},
        {"file.search", file_search, LONG},
        {"file.replace", file_replace, LONG},
        {"file.watch", file_watch, LONG},
        {"archive.create", archive_create, LONG},
        {"archive.extract", archive_extract, LONG},
};

const struct files_operation *operation_find(const char *method)
{
        for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
                if (strcmp(operations[i].method, method) == 0)
                        return &operations[i];
        return NULL;
}

int operation_is_long(const struct files_operation *operation, const json_t *params)
{
        return operation->length == LONG ||
               (operation->length == LONG_IF_RECURSIVE && json_is_true(json_object_get(params, "recursive")));
}
