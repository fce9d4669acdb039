/* Prefixes from which contexts are forked, one per language, image and principal. The set-up is the
 * notebook of the runtime. A prefix is made on first use, and kept
 * unless it is in an image of the store. Contexts of a caller's prefix are forked from a template
 * on the notebook's, in which the caller's set-up ran. */
#ifndef CLOCHE_SANDBOX_CONTEXT_NOTEBOOK_H
#define CLOCHE_SANDBOX_CONTEXT_NOTEBOOK_H

#include "sandbox/core/sandbox.h"

#include "engine/warm/template.h"

/* The runtime of a language that has contexts. -CLOCHE_E_UNKNOWN_LANGUAGE names the languages that have. */
int context_runtime_find(const struct sandboxes *all, const char *language, const struct runtime **ret,
                         struct cloche_err *e);
/* Find or make one; it may not be ready yet. -CLOCHE_E_UNKNOWN_LANGUAGE names the languages that
 * have contexts. */
int context_notebook_find(struct sandboxes *all, int64_t principal, const struct image *image, const char *language,
                          const struct runtime **ret_runtime, struct template **ret, struct cloche_err *e);
/* Find or make the template for contexts of a caller's prefix: its set-up, run in a child of the
 * notebook's template. It may not be ready yet; the caller becomes a user of it (template->users)
 * before it returns to the loop. name: of the prefix, for messages. */
int context_prefix_find(struct sandboxes *all, int64_t principal, const struct image *image, const char *name,
                        const cloche_prefix *prefix, const struct runtime **ret_runtime, struct template **ret,
                        struct cloche_err *e);
/* Drop those in images of the store that no context was made from for a while: the images could not
 * be removed else. Call it now and then. */
void context_notebooks_tidy(struct sandboxes *all, uint64_t now_ns);
void context_notebooks_free(struct sandboxes *all);

#endif
