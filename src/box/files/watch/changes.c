/* Runs in: a job of cloche-files, within a box, with its user's rights. */
#include "changes.h"

#include "box/files/answer.h"
#include "box/files/tree/path.h"

#include <string.h>

static const char *const names[] = {
        [CHANGE_CREATE] = "create", [CHANGE_MODIFY] = "modify", [CHANGE_DELETE] = "delete",
        [CHANGE_MOVE] = "move",     [CHANGE_ATTRIB] = "attrib",
};

static void forget(struct watch_changes *c)
{
        for (size_t i = 0; i < c->count; i++) {
                free(c->items[i].path);
                free(c->items[i].from);
        }
        c->count = 0;
}

void changes_lose(struct watch_changes *c)
{
        forget(c);
        c->is_lost = 1;
}

/* True if the last pending change of the path covers this one. */
static int is_said(const struct watch_changes *c, enum change_type type, const char *path)
{
        for (size_t i = c->count; i-- > 0;) {
                const struct watch_change *before = &c->items[i];

                if (strcmp(before->path, path) != 0)
                        continue;
                if (before->type == CHANGE_CREATE)
                        return type == CHANGE_CREATE || type == CHANGE_MODIFY || type == CHANGE_ATTRIB;
                return before->type == type &&
                       (type == CHANGE_MODIFY || type == CHANGE_ATTRIB || type == CHANGE_DELETE);
        }
        return 0;
}

int changes_add(struct watch_changes *c, enum change_type type, const char *path, const char *from, int is_directory)
{
        struct watch_change change = {.type = type, .is_directory = is_directory};

        if (c->is_lost || is_said(c, type, path))
                return 0;
        if (c->count == CHANGES_MAX) {
                changes_lose(c);
                return 0;
        }
        change.path = strdup(path);
        change.from = from ? strdup(from) : NULL;
        if (!change.path || (from && !change.from)) {
                free(change.path);
                free(change.from);
                return -ENOMEM;
        }
        clock_gettime(CLOCK_REALTIME, &change.time);
        c->items[c->count++] = change;
        return 0;
}

static json_t *full_path(struct files_request *q, const char *root, const char *path)
{
        _cleanup_text_ char *full = path ? path_join(root, path) : NULL;

        return full ? request_text_or_bytes(q, full, strlen(full)) : NULL;
}

static int report_one(const struct watch_change *change, struct files_request *q, const char *root, struct buf *out,
                      struct cloche_err *e)
{
        json_t *about;
        int r;

        q->attached.size = 0;
        about = json_pack("{s:s, s:o, s:o*, s:b, s:o}", "type", names[change->type], "path",
                          full_path(q, root, change->path), "from", full_path(q, root, change->from), "isDirectory",
                          change->is_directory, "timestamp", request_time(&change->time));
        r = about ? answer_event(out, q, "change", about, &q->attached, e) : request_no_memory(e);
        q->attached.size = 0;
        return r;
}

int changes_report(struct watch_changes *c, struct files_request *q, const char *root, struct buf *out,
                   struct cloche_err *e)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < c->count; i++)
                r = report_one(&c->items[i], q, root, out, e);
        forget(c);
        if (r == 0 && c->is_lost) {
                c->is_lost = 0;
                r = answer_event(out, q, "lost", json_object(), NULL, e);
        }
        return r;
}
