/* Prefixes from which contexts are forked, one per language, image and principal. The set-up is the
 * notebook of the runtime. A prefix is made on first use, and kept
 * unless it is in an image of the store. Contexts of a caller's prefix are forked from a template
 * on the notebook's, in which the caller's set-up ran. */
#ifndef CLOCHE_SANDBOX_CONTEXT_NOTEBOOK_H
#define CLOCHE_SANDBOX_CONTEXT_NOTEBOOK_H

#include "sandbox/core/sandbox.h"

#include "engine/warm/template.h"

struct sandbox;

/* The runtime of a language that has contexts. -CLOCHE_E_UNKNOWN_LANGUAGE names the languages
 * that have. */
int context_runtime_find(const struct sandboxes *all, const char *language, const struct runtime **ret,
                         struct cloche_err *e);
/* Find or make one; it may not be ready yet. -CLOCHE_E_UNKNOWN_LANGUAGE names the languages that
 * have contexts. */
int context_notebook_find(struct sandboxes *all, int64_t principal, const struct image *image, const char *language,
                          const struct runtime **ret_runtime, struct template **ret, struct cloche_err *e);
/* -CLOCHE_E_INVALID_ARGUMENT if no context of this sandbox can be made from the caller's prefix.
 * name: as the caller gave it; language: NULL, or the expected one. */
int context_prefix_check(const struct sandbox *s, const char *name, const cloche_prefix *prefix, const char *language,
                         struct cloche_err *e);
/* Find or make the template for contexts of it: its set-up, run in a child of the notebook's
 * template. It may not be ready yet, and nobody uses it yet. */
int context_prefix_find(struct sandbox *s, const cloche_prefix *prefix, struct template **ret, struct cloche_err *e);
/* Drop those in images of the store that no context was made from for a while: the images could not
 * be removed else. Call it now and then. */
void context_notebooks_tidy(struct sandboxes *all, uint64_t now_ns);
void context_notebooks_free(struct sandboxes *all);

#endif
