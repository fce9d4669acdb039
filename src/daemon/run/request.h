/* Converts checked parameters to requests for the engine. Everything is borrowed or temporary: the
 * engine copies the parts it keeps. */
#ifndef CLOCHE_DAEMON_RUN_REQUEST_H
#define CLOCHE_DAEMON_RUN_REQUEST_H

#include "daemon/core/daemon.h"

#include "base/buf.h"
#include "engine/run/values.h"
#include "wire/value.h"

#include <cloche/cloche.h>

/* Hold each member of params as a separate value, in *ret, a new object. */
int request_hold_params(const json_t *params, enum value_form form, const void *attachments, size_t attachments_size,
                        json_t **ret, struct cloche_err *e);

struct request {
        struct cloche_run_options run;
        struct values values;                   /* borrowed from the parameters */
        char *mount, *network, *image_settings; /* JSON */
        struct buf code;
        struct cloche_file *files;
        char **contents;
        const char **argv, **collect;
        char **env;
        int stdin_fd;
};

/* language: of the run, or of its prefix. ret needs request_done(), also on failure. */
int request_run(const struct daemon *d, enum cloche_run_kind kind, const json_t *params, const char *language,
                int has_prefix, struct request *ret, struct cloche_err *e);
void request_done(struct request *request);

/* Begin a set-up. */
int request_prefix(const struct daemon *d, int64_t principal, const json_t *params, cloche_prefix **ret,
                   struct cloche_err *e);

#endif
