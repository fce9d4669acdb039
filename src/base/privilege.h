/* Dropping the rights that only the keeper needs. */
#ifndef CLOCHE_BASE_PRIVILEGE_H
#define CLOCHE_BASE_PRIVILEGE_H

#include <cloche/error.h>
#include <sys/types.h>

/* True if this process is root with users to give away. Each box and each daemon gets its own host
 * users out of PRIVILEGE_UIDS_COUNT from PRIVILEGE_UIDS_FIRST on, and the engine of the command
 * line becomes one. root without CAP_SYS_ADMIN (in a container), or of a user namespace that maps
 * fewer (unshare -Ur), is an ordinary user for us. If that cannot be read, the result is true:
 * privilege_become then fails, and no rights are kept unnoticed. user_namespaces(7). */
#define PRIVILEGE_UIDS_FIRST 0x6fff0000u
#define PRIVILEGE_UIDS_COUNT 0x10010000u
int privilege_is_root(void);
/* Root becomes that user and group without others, gains no rights by exec any more, and proves
 * that it cannot go back. */
int privilege_become(uid_t uid, struct cloche_err *e);
/* This process and its children gain no rights by exec any more; root of a user namespace also
 * drops its capabilities. */
int privilege_gain_none(struct cloche_err *e);

#endif
