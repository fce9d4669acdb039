/* Decide each change by rules, conflicts and dependencies.
 * Runs in: cloche-sync, as the directory's owner, Landlocked to it. */
#include "plan.h"

#include "base/err.h"
#include "base/fd.h"
#include "helpers/fs/rules/link.h"
#include "helpers/fs/tree/denial-log.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- beginning and end ---------------------------------------------------------------------------------------- */

static int by_path(const void *a, const void *b)
{
        return strcmp(((const struct key *)a)->path, ((const struct key *)b)->path);
}

static int key_rows(const struct sync_list *list, struct key_list *ret,
                    const char *(*key)(const struct sync_change *change))
{
        ret->keys = calloc(list->count + 1, sizeof(*ret->keys));
        if (!ret->keys)
                return -ENOMEM;
        for (size_t i = 0; i < list->count; i++) {
                const char *path = key(&list->rows[i]);

                if (path)
                        ret->keys[ret->count++] = (struct key){path, (uint32_t)i};
        }
        qsort(ret->keys, ret->count, sizeof(*ret->keys), by_path);
        return 0;
}

static const char *placed_path(const struct sync_change *change)
{
        return change->type == CHANGE_CREATED || change->type == CHANGE_RENAMED ? change->path : NULL;
}

static const char *left_path(const struct sync_change *change)
{
        return change->type == CHANGE_DELETED ? change->path : change->from;
}

static const char *modified_path(const struct sync_change *change)
{
        return change->type == CHANGE_MODIFIED ? change->path : NULL;
}

int plan_init(struct plan *plan, const struct sync_list *list, const struct rules *rules, int root_fd,
              enum on_conflict policy, enum on_error on_error, bool links_inside, struct cloche_err *e)
{
        *plan = (struct plan){.list = list,
                              .rules = rules,
                              .root = {root_fd},
                              .policy = policy,
                              .on_error = on_error,
                              .links_inside = links_inside,
                              .directory.fd = -EBADF};
        plan->rows = calloc(list->count + 1, sizeof(*plan->rows));
        if (!plan->rows || key_rows(list, &plan->places, placed_path) < 0 ||
            key_rows(list, &plan->leaves, left_path) < 0 || key_rows(list, &plan->modified, modified_path) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "plan the changes");
        for (size_t i = 0; i < list->count; i++)
                plan->rows[i].policy = -1;
        return 0;
}

static void drop_touched(struct plan *plan)
{
        while (plan->touched_count)
                free(plan->touched[--plan->touched_count]);
}

void plan_done(struct plan *plan)
{
        for (size_t i = 0; plan->rows && i < plan->list->count; i++) {
                free(plan->rows[i].message);
                free(plan->rows[i].real);
                free(plan->rows[i].found_host);
                free(plan->rows[i].link_host);
        }
        drop_touched(plan);
        if (plan->rows)
                plan_drop_directory(plan);
        free(plan->touched);
        free(plan->rows);
        free(plan->places.keys);
        free(plan->leaves.keys);
        free(plan->modified.keys);
        free(plan->edges);
        *plan = (struct plan){0};
}

/* -- verdicts ------------------------------------------------------------------------------------------------- */

static const struct {
        int number;
        const char *code;
} errno_codes[] = {
        {ENOENT, "not_found"},   {ENOTDIR, "not_found"}, {ELOOP, "not_beneath"},   {EXDEV, "not_beneath"},
        {EACCES, "permission"},  {EPERM, "permission"},  {EROFS, "permission"},    {ENOSPC, "no_space"},
        {EDQUOT, "no_space"},    {EEXIST, "conflict"},   {ENOTEMPTY, "not_empty"}, {ENAMETOOLONG, "name_long"},
        {EINVAL, "unsupported"}, {EMLINK, "permission"},
};

const char *plan_errno_code(int number)
{
        for (size_t i = 0; i < sizeof(errno_codes) / sizeof(errno_codes[0]); i++)
                if (errno_codes[i].number == number)
                        return errno_codes[i].code;
        return "io";
}

static void settle(struct plan *plan, uint32_t row, enum verdict verdict, const char *code, const char *message)
{
        struct plan_row *p = &plan->rows[row];
        char *copy = message ? strdup(message) : NULL; /* message may be p->message */

        p->verdict = verdict;
        p->action = ACTION_SKIP;
        p->how = HOW_NOT;
        p->code = code;
        free(p->message);
        p->message = copy;
}

