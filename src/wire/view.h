/* Inspection of held values (wire/value.h). Pure. */
#ifndef CLOCHE_WIRE_VIEW_H
#define CLOCHE_WIRE_VIEW_H

#include <jansson.h>

/* The kind of a value, in any form. */
enum view_kind {
        VIEW_NULL,
        VIEW_BOOLEAN,
        VIEW_INTEGER,
        VIEW_NUMBER,
        VIEW_STRING,
        VIEW_BYTES,
        VIEW_ARRAY,
        VIEW_OBJECT,
        VIEW_OTHER
};

enum view_kind view_kind(const json_t *value);
/* "integer" and so on; for VIEW_OTHER the tag's name. */
const char *view_kind_name(const json_t *value);

/* Return the members of an object, a new reference; a key "$" is an ordinary one. NULL without
 * memory. */
json_t *view_members(const json_t *object);
/* Return the form of an object with these members, a new reference, NULL without memory. */
json_t *view_object(json_t *members);

/* The items of an array, plain or typed; borrowed from it. */
struct view_items {
        const json_t *array; /* a plain array; else NULL, and: */
        const char *bytes;
        unsigned width;
        char letter; /* i, u or f */
        size_t count;
};

struct view_items view_items(const json_t *array);
/* Return a new reference; NULL without memory. */
json_t *view_item(const struct view_items *items, size_t index);

/* Returns 0 if one is NaN; else *ret is negative, 0 or positive as a is less than, equal to or
 * greater than b. Exact. */
int view_compare(const json_t *a, const json_t *b, int *ret);
/* Numbers of one value are equal in every form, and objects in any order of members. b bounds the
 * work, even if a shares parts repeatedly. Returns 1, 0 or -ENOMEM. */
int view_equal(const json_t *a, const json_t *b);

int view_has_references(const json_t *value);

#endif
