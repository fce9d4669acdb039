/* Runtimes: a folder for each language, described by its manifest.json. */
#ifndef CLOCHE_ENGINE_WARM_RUNTIME_H
#define CLOCHE_ENGINE_WARM_RUNTIME_H

#include <cloche/error.h>
#include <jansson.h>

struct runtime {
        int has_realm;           /* answers `evaluate` */
        int is_compiled;         /* handles `build`; warm calls fork a template of their own code */
        int is_translated;       /* keeps translations of code (translation.h) */
        int is_cold_only;        /* cannot be forked */
        int has_no_host;         /* its code cannot call host functions */
        int script_needs_folder; /* scripts are started by a program of the runtime */
        json_t *manifest;
        char *directory;
        int directory_fd; /* of directory, for a process that may no longer open it by path */
        /* Borrowed from the manifest. */
        const char *name, *extension;
        const char *notebook;               /* set-up of contexts, in its directory; or NULL */
        const json_t *agent, *script, *env; /* arrays of strings; object of strings */
        const json_t *template;             /* command of an agent that is to be forked */
};

struct runtimes {
        struct runtime *rows;
        size_t count;
};

/* Read every manifest below directory. -CLOCHE_E_MISSING_RUNTIME names the manifest and the
 * error. */
int runtimes_load(const char *directory, struct runtimes *ret, struct cloche_err *e);
void runtimes_done(struct runtimes *runtimes);
/* Make a list for people, sorted by name: {name, aliases, extension, extensions, interpreter, warm,
 * build, evaluate} each; owned by the caller. */
json_t *runtimes_describe(const struct runtimes *runtimes);
/* Return the language's class of error for arguments of a wrong type, or of a wrong value. */
const char *runtime_argument_error(const struct runtime *runtime, int is_value);
/* Return the error of a program that could not be started: *ret if the image lacks it, else e. */
const struct cloche_err *runtime_explain(const struct runtime *runtime, const struct cloche_err *e,
                                         struct cloche_err *ret);
/* Make the error of an interpreter that ended before our agent in it was ready. text: the
 * beginning of its output, guest bytes. */
void runtime_explain_end(const struct runtime *runtime, const char *text, size_t size, struct cloche_err *ret);
/* True if language is its name or an alias. */
int runtime_is(const struct runtime *runtime, const char *language);
/* Find it by name or alias; -CLOCHE_E_UNKNOWN_LANGUAGE lists the known ones. */
int runtimes_find(const struct runtimes *runtimes, const char *language, const struct runtime **ret,
                  struct cloche_err *e);

#endif