void plan_fail(struct plan *plan, uint32_t row, const char *code, const char *message)
{
        settle(plan, row, VERDICT_FAILED, code, message);
        plan->rows[row].settled = true;
}

static void fail_errno(struct plan *plan, uint32_t row, int number, const char *what)
{
        char text[160];

        snprintf(text, sizeof(text), "%s: %s", what, strerror(number));
        settle(plan, row, VERDICT_FAILED, plan_errno_code(number), text);
}

void plan_fail_errno(struct plan *plan, uint32_t row, int number, const char *what)
{
        fail_errno(plan, row, number, what);
        plan->rows[row].settled = true;
}

static void skip(struct plan *plan, uint32_t row, const char *code, const char *message)
{
        settle(plan, row, VERDICT_SKIPPED, code, message);
}

bool plan_has_failed(const struct plan *plan)
{
        for (size_t i = 0; i < plan->list->count; i++)
                if (plan->rows[i].verdict == VERDICT_FAILED && !plan->rows[i].is_denied)
                        return true;
        return false;
}

/* -- decisions ------------------------------------------------------------------------------------------------ */

static const char *const decision_names[] = {"refuse", "keepBoth", "overwrite", "skip"};

static int decide_path(struct plan *plan, const char *path, int action, const char *reason)
{
        int found = 0;

        for (uint32_t i = 0; i < plan->list->count; i++) {
                if (strcmp(plan->list->rows[i].path, path) != 0)
                        continue;
                found = 1;
                plan->rows[i].policy = action == CONFLICT_POLICY_COUNT ? -1 : action;
                if (action == CONFLICT_POLICY_COUNT) {
                        skip(plan, i, "decided", reason);
                        plan->rows[i].settled = true;
                }
        }
        return found;
}

int plan_decide(struct plan *plan, const json_t *decisions, struct cloche_err *e)
{
        json_t *value;
        size_t i;

        if (decisions && !json_is_array(decisions))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "decisions: expected an array");
        json_array_foreach ((json_t *)decisions, i, value) {
                const char *action = NULL, *reason = NULL;
                json_t *path = NULL;
                char *text;
                int k = 0, found;

                if (json_unpack(value, "{s:o, s:s, s?s !}", "path", &path, "action", &action, "reason", &reason) < 0)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "decisions[%zu]: expected {path, action, reason?}",
                                       i);
                while (k < 4 && strcmp(decision_names[k], action) != 0)
                        k++;
                text = k < 4 ? path_from_json(path) : NULL;
                if (!text)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "decisions[%zu]: expected a path, and refuse, keepBoth, overwrite or skip", i);
                found = decide_path(plan, text, k, reason);
                free(text);
                if (!found)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "decisions[%zu].path: there is no change of this path", i);
        }
        return 0;
}

/* -- rights --------------------------------------------------------------------------------------------------- */

static bool may(struct plan *plan, uint32_t row, const char *path, enum rules_action action)
{
        struct plan_row *p = &plan->rows[row];
        size_t rule;

        if (rules_decide(plan->rules, path, &rule) & 1u << action)
                return true;
        p->rule = rule;
        p->denied = action;
        return false;
}

/* The rights to delete and create a file include changing it. A renamed file may have been changed
 * at its old path. */
static bool may_modify(struct plan *plan, uint32_t row, const char *path, const char *from)
{
        unsigned both = 1u << RULES_CREATE | 1u << RULES_DELETE;

        if ((rules_decide(plan->rules, path, NULL) & both) == both)
                return true;
        if (from && rules_decide(plan->rules, from, NULL) & 1u << RULES_MODIFY)
                return true;
        return may(plan, row, path, RULES_MODIFY);
}

static bool is_permitted(struct plan *plan, uint32_t row)
{
        const struct sync_change *c = &plan->list->rows[row];
        uint32_t placed = plan_find(&plan->places, c->path);

        switch (c->type) {
        case CHANGE_DELETED:
                return may(plan, row, c->path, RULES_DELETE);
        case CHANGE_CREATED:
                return may(plan, row, c->path, RULES_CREATE);
        case CHANGE_RENAMED:
                return may(plan, row, c->from, RULES_DELETE) && may(plan, row, c->path, RULES_CREATE) &&
                       (!c->over || may_modify(plan, row, c->path, NULL));
        case CHANGE_MODIFIED:
                return may_modify(plan, row, c->path, placed == ROW_NONE ? NULL : plan->list->rows[placed].from);
        case CHANGE_TYPE_COUNT:
                break;
        }
        return false;
}

