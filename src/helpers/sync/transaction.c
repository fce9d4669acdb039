/* Plan, stage, commit, resume and undo.
 * Runs in: cloche-sync, as the directory's owner, Landlocked to it. */
#include "transaction.h"

#include "base/err.h"
#include "base/fd.h"
#include "contents.h"
#include "crash.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define ROUNDS_MAX 64      /* gives up on a directory that others keep changing */
#define CANCEL_INTERVAL 32 /* changes staged between polls of the socket */

static int failed(struct cloche_err *e, int r, const char *what)
{
        return err_os(e, r == -ENOMEM ? CLOCHE_E_RESOURCE : CLOCHE_E_STATE, -r, "%s", what);
}

/* Flush all writes so far to disk. 0 or -errno. */
static int sync_all(const struct stage *stage)
{
        return syncfs(stage->dir_fd) < 0 ? -errno : 0;
}

/* -- steps ---------------------------------------------------------------------------------------------------- */

/* row is ROW_NONE if the failure is not one change's. */
static int run_steps(const struct steps_run *run, const struct steps *steps, size_t *ret_done)
{
        int r = 0;

        for (*ret_done = 0; *ret_done < steps->count && r == 0; (*ret_done)++)
                r = step_do(run, &steps->rows[*ret_done]);
        if (r < 0)
                --*ret_done;
        return r;
}

/* Skip steps that were not done. */
static int undo_steps(const struct steps_run *run, const struct steps *steps)
{
        int result = 0;

        for (size_t i = steps->count; i-- > 0;) {
                int r = step_undo(run, &steps->rows[i]);

                if (r < 0)
                        result = r; /* undo the others all the same; recovery retries this one */
        }
        if (result == 0)
                result = sync_all(run->stage);
        return result < 0 ? result : stage_set_state(run->stage, STAGE_UNDO, STAGE_UNDONE);
}

/* Mark the journal `undo` before the first step is undone. */
static int start_undo(const struct steps_run *run, const struct steps *steps)
{
        int r = stage_set_state(run->stage, STAGE_JOURNAL, STAGE_UNDO);

        return r < 0 ? r : undo_steps(run, steps);
}

static int finish_steps(const struct steps_run *run, const struct steps *steps)
{
        int r;

        for (size_t i = 0; i < steps->count; i++)
                step_keep_late(run, &steps->rows[i]);
        crash_point();
        r = sync_all(run->stage);
        return r < 0 ? r : stage_set_state(run->stage, STAGE_JOURNAL, STAGE_DONE);
}

/* -- one round ------------------------------------------------------------------------------------------------ */

static bool is_cancelled(struct transaction *t)
{
        if (!t->is_cancelled_now && t->is_cancelled && t->is_cancelled(t->argument))
                t->is_cancelled_now = true;
        return t->is_cancelled_now;
}

static bool must_end(struct transaction *t)
{
        return is_cancelled(t) || (t->plan->on_error == ON_ERROR_ROLLBACK && plan_has_failed(t->plan));
}

/* Stage new contents first, then hard links to them. *ret_failed: the plan must be made again. */
static void stage_all(struct transaction *t, const struct stage *stage, bool *ret_failed)
{
        struct plan *plan = t->plan;
        uint32_t since = 0;

        *ret_failed = false;
        for (int links = 0; links < 2; links++)
                for (uint32_t i = 0; i < plan->list->count; i++) {
                        if (!contents_must_stage(plan, i) || (plan->list->rows[i].link != NULL) != links)
                                continue;
                        if (++since % CANCEL_INTERVAL == 0 && is_cancelled(t))
                                return;
                        if (contents_stage(plan, i, stage, t->contents_fd) < 0) {
                                *ret_failed = true;
                                if (plan->on_error == ON_ERROR_ROLLBACK)
                                        return;
                        }
                }
}

/* Plan and stage until everything planned is staged. 1: there is something to do; 0: nothing. */
static int prepare(struct transaction *t, const struct stage *stage, struct cloche_err *e)
{
        bool must_replan = true;

        while (must_replan) {
                int r = plan_evaluate(t->plan, e);

                if (r < 0)
                        return r;
                if (must_end(t))
                        return 0;
                stage_all(t, stage, &must_replan);
        }
        if (must_end(t))
                return 0;
        for (size_t i = 0; i < t->plan->list->count; i++)
                if (t->plan->rows[i].verdict == VERDICT_DO)
                        return 1;
        return 0;
}

