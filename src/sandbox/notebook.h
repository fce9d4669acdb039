/* Prefixes from which contexts are forked, one for each language and principal: its set-up is the notebook of the runtime. It is made when it is first wanted, and kept. */
#ifndef CLOCHE_SANDBOX_NOTEBOOK_H
#define CLOCHE_SANDBOX_NOTEBOOK_H

#include "sandbox.h"

#include "engine/template.h"

/* Found or made, perhaps not up yet. -CLOCHE_E_UNKNOWN_LANGUAGE names the languages that have contexts. */
int notebook_find(struct sandboxes *all, int64_t principal, const char *language, const struct runtime **ret_runtime, struct template **ret, struct cloche_err *e);
void notebooks_free(struct sandboxes *all);

#endif