static void deny(struct plan *plan, uint32_t row)
{
        const char *rule = rules_pattern(plan->rules, plan->rows[row].rule);
        char text[160];

        snprintf(text, sizeof(text), "%s is denied by %s%.100s", rules_action_name(plan->rows[row].denied),
                 *rule ? "the rule " : "default", rule);
        settle(plan, row, VERDICT_FAILED, "denied", text);
        plan->rows[row].is_denied = true;
}

/* -- conflicts ------------------------------------------------------------------------------------------------ */

static bool is_same(const struct origin *origin, const struct stat *st)
{
        struct lower_identity found;

        if (origin->state != ORIGIN_KNOWN)
                return origin->state == ORIGIN_UNKNOWN;
        lower_identify(st, &found);
        /* Entries change a directory's size and time; they are compared separately. */
        return S_ISDIR(st->st_mode) ? found.dev == origin->at.dev && found.ino == origin->at.ino
                                    : lower_same(&found, &origin->at);
}

/* st NULL: no entry. Return the policy; under refuse the row has failed. */
static enum on_conflict meet_conflict(struct plan *plan, uint32_t row, const struct stat *st, const char *what)
{
        struct plan_row *p = &plan->rows[row];
        enum on_conflict policy = p->policy < 0 ? plan->policy : (enum on_conflict)p->policy;

        p->is_conflict = true;
        p->has_found = st;
        if (st)
                p->found = *st;
        if (policy == CONFLICT_REFUSE)
                settle(plan, row, VERDICT_FAILED, "conflict", what);
        return policy;
}

static const char already_removed[] = "gone", done_already[] = "done";

/* -- entries that leave their place --------------------------------------------------------------------------- */

static int open_directory(struct plan *plan, const char *path, DIR **ret)
{
        int fd = lower_open(&plan->root, path, O_RDONLY | O_DIRECTORY);

        *ret = fd < 0 ? NULL : fdopendir(fd);
        if (!*ret)
                fd_close(&fd);
        return *ret ? 0 : -EACCES;
}

/* Check that all entries of a directory leave before it. *ret_strange: one stays. */
static int check_emptied(struct plan *plan, uint32_t row, const char *path, bool *ret_strange)
{
        char inner[LIST_PATH_MAX + 1];
        struct dirent *entry;
        DIR *dir;
        int r = open_directory(plan, path, &dir);

        *ret_strange = false;
        while (r == 0 && !*ret_strange && (entry = readdir(dir))) {
                uint32_t leaves;

                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                if (snprintf(inner, sizeof(inner), "%s/%s", path, entry->d_name) > LIST_PATH_MAX)
                        r = -ENAMETOOLONG;
                leaves = plan_find(&plan->leaves, inner);
                *ret_strange = leaves == ROW_NONE;
                plan_depend(plan, row, leaves);
        }
        if (dir)
                closedir(dir);
        return r;
}

/* A renamed directory may hold entries that the guest did not see. The rules must allow each at the
 * new path. */
static bool may_move_all(struct plan *plan, uint32_t row, const char *from, const char *to, int depth)
{
        char inner_from[LIST_PATH_MAX + 1], inner_to[LIST_PATH_MAX + 1];
        struct dirent *entry;
        bool fine = true;
        DIR *dir;

        if (depth == 0 || open_directory(plan, from, &dir) < 0)
                return depth != 0; /* an unreadable directory cannot be checked; it moves as a whole */
        while (fine && (entry = readdir(dir))) {
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                if (snprintf(inner_from, sizeof(inner_from), "%s/%s", from, entry->d_name) > LIST_PATH_MAX ||
                    snprintf(inner_to, sizeof(inner_to), "%s/%s", to, entry->d_name) > LIST_PATH_MAX)
                        break;
                if (plan_find(&plan->leaves, inner_from) != ROW_NONE)
                        continue;
                fine = may(plan, row, inner_from, RULES_DELETE) && may(plan, row, inner_to, RULES_CREATE) &&
                       (entry->d_type != DT_DIR || may_move_all(plan, row, inner_from, inner_to, depth - 1));
        }
        closedir(dir);
        return fine;
}

