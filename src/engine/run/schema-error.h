/* Errors of values that do not fit a schema: "argument 'a'.rows[3]: expected string, got null".
 * Pure. */
#ifndef CLOCHE_ENGINE_RUN_SCHEMA_ERROR_H
#define CLOCHE_ENGINE_RUN_SCHEMA_ERROR_H

#include <jansson.h>

struct misfit {
        int is_value;    /* the value is wrong, else its type or the call's shape */
        char where[200]; /* the path to it, "argument 'a'.rows[3]" */
        char what[320];
};

/* Fill *m and return 1. */
int misfit_set(struct misfit *m, int is_value, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Prefix a step to the path, on the return from the place that failed. All return r, and do nothing
 * unless it is 1. */
int misfit_in(int r, struct misfit *m, const char *step);
int misfit_in_item(int r, struct misfit *m, size_t index);
int misfit_in_member(int r, struct misfit *m, const char *key, size_t size);

/* Untrusted text for a message, cut between characters. */
struct misfit_text {
        char text[200];
};

const char *misfit_name(const char *text, size_t size, struct misfit_text *ret);
/* Scalars by value, others by kind. */
const char *misfit_value(const json_t *value, struct misfit_text *ret);
/* The value as JSON. */
const char *misfit_json(const json_t *value, struct misfit_text *ret);

#endif
