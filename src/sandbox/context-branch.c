#include "context.h"

#include "base/err.h"

void checkpoints_free(struct context *c)
{
        (void)c;
}

unsigned checkpoints_count(const struct context *c)
{
        (void)c;
        return 0;
}

int begin_CONTEXT_FORK(struct sandbox_ask *ask, struct cloche_err *e)
{
        (void)ask;
        return err_set(e, CLOCHE_E_STATE, "under construction");
}

int begin_CONTEXT_CHECKPOINT(struct sandbox_ask *ask, struct cloche_err *e)
{
        (void)ask;
        return err_set(e, CLOCHE_E_STATE, "under construction");
}

int begin_CONTEXT_ROLLBACK(struct sandbox_ask *ask, struct cloche_err *e)
{
        (void)ask;
        return err_set(e, CLOCHE_E_STATE, "under construction");
}

int begin_CONTEXT_CHECKPOINTS(struct sandbox_ask *ask, struct cloche_err *e)
{
        (void)ask;
        return err_set(e, CLOCHE_E_STATE, "under construction");
}

int begin_CONTEXT_FORGET(struct sandbox_ask *ask, struct cloche_err *e)
{
        (void)ask;
        return err_set(e, CLOCHE_E_STATE, "under construction");
}
