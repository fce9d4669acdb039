/* Answers about a plan as JSON.
 * Runs in: cloche-sync, as the directory's owner, Landlocked to it. */
#include "answer.h"

#include "helpers/fs/tree/denial-log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const action_names[] = {"skip", "write", "mkdir", "symlink", "link", "rename", "remove", "chmod"};

/* -- one row -------------------------------------------------------------------------------------------------- */

static const char *path_of(const struct plan *plan, uint32_t row)
{
        return plan->list->rows[row].path;
}

static json_t *step_json(const struct plan *plan, uint32_t row)
{
        const struct sync_change *c = &plan->list->rows[row];
        const struct plan_row *p = &plan->rows[row];
        json_t *json = json_pack("{s:o, s:s, s:s}", "path", path_to_json(c->path), "type", change_type_name(c->type),
                                 "action", action_names[p->action]);

        if (c->from)
                json_object_set_new(json, "from", path_to_json(c->from));
        if (p->is_beside)
                json_object_set_new(json, "as", path_to_json(plan_real(plan, row)));
        return json;
}

/* A message may contain a path and may be cut inside a character. */
static json_t *text_json(const char *text)
{
        json_t *json = json_string(text);

        return json ? json : json_string("(the reason contains a path that is not UTF-8)");
}

static json_t *reason_json(const struct plan *plan, uint32_t row, const char *code)
{
        const char *message = plan->rows[row].message;
        json_t *json = json_pack("{s:o, s:s}", "path", path_to_json(path_of(plan, row)), "reason", code);

        if (message)
                json_object_set_new(json, "message", text_json(message));
        return json;
}

static json_t *error_json(const struct plan *plan, uint32_t row)
{
        const struct plan_row *p = &plan->rows[row];

        return json_pack("{s:s, s:o}", "code", p->code, "message", text_json(p->message ? p->message : p->code));
}

static json_t *failed_json(const struct plan *plan, uint32_t row)
{
        return json_pack("{s:o, s:o}", "path", path_to_json(path_of(plan, row)), "error", error_json(plan, row));
}

static json_t *denied_json(const struct plan *plan, uint32_t row)
{
        const struct plan_row *p = &plan->rows[row];

        return json_pack("{s:o, s:s, s:s}", "path", path_to_json(path_of(plan, row)), "operation",
                         rules_action_name(p->denied), "rule", rules_pattern(plan->rules, p->rule));
}

static json_t *identity_json(const struct lower_identity *identity)
{
        return json_pack("{s:I, s:I, s:I, s:I, s:I}", "dev", (json_int_t)identity->dev, "ino",
                         (json_int_t)identity->ino, "size", (json_int_t)identity->size, "mtimeNs",
                         (json_int_t)identity->mtime_ns, "ctimeNs", (json_int_t)identity->ctime_ns);
}

static json_t *conflict_json(const struct plan *plan, uint32_t row)
{
        const struct sync_change *c = &plan->list->rows[row];
        const struct plan_row *p = &plan->rows[row];
        struct lower_identity found;

        lower_identify(&p->found, &found);
        return json_pack("{s:o, s:o, s:o}", "path", path_to_json(c->path), "expected",
                         c->origin.state == ORIGIN_KNOWN ? identity_json(&c->origin.at) : json_null(), "found",
                         p->has_found ? identity_json(&found) : json_null());
}

/* -- lists ---------------------------------------------------------------------------------------------------- */

static json_t *kept_list_json(const struct kept_list *list)
{
        json_t *json = json_array();

        for (size_t i = 0; i < list->count; i++)
                json_array_append_new(json, json_pack("{s:o, s:o}", "path", path_to_json(list->rows[i].path), "as",
                                                      path_to_json(list->rows[i].as)));
        return json;
}

static bool is_synced(const struct transaction *t, uint32_t row)
{
        return t->is_committed && t->plan->rows[row].verdict == VERDICT_DO;
}

json_t *answer_plan(const struct plan *plan)
{
        json_t *steps = json_array(), *denied = json_array(), *conflicts = json_array();
        json_t *skipped = json_array(), *failed = json_array();

        for (uint32_t i = 0; i < plan->list->count; i++) {
                const struct plan_row *p = &plan->rows[i];

                if (p->verdict == VERDICT_DO)
                        json_array_append_new(steps, step_json(plan, i));
                else if (p->verdict == VERDICT_SKIPPED)
                        json_array_append_new(skipped, reason_json(plan, i, p->code));
                else if (p->is_denied)
                        json_array_append_new(denied, denied_json(plan, i));
                else
                        json_array_append_new(failed, failed_json(plan, i));
                if (p->is_conflict)
                        json_array_append_new(conflicts, conflict_json(plan, i));
        }
        return json_pack("{s:o, s:o, s:o, s:o, s:o}", "steps", steps, "denied", denied, "conflicts", conflicts,
                         "skipped", skipped, "failed", failed);
}