static void evaluate_deleted(struct plan *plan, uint32_t row)
{
        struct plan_row *p = &plan->rows[row];
        const char *what;
        bool strange = false;
        int r = 0;

        p->action = ACTION_REMOVE;
        if (S_ISDIR(p->taken.st_mode))
                r = check_emptied(plan, row, plan->list->rows[row].path, &strange);
        if (r < 0) {
                fail_errno(plan, row, -r, "look into the directory");
        } else if (strange) {
                what = "the directory has something in it that the change list does not name";
                if (meet_conflict(plan, row, &p->taken, what) != CONFLICT_REFUSE)
                        skip(plan, row, "conflict", "the directory is kept for what is in it");
        }
}

static void evaluate_moved(struct plan *plan, uint32_t row)
{
        const struct sync_change *c = &plan->list->rows[row];

        plan->rows[row].action = ACTION_RENAME;
        if (S_ISDIR(plan->rows[row].taken.st_mode) && !may_move_all(plan, row, c->from, c->path, 64))
                deny(plan, row);
}

static void evaluate_leaving(struct plan *plan, uint32_t row)
{
        const struct sync_change *c = &plan->list->rows[row];
        struct plan_row *p = &plan->rows[row];
        const char *host = left_path(c);
        char parent[LIST_PATH_MAX + 1];
        int r;

        plan_parent(host, parent);
        r = plan_touch(plan, parent);
        if (r == 0)
                r = lower_stat(&plan->root, host, &p->taken);
        if ((r == -ENOENT || r == -ENOTDIR) && c->type == CHANGE_DELETED) {
                skip(plan, row, already_removed, "the host has removed it already");
                return;
        }
        if (r == -ENOENT || r == -ENOTDIR) {
                meet_conflict(plan, row, NULL, NULL);
                settle(plan, row, VERDICT_FAILED, "conflict", "what is renamed has gone");
                return;
        }
        if (r < 0) {
                fail_errno(plan, row, -r, "read the attributes of the entry to be moved or removed");
                return;
        }
        if ((c->kind != KIND_UNKNOWN && c->kind != change_kind_of(p->taken.st_mode)) ||
            !is_same(&c->origin, &p->taken)) {
                enum on_conflict policy = meet_conflict(plan, row, &p->taken, "the host has changed it");

                if (policy == CONFLICT_KEEP_BOTH && c->type == CHANGE_DELETED)
                        skip(plan, row, "conflict", "the host has changed it, so it is kept");
                else if (policy == CONFLICT_KEEP_BOTH)
                        settle(plan, row, VERDICT_FAILED, "conflict", "the host has changed what is renamed");
                if (policy != CONFLICT_OVERWRITE)
                        return;
                p->any_taken = true;
        }
        (c->type == CHANGE_DELETED ? evaluate_deleted : evaluate_moved)(plan, row);
}

/* -- entries that are placed or changed ----------------------------------------------------------------------- */

struct there {
        bool exists;
        struct stat st;
};

static enum plan_action action_of(const struct sync_change *c)
{
        if (c->type == CHANGE_RENAMED)
                return ACTION_RENAME;
        if (c->link)
                return ACTION_LINK;
        return c->kind == KIND_DIRECTORY ? ACTION_MKDIR : c->kind == KIND_SYMLINK ? ACTION_SYMLINK : ACTION_WRITE;
}

static bool makes_something(const struct sync_change *c)
{
        return c->type == CHANGE_CREATED || c->type == CHANGE_RENAMED || c->contents || c->link || c->target;
}

static void set_real(struct plan *plan, uint32_t row, const char *parent, const char *name)
{
        struct plan_row *p = &plan->rows[row];
        char text[LIST_PATH_MAX + 1];

        free(p->real);
        p->real = NULL;
        if (snprintf(text, sizeof(text), "%s%s%s", parent, *parent ? "/" : "", name) > LIST_PATH_MAX) {
                fail_errno(plan, row, ENAMETOOLONG, "name it");
                return;
        }
        if (strcmp(text, plan->list->rows[row].path) == 0)
                return;
        p->real = strdup(text);
        plan->out_of_memory |= !p->real;
}

