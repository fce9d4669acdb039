/* Create the new contents of changes: n<N> in the stage, complete except for its place. */
#ifndef CLOCHE_HELPERS_SYNC_CONTENTS_H
#define CLOCHE_HELPERS_SYNC_CONTENTS_H

#include "plan.h"

/* True if the row brings contents that are not staged yet. */
bool contents_must_stage(const struct plan *plan, uint32_t row);
/* 0; or -1, and the row has failed with its reason. */
int contents_stage(struct plan *plan, uint32_t row, const struct stage *stage, int contents_fd);

#endif
