/* Giving up what only the keeper needs. */
#ifndef CLOCHE_BASE_PRIVILEGE_H
#define CLOCHE_BASE_PRIVILEGE_H

#include <cloche/cloche.h>
#include <sys/types.h>

/* Root becomes that user and group without others, gains no rights by an exec any more, and proves that it cannot go back. */
int privilege_become(uid_t uid, struct cloche_err *e);
/* Nobody gains rights by an exec any more. */
int privilege_gain_none(struct cloche_err *e);

#endif
