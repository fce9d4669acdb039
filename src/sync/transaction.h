/* From a plan to the host's directory: all of what can be done, or nothing.
 *
 *     plan ─▶ stage ─▶ draft ─syncfs─▶ journal (committed) ─▶ steps ─syncfs─▶ done ─▶ stage removed
 *
 * A step that fails after the commit undoes all steps. Under rollback that is the end; else the change that failed is left out, with
 * what depends on it (under abort, all that come after it), and the rest is tried again. */
#ifndef CLOCHE_SYNC_TRANSACTION_H
#define CLOCHE_SYNC_TRANSACTION_H

#include "journal.h"
#include "plan.h"

struct transaction {
        struct plan *plan;
        int root_fd, contents_fd;
        /* Asked now and then before the commit; true: undo. */
        bool (*is_cancelled)(void *argument);
        void *argument;
        /* Then: */
        struct kept_list kept;
        uint64_t number;
        bool is_committed, is_cancelled_now, is_rolled_back;
};

/* 0: each row has a verdict, is_committed tells whether those to be done are. -CLOCHE_E_STATE: another sync is at work, or the journal
 * could not be left behind in order; the next recovery sees to it. */
int transaction_run(struct transaction *t, struct cloche_err *e);
void transaction_done(struct transaction *t);

struct recovery {
        enum { RECOVERY_NONE, RECOVERY_UNDONE, RECOVERY_FINISHED } state;
        struct journal journal; /* its steps, when it had any */
        struct kept_list kept;
};

/* Finish or undo what a sync that was killed has left. patience_ms: for another sync that is at work. -CLOCHE_E_STATE: it goes on, or what
 * was left cannot be understood; nothing was done. */
int transaction_recover(int root_fd, unsigned patience_ms, struct recovery *ret, struct cloche_err *e);
void recovery_done(struct recovery *recovery);

#endif