/* Choose a free name beside the existing entry. */
static void go_beside(struct plan *plan, uint32_t row, const struct directory *d, const char *name)
{
        char other[LIST_NAME_MAX + 1], host[LIST_PATH_MAX + 1], path[LIST_PATH_MAX + 1];
        struct stat st;

        for (unsigned i = 1; i < 1000 && step_conflict_name(name, i, other); i++) {
                if (snprintf(host, sizeof(host), "%s%s%s", d->host, *d->host ? "/" : "", other) > LIST_PATH_MAX ||
                    snprintf(path, sizeof(path), "%s%s%s", d->path, *d->path ? "/" : "", other) > LIST_PATH_MAX)
                        break;
                if (plan_find(&plan->places, path) != ROW_NONE ||
                    (d->on_host && lower_stat(&plan->root, host, &st) != -ENOENT))
                        continue;
                set_real(plan, row, d->real, other);
                plan->rows[row].is_beside = true;
                plan->rows[row].how = HOW_PUT;
                plan->rows[row].action = action_of(&plan->list->rows[row]);
                return;
        }
        fail_errno(plan, row, ENAMETOOLONG, "name the conflict");
}

static void set_gid(struct plan *plan, uint32_t row, const struct directory *d)
{
        struct plan_row *p = &plan->rows[row];

        p->gid = (gid_t)-1;
        if (p->how == HOW_SWAP)
                p->gid = p->found.st_gid;
        else if (d->on_host && d->st.st_mode & S_ISGID)
                p->gid = d->st.st_gid;
        else if (!d->on_host && d->by != ROW_NONE)
                p->gid = plan->rows[d->by].gid;
}

static void put(struct plan *plan, uint32_t row)
{
        plan->rows[row].how = HOW_PUT;
        plan->rows[row].action = action_of(&plan->list->rows[row]);
}

/* Replace the existing entry. An existing directory is reused for a new directory; otherwise it
 * must be empty. */
static void replace(struct plan *plan, uint32_t row, const struct there *there, const char *host, bool any)
{
        const struct sync_change *c = &plan->list->rows[row];
        struct plan_row *p = &plan->rows[row];
        bool strange = false;

        p->has_found = true;
        p->found = there->st;
        p->any_found = any;
        if (c->type != CHANGE_MODIFIED && !may_modify(plan, row, c->path, NULL)) {
                deny(plan, row);
                return;
        }
        if (S_ISDIR(there->st.st_mode) && c->kind == KIND_DIRECTORY && c->type != CHANGE_RENAMED) {
                p->how = HOW_SET;
                p->action = ACTION_CHMOD;
                return;
        }
        p->how = HOW_SWAP;
        p->action = action_of(c);
        if (strcmp(host, c->path) != 0) {
                p->found_host = strdup(host);
                plan->out_of_memory |= !p->found_host;
        }
        if (!S_ISDIR(there->st.st_mode))
                return;
        if (check_emptied(plan, row, host, &strange) < 0 || strange) {
                p->is_conflict = true;
                settle(plan, row, VERDICT_FAILED, "conflict", "a directory that is not empty is in its place");
        }
}

/* True if the guest created this entry as a whole. An empty file has no contents number. */
static bool is_made(const struct sync_change *c, const struct there *there)
{
        bool is_empty = c->type == CHANGE_MODIFIED && c->kind == KIND_FILE && c->has_size && c->size == 0;

        return makes_something(c) ||
               (is_empty && (!there->exists || (S_ISREG(there->st.st_mode) && there->st.st_size > 0)));
}

/* NULL if the host still has here the state that the guest first changed; otherwise the fault. */
static const char *find_fault(const struct sync_change *c, const struct there *there)
{
        const struct origin *origin = c->type == CHANGE_RENAMED ? &c->over_origin : &c->origin;
        bool must_be_free = c->type == CHANGE_CREATED || (c->type == CHANGE_RENAMED && !c->over);
        bool is_kind = !there->exists || c->kind == KIND_UNKNOWN || c->kind == change_kind_of(there->st.st_mode);

        if (!there->exists)
                return must_be_free || c->type == CHANGE_RENAMED || origin->state != ORIGIN_KNOWN
                               ? NULL
                               : "the host has removed it";
        if (must_be_free && (c->type == CHANGE_RENAMED || origin->state == ORIGIN_NOTHING))
                return "the host has made something of this name";
        return is_same(origin, &there->st) && is_kind ? NULL : "the host has changed it";
}

static void set_only(struct plan *plan, uint32_t row, const struct there *there, bool any)
{
        struct plan_row *p = &plan->rows[row];

        p->found = there->st;
        p->any_found = any;
        p->how = HOW_SET;
        p->action = ACTION_CHMOD;
}

