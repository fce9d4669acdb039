/* Check that a box is as it was before its last run. Then the next child of the same template may
 * use it, which saves the 5 ms of making one. docs/decisions/0003 lists the checks, and why a run
 * can leave nothing else behind. */
#ifndef CLOCHE_BOX_INIT_CLEAN_CHECK_H
#define CLOCHE_BOX_INIT_CLEAN_CHECK_H

/* Record the state of the box. If that fails, or its files are many or may not be read, the box is
 * never found clean. */
void clean_check_record(void);
/* A signal came, from a child that ended or from any process: the box is no longer clean. */
void clean_check_disturb(void);
/* Call it when all other processes of the box are dead. Returns 1 if nothing differs from the
 * record. */
int clean_check_passes(void);

#endif
