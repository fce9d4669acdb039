/* The steps of a plan in the order of helpers/fs/tree/change.h: remember directories, take, put,
 * set modes of directories. Runs in: cloche-sync, as the directory's owner, Landlocked to it. */
#include "plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OWNER_ALL 0700u

static void set_displaced(struct step *step, const struct stat *st)
{
        lower_identify(st, &step->displaced);
        step->displaced_mode = st->st_mode;
}

static struct step *add_set(struct steps *steps, uint32_t row, const char *path, const struct stat *st, unsigned flags)
{
        struct step *step = steps_add(steps, STEP_SET, row, path);

        if (!step)
                return NULL;
        set_displaced(step, st);
        step->flags = flags;
        step->mode = st->st_mode & 07777;
        step->mtime_ns = step->displaced.mtime_ns;
        return step;
}

/* -- directories of the host ---------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Entry changes alter the times of directories. These rows come first and so are undone last, which
 * restores the times. A mode set by the guest may forbid entry changes, so it is relaxed until
 * then. */
static int remember_directories(const struct plan *plan, struct steps *steps)
{
        char **touched = plan->touched;

        if (plan->touched_count)
                qsort(touched, plan->touched_count, sizeof(*touched), by_text);
        for (size_t i = 0; i < plan->touched_count; i++) {
                uint32_t modified = plan_find(&plan->modified, touched[i]);
                struct step *step;
                struct stat st;

                if ((i && strcmp(touched[i - 1], touched[i]) == 0) || lower_stat(&plan->root, touched[i], &st) < 0)
                        continue;
                step = add_set(steps, ROW_NONE, touched[i], &st, 0);
                if (!step)
                        return -ENOMEM;
                if (modified != ROW_NONE && plan->rows[modified].verdict == VERDICT_DO &&
                    (st.st_mode & OWNER_ALL) != OWNER_ALL) {
                        step->flags = STEP_SET_MODE;
                        step->mode |= OWNER_ALL;
                }
        }
        return 0;
}

/* -- first pass ----------------------------------------------------------------------------------------------- */

/* A directory that its owner may not write cannot move to another parent. */
static int loosen(const struct plan *plan, uint32_t row, const char *host, struct steps *steps)
{
        const struct stat *st = &plan->rows[row].taken;
        struct step *step;

        if (!S_ISDIR(st->st_mode) || (st->st_mode & OWNER_ALL) == OWNER_ALL)
                return 0;
        step = add_set(steps, row, host, st, STEP_SET_MODE);
        if (!step)
                return -ENOMEM;
        step->mode |= OWNER_ALL;
        return 0;
}

static int take(const struct plan *plan, const struct key *key, struct steps *steps)
{
        const struct plan_row *p = &plan->rows[key->row];
        struct step *step;

        if (p->verdict != VERDICT_DO)
                return 0;
        if (loosen(plan, key->row, key->path, steps) < 0)
                return -ENOMEM;
        step = steps_add(steps, STEP_TAKE, key->row, key->path);
        if (!step)
                return -ENOMEM;
        set_displaced(step, &p->taken);
        step->flags = (p->any_taken ? STEP_ANY : 0u) |
                      (plan->list->rows[key->row].type == CHANGE_RENAMED ? STEP_FROM_OLD : 0u);
        return 0;
}

/* -- second pass ---------------------------------------------------------------------------------------------- */

static int place(const struct plan *plan, uint32_t row, struct steps *steps)
{
        const struct plan_row *p = &plan->rows[row];
        bool is_rename = plan->list->rows[row].type == CHANGE_RENAMED;
        struct step *step;

        if (p->how == HOW_SWAP && S_ISDIR(p->found.st_mode) && (p->found.st_mode & OWNER_ALL) != OWNER_ALL) {
                step = add_set(steps, row, plan_real(plan, row), &p->found, STEP_SET_MODE);
                if (!step)
                        return -ENOMEM;
                step->mode |= OWNER_ALL;
        }
        step = steps_add(steps, p->how == HOW_PUT ? STEP_PUT : STEP_SWAP, row, plan_real(plan, row));
        if (!step)
                return -ENOMEM;
        if (p->how == HOW_SWAP)
                set_displaced(step, &p->found);
        step->flags = (p->any_found ? STEP_ANY : 0u) | (is_rename ? STEP_FROM_OLD : 0u);
        step->moved = is_rename ? p->taken.st_ino : p->ino;
        return 0;
}

