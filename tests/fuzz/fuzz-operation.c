/* Fuzz: parameters of operations. The first line is a path, the rest the parameters. Every
 * refusal must be a clear one, and accepted parameters must fit the schema's types. */
#include "daemon/http/operation.h"
#include "wire/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
        if (!holds)
                abort();
}

static void try_path(const char *line, size_t size)
{
        static const char *const verbs[] = {"GET", "POST", "DELETE", "PATCH", "PUT"};
        char allowed[64], *path = strndup(line, size);

        for (int i = 0; path && i < 5; i++) {
                json_t *params = NULL;
                const struct operation *operation =
                        operation_by_path(verbs[i], path, &params, allowed, sizeof(allowed));
                int r;

                must(!operation || strcmp(operation->verb, verbs[i]) == 0);
                must(operation || !params);
                must(memchr(allowed, '\0', sizeof(allowed)) != NULL);
                r = params ? operation_check(operation, params, NULL) : 0; /* parameters from elsewhere are missing */
                must(r == 0 || r == -CLOCHE_E_INVALID_ARGUMENT);
                json_decref(params);
        }
        free(path);
}

static void try_params(const json_t *params)
{
        for (int i = 0; i < OPERATION_COUNT; i++) {
                struct cloche_err e = {0};
                int r = operation_check(operation_at((enum operation_symbol)i), params, &e);

                must(r == 0 || (r == -CLOCHE_E_INVALID_ARGUMENT && e.code == CLOCHE_E_INVALID_ARGUMENT && e.msg[0]));
                must(r < 0 || !json_object_get(params, "warm") || json_is_boolean(json_object_get(params, "warm")));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const char *text = (const char *)data, *end = size ? memchr(text, '\n', size) : NULL;
        size_t line = end ? (size_t)(end - text) : size;
        json_t *params = NULL;

        try_path(text, line);
        if (end && json_load_human(end + 1, size - line - 1, &params, NULL) == 0 && json_is_object(params))
                try_params(params);
        json_decref(params);
        return 0;
}
