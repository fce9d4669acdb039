/* The values of a run's or a prefix's options, held (wire/value.h): read once from their texts, or
 * passed in by a program of ours that holds them already. */
#ifndef CLOCHE_ENGINE_RUN_VALUES_H
#define CLOCHE_ENGINE_RUN_VALUES_H

#include <cloche/error.h>
#include <jansson.h>

struct cloche_run_options;

/* NULL: not given. */
struct values {
        json_t *args, *kwargs, *schema, *build, *globals, *imports;
        int has_bodies; /* CLOCHE_EVALUATE: bodies come in pieces, by host calls (spec/agent.md) */
};

/* Load and check the texts of opt. Call values_done(), also on failure. */
int values_read(const struct cloche_run_options *opt, struct values *ret, struct cloche_err *e);
/* Check the kind of each value: an object, or for args an array or object.
 * -CLOCHE_E_INVALID_JSON. */
int values_check(const struct values *values, struct cloche_err *e);
void values_done(struct values *values);

#endif
