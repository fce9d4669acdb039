/* Is a box as it was before its last run? Then the next child of the same template may have it, and the 5 ms of making one
 * are saved; docs/decisions/0003 says what is looked at and why that is all a run can leave behind. */
#ifndef CLOCHE_KEEPER_RENEW_H
#define CLOCHE_KEEPER_RENEW_H

/* Remember how the box is now. 0, or -errno: then it is never found clean. */
int renew_mark(void);
/* A signal came, from a child that ended or from anybody: the box is not clean any more. */
void renew_disturb(void);
/* Everything else in the box is dead. 1: nothing differs from the mark. */
int renew_is_clean(void);

#endif
