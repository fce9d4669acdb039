#ifndef CLOCHE_ENGINE_PREFIX_H
#define CLOCHE_ENGINE_PREFIX_H

#include "engine.h"

/* A caller's hold on a prefix template. */
struct cloche_prefix {
        struct template *template;
        int bare;
        cloche_bridge_handler on_bridge;
        void *bridge_data;
};

/* The template of a run's own program, in a compiled language: calls of the same program are forked from it, loaded. Found or
 * made, not started. */
int prefix_of_code(struct cloche_engine *engine, const struct runtime *runtime, const struct cloche_run_options *opt, const struct values *values,
                   struct template **ret, struct cloche_err *e);

#endif
