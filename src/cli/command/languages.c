/* cloche languages: list the available languages. Runs in: the CLI, as its user. */
#include "cli/options/options.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_names(const json_t *language)
{
        const json_t *aliases = json_object_get(language, "aliases");

        for (size_t i = 0; i < json_array_size(aliases); i++)
                printf("%s%s", i ? ", " : " ", json_string_value(json_array_get(aliases, i)));
}

static void print_table(const json_t *languages)
{
        const json_t *language;
        size_t i;

        json_array_foreach (languages, i, language) {
                printf("%-12s %-8s %-10s %-10s", json_string_value(json_object_get(language, "name")),
                       json_string_value(json_object_get(language, "extension")),
                       json_string_value(json_object_get(language, "interpreter")),
                       json_is_true(json_object_get(language, "warm")) ? "warm" : "cold only");
                print_names(language);
                printf("\n");
        }
}

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
                print_table(languages);
                json_decref(languages);
        }
        free(text);
        return 0;
}

const struct cli_handler command_languages = {
        .run = run,
};
