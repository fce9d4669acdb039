/* Apply a plan to the host's directory: all changes that can be made, or none.
 *
 *     plan ─▶ stage ─▶ draft ─syncfs─▶ journal (committed) ─▶ steps ─syncfs─▶ done ─▶ stage removed
 *
 * A step that fails after the commit undoes all steps. Under rollback the transaction ends there.
 * Otherwise the failed change is left out together with its dependents (under abort, together with
 * all later changes), and the rest is tried again. */
#ifndef CLOCHE_HELPERS_SYNC_TRANSACTION_H
#define CLOCHE_HELPERS_SYNC_TRANSACTION_H

#include "journal.h"
#include "plan.h"

struct transaction {
        struct plan *plan;
        int root_fd, contents_fd;
        /* Polled before the commit; true: undo. */
        bool (*is_cancelled)(void *argument);
        void *argument;
        /* Results: */
        struct kept_list kept;
        uint64_t number;
        bool is_committed, is_cancelled_now, is_rolled_back;
};

/* 0: each row has a verdict, and is_committed is true if the planned rows are applied.
 * -CLOCHE_E_STATE: another sync runs, or the journal was left in disorder; the next recovery
 * handles it. */
int transaction_run(struct transaction *t, struct cloche_err *e);
void transaction_done(struct transaction *t);

struct recovery {
        enum { RECOVERY_NONE, RECOVERY_UNDONE, RECOVERY_FINISHED } state;
        struct journal journal; /* its steps, if it had any */
        struct kept_list kept;
};

/* Finish or undo an interrupted sync. patience_ms: timeout for another running sync.
 * -CLOCHE_E_STATE: that sync still runs, or the remains are damaged; nothing was done. */
int transaction_recover(int root_fd, unsigned patience_ms, struct recovery *ret, struct cloche_err *e);
void recovery_done(struct recovery *recovery);

#endif