/* A renamed and modified entry has two rows but is reported once. */
static bool is_sent_before(const struct transaction *t, uint32_t row)
{
        return row > 0 && t->plan->list->rows[row].type != CHANGE_DELETED &&
               strcmp(path_of(t->plan, row), path_of(t->plan, row - 1)) == 0 && is_synced(t, row - 1);
}

static void add_row(const struct transaction *t, uint32_t row, json_t *synced, json_t *failed, json_t *skipped,
                    json_t *kept)
{
        const struct plan *plan = t->plan;
        const struct plan_row *p = &plan->rows[row];

        if (p->verdict == VERDICT_FAILED)
                json_array_append_new(failed, failed_json(plan, row));
        else if (p->verdict == VERDICT_SKIPPED)
                json_array_append_new(skipped, reason_json(plan, row, p->code));
        else if (!is_synced(t, row))
                json_array_append_new(skipped,
                                      reason_json(plan, row, t->is_cancelled_now ? "cancelled" : "rolled_back"));
        else if (!is_sent_before(t, row))
                json_array_append_new(synced, path_to_json(path_of(plan, row)));
        if (is_synced(t, row) && p->is_beside)
                json_array_append_new(kept, json_pack("{s:o, s:o}", "path", path_to_json(path_of(plan, row)), "as",
                                                      path_to_json(plan_real(plan, row))));
}

json_t *answer_apply(const struct transaction *t)
{
        json_t *synced = json_array(), *failed = json_array(), *skipped = json_array(), *conflicts = json_array();
        json_t *kept = kept_list_json(&t->kept);
        char number[17];

        for (uint32_t i = 0; i < t->plan->list->count; i++) {
                add_row(t, i, synced, failed, skipped, kept);
                if (t->plan->rows[i].is_conflict)
                        json_array_append_new(conflicts, conflict_json(t->plan, i));
        }
        snprintf(number, sizeof(number), "%016" PRIx64, t->number);
        return json_pack("{s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:s}", "synced", synced, "failed", failed, "skipped",
                         skipped, "conflicts", conflicts, "kept", kept, "committed", t->is_committed, "cancelled",
                         t->is_cancelled_now, "transaction", number);
}

json_t *answer_recovery(const struct recovery *recovery)
{
        static const char *const states[] = {"none", "undone", "finished"};
        const struct steps *steps = &recovery->journal.steps;
        json_t *paths = json_array();
        char number[17];

        for (size_t i = 0; i < steps->count; i++)
                if (steps->rows[i].op != STEP_SET &&
                    (i == 0 || strcmp(steps->rows[i].path, steps->rows[i - 1].path) != 0))
                        json_array_append_new(paths, path_to_json(steps->rows[i].path));
        snprintf(number, sizeof(number), "%016" PRIx64, recovery->journal.transaction);
        return json_pack("{s:s, s:o, s:o, s:o}", "state", states[recovery->state], "transaction",
                         steps->count ? json_string(number) : json_null(), "paths", paths, "kept",
                         kept_list_json(&recovery->kept));
}

/* -- progress ------------------------------------------------------------------------------------------------- */

bool answer_has_progress(const struct plan *plan, uint32_t row)
{
        return plan->rows[row].verdict != VERDICT_SKIPPED;
}

json_t *answer_progress(const struct transaction *t, uint32_t row, size_t done, size_t total)
{
        bool success = is_synced(t, row);
        json_t *json = json_pack("{s:o, s:I, s:I, s:b}", "path", path_to_json(path_of(t->plan, row)), "done",
                                 (json_int_t)done, "total", (json_int_t)total, "success", success);

        if (success)
                return json;
        if (t->plan->rows[row].verdict == VERDICT_FAILED)
                json_object_set_new(json, "error", error_json(t->plan, row));
        else
                json_object_set_new(json, "error",
                                    json_pack("{s:s, s:s}", "code", t->is_cancelled_now ? "cancelled" : "rolled_back",
                                              "message", "all was undone"));
        return json;
}
