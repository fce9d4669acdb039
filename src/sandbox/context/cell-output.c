/* Output of cells that did not fit into their answers. */
#include "sandbox/core/internal.h"

#include "base/fd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cell_output {
        TAILQ_ENTRY(cell_output) link;
        char id[32];
        struct spool streams[STREAMS];
};

static void output_free(struct sandbox *s, struct cell_output *o)
{
        TAILQ_REMOVE(&s->outputs, o, link);
        s->cell_output_count--;
        for (int i = 0; i < STREAMS; i++)
                spool_done(&o->streams[i]);
        free(o);
}

void outputs_free(struct sandbox *s)
{
        while (!TAILQ_EMPTY(&s->outputs))
                output_free(s, TAILQ_FIRST(&s->outputs));
}

const struct spool *output_find(struct sandbox *s, const char *id, enum stream_index index)
{
        const struct process *p = process_find_output(s, id);
        const struct cell_output *o;

        if (p)
                return &p->streams[index].spool;
        TAILQ_FOREACH (o, &s->outputs, link)
                if (strcmp(o->id, id) == 0)
                        return &o->streams[index];
        return NULL;
}

uint64_t outputs_bytes(const struct sandbox *s)
{
        const struct cell_output *o;
        uint64_t bytes = 0;

        TAILQ_FOREACH (o, &s->outputs, link)
                for (int i = 0; i < STREAMS; i++)
                        bytes += spool_bytes(&o->streams[i]);
        return bytes;
}

static void take(struct spool *from, struct spool *to)
{
        *to = *from;
        from->memory = NULL;
        from->fd = -EBADF;
}

const char *output_keep(struct sandbox *s, struct spool *out, struct spool *err)
{
        struct cell_output *o = calloc(1, sizeof(*o));

        if (!o)
                return NULL;
        snprintf(o->id, sizeof(o->id), "output-%llu", (unsigned long long)++s->next_output);
        take(out, &o->streams[STREAM_OUT]);
        take(err, &o->streams[STREAM_ERR]);
        TAILQ_INSERT_TAIL(&s->outputs, o, link);
        s->cell_output_count++;
        while (s->cell_output_count > 1 &&
               (s->cell_output_count > SANDBOX_OUTPUTS_MAX || outputs_bytes(s) > SANDBOX_SPOOL_BYTES / 2))
                output_free(s, TAILQ_FIRST(&s->outputs));
        return o->id;
}
