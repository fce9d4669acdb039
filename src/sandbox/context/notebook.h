/* Prefixes from which contexts are forked, one per language and principal. The set-up is the
 * notebook of the runtime. A prefix is made on first use, and kept. */
#ifndef CLOCHE_SANDBOX_CONTEXT_NOTEBOOK_H
#define CLOCHE_SANDBOX_CONTEXT_NOTEBOOK_H

#include "sandbox/core/sandbox.h"

#include "engine/warm/template.h"

/* Find or make one; it may not be ready yet. -CLOCHE_E_UNKNOWN_LANGUAGE names the languages that
 * have contexts. */
int notebook_find(struct sandboxes *all, int64_t principal, const char *language, const struct runtime **ret_runtime,
                  struct template **ret, struct cloche_err *e);
void notebooks_free(struct sandboxes *all);

#endif
