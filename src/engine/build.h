/* Compiled languages: an agent is asked to build before it is asked to run, so that what it built can be kept (artifact.h). No
 * code of the program runs until the build is answered, and only that one answer is kept: nobody's input can change what later
 * runs of the same program get. */
#ifndef CLOCHE_ENGINE_BUILD_H
#define CLOCHE_ENGINE_BUILD_H

#include "artifact.h"
#include "runtime.h"
#include "wire/frame.h"
#include "wire/rpc.h"

#include <cloche/cloche.h>

struct cloche_engine;

#define BUILD_ID 3 /* of the question, beside REQUEST_CALL_ID and those of templates */

/* What is built, and the name under which it is kept. */
struct build {
        json_t *params; /* {code, filename, function, build}; NULL: nothing is to be built */
        char key[ARTIFACT_KEY_SIZE];
        int is_asked;
};

/* The code, filename and function are read from opt. options: held, or NULL. -CLOCHE_E_INVALID_ARGUMENT: text that is not UTF-8. */
int build_describe(const struct cloche_engine *engine, const struct runtime *runtime, const struct cloche_run_options *opt, const json_t *options,
                   struct build *ret, struct cloche_err *e);
void build_done(struct build *build);

/* Append the question, with what was kept of an earlier answer. */
int build_ask(const struct cloche_engine *engine, struct build *build, struct buf *out, struct cloche_err *e);
/* The answer, a result: kept, if something was built. */
int build_hear(const struct cloche_engine *engine, struct build *build, const struct rpc_message *m, const struct frame *f,
               struct cloche_err *e);

#endif
