/* Change lists made by a caller: one page a line. Accepted ones keep their promises. */
#include "helpers/sync/list.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct sync_list *list)
{
        for (size_t i = 0; i < list->count; i++) {
                const struct sync_change *c = &list->rows[i];

                if (list_path_fault(c->path) || (c->from && list_path_fault(c->from)) ||
                    (c->link && list_path_fault(c->link)))
                        abort();
                if (c->type >= CHANGE_TYPE_COUNT || (c->type == CHANGE_RENAMED) != (c->from != NULL) || c->mode > 0777)
                        abort();
                if (i && list->rows[i - 1].type != CHANGE_DELETED && c->type == CHANGE_DELETED)
                        abort();
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *text = calloc(1, size + 1), *rest = text, *line;
        struct sync_list list = {0};
        struct cloche_err e;
        int r = 0;

        if (!text)
                return 0;
        memcpy(text, data, size);
        while (r == 0 && (line = strsep(&rest, "\n"))) {
                json_t *json = json_loads(line, JSON_DECODE_ANY, NULL);

                r = json ? list_add(&list, json, &e) : -1;
                json_decref(json);
        }
        if (r == 0 && list_close(&list, &e) == 0)
                check(&list);
        list_done(&list);
        free(text);
        return 0;
}
