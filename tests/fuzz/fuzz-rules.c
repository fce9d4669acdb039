/* Permission rules of a host, a line of JSON, and paths from a guest, a line each. */
#include "helpers/fs/rules/rules.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decide(const struct rules *rules, const char *path)
{
        size_t rule = 0;
        unsigned actions = rules_decide(rules, path, &rule);

        if (actions >= 1u << RULES_ACTION_COUNT || (rule != RULES_DEFAULT && !rules_pattern(rules, rule)[0]))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *text = calloc(1, size + 1), *rest = text, *line;
        struct rules *rules = NULL;
        struct cloche_err e;
        json_t *json;

        if (!text)
                return 0;
        memcpy(text, data, size);
        line = strsep(&rest, "\n");
        json = json_loads(line, JSON_DECODE_ANY, NULL);
        if (json && rules_load(json, &rules, &e) == 0)
                while ((line = strsep(&rest, "\n")))
                        decide(rules, line);
        rules_free(rules);
        json_decref(json);
        free(text);
        return 0;
}
