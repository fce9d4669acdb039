/* Variables of one cell, as code. Pure. */
#ifndef CLOCHE_DAEMON_E2B_CELL_ENV_H
#define CLOCHE_DAEMON_E2B_CELL_ENV_H

#include "base/buf.h"

#include <jansson.h>

/* Append the code of two cells, terminated: one sets the variables, the other puts the earlier
 * ones back. 0, -EINVAL: a name is no identifier, or a value no text without NUL; -EOPNOTSUPP:
 * not for this language; -ENOMEM. */
int e2b_cell_env_write(const char *language, const json_t *env, struct buf *before, struct buf *after);

#endif
