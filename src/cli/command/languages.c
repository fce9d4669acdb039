/* cloche languages: list the available languages. Runs in: the CLI, as its user. */
#include "cli/options/options.h"
#include "cli/output/table.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static void make_warm(FILE *out, const json_t *language, int is_plain)
{
        (void)is_plain;
        fputs(json_is_true(json_object_get(language, "warm")) ? "warm" : "cold only", out);
}

static const struct table_column columns[] = {
        {"LANGUAGE", CELL_NAME, "name", 0, NULL},           {"EXTENSION", CELL_NAME, "extension", 0, NULL},
        {"INTERPRETER", CELL_NAME, "interpreter", 0, NULL}, {"START", CELL_NAME, NULL, 0, make_warm},
        {"ALIASES", CELL_NAME, "aliases", 8, NULL},
};

static int run(struct cli_request *request)
{
        struct cloche_err e = {0};
        json_t *languages;
        char *text = NULL;

        if (cloche_languages(&request->engine, &text, &e) < 0)
                return cli_fail(&e);
        if (request->json) {
                printf("%s\n", text);
        } else {
                languages = json_loads(text, 0, NULL);
                TABLE_PRINT(columns, languages, 0);
                json_decref(languages);
        }
        free(text);
        return 0;
}

const struct cli_handler command_languages = {
        .run = run,
};