/* Apply a policy other than refuse, which has failed the row already. */
static void evaluate_conflict(struct plan *plan, uint32_t row, const struct directory *d, const struct there *there,
                              const char *host, const char *what, enum on_conflict policy)
{
        const struct sync_change *c = &plan->list->rows[row];
        bool made = is_made(c, there), is_directory = c->kind == KIND_DIRECTORY && c->type != CHANGE_RENAMED;
        bool same_kind = there->exists && c->kind == change_kind_of(there->st.st_mode);

        if (same_kind && is_directory)
                replace(plan, row, there, host, true);
        else if (policy == CONFLICT_OVERWRITE && there->exists && made)
                replace(plan, row, there, host, true);
        else if (policy == CONFLICT_OVERWRITE && same_kind)
                set_only(plan, row, there, true);
        else if (!made && !is_directory)
                skip(plan, row, "conflict", what);
        else if (policy == CONFLICT_OVERWRITE)
                put(plan, row);
        else
                go_beside(plan, row, d, strrchr(c->path, '/') ? strrchr(c->path, '/') + 1 : c->path);
}

static void evaluate_change(struct plan *plan, uint32_t row, const struct directory *d, const struct there *there,
                            const char *host)
{
        const struct sync_change *c = &plan->list->rows[row];
        const char *what = find_fault(c, there);
        bool made = is_made(c, there);
        enum on_conflict policy;

        if (!what && there->exists && made) {
                replace(plan, row, there, host, false);
        } else if (!what && there->exists) {
                set_only(plan, row, there, false);
        } else if (!what && (made || c->kind == KIND_DIRECTORY)) {
                put(plan, row);
        } else {
                what = what ? what : "there is nothing whose mode could be set";
                policy = meet_conflict(plan, row, there->exists ? &there->st : NULL, what);
                if (policy != CONFLICT_REFUSE)
                        evaluate_conflict(plan, row, d, there, host, what, policy);
        }
}

/* Find the source of a hard link's contents. */
static void find_link(struct plan *plan, uint32_t row)
{
        const char *link = plan->list->rows[row].link;
        struct plan_row *p = &plan->rows[row];
        uint32_t placed = plan_find(&plan->places, link), modified = plan_find(&plan->modified, link);
        uint32_t made = modified != ROW_NONE && makes_something(&plan->list->rows[modified]) ? modified : placed;
        char parent[LIST_PATH_MAX + 1], host[LIST_PATH_MAX + 1];
        const struct directory *d;
        const char *name;

        plan_depend(plan, row, placed);
        plan_depend(plan, row, made);
        if (made != ROW_NONE && plan->list->rows[made].type != CHANGE_RENAMED) {
                p->link_row = made;
                return;
        }
        if (made != ROW_NONE) {
                p->link_host = strdup(plan->list->rows[made].from);
        } else {
                plan_parent(link, parent);
                d = plan_find_directory(plan, parent);
                name = link + strlen(parent) + (*parent != '\0');
                if (d->error < 0 || !d->on_host ||
                    snprintf(host, sizeof(host), "%s%s%s", d->host, *d->host ? "/" : "", name) > LIST_PATH_MAX) {
                        fail_errno(plan, row, ENOENT, "find what it is another name of");
                        return;
                }
                p->link_host = strdup(host);
        }
        plan->out_of_memory |= !p->link_host;
}

/* Find the entry at the row's path as of its turn. */
static int stat_there(struct plan *plan, uint32_t row, const struct directory *d, const char *name, struct there *ret,
                      char host[LIST_PATH_MAX + 1])
{
        const struct sync_change *c = &plan->list->rows[row];
        uint32_t placed = plan_find(&plan->places, c->path), leaving;

        *ret = (struct there){0};
        if (c->type == CHANGE_MODIFIED && placed != ROW_NONE) {
                plan_depend(plan, row, placed);
                ret->exists = true;
                ret->st = plan->rows[placed].taken;
                snprintf(host, LIST_PATH_MAX + 1, "%s", plan->list->rows[placed].from);
                return 0;
        }
        if (!d->on_host)
                return 0;
        if (snprintf(host, LIST_PATH_MAX + 1, "%s%s%s", d->host, *d->host ? "/" : "", name) > LIST_PATH_MAX)
                return -ENAMETOOLONG;
        leaving = plan_find(&plan->leaves, host);
        if (leaving != ROW_NONE && plan->rows[leaving].code != already_removed)
                plan_depend(plan, row, leaving);
        if (leaving != ROW_NONE)
                return 0;
        ret->exists = fstatat(d->fd, name, &ret->st, AT_SYMLINK_NOFOLLOW) == 0;
        return ret->exists || errno == ENOENT ? 0 : -errno;
}

