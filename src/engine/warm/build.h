/* Builds of compiled languages. The agent gets a build request before the run's request, so that
 * its result can be cached (artifact.h). No code of the program runs before the answer, and only
 * that one answer is cached: no input can change the program that later runs get. */
#ifndef CLOCHE_ENGINE_WARM_BUILD_H
#define CLOCHE_ENGINE_WARM_BUILD_H

#include "artifact.h"
#include "runtime.h"
#include "wire/frame.h"
#include "wire/rpc.h"

#include <cloche/error.h>

struct cloche_engine;
struct cloche_run_options;

#define BUILD_ID 3 /* of the build request, beside REQUEST_CALL_ID and those of templates */

/* A build request and its cache key. */
struct build {
        json_t *params; /* {code, filename, function, build}; NULL: there is nothing to build */
        char key[ARTIFACT_KEY_SIZE];
        int is_requested;
};

/* Read code, filename and function from opt. options: held, or NULL. Returns
 * -CLOCHE_E_INVALID_ARGUMENT for text that is not UTF-8. */
int build_describe(struct cloche_engine *engine, const struct runtime *runtime, const struct cloche_run_options *opt,
                   const json_t *options, struct build *ret, struct cloche_err *e);
void build_done(struct build *build);

/* Append the request to out, with the cached result of an earlier build if there is one. */
int build_request(const struct cloche_engine *engine, struct build *build, struct buf *out, struct cloche_err *e);
/* Handle the answer, a result: cache it if the agent built something. */
int build_on_answer(const struct cloche_engine *engine, struct build *build, const struct rpc_message *m,
                    const struct frame *f, struct cloche_err *e);

#endif
