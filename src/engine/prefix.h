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

#endif
