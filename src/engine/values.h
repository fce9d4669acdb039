/* The values of a run's or a prefix's options, held (wire/value.h): read once from their texts, or handed in by a program of
 * ours that has them held already. */
#ifndef CLOCHE_ENGINE_VALUES_H
#define CLOCHE_ENGINE_VALUES_H

#include <cloche/cloche.h>
#include <jansson.h>

/* NULL: not given. */
struct values {
        json_t *args, *kwargs, *schema, *build, *globals, *imports;
        int has_bodies; /* CLOCHE_EVALUATE: bodies come piece by piece, by calls of the host (spec/agent.md, Bodies) */
};

/* The texts of opt, loaded and checked; done with values_done(), also on failure. */
int values_read(const struct cloche_run_options *opt, struct values *ret, struct cloche_err *e);
/* Each is of the kind that its name wants: an object, or for args an array or object. -CLOCHE_E_INVALID_JSON. */
int values_check(const struct values *values, struct cloche_err *e);
void values_done(struct values *values);

#endif
