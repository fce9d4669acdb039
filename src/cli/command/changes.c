/* cloche changes: list and drop unwritten changes of mounted directories.
 * Runs in: the CLI, as its user. */
#include "cli/run/changes.h"
#include "cli/options/options.h"
#include "cli/output/print.h"
#include "cli/output/table.h"
#include "cli/run/xdg.h"

#include <stdio.h>
#include <stdlib.h>

static json_t *row(const struct changes_kept *kept)
{
        double age = difftime(time(NULL), kept->made);

        return json_pack("{s:s, s:I, s:I, s:O}", "name", kept->name, "count", kept->count, "ageSeconds",
                         (json_int_t)(age < 0 ? 0 : age), "mounts", json_object_get(kept->about, "mounts"));
}

static void make_sources(FILE *out, const json_t *of, int is_plain)
{
        const json_t *mounts = json_object_get(of, "mounts"), *mount;
        size_t i;

        (void)is_plain;
        json_array_foreach (mounts, i, mount) {
                fputs(i ? ", " : "", out);
                print_path(out, json_object_get(mount, "source"));
        }
}

static const struct table_column columns[] = {
        {"CHANGES", CELL_NAME, "name", 16, NULL},
        {"COUNT", CELL_COUNT, "count", 0, NULL},
        {"AGE", CELL_AGE, "ageSeconds", 0, NULL},
        {"DIRECTORIES", CELL_NAME, NULL, 16, make_sources},
};

static int list(struct cli_request *request)
{
        json_t *rows = json_array();
        char **names;
        size_t count;
        int code = changes_names(&names, &count);

        for (size_t i = 0; i < count; i++) {
                struct changes_kept kept;
                int bad = changes_open(names[i], &kept);

                if (bad == 0)
                        json_array_append_new(rows, row(&kept));
                changes_close(&kept);
                code = bad ? 1 : code;
        }
        cli_xdg_list_free(names, count);
        if (code == 0 || count)
                TABLE_PRINT(columns, rows, request->json);
        json_decref(rows);
        return code;
}

static int drop(struct cli_request *request)
{
        int code = 0;

        if (request->all == (request->positional_count > 0))
                return cli_bad("expected names, or --all (usage: cloche changes drop NAME… | --all)");
        if (request->all)
                return cli_changes_drop_all();
        for (int i = 0; i < request->positional_count; i++) {
                int bad = cli_changes_drop(request->positional[i]);

                code = bad ? bad : code;
        }
        return code;
}

const struct cli_handler command_changes_list = {
        .run = list,
};

const struct cli_handler command_changes_drop = {
        .run = drop,
        .positional_max = CLI_WORDS_MAX,
};
