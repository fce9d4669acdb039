/* Calling a function whose types are known only at run time. */
#ifndef CLOCHE_NATIVE_INVOKE_H
#define CLOCHE_NATIVE_INVOKE_H

#include "box/agent/agent.h"
#include "convert.h"
#include "types.h"

#define INVOKE_ARGUMENTS_MAX 127

/* An exception that left a C++ function (catch.cc fills it). */
struct native_caught {
        char type[256];
        char message[2048];
};

/* Runs work(data); 1 if an exception came out. NULL: the code cannot throw. */
typedef int native_catch(void (*work)(void *data), void *data, struct native_caught *ret);

struct invocation {
        const struct agent_request *request;
        struct agent_reply *reply;
        const struct native_library *library;
        native_catch *catch;
        void (*begin)(void *data), (*end)(void *data); /* around the user's code and its output */
        void *data;
};

/* Fits the arguments to f, calls it, and sets the reply. 0, or -1 with the error in the reply. */
int invoke(const struct invocation *v, const struct function *f);

/* The least and the most arguments, by position or by name, that f takes. */
void invoke_arity(const struct function *f, size_t *ret_least, size_t *ret_most);

/* How well each argument fits its parameter (an enum fit each): by position, then by name. 1, or
 * 0: f does not take them. */
int invoke_fit(const struct agent_request *q, const struct function *f, unsigned char ret[INVOKE_ARGUMENTS_MAX]);

/* main(argc, argv) and functions like it: the arguments as text. */
int invoke_main(const struct invocation *v, const struct function *f, const char *name);

#endif
