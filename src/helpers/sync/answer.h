/* JSON answers about a plan and its transaction. Each function returns NULL when out of memory. */
#ifndef CLOCHE_HELPERS_SYNC_ANSWER_H
#define CLOCHE_HELPERS_SYNC_ANSWER_H

#include "transaction.h"

json_t *answer_plan(const struct plan *plan);
json_t *answer_apply(const struct transaction *t);
json_t *answer_recovery(const struct recovery *recovery);

/* True unless the row was skipped. */
bool answer_has_progress(const struct plan *plan, uint32_t row);
json_t *answer_progress(const struct transaction *t, uint32_t row, size_t done, size_t total);

#endif
