/* Work for a message that goes on when its client has gone: half of it would be worse than all or
 * nothing. Runs in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

void mcp_errand_free(struct mcp_errand *errand)
{
        TAILQ_REMOVE(&errand->door.daemon->mcp->errands, errand, link);
        if (errand->x)
                errand->x->state_done = NULL;
        door_done(&errand->door);
        free(errand->target);
        free(errand);
}

static void on_reply(struct door *door, const struct door_reply *reply)
{
        struct mcp_errand *errand = (struct mcp_errand *)door;

        if (errand->then)
                errand->then(errand, reply);
        else
                mcp_errand_free(errand);
}

static void on_event(struct door *door, const char *event, const json_t *about, const struct buf *attachments)
{
        struct mcp_errand *errand = (struct mcp_errand *)door;

        if (errand->heard)
                errand->heard(errand, event, about, attachments);
}

static void leave(void *state)
{
        struct mcp_errand *errand = state;

        errand->x = NULL;
}

struct mcp_errand *mcp_errand_new(const struct door *like)
{
        static const struct door_hooks hooks = {.reply = on_reply, .event = on_event};
        struct mcp_errand *errand = calloc(1, sizeof(*errand));

        if (!errand)
                return NULL;
        errand->door = (struct door){.hooks = &hooks, .daemon = like->daemon, .principal = like->principal};
        TAILQ_INSERT_TAIL(&like->daemon->mcp->errands, errand, link);
        return errand;
}

void mcp_errand_answers(struct mcp_errand *errand, struct mcp_exchange *x)
{
        errand->x = x;
        x->state = errand;
        x->state_done = leave;
}

void mcp_errand_call(struct mcp_errand *errand, const char *method, json_t *params,
                     void (*then)(struct mcp_errand *errand, const struct door_reply *reply))
{
        errand->then = then;
        door_call(&errand->door, method, params, NULL);
}

void mcp_send_off(const struct door *like, const char *sandbox, const char *method, json_t *params)
{
        struct mcp_errand *errand = mcp_errand_new(like);

        if (errand)
                errand->door.sandbox = strdup(sandbox);
        if (errand && errand->door.sandbox)
                mcp_errand_call(errand, method, params, NULL);
        else
                json_decref(params);
}
