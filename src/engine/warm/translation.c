/* Kept translations, with the longest unused dropped first. Runs in: the engine, on its loop. */
#include "translation.h"

#include "base/err.h"
#include "wire/value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct translation {
        TAILQ_ENTRY(translation) link;
        char key[ARTIFACT_KEY_SIZE];
        json_t *held; /* bytes; json_null() if the agent told that they cannot be kept; NULL: not asked for yet */
        size_t size;
};

static void drop(struct translations *all, struct translation *row)
{
        TAILQ_REMOVE(&all->rows, row, link);
        all->count--;
        all->bytes -= row->size;
        json_decref(row->held);
        free(row);
}

void translations_init(struct translations *all)
{
        *all = (struct translations){0};
        TAILQ_INIT(&all->rows);
}

void translations_done(struct translations *all)
{
        while (!TAILQ_EMPTY(&all->rows))
                drop(all, TAILQ_FIRST(&all->rows));
}

void translations_move(struct translations *from, struct translations *to)
{
        TAILQ_CONCAT(&to->rows, &from->rows, link);
        to->count += from->count;
        to->bytes += from->bytes;
        translations_init(from);
}

static struct translation *find(const struct translations *all, const char *key)
{
        struct translation *row;

        TAILQ_FOREACH (row, &all->rows, link)
                if (strcmp(row->key, key) == 0)
                        return row;
        return NULL;
}

static struct translation *add(struct translations *all, const char *key)
{
        struct translation *row = calloc(1, sizeof(*row));

        if (!row)
                return NULL;
        memcpy(row->key, key, sizeof(row->key));
        TAILQ_INSERT_HEAD(&all->rows, row, link);
        if (++all->count > TRANSLATIONS_MAX)
                drop(all, TAILQ_LAST(&all->rows, translation_rows));
        return row;
}

int translation_use(struct translations *all, const char *method, const char *filename, const char *code, size_t size,
                    struct translation_use *ret, struct cloche_err *e)
{
        const struct artifact_part parts[] = {
                {method, strlen(method)},
                {filename, strlen(filename)},
                {code, size},
        };
        struct translation *row;

        *ret = (struct translation_use){0};
        if (size > TRANSLATED_CODE_BYTES_MAX)
                return 0;
        artifact_key(parts, sizeof(parts) / sizeof(parts[0]), ret->key);
        row = find(all, ret->key);
        if (!row)
                return add(all, ret->key) ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "note the code");
        TAILQ_REMOVE(&all->rows, row, link);
        TAILQ_INSERT_HEAD(&all->rows, row, link);
        ret->is_requested = !row->held;
        if (ret->is_requested)
                ret->param = json_true();
        else if (!json_is_null(row->held))
                ret->param = json_incref(row->held);
        return 0;
}

void translation_use_done(struct translation_use *use)
{
        json_decref(use->param);
        use->param = NULL;
}

static void keep(struct translations *all, struct translation *row, json_t *held, size_t size)
{
        json_decref(row->held);
        row->held = held;
        all->bytes += size - row->size;
        row->size = size;
        while (all->bytes > TRANSLATIONS_BYTES_MAX)
                drop(all, TAILQ_LAST(&all->rows, translation_rows));
}

/* Bytes, held, or null. *ret_size: that of the bytes. */
static int read_told(const json_t *told, const struct frame *f, json_t **ret, size_t *ret_size, struct cloche_err *e)
{
        const json_t *bytes;

        *ret_size = 0;
        if (json_is_null(told)) {
                *ret = json_null();
                return 0;
        }
        if (value_read(told, VALUE_FRAME, f->attachments, f->attachments_size, ret, e) < 0)
                return -CLOCHE_E_PROTOCOL;
        bytes = json_object_get(*ret, VALUE_HELD_BYTES);
        *ret_size = json_string_length(bytes);
        if (json_is_string(bytes))
                return 0;
        json_decref(*ret);
        return err_set(e, CLOCHE_E_PROTOCOL, "the agent sent an invalid translation: it is not bytes");
}

int translation_on_told(struct translations *all, struct translation_use *use, const struct rpc_message *m,
                        const struct frame *f, struct cloche_err *e)
{
        struct translation *row = find(all, use->key);
        json_t *held;
        size_t size;
        int r;

        use->is_requested = 0;
        r = read_told(json_object_get(m->params, "translation"), f, &held, &size, e);
        if (r < 0)
                return r;
        if (size > TRANSLATION_BYTES_MAX) {
                json_decref(held);
                held = json_null();
                size = 0;
        }
        if (row)
                keep(all, row, held, size);
        else
                json_decref(held);
        return 0;
}
