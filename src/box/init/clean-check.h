/* Check that a box is as it was before its last run. Then the next child of the same template may
 * use it, which saves the 5 ms of making one. docs/decisions/0003 lists the checks, and why a run
 * can leave nothing else behind. */
#ifndef CLOCHE_BOX_INIT_CLEAN_CHECK_H
#define CLOCHE_BOX_INIT_CLEAN_CHECK_H

/* Record the state of the box. Returns 0, or -errno: then it is never found clean. */
int renew_mark(void);
/* A signal came, from a child that ended or from any process: the box is no longer clean. */
void renew_disturb(void);
/* Call it when all other processes of the box are dead. Returns 1 if nothing differs from the mark. */
int renew_is_clean(void);

#endif
