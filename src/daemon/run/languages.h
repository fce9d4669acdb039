/* The list of languages. */
#ifndef CLOCHE_DAEMON_RUN_LANGUAGES_H
#define CLOCHE_DAEMON_RUN_LANGUAGES_H

#include <cloche/engine.h>
#include <jansson.h>

struct languages {
        json_t *list; /* from cloche_languages */
};

int languages_load(const struct cloche_engine_options *opt, struct languages *ret, struct cloche_err *e);
void languages_done(struct languages *languages);
/* Return the entry for a name or an alias, or NULL. */
const json_t *languages_find(const struct languages *languages, const char *name);

#endif
