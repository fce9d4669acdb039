/* Signatures given by the caller, both forms of the executor contract: from args, kwargs and schema as they were given to the one
 * form that agents take. Values are in text form, and were checked (wire/value.h). Pure.
 *
 *     {"params": [{"name", "type", "required", "default", …}], "variadic", "acceptsKwargs", "output"}
 *     {"input": [{"name", "required", "default", …}] or {name: {"index", "required", "default", …}}, "strict", "output"}
 *
 * A parameter is a schema (schema.h) with a name, with "required" true or false, and with a default. */
#ifndef CLOCHE_ENGINE_SIGNATURE_H
#define CLOCHE_ENGINE_SIGNATURE_H

#include "misfit.h"

/* Owned. */
struct arguments {
        json_t *args;   /* array; null in the places of holes */
        json_t *holes;  /* array of positions */
        json_t *kwargs; /* object */
        json_t *order;  /* array of the names in the schema, or null without one */
};

/* args: an array of values, an array of {index, value}, or an object of keywords; kwargs: an object; schema: an object. Each may be
 * NULL. 0, 1 with *m filled, or -ENOMEM. */
int signature_bind(const json_t *args, const json_t *kwargs, const json_t *schema, struct arguments *ret, struct misfit *m);
void arguments_done(struct arguments *arguments);

/* A function's value against the output of a schema with which it was called; likewise. */
int signature_check_output(const json_t *schema, const json_t *value, struct misfit *m);

#endif
