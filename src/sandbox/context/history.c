/* context.history: the code of a context's last cells. Runs in: cloched-engine, on its loop,
 * with the rights of the daemon's user. */
#include "context.h"

static size_t bytes_of(const json_t *entry)
{
        return json_string_length(json_object_get(entry, "code"));
}

void context_history_add(struct context *c, uint64_t count, json_t *code)
{
        json_t *entry;

        if (!json_is_string(code) || json_string_length(code) > CONTEXT_HISTORY_CELL_BYTES)
                return;
        if (!c->history)
                c->history = json_array();
        entry = json_pack("{s:I, s:O}", "count", (json_int_t)count, "code", code);
        if (!entry || json_array_append_new(c->history, entry) < 0)
                return;
        c->history_bytes += bytes_of(entry);
        while (c->history_bytes > CONTEXT_HISTORY_BYTES || json_array_size(c->history) > CONTEXT_HISTORY_CELLS) {
                c->history_bytes -= bytes_of(json_array_get(c->history, 0));
                json_array_remove(c->history, 0);
        }
}

void context_history_share(struct context *to, const struct context *from)
{
        to->history = json_copy(from->history); /* an array of its own, of the same entries */
        to->history_bytes = to->history ? from->history_bytes : 0;
}

int handle_CONTEXT_HISTORY(struct sandbox_request *request, struct cloche_err *e)
{
        const struct context *c = context_of(request, e);
        size_t count, limit;
        json_t *entries;

        if (!c)
                return -(int)e->code;
        count = json_array_size(c->history);
        limit = sandbox_request_count(request, "limit", count);
        entries = json_array();
        for (size_t i = limit < count ? count - limit : 0; i < count; i++)
                json_array_append(entries, json_array_get(c->history, i));
        sandbox_request_result(request, json_pack("{s:o}", "entries", entries), NULL);
        return 0;
}