static int commit(const struct stage *stage, const struct journal *journal)
{
        int r = journal_write(stage, journal);

        if (r < 0)
                return r;
        r = sync_all(stage);
        /* An earlier round was undone; its name must not outlive the draft. */
        if (r == 0 && unlinkat(stage->dir_fd, stage_state_name(STAGE_UNDONE), 0) < 0 && errno != ENOENT)
                r = -errno;
        return r < 0 ? r : stage_set_state(stage, STAGE_DRAFT, STAGE_JOURNAL);
}

static void blame(struct plan *plan, uint32_t row, int number)
{
        if (row == ROW_NONE)
                return;
        if (number == STEP_CONFLICT) {
                plan->rows[row].is_conflict = true;
                plan_fail(plan, row, "conflict", "the host changed it at the last moment");
        } else {
                plan_fail_errno(plan, row, -number, "write it");
        }
}

static void blame_all(struct plan *plan, const char *code, const char *message)
{
        for (uint32_t i = 0; i < plan->list->count; i++)
                if (plan->rows[i].verdict == VERDICT_DO)
                        plan_fail(plan, i, code, message);
}

/* 1: done or given up; 0: another round. */
static int run_round(struct transaction *t, const struct stage *stage, struct journal *journal, struct cloche_err *e)
{
        struct steps_run run = {stage, &t->kept};
        size_t done = 0;
        int r = commit(stage, journal), step;

        if (r < 0 && stage_find_state(stage) == STAGE_DRAFT) {
                blame_all(t->plan, plan_errno_code(-r), "the journal could not be written");
                return 1;
        }
        step = r < 0 ? r : run_steps(&run, &journal->steps, &done);
        if (step == 0) {
                r = finish_steps(&run, &journal->steps);
                t->is_committed = r == 0;
                return r < 0 ? failed(e, r, "finish the sync") : 1;
        }
        r = start_undo(&run, &journal->steps);
        if (r < 0)
                return failed(e, r, "undo the sync; recover tries again");
        t->is_rolled_back = true;
        if (done < journal->steps.count)
                blame(t->plan, journal->steps.rows[done].number, step);
        return 0;
}

static int run_rounds(struct transaction *t, const struct stage *stage, struct cloche_err *e)
{
        for (int round = 0; round < ROUNDS_MAX; round++) {
                struct journal journal = {.transaction = t->number};
                int r = prepare(t, stage, e);

                if (r <= 0)
                        return r;
                t->is_rolled_back = false;
                r = plan_build_steps(t->plan, &journal.steps);
                r = r < 0 ? failed(e, r, "plan the steps") : run_round(t, stage, &journal, e);
                journal_done(&journal);
                if (r != 0)
                        return r < 0 ? r : 0;
                if (must_end(t))
                        return 0;
        }
        blame_all(t->plan, "conflict", "the host changes the directory faster than it can be written");
        return 0;
}

/* The stage was created in the root and removed again: restore the root's time. */
static void restore_root_time(int root_fd, const struct stat *before)
{
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, before->st_mtim};
        struct lower root = {root_fd};
        _cleanup_fd_ int fd = lower_open(&root, "", O_PATH);

        if (fd >= 0)
                utimensat(fd, "", times, AT_EMPTY_PATH);
}

int transaction_run(struct transaction *t, struct cloche_err *e)
{
        struct stage stage = {t->root_fd, -EBADF};
        struct stat before;
        int r = fstatat(t->root_fd, "", &before, AT_EMPTY_PATH) < 0
                        ? failed(e, -errno, "read the attributes of the directory")
                        : stage_open(&stage, true, STAGE_PATIENCE_MS, e);

        if (r < 0)
                return r;
        if (getrandom(&t->number, sizeof(t->number), 0) != sizeof(t->number))
                r = failed(e, -errno, "number the transaction");
        else
                r = run_rounds(t, &stage, e);
        if (r >= 0) {
                r = stage_remove(&stage);
                if (r < 0)
                        r = failed(e, r, "remove " STAGE_NAME);
        }
        stage_close(&stage);
        if (r == 0 && !t->is_committed)
                restore_root_time(t->root_fd, &before);
        return r;
}

void transaction_done(struct transaction *t)
{
        kept_done(&t->kept);
}

