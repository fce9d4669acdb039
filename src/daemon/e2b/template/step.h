/* Shared by the files of builds: a build on its way through its steps. */
#ifndef CLOCHE_DAEMON_E2B_TEMPLATE_STEP_H
#define CLOCHE_DAEMON_E2B_TEMPLATE_STEP_H

#include "build.h"

typedef void (*e2b_build_then)(struct e2b_build *b, const struct door_reply *reply);

/* build.c. A request to the core. params: stolen. then: NULL: the reply does not matter. */
void e2b_build_call(struct e2b_build *b, const char *method, json_t *params, const struct buf *attachments,
                    e2b_build_then then);
/* step: "base" or "finalize", around the steps; NULL: the one that is carried out. */
void e2b_build_fail(struct e2b_build *b, const char *step, const char *message);
/* True if the build goes on; else it has failed. */
int e2b_build_went_well(struct e2b_build *b, const struct door_reply *reply, const char *step);
void e2b_build_log(struct e2b_build *b, const char *level, const char *bytes, size_t size);
void e2b_build_end_line(struct e2b_build *b);
/* Keep the template. */
void e2b_build_finish(struct e2b_build *b);
/* With these parameters of sandbox.create, stolen. */
void e2b_build_create(struct e2b_build *b, json_t *params);

/* step.c. Carry out the next step, or the end. */
void e2b_build_go_on(struct e2b_build *b);
/* Take the variables, the directory and the user of a step whose result is there. */
void e2b_step_repeat(struct e2b_build *b);
/* True if nothing has to run for the rest of the build. */
int e2b_step_is_over(const struct e2b_build *b);
void e2b_step_log(struct e2b_build *b, const char *note);

/* cache.c. Begin with the last result there is, else with the base. about: all that decides what
 * the base is; params: of sandbox.create with it; both stolen. */
void e2b_cache_begin(struct e2b_build *b, json_t *about, json_t *params);
/* Keep the result of the step that has ended, then carry out the next one. */
void e2b_cache_keep(struct e2b_build *b);
/* Remove the oldest results beyond the bounds, then call done. */
void e2b_cache_trim(struct e2b_build *b, void (*done)(struct e2b_build *b));
/* The snapshot that has all that the sandbox has; 0: there is none. */
#define E2B_STEP_NAME_SIZE 64
int e2b_cache_name(const struct e2b_build *b, char ret[E2B_STEP_NAME_SIZE]);

#endif
