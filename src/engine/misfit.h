/* Why something does not fit what was asked for: "argument 'a'.rows[3]: expected string, got null". Pure. */
#ifndef CLOCHE_ENGINE_MISFIT_H
#define CLOCHE_ENGINE_MISFIT_H

#include <jansson.h>

struct misfit {
        int is_value;    /* the value is wrong, else its type or the shape of the call */
        char where[200]; /* the way to it, "argument 'a'.rows[3]" */
        char what[320];
};

/* Fill *m and return 1. */
int misfit_set(struct misfit *m, int is_value, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* On the way out of what does not fit: the step that led there. All return r, and do nothing unless it is 1. */
int misfit_in(int r, struct misfit *m, const char *step);
int misfit_in_item(int r, struct misfit *m, size_t index);
int misfit_in_member(int r, struct misfit *m, const char *key, size_t size);

/* What a stranger chose, for a message: cut between characters. */
struct misfit_text {
        char text[200];
};

const char *misfit_name(const char *text, size_t size, struct misfit_text *ret);
/* Scalars, of other values the kind. */
const char *misfit_value(const json_t *value, struct misfit_text *ret);
/* As JSON. */
const char *misfit_json(const json_t *value, struct misfit_text *ret);

#endif
