/* From checked parameters to what the engine is asked. Everything is borrowed or temporary: the engine copies what it keeps. */
#ifndef CLOCHE_DAEMON_REQUEST_H
#define CLOCHE_DAEMON_REQUEST_H

#include "daemon.h"

#include "base/buf.h"

#define REQUEST_TEXTS 8

struct request {
        struct cloche_run_options run;
        char *texts[REQUEST_TEXTS]; /* JSON, written anew */
        int text_count;
        struct buf code;
        struct cloche_file *files;
        char **contents;
        const char **argv, **collect;
        char **env;
        int stdin_fd;
};

/* language: what the run has, of its own or its prefix's. ret is done with request_done(), also on failure. */
int request_run(const struct daemon *d, enum cloche_run_kind kind, const json_t *params, const char *language, int has_prefix,
                struct request *ret, struct cloche_err *e);
void request_done(struct request *request);

/* Begin a set-up. */
int request_prefix(const struct daemon *d, int64_t principal, const json_t *params, cloche_prefix **ret, struct cloche_err *e);

#endif
