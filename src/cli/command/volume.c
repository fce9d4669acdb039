/* cloche volume create, ls, inspect, rm. Runs in: the CLI, as its user. */
#include "cli/options/options.h"
#include "cli/output/object.h"
#include "cli/output/table.h"

#include <stdio.h>
#include <string.h>

static int create(struct cli_request *request)
{
        json_t *made = NULL;
        int code;

        if (!request->sandbox.size_bytes)
                return cli_bad("expected --size: a volume has a fixed size, which is reserved on the daemon's disk");
        code = sandbox_request_once(request, "volume.create",
                                    json_pack("{s:s, s:I, s:O*}", "volume", request->positional[0], "sizeBytes",
                                              (json_int_t)request->sandbox.size_bytes, "labels",
                                              request->sandbox.labels),
                                    &made);
        if (code == 0 && request->json)
                sandbox_print_json(made);
        else if (code == 0)
                printf("%s\n", sandbox_text(made, "volume"));
        json_decref(made);
        return code;
}

static const struct table_column columns[] = {
        {"VOLUME", CELL_NAME, "volume", 16, NULL},
        {"SIZE", CELL_BYTES, "sizeBytes", 0, NULL},
        {"CREATED", CELL_TIME, "createdAt", 0, NULL},
        {"USED BY", CELL_NAME, "usedBy", 16, NULL},
};

static int list(struct cli_request *request)
{
        json_t *answer = NULL;
        int code = sandbox_request_once(request, "volume.list", json_object(), &answer);

        if (code == 0)
                TABLE_PRINT(columns, json_object_get(answer, "volumes"), request->json);
        json_decref(answer);
        return code;
}

static int inspect(struct cli_request *request)
{
        json_t *volume = NULL;
        int code = sandbox_request_once(request, "volume.get", json_pack("{s:s}", "volume", request->positional[0]),
                                        &volume);

        if (code == 0)
                print_object(volume, request->json);
        json_decref(volume);
        return code;
}

static int drop(struct cli_request *request)
{
        return sandbox_request_each(request, "volume.delete", "volume");
}

const struct cli_handler command_volume_create = {
        .run = create,
        .expected = "a name",
        .positional_min = 1,
        .positional_max = 1,
};
const struct cli_handler command_volume_ls = {.run = list};
const struct cli_handler command_volume_inspect = {
        .run = inspect,
        .expected = "a volume",
        .positional_min = 1,
        .positional_max = 1,
};
const struct cli_handler command_volume_rm = {
        .run = drop,
        .expected = "volumes",
        .positional_min = 1,
        .positional_max = CLI_WORDS_MAX,
};
