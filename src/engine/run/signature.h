/* Signatures given by the caller, in both forms of the executor contract: converts args, kwargs and
 * schema to the one form that agents take. Values are in text form, and were checked
 * (wire/value.h). Pure.
 *
 *     {"params": [{"name", "type", "required", "default", …}], "variadic", "acceptsKwargs", "output"}
 *     {"input": [{"name", "required", "default", …}] or {name: {"index", "required", "default", …}},
 *      "strict", "output"}
 *
 * A parameter is a schema (schema.h) with a name, with "required" true or false, and with a
 * default. */
#ifndef CLOCHE_ENGINE_RUN_SIGNATURE_H
#define CLOCHE_ENGINE_RUN_SIGNATURE_H

#include "schema-error.h"

/* Owned. */
struct arguments {
        json_t *args;   /* array; null in a hole */
        json_t *holes;  /* array of positions */
        json_t *kwargs; /* object */
        json_t *order;  /* names in the schema, or null without a schema */
};

/* args: an array of values, an array of {index, value}, or an object of keywords; kwargs: an
 * object; schema: an object. Each may be NULL. Returns 0, 1 with *m filled, or -ENOMEM. */
int signature_bind(const json_t *args, const json_t *kwargs, const json_t *schema, struct arguments *ret,
                   struct schema_error *m);
void arguments_done(struct arguments *arguments);

/* Check a function's value against the output of the schema of its call; returns likewise. */
int signature_check_output(const json_t *schema, const json_t *value, struct schema_error *m);

#endif
