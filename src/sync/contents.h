/* Making what changes bring: n<N> in the stage, complete but for its place. */
#ifndef CLOCHE_SYNC_CONTENTS_H
#define CLOCHE_SYNC_CONTENTS_H

#include "plan.h"

/* Does the row bring anything that is not there yet? */
bool contents_wanted(const struct plan *plan, uint32_t row);
/* 0, or the row has failed and why is written there: -1. */
int contents_stage(struct plan *plan, uint32_t row, const struct stage *stage, int contents_fd);

#endif
