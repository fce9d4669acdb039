/* The subset of JSON-Schema that signatures use: checks schemas, and values against them. Pure.
 *
 * type (a name or a list; beside JSON-Schema's also bytes and any), enum, const, anyOf, oneOf,
 * allOf, properties, required, additionalProperties, items, minItems, maxItems, minimum, maximum,
 * exclusiveMinimum, exclusiveMaximum, minLength, maxLength, pattern. Annotations are ignored, other
 * keywords are refused by name. */
#ifndef CLOCHE_ENGINE_RUN_SCHEMA_H
#define CLOCHE_ENGINE_RUN_SCHEMA_H

#include "schema-error.h"

/* Both return 0, 1 with *m filled, or -ENOMEM. Schemas and values are in text form, were checked
 * (wire/value.h), and hold no references. */
int schema_check(const json_t *schema, struct misfit *m);
int schema_fits(const json_t *schema, const json_t *value, struct misfit *m); /* schema: accepted by schema_check */
/* True for a keyword that does not constrain values. */
int schema_is_annotation(const char *keyword);

#endif