static int set_attributes(const struct plan *plan, uint32_t row, struct steps *steps)
{
        const struct sync_change *c = &plan->list->rows[row];
        const struct plan_row *p = &plan->rows[row];
        struct step *step = add_set(steps, row, plan_real(plan, row), &p->found, p->any_found ? STEP_ANY : 0u);

        if (!step)
                return -ENOMEM;
        step->flags |= (c->has_mode ? STEP_SET_MODE : 0u) | (c->has_mtime ? STEP_SET_TIME : 0u);
        step->mode = c->mode | (S_ISDIR(p->found.st_mode) ? p->found.st_mode & 07000 : 0);
        if (c->has_mtime)
                step->mtime_ns = c->mtime_ns;
        return 0;
}

/* -- directories last ----------------------------------------------------------------------------------------- */

/* New directories are created writable; this sets their real mode. */
static int finish_made(const struct plan *plan, uint32_t row, struct steps *steps)
{
        const struct sync_change *c = &plan->list->rows[row];
        const struct plan_row *p = &plan->rows[row];
        struct stat st = {.st_mode = S_IFDIR | OWNER_ALL, .st_ino = p->ino};
        struct stat root;
        struct step *step;

        if (lower_stat(&plan->root, "", &root) < 0)
                return -errno;
        st.st_dev = root.st_dev;
        step = add_set(steps, row, plan_real(plan, row), &st, STEP_SET_MODE | (c->has_mtime ? STEP_SET_TIME : 0u));
        if (!step)
                return -ENOMEM;
        step->mode = (c->has_mode ? c->mode : 0755u) | (p->gid == (gid_t)-1 ? 0u : S_ISGID);
        step->mtime_ns = c->mtime_ns;
        return 0;
}

/* Restore the mode that loosen() changed for the move. */
static int finish_moved(const struct plan *plan, uint32_t row, struct steps *steps)
{
        const struct stat *st = &plan->rows[row].taken;

        if (!S_ISDIR(st->st_mode) || (st->st_mode & OWNER_ALL) == OWNER_ALL)
                return 0;
        return add_set(steps, row, plan_real(plan, row), st, STEP_SET_MODE) ? 0 : -ENOMEM;
}

static int finish(const struct plan *plan, uint32_t row, struct steps *steps)
{
        const struct sync_change *c = &plan->list->rows[row];
        const struct plan_row *p = &plan->rows[row];

        if (c->type == CHANGE_RENAMED)
                return finish_moved(plan, row, steps);
        if (p->how == HOW_SET && S_ISDIR(p->found.st_mode))
                return set_attributes(plan, row, steps);
        if ((p->how == HOW_PUT || p->how == HOW_SWAP) && c->kind == KIND_DIRECTORY && !c->link)
                return finish_made(plan, row, steps);
        return 0;
}

/* -- the whole plan -------------------------------------------------------------------------------------------- */

static bool is_placed(const struct plan *plan, uint32_t row)
{
        return plan->rows[row].verdict == VERDICT_DO && plan->list->rows[row].type != CHANGE_DELETED;
}

int plan_build_steps(const struct plan *plan, struct steps *ret)
{
        uint32_t count = (uint32_t)plan->list->count;
        int r = remember_directories(plan, ret);

        for (size_t i = plan->leaves.count; r == 0 && i-- > 0;)
                r = take(plan, &plan->leaves.keys[i], ret);
        for (uint32_t i = 0; r == 0 && i < count; i++) {
                if (!is_placed(plan, i))
                        continue;
                if (plan->rows[i].how == HOW_PUT || plan->rows[i].how == HOW_SWAP)
                        r = place(plan, i, ret);
                else if (!S_ISDIR(plan->rows[i].found.st_mode))
                        r = set_attributes(plan, i, ret);
        }
        /* Deepest first: a mode may block the paths beneath. At one path the step of a rename
         * precedes that of a change. */
        for (uint32_t i = count; r == 0 && i-- > 0;) {
                bool after = i > 0 && is_placed(plan, i - 1) &&
                             strcmp(plan->list->rows[i].path, plan->list->rows[i - 1].path) == 0;

                if (after)
                        r = finish(plan, i - 1, ret);
                if (r == 0 && is_placed(plan, i))
                        r = finish(plan, i, ret);
                i -= after;
        }
        return r;
}