static size_t depth_of(const char *path)
{
        size_t depth = 0;

        while ((path = strchr(path, '/')) != NULL) {
                path++;
                depth++;
        }
        return depth;
}

/* A link of the host that gets a place nearer to the top may lead out from there, and so
 * may the links in a directory that does: they are not read. At the same depth or deeper
 * it leads as far as before. */
static bool rises(const struct plan *plan, uint32_t row)
{
        const struct sync_change *c = &plan->list->rows[row];
        const char *from = c->type == CHANGE_RENAMED ? c->from : plan->rows[row].link_host;

        return from && (c->kind == KIND_SYMLINK || c->kind == KIND_DIRECTORY) && depth_of(c->path) < depth_of(from);
}

static void evaluate_placing(struct plan *plan, uint32_t row)
{
        const struct sync_change *c = &plan->list->rows[row];
        const char *name = strrchr(c->path, '/') ? strrchr(c->path, '/') + 1 : c->path;
        char parent[LIST_PATH_MAX + 1], host[LIST_PATH_MAX + 1];
        const struct directory *d;
        struct there there;
        uint32_t placed = c->type == CHANGE_MODIFIED ? plan_find(&plan->places, c->path) : ROW_NONE;
        int r;

        if (plan->links_inside && c->target &&
            link_fault(c->path, c->target)) /* a link of the host has no target here */
                settle(plan, row, VERDICT_FAILED, "denied", link_fault(c->path, c->target));
        if (c->link)
                find_link(plan, row);
        if (plan->links_inside && rises(plan, row))
                settle(plan, row, VERDICT_FAILED, "denied",
                       "a link of the host, here or in this directory, may lead out from a place nearer to the top, "
                       "which \"links\": \"inside\" refuses");
        if (plan->rows[row].verdict != VERDICT_DO)
                return;
        plan_parent(c->path, parent);
        d = plan_find_directory(plan, parent);
        plan_depend(plan, row, d->by);
        r = d->error;
        if (r == 0 && d->on_host && (makes_something(c) || c->kind == KIND_DIRECTORY))
                r = plan_touch(plan, d->host);
        if (r == 0)
                r = stat_there(plan, row, d, name, &there, host);
        if (r < 0) {
                fail_errno(plan, row, -r, "read the attributes of the target");
                return;
        }
        set_real(plan, row, d->real, name);
        evaluate_change(plan, row, d, &there, host);
        if (placed != ROW_NONE && plan->rows[placed].real && !plan->rows[row].is_beside) {
                free(plan->rows[row].real);
                plan->rows[row].real = strdup(plan->rows[placed].real);
                plan->out_of_memory |= !plan->rows[row].real;
        }
        set_gid(plan, row, d);
}

/* -- all rows ------------------------------------------------------------------------------------------------- */

static void start_row(struct plan *plan, uint32_t row)
{
        const struct sync_change *c = &plan->list->rows[row];
        struct plan_row *p = &plan->rows[row];

        if (p->settled)
                return;
        free(p->message);
        free(p->real);
        free(p->found_host);
        free(p->link_host);
        *p = (struct plan_row){.policy = p->policy,
                               .staged = p->staged,
                               .ino = p->ino,
                               .link_row = ROW_NONE,
                               .gid = (gid_t)-1};
        if (c->is_virtual)
                skip(plan, row, "virtual", NULL);
        else if (c->kind == KIND_OTHER)
                skip(plan, row, "kind", "pipes, sockets and devices are not synced");
        else if (!is_permitted(plan, row))
                deny(plan, row);
}

static int by_on(const void *a, const void *b)
{
        const struct edge *left = a, *right = b;

        return left->on < right->on ? -1 : left->on > right->on;
}

static size_t first_edge(const struct plan *plan, uint32_t on)
{
        size_t low = 0, high = plan->edge_count;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                *(plan->edges[middle].on < on ? &low : &high) = plan->edges[middle].on < on ? middle + 1 : middle;
        }
        return low;
}

