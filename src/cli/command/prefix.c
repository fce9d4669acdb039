/* cloche prefix: manage named set-ups.
 * Runs in: the CLI, as its user; a run that root started drops to a user of its own first. */
#include "cli/output/print.h"
#include "cli/output/table.h"
#include "cli/run/helper.h"
#include "cli/run/session.h"
#include "cli/run/store.h"

#include <stdio.h>
#include <stdlib.h>

/* -- create --------------------------------------------------------------------------------------------------- */

struct saving {
        const char *name;
        struct cloche_prefix_options prefix;
        int force;
};

static int save(void *data, int out_fd)
{
        const struct saving *saving = data;

        (void)out_fd;
        return cli_store_save(saving->name, &saving->prefix, saving->force);
}

static int try_set_up(struct cli_request *request, const struct cloche_prefix_options *opt)
{
        cloche_engine *engine = NULL;
        cloche_prefix *prefix = NULL;
        struct cloche_err e = {0};
        int code;

        if (session_open(request, &engine, &e) < 0)
                return cli_fail(&e);
        code = session_set_up(request, engine, opt, &prefix);
        cloche_prefix_free(prefix);
        cloche_engine_free(engine);
        return code;
}

/* A privileged helper writes the set-up: this process has dropped its rights after reading guest
 * data. */
static int create(struct cli_request *request)
{
        struct saving saving = {
                .name = request->positional[0],
                .prefix =
                        {
                                .language = request->positional[1],
                                .code = request->code,
                                .code_size = request->code_size,
                                .filename = request->run.filename,
                                .build = request->run.build,
                                .files = request->files,
                                .file_count = request->run.file_count,
                                .limits = request->run.limits,
                        },
                .force = request->force,
        };
        struct privileged_helper helper;
        int code = store_check_name(saving.name);

        if (code)
                return code;
        if (!request->force && store_has(saving.name))
                return cli_bad("there is a prefix '%s' already (--force replaces it)", saving.name);
        code = privileged_helper_prepare(&helper, save, &saving);
        if (code)
                return code;
        code = try_set_up(request, &saving.prefix);
        if (code == 0)
                return privileged_helper_run(&helper, NULL, 0);
        privileged_helper_cancel(&helper);
        return code;
}

/* -- list ----------------------------------------------------------------------------------------------------- */

static json_t *row(const char *name, const struct stored *stored)
{
        double age = difftime(time(NULL), stored->made);

        return json_pack("{s:s, s:s, s:I, s:I, s:I}", "name", name, "language", stored->prefix.language, "files",
                         (json_int_t)stored->prefix.file_count, "bytes", (json_int_t)stored->size, "ageSeconds",
                         (json_int_t)(age < 0 ? 0 : age));
}

static const struct table_column columns[] = {
        {"PREFIX", CELL_NAME, "name", 16, NULL},
        {"LANGUAGE", CELL_NAME, "language", 0, NULL},
        {"SIZE", CELL_BYTES, "bytes", 0, NULL},
        {"AGE", CELL_AGE, "ageSeconds", 0, NULL},
};

static int list(struct cli_request *request)
{
        json_t *rows = json_array();
        char **names;
        size_t count;
        int code = store_names(&names, &count);

        for (size_t i = 0; i < count; i++) {
                struct stored stored;
                int bad = cli_store_load(names[i], &stored);

                if (bad == 0) {
                        json_array_append_new(rows, row(names[i], &stored));
                        store_done(&stored);
                }
                code = bad ? 1 : code;
                free(names[i]);
        }
        free(names);
        if (code == 0 || count)
                TABLE_PRINT(columns, rows, request->json);
        json_decref(rows);
        return code;
}

static int drop(struct cli_request *request)
{
        int code = 0;

        for (int i = 0; i < request->positional_count; i++) {
                int bad = store_drop(request->positional[i]);

                code = bad ? bad : code;
        }
        return code;
}

const struct cli_handler command_prefix_create = {
        .run = create,
        .expected = "a name and a language, or a file of one",
        .positional_min = 2,
        .positional_max = 2,
        .needs_code = 1,
        .language_word = 2,
};

const struct cli_handler command_prefix_list = {
        .run = list,
};

const struct cli_handler command_prefix_drop = {
        .run = drop,
        .expected = "a name",
        .positional_min = 1,
        .positional_max = CLI_WORDS_MAX,
};
