/* The subset of JSON-Schema that signatures use: whether a schema is one, and whether values fit it. Pure.
 *
 * type (a name or a list; beside JSON-Schema's also bytes and any), enum, const, anyOf, oneOf, allOf, properties, required,
 * additionalProperties, items, minItems, maxItems, minimum, maximum, exclusiveMinimum, exclusiveMaximum, minLength, maxLength,
 * pattern. Annotations are ignored, every other keyword is refused by name. */
#ifndef CLOCHE_ENGINE_SCHEMA_H
#define CLOCHE_ENGINE_SCHEMA_H

#include "misfit.h"

/* Both return 0, 1 with *m filled, or -ENOMEM. Schemas and values are in text form, were checked (wire/value.h), and hold no
 * references. */
int schema_check(const json_t *schema, struct misfit *m);
int schema_fits(const json_t *schema, const json_t *value, struct misfit *m); /* the schema was found good */
/* A keyword that says nothing about values. */
int schema_is_annotation(const char *keyword);

#endif
