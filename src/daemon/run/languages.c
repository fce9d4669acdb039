#include "languages.h"

#include "base/err.h"

#include <cloche/cloche.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int languages_load(const struct cloche_engine_options *opt, struct languages *ret, struct cloche_err *e)
{
        char *text;
        int r = cloche_languages(opt, &text, e);

        if (r < 0)
                return r;
        ret->list = json_loads(text, 0, NULL);
        free(text);
        return ret->list ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the list of languages");
}

void languages_done(struct languages *languages)
{
        json_decref(languages->list);
        languages->list = NULL;
}

static int is_called(const json_t *language, const char *name)
{
        const json_t *aliases = json_object_get(language, "aliases");

        if (strcmp(json_string_value(json_object_get(language, "name")), name) == 0)
                return 1;
        for (size_t i = 0; i < json_array_size(aliases); i++)
                if (strcmp(json_string_value(json_array_get(aliases, i)), name) == 0)
                        return 1;
        return 0;
}

const json_t *languages_find(const struct languages *languages, const char *name)
{
        for (size_t i = 0; i < json_array_size(languages->list); i++)
                if (is_called(json_array_get(languages->list, i), name))
                        return json_array_get(languages->list, i);
        return NULL;
}