/* A row that depends on a row not done is not done either. */
static int spread(struct plan *plan)
{
        uint32_t *queue = calloc(plan->list->count + 1, sizeof(*queue));
        size_t head = 0, tail = 0;
        char text[160];

        if (!queue)
                return -ENOMEM;
        for (uint32_t i = 0; i < plan->list->count; i++)
                if (plan->rows[i].verdict != VERDICT_DO)
                        queue[tail++] = i;
        if (tail && plan->edge_count)
                qsort(plan->edges, plan->edge_count, sizeof(*plan->edges), by_on);
        while (head < tail) {
                uint32_t on = queue[head++];

                for (size_t k = first_edge(plan, on); k < plan->edge_count && plan->edges[k].on == on; k++) {
                        uint32_t of = plan->edges[k].of;

                        if (plan->rows[of].verdict != VERDICT_DO)
                                continue;
                        snprintf(text, sizeof(text), "it depends on '%.120s', which is not synced",
                                 plan->list->rows[on].path);
                        skip(plan, of, "depends", text);
                        queue[tail++] = of;
                }
        }
        free(queue);
        return 0;
}

/* Rows after the first failure are not tried. */
static int stop_at_failure(struct plan *plan)
{
        uint32_t i = 0;

        if (plan->on_error != ON_ERROR_ABORT)
                return 0;
        while (i < plan->list->count && (plan->rows[i].verdict != VERDICT_FAILED || plan->rows[i].is_denied))
                i++;
        for (i++; i < plan->list->count; i++)
                if (plan->rows[i].verdict == VERDICT_DO)
                        skip(plan, i, "aborted", NULL);
        return spread(plan);
}

/* -- a list that is applied already --------------------------------------------------------------------------- */

static bool is_made_already(const struct plan *plan, const struct sync_change *c, const struct stat *st)
{
        int64_t mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
        struct stat other;

        if (c->kind != change_kind_of(st->st_mode))
                return false;
        if (c->link)
                return lower_stat(&plan->root, c->link, &other) == 0 && other.st_ino == st->st_ino;
        if (c->kind != KIND_SYMLINK && c->has_mode && (st->st_mode & 07777) != (c->mode & 07777))
                return false;
        if (c->kind == KIND_DIRECTORY)
                return true;
        return c->has_mtime && mtime_ns == c->mtime_ns &&
               (c->kind == KIND_SYMLINK || (c->has_size && (uint64_t)st->st_size == c->size));
}

static bool is_done(const struct plan *plan, uint32_t row)
{
        const struct sync_change *c = &plan->list->rows[row];
        struct stat st;
        int r = lower_stat(&plan->root, c->path, &st);

        if (plan->rows[row].verdict != VERDICT_DO || c->is_virtual)
                return true; /* this row needs no step */
        if (c->type == CHANGE_DELETED)
                return r == -ENOENT || r == -ENOTDIR || plan_find(&plan->places, c->path) != ROW_NONE;
        if (r == -EACCES)
                return true; /* inside an unsearchable directory: the other rows decide */
        if (r < 0)
                return false;
        if (c->type != CHANGE_RENAMED)
                return is_made_already(plan, c, &st);
        return plan_find(&plan->modified, c->path) != ROW_NONE ||
               (c->origin.state == ORIGIN_KNOWN && is_same(&c->origin, &st));
}

/* The host is already in the final state of the whole list, times included: an earlier sync was
 * interrupted after its commit and recovered. Checked row by row this would look like conflicts. */
static void skip_what_is_done(struct plan *plan)
{
        for (uint32_t i = 0; i < plan->list->count; i++)
                if (!is_done(plan, i))
                        return;
        for (uint32_t i = 0; i < plan->list->count; i++)
                if (plan->rows[i].verdict == VERDICT_DO && !plan->list->rows[i].is_virtual) {
                        skip(plan, i, plan->list->rows[i].type == CHANGE_DELETED ? already_removed : done_already,
                             "the host has it so already");
                        plan->rows[i].settled = true;
                }
}

int plan_evaluate(struct plan *plan, struct cloche_err *e)
{
        plan->edge_count = 0;
        plan_drop_directory(plan);
        drop_touched(plan);
        for (uint32_t i = 0; i < plan->list->count; i++)
                start_row(plan, i);
        skip_what_is_done(plan);
        for (uint32_t i = 0; i < plan->list->count; i++)
                if (plan->rows[i].verdict == VERDICT_DO && left_path(&plan->list->rows[i]))
                        evaluate_leaving(plan, i);
        for (uint32_t i = 0; i < plan->list->count; i++)
                if (plan->rows[i].verdict == VERDICT_DO && plan->list->rows[i].type != CHANGE_DELETED)
                        evaluate_placing(plan, i);
        if (plan->out_of_memory || spread(plan) < 0 || stop_at_failure(plan) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "plan the changes");
        return 0;
}
