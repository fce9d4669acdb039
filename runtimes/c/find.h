/* Finds the function of a program that a request means. */
#ifndef CLOCHE_NATIVE_FIND_H
#define CLOCHE_NATIVE_FIND_H

#include "box/agent/agent.h"
#include "load.h"

/* With its types read; NULL after an error in the reply. */
struct function *find_function(struct loaded *l, const struct agent_request *q, struct agent_reply *reply);

/* main, or the function made from a body; NULL: there is none. */
struct function *find_main(struct loaded *l);
int find_is_main(const struct function *f);

/* True if a function has this name. */
int find_has(struct loaded *l, const char *name);
int find_answers_to(const struct function *f, const char *name);

/* The number of arguments, by position and by name. */
size_t find_given_count(const struct agent_request *q);

#endif
