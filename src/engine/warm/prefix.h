#ifndef CLOCHE_ENGINE_WARM_PREFIX_H
#define CLOCHE_ENGINE_WARM_PREFIX_H

#include "engine/loop/engine.h"

/* A caller's reference to a prefix template. */
struct cloche_prefix {
        struct template *template;
        int bare;
        cloche_bridge_handler on_bridge;
        void *bridge_data;
};

/* Like cloche_prefix_start, but the template waits for its first user. */
int prefix_make(struct cloche_engine *engine, const struct cloche_prefix_options *opt, cloche_prefix **ret,
                struct cloche_err *e);

/* Find or add the template of a run's own program, in a compiled language; it is not started. Calls
 * of the same program are forked from it, loaded. */
int prefix_of_code(struct cloche_engine *engine, const struct runtime *runtime, const struct cloche_run_options *opt,
                   const struct values *values, struct template **ret, struct cloche_err *e);

#endif