/* -- after a crash -------------------------------------------------------------------------------------------- */

/* The process may have been killed between a step and the check of the entry it displaced. */
static int check_last(const struct steps_run *run, const struct steps *steps, size_t first_not_done)
{
        size_t i = first_not_done;

        while (i > 0 && steps->rows[i - 1].op == STEP_SET)
                i--;
        return i > 0 ? step_check(run, &steps->rows[i - 1]) : 0;
}

static int redo_steps(const struct steps_run *run, const struct steps *steps)
{
        bool checked = false;
        int r = 0;

        for (size_t i = 0; i < steps->count && r == 0; i++) {
                const struct step *step = &steps->rows[i];
                int done = step_is_done(run, step);

                if (done < 0)
                        return done;
                if (!done && step->op != STEP_SET && !checked) {
                        r = check_last(run, steps, i);
                        checked = true;
                }
                if (!done && r == 0)
                        r = step_do(run, step);
                /* A later step, already done, has moved the missing entry on. */
                if (r == STEP_CONFLICT && step->op == STEP_SET && !checked)
                        r = 0;
        }
        return r < 0 || checked ? r : check_last(run, steps, steps->count);
}

static int finish_or_undo(const struct steps_run *run, struct recovery *ret, struct cloche_err *e)
{
        int r = redo_steps(run, &ret->journal.steps);

        if (r == 0) {
                ret->state = RECOVERY_FINISHED;
                r = finish_steps(run, &ret->journal.steps);
                return r < 0 ? failed(e, r, "finish the sync that was interrupted") : 0;
        }
        ret->state = RECOVERY_UNDONE;
        r = start_undo(run, &ret->journal.steps);
        return r < 0 ? failed(e, r, "undo the sync that was interrupted") : 0;
}

static int undo_on(const struct steps_run *run, struct recovery *ret, struct cloche_err *e)
{
        int r = undo_steps(run, &ret->journal.steps);

        ret->state = RECOVERY_UNDONE;
        return r < 0 ? failed(e, r, "undo the sync that was interrupted") : 0;
}

static int recover(const struct stage *stage, struct recovery *ret, struct cloche_err *e)
{
        struct steps_run run = {stage, &ret->kept};
        enum stage_state state = stage_find_state(stage);
        int r = 0;

        if (state == STAGE_JOURNAL || state == STAGE_UNDO)
                r = journal_read(stage, state, &ret->journal, e);
        if (r < 0)
                return r;
        if (state == STAGE_JOURNAL)
                return finish_or_undo(&run, ret, e);
        if (state == STAGE_UNDO)
                return undo_on(&run, ret, e);
        if (state == STAGE_DRAFT && stage_has_displaced(stage))
                return err_set(e, CLOCHE_E_STATE,
                               STAGE_NAME " holds files of the directory, but no journal, and is left as it is: move "
                                          "them to their places, and remove it");
        ret->state = stage_is_empty(stage) ? RECOVERY_NONE : state == STAGE_DONE ? RECOVERY_FINISHED : RECOVERY_UNDONE;
        return 0;
}

/* The root's attributes before the sync, if a step recorded them. */
static bool root_before(const struct steps *steps, struct stat *ret)
{
        for (size_t i = 0; i < steps->count; i++) {
                int64_t ns = steps->rows[i].displaced.mtime_ns;

                if (steps->rows[i].path[0])
                        continue;
                *ret = (struct stat){.st_mtim = {ns / 1000000000, ns % 1000000000}};
                return ns >= 0;
        }
        return false;
}

int transaction_recover(int root_fd, unsigned patience_ms, struct recovery *ret, struct cloche_err *e)
{
        struct stage stage = {root_fd, -EBADF};
        struct stat before;
        int r;

        *ret = (struct recovery){0};
        r = stage_open(&stage, false, patience_ms, e);
        if (r <= 0)
                return r;
        r = recover(&stage, ret, e);
        if (r == 0) {
                r = stage_remove(&stage);
                if (r < 0)
                        r = failed(e, r, "remove " STAGE_NAME);
        }
        stage_close(&stage);
        if (r == 0 && ret->state == RECOVERY_UNDONE && root_before(&ret->journal.steps, &before))
                restore_root_time(root_fd, &before);
        return r;
}

void recovery_done(struct recovery *recovery)
{
        journal_done(&recovery->journal);
        kept_done(&recovery->kept);
}
